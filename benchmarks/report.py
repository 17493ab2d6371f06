"""Figures as Markdown tables, and the last long run's in README.md between two marks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.rounds import Figure, judge
from benchmarks.row import Kind, Row
from scripts.marks import with_part

START, END = "<!-- results: begin -->", "<!-- results: end -->"

_TITLES: Mapping[Kind, str] = {
    "consume": "Consume (million records per second)",
    "tls": "Consume over TLS, from memory (replay) and from Kafka (million records per second)",
    "produce": "Produce, acks=all (million records per second)",
    "beside": "Beside a computing neighbour (million records per second)",
    "cpu": "Processor time to and from Arrow (seconds per million records)",
    "memory": "Peak memory above the RSS after imports (MiB)",
    "pressure": "Peak memory above the RSS after imports, the user sending on while the broker stands still (MiB)",
    "wait": "From send() to its acknowledgement, one record after the other (ms)",
    "latency": "From produce() to the record in hand, 500 records/s (ms)",
    "trickle": "1,000 partitions, 200 records/s in all",
    "decode": "Decode batches in memory to columns, one core (million records per second)",
    "encode": "Encode Arrow columns to batches in memory, one core (million records per second)",
    "message": "Decode a message in memory, one core (thousand messages per second)",
    "values": "Avro and Protobuf values in memory to columns, and back (million records per second of one core)",
    "import": "Import (ms)",
    "start": "Whole processes that read one record, send one, list the topics (ms)",
    "group": "A member of a group reads (million records per second)",
    "rebalance": "From the call that makes a member to its first record (ms)",
    "commit": "A commit after each record (thousand commits per second)",
    "stream": "Streams (thousand records per second)",
    "share": "A member of a share group (thousand records per second)",
}

_DIGITS: Mapping[Kind, int] = {"memory": 1, "import": 1, "start": 1, "cpu": 3, "latency": 3, "wait": 3, "pressure": 1}

_WITH_CPU = {"consume", "tls", "produce", "decode", "start"}

Results = Sequence[tuple[Row, Mapping[str, Figure]]]


def render(results: Results, topics: Mapping[str, Any], environment: Mapping[str, Any]) -> str:
    """All tables, what the topics hold, what failed, and the environment."""
    parts = [_table(kind, title, [pair for pair in results if pair[0].kind == kind]) for kind, title in _TITLES.items()]
    parts += [_cpu_table([pair for pair in results if pair[0].kind in _WITH_CPU])]
    parts += [_goals(results), _variants(results), _failures(results), _topics(topics), _environment(environment)]
    return "\n\n".join(part for part in parts if part) + "\n"


def update_readme(path: Path, tables: str) -> None:
    """Put `tables` between the marks of a README that has them."""
    path.write_text(with_part(path.read_text(), START, END, f"\n{tables}\n"))


def _table(kind: Kind, title: str, results: Results) -> str:
    if not results:
        return ""
    names: list[str] = []
    for _, figures in results:
        names += [name for name in figures if name not in names]
    lines = [f"**{title}**", "", f"| row | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
    for row, figures in results:
        cells = [_cell(figures.get(name), kind) for name in names]
        unit = f", {row.unit}" if kind == "trickle" else ""
        lines.append(f"| {row.name}{unit} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(figure: Figure | None, kind: Kind) -> str:
    if figure is None:
        return ""
    if figure.median is None:
        return "failed"
    digits = _DIGITS.get(kind, 2)
    low, high = min(figure.rounds), max(figure.rounds)
    spread = f" ({low:.{digits}f}-{high:.{digits}f})" if len(figure.rounds) > 1 else ""
    return f"{figure.median:.{digits}f}{spread}"


def _cpu_table(results: Results) -> str:
    lines = []
    for row, figures in results:
        found = [f"{name} {median(figure.cpu):.3f}" for name, figure in figures.items() if figure.cpu]
        lines.append(f"| {row.name} | {', '.join(found)} |")
    title = "**Processor time of the client's process (microseconds per record)**"
    return "\n".join([title, "", "| row | medians |", "|---|---|", *lines]) if lines else ""


def _goals(results: Results) -> str:
    verdicts = [f"- {row.name}: {one.as_text(row.unit)}" for row, figures in results for one in judge(row, figures)]
    return "\n".join(["**Goals**", "", *verdicts]) if verdicts else ""


def _variants(results: Results) -> str:
    lines = []
    for row, figures in results:
        chosen = [
            f"{name}: {figure.variant} ({', '.join(f'{key} {_tried(value)}' for key, value in figure.tried.items())})"
            for name, figure in figures.items()
            if figure.tried
        ]
        if chosen:
            lines.append(f"- {row.name}: {'; '.join(chosen)}")
    return "\n".join(["**Configurations: the fastest of those tried once**", "", *lines]) if lines else ""


def _tried(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.2f}"


def _failures(results: Results) -> str:
    lines = [
        f"- {row.name}: {name}: {figure.error}"
        for row, figures in results
        for name, figure in figures.items()
        if figure.error
    ]
    return "\n".join(["**Failed**", "", *lines]) if lines else ""


def _topics(topics: Mapping[str, Any]) -> str:
    if not topics:
        return ""
    lines = ["**Topics, as stored**", "", "| topic | records | batches | bytes of a batch, median (min-max) | MB |"]
    lines.append("|---|---:|---:|---:|---:|")
    for name, found in topics.items():
        size = found["batch_bytes"]
        lines.append(
            f"| {name} | {found['records']:,} | {found['batches']:,} | "
            f"{size['median']:,} ({size['min']:,}-{size['max']:,}) | {found['bytes'] / 1e6:.0f} |"
        )
    return "\n".join(lines)


def _environment(environment: Mapping[str, Any]) -> str:
    lines = ["**Environment**", ""]
    for key, value in environment.items():
        text = ", ".join(f"{name} {one}" for name, one in value.items()) if isinstance(value, dict) else str(value)
        lines.append(f"- {key.replace('_', ' ')}: {text}")
    return "\n".join(lines)
