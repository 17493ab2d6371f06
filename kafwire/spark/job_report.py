"""The report of a job: its batches as a summary table and as a plot of the throughput.

Pure, but for `draw`, which writes a picture and needs matplotlib.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_BARS = 16
_WIDTH = 40
_MOST = 2000  # batches kept


class JobReport:
    """The batches of a job, as `listen` reports them; a batch job has one. `seconds` is the duration of the whole run.

    `batches` are the batches of the plots. Above a limit, neighbours are merged, so that a job may run without end.
    """

    def __init__(self) -> None:
        self.batches: list[Mapping[str, Any]] = []
        self.seconds = 0.0
        self._count = self._rows = 0
        self._busy = self._longest = 0.0

    def add(self, batch: Mapping[str, Any]) -> None:
        """Add a batch."""
        self._count += 1
        self._rows += batch["rows"]
        self._busy += batch["seconds"]
        self._longest = max(self._longest, batch["seconds"])
        self.batches.append(batch)
        if len(self.batches) > _MOST:
            last = self.batches.pop()  # the last batch is not merged
            pairs = zip(self.batches[::2], self.batches[1::2], strict=True)
            self.batches = [*(_both(first, second) for first, second in pairs), last]

    def summary(self) -> list[tuple[str, str]]:
        """Return the names and values of the table at the end."""
        lines = [
            ("batches", f"{self._count:,}"),
            ("rows", f"{self._rows:,}"),
            ("seconds, with Spark's start", f"{self.seconds:.1f}"),
            ("seconds in batches", f"{self._busy:.1f}"),
            ("rows/s in batches", f"{self._rows / self._busy:,.0f}" if self._busy > 0 else "-"),
        ]
        if self.batches:
            spans = f"{self._busy / self._count:.2f}, {self._longest:.2f}"
            lines.append(("seconds of a batch, mean and longest", spans))
            for topic, numbers in self.batches[-1]["topics"].items():
                behind = numbers["seconds_behind"]
                lag = f"{numbers['backlog']:,} offsets" + ("" if behind is None else f", {behind:.1f} s")
                lines.append((f"{topic} behind", lag))
        return lines

    def text_plot(self) -> list[str]:
        """Return a bar for each batch, or for the mean of several neighbours; no bars without rows."""
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
    """Return the line of progress after a batch."""
    rate = batch["rows_per_second"]
    speed = "" if rate is None else f", {rate:,.0f}/s"
    topics = "".join(
        f"; {topic}: {numbers['backlog']:,} behind"
        + ("" if numbers["seconds_behind"] is None else f" ({numbers['seconds_behind']:.1f} s)")
        for topic, numbers in batch["topics"].items()
    )
    return f"batch {batch['batch']}: {batch['rows']:,} rows in {batch['seconds']:.2f} s{speed}{topics}"


def draw(report: JobReport, path: str, title: str) -> None:
    """Draw the throughput of each batch, and the backlog after it. Raises `ImportError` without matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    numbers = [batch["batch"] for batch in report.batches]
    axes.bar(numbers, [batch["rows_per_second"] or 0 for batch in report.batches], color="#3b6ea5", label="rows/s")
    axes.set_title(title)
    axes.set_xlabel("batch")
    axes.set_ylabel("rows/s")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
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


def _both(first: Mapping[str, Any], second: Mapping[str, Any]) -> Mapping[str, Any]:
    """Merge two batches: the number of the first, the lag of the second."""
    rows, seconds = first["rows"] + second["rows"], first["seconds"] + second["seconds"]
    rate = rows / seconds if seconds > 0 else None
    return {**second, "batch": first["batch"], "rows": rows, "seconds": seconds, "rows_per_second": rate}
