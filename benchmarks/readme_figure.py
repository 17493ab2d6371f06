"""The one table of the project's README, from the records of `results.json`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.marks import with_part

START, END = "<!-- figure: begin -->", "<!-- figure: end -->"

COLUMNS = ("kafwire", "confluent-kafka", "librdkafka in C", "floor: a socket and plain C")
# The title of a line, its row, and the contender of each column.
LINES: Sequence[tuple[str, str, Sequence[str]]] = [
    (
        "read to Arrow: `scan()`, `consume(10000)`",
        "consume-100-lz4-1m",
        ("kafwire scan", "confluent consume", "librdkafka C", "floor"),
    ),
    (
        "read one by one: `for record in consumer`, `consume(10000)`",
        "records-100-lz4-1m",
        ("kafwire records", "confluent consume", "", ""),
    ),
    (
        "write from Arrow: `send_batch`, `produce_batch`",
        "produce-100-lz4",
        ("kafwire send_batch", "confluent produce_batch", "librdkafka C", "floor"),
    ),
    ("write one by one: `send`, `produce`", "produce-100-lz4", ("kafwire send", "confluent produce", "", "")),
]


def render_figure(records: Mapping[str, Any]) -> str:
    """The table, of the rows that this run has, and where it was measured."""
    rows = {row["name"]: row["contenders"] for row in records["rows"]}
    titles = ("million records of 100 B per second, lz4", *COLUMNS)
    lines = [f"| {' | '.join(titles)} |", f"|---|{'---:|' * len(COLUMNS)}"]
    for title, name, contenders in LINES:
        if name in rows:
            lines.append(f"| {title} | {' | '.join(_cell(rows[name], contender) for contender in contenders)} |")
    return "\n".join([*lines, "", *_origin(records["environment"])]) + "\n"


def _origin(environment: Mapping[str, Any]) -> list[str]:
    """Where and when the figures were measured."""
    rounds, day, commit = environment["form"]["rounds"], environment["when"][:10], environment["commit"]
    machine = f"{environment['cpus']} cores ({environment['cpu']}), load {environment['load_average'][0]:.1f}"
    broker, peer = environment["broker"]["kafka"], environment["packages"]["confluent-kafka"]
    return [
        f"Medians of {rounds} rounds in turns, {day} at {commit}: Kafka {broker} and the clients on",
        f"{machine}, {environment['python']}, confluent-kafka {peer}.",
        "[All rows](benchmarks/README.md), of 1 kB, memory, latency and processor time, come from the same run.",
    ]


def _cell(row: Mapping[str, Any], contender: str) -> str:
    median = row.get(contender, {}).get("median")
    return "" if median is None else f"{median:.1f}"


def with_figure(text: str, records: Mapping[str, Any]) -> str:
    """A README with the table between its marks."""
    return with_part(text, START, END, render_figure(records))


def update_project_readme(path: Path, records: Mapping[str, Any]) -> None:
    """Write the table into a README that has the marks."""
    path.write_text(with_figure(path.read_text(), records))
