"""The demo's picture: how late each airline leaves, hour by hour, and the stream that brought the flights there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from demo.driver import Batch

INK, GREY, PAPER = "#22272e", "#7a828c", "#ffffff"
ACCENT, BAR = "#b2402f", "#c3cbd4"
FEW = 20  # a mean of fewer departures is drawn pale
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": GREY,
    "xtick.color": GREY,
    "ytick.color": INK,
    "axes.edgecolor": "#d5d9de",
    "figure.facecolor": PAPER,
    "svg.hashsalt": "kafwire",  # the same picture is the same file
}


def draw(delays: pa.Table, names: Mapping[str, str], batches: Sequence[Batch], killed_at: float, path: Path) -> None:
    """Write the heat map of (carrier, hour, departures, mean_delay), and the batches of the stream, to `path`."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    rows = delays.to_pylist()
    flown: dict[str, int] = {}
    for row in rows:
        flown[row["carrier"]] = flown.get(row["carrier"], 0) + row["departures"]
    carriers = sorted(flown, key=lambda code: -flown[code])
    hours = list(range(min(row["hour"] for row in rows), max(row["hour"] for row in rows) + 1))
    mean = np.full((len(carriers), len(hours)), np.nan)
    count = np.zeros(mean.shape, dtype=np.int64)
    for row in rows:
        place = carriers.index(row["carrier"]), row["hour"] - hours[0]
        mean[place], count[place] = row["mean_delay"], row["departures"]

    with mpl.rc_context(STYLE):
        figure = plt.figure(figsize=(13, 10.4), dpi=150)
        edges = {"left": 0.16, "right": 0.965}
        grid = figure.add_gridspec(
            2, 2, width_ratios=(6, 1), height_ratios=(1, 5), top=0.9, bottom=0.3, wspace=0.03, hspace=0.06, **edges
        )
        heat = figure.add_subplot(grid[1, 0])
        image = _draw_heat(heat, mean, count, [names.get(code, code) for code in carriers], hours)
        line = figure.add_subplot(grid[0, 0], sharex=heat)
        _draw_hours(line, mean, count)
        bars = figure.add_subplot(grid[1, 1], sharey=heat)
        _draw_totals(bars, [flown[code] for code in carriers])
        for axes in (heat, line, bars):
            for side in axes.spines.values():
                side.set_visible(False)
        _draw_key(figure, image)
        stream = figure.add_subplot(figure.add_gridspec(1, 1, top=0.165, bottom=0.055, **edges)[0, 0])
        _draw_stream(stream, batches, killed_at)
        _write_titles(figure, sum(flown.values()))
        figure.savefig(path, facecolor=PAPER, metadata={"Date": None} if path.suffix == ".svg" else None)
        plt.close(figure)


