"""The results of the sweep over a producer's batching: a table, put between two marks of a document, and a plot."""

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from scripts.marks import with_part

START, END = "<!-- sweep: begin -->", "<!-- sweep: end -->"

_INTRODUCTION = """\
One broker and one producer on the same machine, one partition, records of {value_bytes} B without compression,
acks=all, idempotent. *M records/s* and the next two columns: `send()` one by one as fast as it goes, a new producer per
pass, to the last acknowledgement. *Paced*: {pace:,} records/s, {burst} of them each millisecond; the delay is from
`send()` to the acknowledgement. Medians of {rounds} rounds."""

_COLUMNS = (
    ("M records/s", "records_per_second", 1e6, 2),
    ("CPU, us per record", "cpu_us", 1, 2),
    ("records per batch", "records_per_batch", 1, 0),
    ("p50 ms, paced", "p50", 1, 2),
    ("p99 ms, paced", "p99", 1, 2),
    ("records per batch, paced", "paced_records_per_batch", 1, 0),
)

Record = Mapping[str, Any]


def render(record: Record) -> str:
    """Introduction, table, what failed, and where it was measured."""
    lines = [_INTRODUCTION.format(**record["form"]), ""]
    lines.append(f"| `linger_ms` | `batch_size` | in flight | {' | '.join(title for title, *_ in _COLUMNS)} |")
    lines.append(f"|---:|---:|---:|{'---:|' * len(_COLUMNS)}")
    for cell in record["cells"]:
        found = [
            "failed" if cell["error"] else f"{figure(cell, name) / unit:,.{digits}f}"
            for _, name, unit, digits in _COLUMNS
        ]
        lines.append(f"| {cell['linger_ms']} | {cell['batch_size']:,} | {cell['in_flight']} | {' | '.join(found)} |")
    failed = [
        f"- {cell['linger_ms']} ms, {cell['batch_size']} bytes, {cell['in_flight']} in flight: {cell['error']}"
        for cell in record["cells"]
        if cell["error"]
    ]
    if failed:
        lines += ["", "Failed:", "", *failed]
    where = record["environment"]
    lines.append("")
    lines.append(
        f"Measured {where['when'][:10]} at {where['commit']}: {where['cpus']} x {where['cpu']}, {where['kernel']}, "
        f"{where['python']}; load average before: {where['load_average'][0]}."
    )
    return "\n".join(lines) + "\n"


def figure(cell: Record, name: str) -> float:
    """The median over the rounds."""
    return float(median(one[name] for one in cell["rounds"]))


def update_document(path: Path, text: str) -> None:
    """Put `text` between the marks; a document without them gets a section with them at its end."""
    before = path.read_text()
    if START not in before:
        before += f"\n## Batching, measured\n\n{START}\n{END}\n"
    path.write_text(with_part(before, START, END, f"\n{text}\n"))


def draw(record: Record, path: Path) -> None:
    """p99 at a steady pace over what `send()` gets rid of: a line per linger and number in flight, a point per size."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    drawing, axis = plt.subplots(figsize=(8, 5), layout="constrained")
    cells = [cell for cell in record["cells"] if not cell["error"]]
    lingers = list(dict.fromkeys(cell["linger_ms"] for cell in cells))
    for number, linger in enumerate(lingers):
        for in_flight, style in ((1, "--"), (5, "-")):
            line = [cell for cell in cells if (cell["linger_ms"], cell["in_flight"]) == (linger, in_flight)]
            across = [figure(cell, "records_per_second") / 1e6 for cell in line]
            up = [figure(cell, "p99") for cell in line]
            label = f"linger {linger} ms, {in_flight} in flight"
            axis.plot(across, up, style, marker="o", color=f"C{number}", label=label, alpha=0.8)
            for cell, x, y in zip(line, across, up, strict=True):
                size = f"{cell['batch_size'] >> 10} KiB"
                axis.annotate(size, (x, y), textcoords="offset points", xytext=(4, 4), fontsize=7)
    if cells:
        axis.set_yscale("log")
        axis.legend(fontsize=8)
    axis.set_xlabel("send() one by one, million records/s")
    axis.set_ylabel(f"p99 ms to the acknowledgement at {record['form']['pace']:,} records/s")
    axis.grid(alpha=0.3)
    drawing.savefig(path, dpi=80)
    plt.close(drawing)
