"""What a job has done: its batches as a summary table and as a plot of the throughput.

Pure, but for `draw`, which writes a picture and needs matplotlib.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_BARS = 16
_WIDTH = 40


@dataclass(slots=True)
class JobReport:
    """The batches of a job, as `listen` reports them; a batch job has one. `seconds` are those of the whole run."""

    batches: list[Mapping[str, Any]] = field(default_factory=list)
    seconds: float = 0.0

    def summary(self) -> list[tuple[str, str]]:
        """Names and values of the table at the end."""
        rows = sum(batch["rows"] for batch in self.batches)
        busy = sum(batch["seconds"] for batch in self.batches)
        lines = [
            ("batches", f"{len(self.batches):,}"),
            ("rows", f"{rows:,}"),
            ("seconds, with Spark's start", f"{self.seconds:.1f}"),
            ("seconds in batches", f"{busy:.1f}"),
            ("rows/s in batches", f"{rows / busy:,.0f}" if busy > 0 else "-"),
        ]
        if self.batches:
            spans = sorted(batch["seconds"] for batch in self.batches)
            lines.append(("seconds of a batch, median and longest", f"{spans[len(spans) // 2]:.2f}, {spans[-1]:.2f}"))
            for topic, numbers in self.batches[-1]["topics"].items():
                behind = numbers["seconds_behind"]
                lag = f"{numbers['backlog']:,} offsets" + ("" if behind is None else f", {behind:.1f} s")
                lines.append((f"{topic} behind", lag))
        return lines

    def text_plot(self) -> list[str]:
        """A bar for each batch, or for the mean of several that follow each other; nothing without rows."""
        rates = [(batch["batch"], batch["rows"], batch["seconds"]) for batch in self.batches if batch["seconds"] > 0]
        size = max(1, -(-len(rates) // _BARS))
        groups = [rates[first : first + size] for first in range(0, len(rates), size)]
        bars = [
            (_span(group), sum(rows for _, rows, _ in group) / sum(seconds for _, _, seconds in group))
            for group in groups
        ]
        highest = max((rate for _, rate in bars), default=0.0)
        if highest <= 0:
            return []
        width = max(len(name) for name, _ in bars)
        return [
            f"{name:>{width}}  {'#' * round(_WIDTH * rate / highest):{_WIDTH}}  {rate:,.0f} rows/s"
            for name, rate in bars
        ]


def batch_line(batch: Mapping[str, Any]) -> str:
    """The line of progress after a batch."""
    rate = batch["rows_per_second"]
    speed = "" if rate is None else f", {rate:,.0f}/s"
    topics = "".join(
        f"; {topic}: {numbers['backlog']:,} behind"
        + ("" if numbers["seconds_behind"] is None else f" ({numbers['seconds_behind']:.1f} s)")
        for topic, numbers in batch["topics"].items()
    )
    return f"batch {batch['batch']}: {batch['rows']:,} rows in {batch['seconds']:.2f} s{speed}{topics}"


def draw(report: JobReport, path: str, title: str) -> None:
    """Write the throughput of each batch, and what is unread after it, as a picture. `ImportError`: no matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    numbers = [batch["batch"] for batch in report.batches]
    axes.bar(numbers, [batch["rows_per_second"] or 0 for batch in report.batches], color="#3b6ea5", label="rows/s")
    axes.set_title(title)
    axes.set_xlabel("batch")
    axes.set_ylabel("rows/s")
    axes.xaxis.get_major_locator().set_params(integer=True)
    topics = sorted({topic for batch in report.batches for topic in batch["topics"]})
    if topics:
        behind = axes.twinx()
        behind.set_ylabel("offsets behind")
        for topic in topics:
            unread = [batch["topics"].get(topic, {}).get("backlog") for batch in report.batches]
            behind.plot(numbers, _gaps(unread), marker=".", color="#c0504d", label=f"{topic}, behind")
        behind.set_ylim(bottom=0)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=120)


def _gaps(values: Sequence[Any]) -> list[float]:
    return [float("nan") if value is None else float(value) for value in values]


def _span(group: Sequence[tuple[Any, Any, Any]]) -> str:
    first, last = group[0][0], group[-1][0]
    return str(first) if first == last else f"{first}-{last}"
