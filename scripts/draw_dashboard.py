"""Draws docs/operate/dashboard.png: the panels of dashboard.json with the responses of a Prometheus, without Grafana.

`python -m scripts.draw_dashboard` runs a program with every kind of client for some two minutes. It needs Debian's
package prometheus, and matplotlib (the extra plot).
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image

from scripts import dashboard
from tests.support.monitored_program import monitored
from tests.support.prometheus import Prometheus, as_sent, scraping

FILE = dashboard.FILE.with_suffix(".png")
SCRAPES = 120
STEP_S = 2
UNIT_INCHES = 0.58  # the width of a column of Grafana's grid
UNIT_HEIGHT = 0.3
_COLORS = 64
_BACK, _PANEL, _TEXT, _GRID = "#111217", "#181b1f", "#d0d1d6", "#2c2f35"
# Grafana's units, by their texts of a value.
_FORMATS = {
    "short": lambda value, _: f"{value:g}",
    "cps": lambda value, _: f"{value:g} c/s",
    "s": lambda value, _: f"{value:g} s" if value >= 1 or not value else f"{value * 1000:g} ms",
    "Bps": lambda value, _: f"{value / 1000:g} kB/s" if value >= 1000 else f"{value:g} B/s",
    "percentunit": lambda value, _: f"{value * 100:.3g} %",
}


def draw(found: dict[str, Any], prometheus: Prometheus, begin: float, end: float, file: Path) -> None:
    """Draw the panels in the places of their `gridPos`."""
    panels = found["panels"]
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    width, height = 24 * UNIT_INCHES, rows * UNIT_HEIGHT
    figure = plt.figure(figsize=(width, height), facecolor=_BACK)
    for panel in panels:
        at = panel["gridPos"]
        left, bottom = at["x"] / 24, 1 - (at["y"] + at["h"]) / rows
        if panel["type"] == "row":
            figure.text(left + 0.005, bottom + 0.2 / rows, panel["title"], color=_TEXT, size=11, weight="bold")
            continue
        inner = [left + 0.045, bottom + 2.1 / rows, at["w"] / 24 - 0.055, (at["h"] - 3.6) / rows]
        axes = figure.add_axes((inner[0], inner[1], inner[2], inner[3]), facecolor=_PANEL)
        _draw_panel(axes, panel, prometheus, begin, end)
    figure.savefig(file, dpi=72, facecolor=_BACK)
    Image.open(file).convert("P", palette=Image.Palette.ADAPTIVE, colors=_COLORS).save(file, optimize=True)


def _draw_panel(axes: Any, panel: dict[str, Any], prometheus: Prometheus, begin: float, end: float) -> None:
    for target in panel["targets"]:
        expression = as_sent(target["expr"], step_s=STEP_S)
        response = prometheus.get("query_range", query=expression, start=begin, end=end, step=STEP_S)
        for series in response["result"]:
            legend = target["legendFormat"]
            for label, text in series["metric"].items():
                legend = legend.replace(f"{{{{{label}}}}}", text)
            points = [(float(at) - begin, float(value)) for at, value in series["values"]]
            axes.plot(*zip(*points, strict=True), linewidth=1.1, label=legend, clip_on=False)
    axes.set_title(panel["title"], color=_TEXT, size=9, loc="left")
    defaults = panel["fieldConfig"]["defaults"]
    axes.set_ylim(bottom=defaults["min"], top=None if axes.get_ylim()[1] > defaults["min"] and axes.dataLim.y1 else 1)
    axes.set_xlim(0, end - begin)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(_FORMATS[defaults["unit"]]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} s"))
    axes.tick_params(colors=_TEXT, labelsize=7, length=0)
    axes.grid(color=_GRID, linewidth=0.6)
    for spine in axes.spines.values():
        spine.set_visible(False)
    place = {"loc": "upper left", "bbox_to_anchor": (-0.02, -0.12), "columnspacing": 1, "borderpad": 0}
    axes.legend(fontsize=6.5, frameon=False, labelcolor=_TEXT, ncols=4, handlelength=1, **place)


def main() -> None:
    """Run the program, and draw."""
    with monitored() as port, scraping(port, SCRAPES) as prometheus:
        end = time.time()
        draw(json.loads(dashboard.FILE.read_text()), prometheus, end - SCRAPES + 5, end, FILE)


if __name__ == "__main__":
    main()