def _draw_heat(axes: Any, mean: Any, count: Any, names: Sequence[str], hours: Sequence[int]) -> Any:
    from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm

    colours = LinearSegmentedColormap.from_list(
        "lateness", ["#2f6f9f", "#a9cbe0", "#f7f4ee", "#f3c08a", "#dd7443", "#9c2a2a"]
    )
    scale = TwoSlopeNorm(vmin=-10, vcenter=4, vmax=45)
    axes.set_facecolor("#f3f4f6")
    image = axes.imshow(mean, cmap=colours, norm=scale, aspect="auto", alpha=np.where(count >= FEW, 1.0, 0.35))
    for (line, column), number in np.ndenumerate(count):
        if number:
            shown = float(mean[line, column])
            dark = number >= FEW and (shown > 28 or shown < -7)
            colour = PAPER if dark else INK if number >= FEW else GREY
            axes.text(column, line, f"{round(shown)}", ha="center", va="center", fontsize=8, color=colour)
    axes.set_xticks(range(len(hours)), [f"{hour:02d}" for hour in hours])
    axes.set_yticks(range(len(names)), names)
    axes.set_xticks(np.arange(len(hours) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(names) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color=PAPER, linewidth=1.5)
    axes.tick_params(which="both", length=0)
    axes.set_xlabel("scheduled hour of departure", labelpad=6)
    return image


def _draw_hours(axes: Any, mean: Any, count: Any) -> None:
    """The mean of all airlines."""
    over_all = np.nansum(np.nan_to_num(mean) * count, axis=0) / np.maximum(count.sum(axis=0), 1)
    axes.fill_between(range(len(over_all)), over_all, color=ACCENT, alpha=0.12, linewidth=0)
    axes.plot(over_all, color=ACCENT, linewidth=2, marker="o", markersize=3.5)
    for spot in (0, int(np.argmax(over_all))):
        axes.annotate(
            f"{over_all[spot]:.0f} min", (spot, over_all[spot]), (0, 6), textcoords="offset points", ha="center",
            fontsize=8.5, color=ACCENT, fontweight="bold",
        )  # fmt: skip
    axes.set_ylim(0, over_all.max() * 1.35)
    axes.set_ylabel("all airlines", rotation=0, ha="right", va="center", color=INK)
    axes.tick_params(which="both", labelbottom=False, length=0, labelleft=False)


def _draw_totals(axes: Any, totals: Sequence[int]) -> None:
    axes.barh(range(len(totals)), totals, color=BAR, height=0.62)
    for line, total in enumerate(totals):
        axes.text(total + max(totals) * 0.03, line, f"{total:,}", va="center", fontsize=8, color=GREY)
    axes.set_xlim(0, max(totals) * 1.42)
    axes.tick_params(which="both", labelleft=False, labelbottom=False, length=0)
    axes.set_xlabel("departures", labelpad=6)


def _draw_key(figure: Any, image: Any) -> None:
    key = figure.add_axes((0.16, 0.238, 0.22, 0.012))
    bar = figure.colorbar(image, cax=key, orientation="horizontal", ticks=[-10, 0, 10, 20, 30, 45])
    bar.set_ticklabels(["-10", "0", "10", "20", "30", "45+"])
    bar.outline.set_visible(False)
    key.tick_params(length=0, labelsize=8)
    note = f"mean departure delay, minutes; pale: fewer than {FEW} departures"
    figure.text(0.395, 0.238, note, fontsize=8.5, color=GREY)


def _draw_stream(axes: Any, batches: Sequence[Batch], killed_at: float) -> None:
    """A bar for each batch, as wide as it took; the kill is a line."""
    began = min([killed_at, *(batch.at - batch.seconds for batch in batches)])
    for batch in batches:
        start = batch.at - batch.seconds - began
        axes.bar(start, batch.rate / 1000, batch.seconds, align="edge", color=BAR, edgecolor=PAPER, linewidth=1)
        middle = start + batch.seconds / 2, batch.rate / 1000
        axes.annotate(str(batch.batch), middle, (0, 3), textcoords="offset points", ha="center", fontsize=8, color=GREY)
    killed = killed_at - began
    axes.axvline(killed, color=ACCENT, linewidth=2)
    after = [batch.at - batch.seconds - began for batch in batches if batch.at > killed_at]
    if after:
        axes.axvspan(killed, min(after), color=ACCENT, alpha=0.08, linewidth=0)
    note = "kill -9 in mid-batch; then a new driver,\nwhich runs that batch again"
    axes.annotate(
        note, (killed, 0.97), (5, 0), xycoords=("data", "axes fraction"), textcoords="offset points", va="top",
        fontsize=8.5, color=ACCENT,
    )  # fmt: skip
    axes.set_ylim(0, max([1.0, *(batch.rate / 1000 for batch in batches)]) * 1.25)
    axes.set_xlim(left=0)
    axes.set_xlabel("seconds since the first batch began", labelpad=4)
    axes.set_ylabel("thousand\nflights/s", rotation=0, ha="right", va="center", color=INK)
    axes.tick_params(length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _write_titles(figure: Any, departures: int) -> None:
    figure.text(0.16, 0.95, "The later the hour, the later the flight", fontsize=18, fontweight="bold")
    shown = f"Mean departure delay of {departures:,} flights from New York in 2013, by airline and scheduled hour"
    figure.text(0.16, 0.922, shown, fontsize=11, color=GREY)
    figure.text(0.16, 0.19, "The stream that brought them there, exactly once", fontsize=12, fontweight="bold")
    way = "Kafka → kafwire → Spark → kafwire → Kafka"
    figure.text(0.965, 0.19, way, fontsize=8.5, color=GREY, ha="right")
