"""The sweep over a producer's batching: which combinations run in which turns, and what becomes of their figures."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.rounds import ContenderError
from benchmarks.sweep import BATCH_SIZES, IN_FLIGHT, LINGERS_MS, measure
from benchmarks.sweep_report import END, START, draw, figure, render, update_document

COUNT = len(LINGERS_MS) * len(BATCH_SIZES) * len(IN_FLIGHT)
FAILS = ("conf.linger_ms", "50")


class Runs:
    """Returns the number of the run; one linger fails in its second round."""

    def __init__(self) -> None:
        self.asked: list[Mapping[str, str]] = []

    def __call__(self, configuration: Mapping[str, str]) -> Mapping[str, float]:
        self.asked.append(configuration)
        if configuration[FAILS[0]] == FAILS[1] and len(self.asked) > COUNT:
            raise ContenderError("too slow")
        names = ("records_per_second", "cpu_us", "records_per_batch", "p50", "p99", "paced_records_per_batch")
        return {name: float(len(self.asked)) for name in names}


def sweep() -> tuple[Runs, Mapping[str, Any]]:
    runs = Runs()
    cells = measure(runs, 3, lambda _line: None)
    where = {"when": "2026-01-01T", "commit": "c", "cpus": 2, "cpu": "x", "kernel": "k", "python": "p"}
    form = {"rounds": 3, "value_bytes": 100, "pace": 10_000, "burst": 10}
    return runs, {"environment": where | {"load_average": [0.5]}, "form": form, "cells": cells}


def test_each_round_runs_every_combination_and_begins_with_another() -> None:
    runs, _ = sweep()
    first, second = runs.asked[:COUNT], runs.asked[COUNT : 2 * COUNT]
    assert len({tuple(sorted(one.items())) for one in first}) == COUNT
    assert second[0] != first[0]
    assert {tuple(sorted(one.items())) for one in second} == {tuple(sorted(one.items())) for one in first}


def test_one_that_fails_is_out_and_the_others_have_the_median() -> None:
    runs, record = sweep()
    failing = COUNT // len(LINGERS_MS)
    assert len(runs.asked) == 3 * COUNT - failing
    failed = [cell for cell in record["cells"] if cell["error"]]
    assert [cell["linger_ms"] for cell in failed] == [50] * failing
    whole = record["cells"][0]
    assert [one["p99"] for one in whole["rounds"]] == sorted(one["p99"] for one in whole["rounds"])
    assert figure(whole, "p99") == whole["rounds"][1]["p99"]


def test_the_document_keeps_the_text_around_the_table(tmp_path: Path) -> None:
    _, record = sweep()
    text = render(record)
    assert "| 0 | 16,384 | 1 |" in text
    assert "| 50 | 16,384 | 1 | failed |" in text
    assert "- 50 ms, 16384 bytes, 1 in flight: too slow" in text
    document = tmp_path / "producing.md"
    document.write_text("# Producing\n")
    for content in ("one", text):
        update_document(document, content)
        assert document.read_text().startswith("# Producing\n\n## Batching, measured\n")
    assert document.read_text().count(START) == document.read_text().count(END) == 1
    assert "one\n" not in document.read_text().partition(END)[0].partition(START)[2].splitlines()


def test_the_plot_is_drawn_without_failed_cells(tmp_path: Path) -> None:
    _, record = sweep()
    draw(record, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    draw({**record, "cells": []}, tmp_path / "empty.png")
