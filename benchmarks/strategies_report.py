"""The results of the strategies' benchmark, as a Markdown table, in a document between two marks, and as a plot."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from scripts.marks import with_part

START, END = "<!-- strategies: begin -->", "<!-- strategies: end -->"

# Title, scenario, figure, how to write it.
COLUMNS: Sequence[tuple[str, str, str, Callable[[float], str]]] = (
    ("MB/s", "flood", "mb_per_second", lambda value: f"{value:,.0f}"),
    ("requests/s meanwhile", "flood", "requests_per_second", lambda value: f"{value:,.0f}"),
    ("CPU, us per record", "flood", "cpu_us", lambda value: f"{value:.2f}"),
    ("connections", "flood", "connections", lambda value: f"{value:,.0f}"),
    ("requests/s, quiet", "quiet", "requests_per_second", lambda value: f"{value:,.0f}"),
    ("p99 ms, quiet", "quiet", "p99", lambda value: f"{value:.1f}"),
    ("p99 ms, another flooded", "flooded", "p99", lambda value: f"{value:.1f}"),
    ("the flood, MB/s", "flooded", "flood_mb_per_second", lambda value: f"{value:,.0f}"),
    ("p99 ms, another's user slow", "slow", "p99", lambda value: f"{value:.1f}"),
)

_INTRODUCTION = """\
One broker and one consumer on the same machine. *MB/s*: all partitions of a topic with {flood_records:,} records of
{value_bytes:,} B, uncompressed, in batches of 16 kB, to Arrow, a new consumer per pass; requests, connections and
processor time are those of this read. *Quiet*: all partitions are empty but one, which gets {rate:g} records/s; the
requests are what the broker is asked meanwhile, the delay is from `produce()` in another process to the record in hand.
*Another flooded*: at the same time one other partition is read as fast as it comes. *Another's user slow*: at the same
time a batch of one other, full partition is taken every 100 ms. Medians of {rounds} rounds. All traffic passes a proxy
that counts requests and connections, so these figures compare with each other only."""

Record = Mapping[str, Any]


def render(record: Record) -> str:
    """Introduction, table, what failed, and where it was measured."""
    form = record["form"]
    lines = [_INTRODUCTION.format(**form, rate=1e6 / form["interval_us"]), ""]
    lines.append(f"| partitions | strategy | {' | '.join(title for title, *_ in COLUMNS)} |")
    lines.append(f"|---:|---|{'---:|' * len(COLUMNS)}")
    for count in _unique(record, "partitions"):
        for strategy in _unique(record, "strategy"):
            cells = [_cell(record, strategy, count, scenario, name, write) for _, scenario, name, write in COLUMNS]
            lines.append(f"| {count:,} | `{strategy}` | {' | '.join(cells)} |")
    failed = [
        f"- {cell['scenario']}, {cell['partitions']} partitions, `{cell['strategy']}`: {cell['error']}"
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


def figure(record: Record, strategy: str, partitions: int, scenario: str, name: str) -> float | None:
    """The median of a figure over the rounds; None where nothing was measured, or it failed."""
    for cell in record["cells"]:
        if (cell["strategy"], cell["partitions"], cell["scenario"]) == (strategy, partitions, scenario):
            values = [one[name] for one in cell["rounds"]]
            return None if cell["error"] or not values else float(median(values))
    return None


def update_document(path: Path, text: str) -> None:
    """Put `text` between the marks; a document without them gets a section with them at its end."""
    before = path.read_text() if path.exists() else "# Fetching\n"
    if START not in before:
        before += f"\n## Strategies, measured\n\n{START}\n{END}\n"
    path.write_text(with_part(before, START, END, f"\n{text}\n"))


def draw(record: Record, path: Path) -> None:
    """Four small plots over the number of partitions, one line per strategy."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    panels = (
        ("MB/s, everything flows", "flood", "mb_per_second", "linear"),
        ("requests/s at the broker, one partition trickles", "quiet", "requests_per_second", "log"),
        ("connections", "flood", "connections", "log"),
        ("p99 delay (ms) of a quiet partition, another one flooded", "flooded", "p99", "log"),
    )
    counts = _unique(record, "partitions")
    drawing, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
    for axis, (title, scenario, name, scale) in zip(axes.flat, panels, strict=True):
        anything = False
        for strategy, marker in zip(_unique(record, "strategy"), "os^D", strict=False):
            found = [(count, figure(record, strategy, count, scenario, name)) for count in counts]
            points = [(count, value) for count, value in found if value is not None and (value or scale != "log")]
            places, heights = [count for count, _ in points], [value for _, value in points]
            axis.plot(places, heights, marker=marker, label=strategy, alpha=0.8)
            anything = anything or bool(points)
        axis.set_title(title, fontsize=10)
        axis.set_xscale("log")
        axis.set_yscale(scale if anything else "linear")
        axis.set_xticks(counts, [f"{count:,}" for count in counts])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0][0].set_ylim(bottom=0)
    axes[0][0].legend(fontsize=8)
    drawing.supxlabel("partitions", fontsize=10)
    drawing.savefig(path, dpi=80)
    plt.close(drawing)


def _cell(
    record: Record, strategy: str, partitions: int, scenario: str, name: str, write: Callable[[float], str]
) -> str:
    if any(
        cell["error"]
        for cell in record["cells"]
        if (cell["strategy"], cell["partitions"], cell["scenario"]) == (strategy, partitions, scenario)
    ):
        return "failed"
    value = figure(record, strategy, partitions, scenario, name)
    return "" if value is None else write(value)


def _unique(record: Record, name: str) -> list[Any]:
    return list(dict.fromkeys(cell[name] for cell in record["cells"]))
