"""The table of README is the last long run's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.readme_figure import END, LINES, START, render_figure, with_figure
from benchmarks.rows import ROWS

ROOT = Path(__file__).parents[3]
RECORDS = json.loads((ROOT / "benchmarks" / "results.json").read_text())


def test_the_readme_has_the_figures_of_the_last_long_run() -> None:
    text = (ROOT / "README.md").read_text()
    assert with_figure(text, RECORDS) == text, "benchmarks.readme_figure writes it"
    assert text.count(START) == text.count(END) == 1


def test_its_lines_are_rows_and_contenders_of_the_bench() -> None:
    rows = {row.name: {contender.name for contender in row.contenders} for row in ROWS}
    for _, name, contenders in LINES:
        assert {contender for contender in contenders if contender} <= rows[name], name


def test_a_row_or_contender_that_a_run_lacks_is_left_out() -> None:
    row: dict[str, Any] = {"kafwire send": {"median": 1.25}, "confluent produce": {"median": None}}
    records = RECORDS | {"rows": [{"name": "produce-100-lz4", "contenders": row}]}
    shown = [line.split("|")[2:4] for line in render_figure(records).splitlines()[2:4]]
    assert shown == [["  ", "  "], [" 1.2 ", "  "]]
