"""The demo's picture: how late each airline leaves, hour by hour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

INK, GREY, PAPER = "#22272e", "#7a828c", "#ffffff"
ACCENT = "#b2402f"
FEW = 20  # a mean of fewer departures is drawn pale


def draw(delays: pa.Table, names: Mapping[str, str], path: Path) -> None:
    """Write the heat map of (carrier, hour, departures, mean_delay) to `path` as PNG."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm

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

    colours = LinearSegmentedColormap.from_list(
        "lateness", ["#2f6f9f", "#a9cbe0", "#f7f4ee", "#f3c08a", "#dd7443", "#9c2a2a"]
    )
    scale = TwoSlopeNorm(vmin=-10, vcenter=4, vmax=45)
    style: dict[Any, Any] = {
        "font.family": "DejaVu Sans",
        "font.size": 9,
        "text.color": INK,
        "axes.labelcolor": GREY,
        "xtick.color": GREY,
        "ytick.color": INK,
        "axes.edgecolor": "#d5d9de",
        "figure.facecolor": PAPER,
    }
    with mpl.rc_context(style):
        figure = plt.figure(figsize=(13, 8.2), dpi=150)
        grid = figure.add_gridspec(
            2,
            2,
            width_ratios=(6, 1),
            height_ratios=(1, 5),
            left=0.16,
            right=0.965,
            top=0.875,
            bottom=0.125,
            wspace=0.03,
            hspace=0.06,
        )
        heat = figure.add_subplot(grid[1, 0])
        heat.set_facecolor("#f3f4f6")
        image = heat.imshow(mean, cmap=colours, norm=scale, aspect="auto", alpha=np.where(count >= FEW, 1.0, 0.35))
        for (line, column), number in np.ndenumerate(count):
            if number:
                shown = float(mean[line, column])
                dark = number >= FEW and (shown > 28 or shown < -7)
                colour = PAPER if dark else INK if number >= FEW else GREY
                heat.text(column, line, f"{round(shown)}", ha="center", va="center", fontsize=8, color=colour)
        heat.set_xticks(range(len(hours)), [f"{hour:02d}" for hour in hours])
        heat.set_yticks(range(len(carriers)), [names.get(code, code) for code in carriers])
        heat.set_xticks(np.arange(len(hours) + 1) - 0.5, minor=True)
        heat.set_yticks(np.arange(len(carriers) + 1) - 0.5, minor=True)
        heat.grid(which="minor", color=PAPER, linewidth=1.5)
        heat.tick_params(which="both", length=0)
        heat.set_xlabel("scheduled hour of departure", labelpad=6)

        over_all = np.nansum(np.nan_to_num(mean) * count, axis=0) / np.maximum(count.sum(axis=0), 1)
        line_chart = figure.add_subplot(grid[0, 0], sharex=heat)
        line_chart.fill_between(range(len(hours)), over_all, color=ACCENT, alpha=0.12, linewidth=0)
        line_chart.plot(over_all, color=ACCENT, linewidth=2, marker="o", markersize=3.5)
        peak = int(np.argmax(over_all))
        for spot in (0, peak):
            line_chart.annotate(
                f"{over_all[spot]:.0f} min", (spot, over_all[spot]), (0, 6), textcoords="offset points", ha="center",
                fontsize=8.5, color=ACCENT, fontweight="bold",
            )  # fmt: skip
        line_chart.set_ylim(0, over_all.max() * 1.35)
        line_chart.set_ylabel("all airlines", rotation=0, ha="right", va="center", color=INK)
        line_chart.tick_params(which="both", labelbottom=False, length=0, labelleft=False)

        bars = figure.add_subplot(grid[1, 1], sharey=heat)
        totals = [flown[code] for code in carriers]
        bars.barh(range(len(carriers)), totals, color="#c3cbd4", height=0.62)
        for line, total in enumerate(totals):
            bars.text(total + max(totals) * 0.03, line, f"{total:,}", va="center", fontsize=8, color=GREY)
        bars.set_xlim(0, max(totals) * 1.42)
        bars.tick_params(which="both", labelleft=False, labelbottom=False, length=0)
        bars.set_xlabel("departures", labelpad=6)
        for axes in (heat, line_chart, bars):
            for side in axes.spines.values():
                side.set_visible(False)

        key = figure.add_axes((0.16, 0.045, 0.22, 0.016))
        ticks = [-10, 0, 10, 20, 30, 45]
        bar = figure.colorbar(image, cax=key, orientation="horizontal", ticks=ticks)
        bar.set_ticklabels(["-10", "0", "10", "20", "30", "45+"])
        bar.outline.set_visible(False)
        key.tick_params(length=0, labelsize=8)
        note = f"mean departure delay, minutes; pale: fewer than {FEW} departures"
        figure.text(0.395, 0.045, note, fontsize=8.5, color=GREY)
        figure.text(0.16, 0.935, "The later the hour, the later the flight", fontsize=18, fontweight="bold")
        what = f"Mean departure delay of {sum(totals):,} flights from New York in 2013, by airline and scheduled hour"
        figure.text(0.16, 0.9, what, fontsize=11, color=GREY)
        figure.text(0.965, 0.045, "Kafka → kafwire → Spark → kafwire → Kafka", fontsize=8.5, color=GREY, ha="right")
        figure.savefig(path, facecolor=PAPER)
        plt.close(figure)
