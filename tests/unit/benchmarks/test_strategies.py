"""The strategies' benchmark: turns, cells, table, document. No process is started."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.rounds import ContenderError
from benchmarks.strategies_report import END, START, figure, render, update_document
from benchmarks.strategies_rounds import measure


def fake(strategy: str, partitions: int, scenario: str) -> Mapping[str, float]:
    if (strategy, scenario) == ("b", "slow"):
        raise ContenderError("got stuck")
    factor = 2.0 if strategy == "b" else 1.0
    names = ("mb_per_second", "requests_per_second", "cpu_us", "connections", "p99", "flood_mb_per_second")
    return {name: factor * partitions * (number + 1) for number, name in enumerate(names)}


@pytest.fixture(scope="module")
def record() -> Mapping[str, Any]:
    where = {"when": "2026-01-02T03:04", "commit": "abc", "cpus": 2, "cpu": "x", "kernel": "y", "python": "z"}
    return {
        "environment": {**where, "load_average": [1.5]},
        "form": {"rounds": 2, "flood_records": 1000, "value_bytes": 10, "interval_us": 5000},
        "cells": measure(fake, ["a", "b"], [1, 10], 2, lambda _line: None),
    }


def test_strategies_take_turns_and_one_partition_has_no_other() -> None:
    order: list[tuple[int, str, str]] = []

    def run(strategy: str, partitions: int, scenario: str) -> Mapping[str, float]:
        order.append((partitions, scenario, strategy))
        return {"x": float(len(order))}

    cells = measure(run, ["a", "b", "c"], [1, 10], 2, lambda _line: None)
    assert [scenario for partitions, scenario, _ in order if partitions == 1] == ["flood"] * 6 + ["quiet"] * 6
    assert {scenario for partitions, scenario, _ in order if partitions == 10} == {"flood", "quiet", "flooded", "slow"}
    assert "".join(strategy for *_, strategy in order[:6]) == "abcbca"
    assert cells[0] == {
        "strategy": "a",
        "partitions": 1,
        "scenario": "flood",
        "rounds": [{"x": 1}, {"x": 6}],
        "error": "",
    }


def test_a_failed_measurement_is_not_repeated_and_is_reported() -> None:
    tried: list[str] = []

    def run(strategy: str, _partitions: int, scenario: str) -> Mapping[str, float]:
        tried.append(strategy)
        if strategy == "a":
            raise ContenderError(f"no {scenario}")
        return {"x": 1.0}

    cells = measure(run, ["a", "b"], [1], 3, lambda _line: None)
    assert tried.count("a") == 2
    assert [cell["error"] for cell in cells if cell["strategy"] == "a"] == ["no flood", "no quiet"]


def test_figures_are_medians_and_missing_ones_are_none(record: Mapping[str, Any]) -> None:
    assert figure(record, "b", 10, "flood", "mb_per_second") == 20.0
    assert figure(record, "b", 10, "slow", "p99") is None
    assert figure(record, "a", 1, "slow", "p99") is None
    spread = {"cells": [{"strategy": "a", "partitions": 1, "scenario": "quiet", "error": ""}]}
    spread["cells"][0]["rounds"] = [{"p99": value} for value in (9.0, 1.0, 2.0)]
    assert figure(spread, "a", 1, "quiet", "p99") == 2.0


def test_the_table_has_a_line_per_strategy_and_number_of_partitions(record: Mapping[str, Any]) -> None:
    text = render(record)
    lines = [line for line in text.splitlines() if line.startswith("| 1")]
    assert lines == [
        "| 1 | `a` | 1 | 2 | 3.00 | 4 | 2 | 5.0 |  |  |  |",
        "| 1 | `b` | 2 | 4 | 6.00 | 8 | 4 | 10.0 |  |  |  |",
        "| 10 | `a` | 10 | 20 | 30.00 | 40 | 20 | 50.0 | 50.0 | 60 | 50.0 |",
        "| 10 | `b` | 20 | 40 | 60.00 | 80 | 40 | 100.0 | 100.0 | 120 | failed |",
    ]
    assert "- slow, 10 partitions, `b`: got stuck" in text
    assert "200 records/s" in text


def test_the_document_keeps_the_text_around_the_marks(tmp_path: Path) -> None:
    path = tmp_path / "fetching.md"
    update_document(path, "first")
    assert path.read_text() == f"# Fetching\n\n## Strategies, measured\n\n{START}\n\nfirst\n{END}\n"
    path.write_text(f"# Mine\n\nbefore\n\n{START}\n\nold\n{END}\n\nafter\n")
    update_document(path, "second")
    assert path.read_text() == f"# Mine\n\nbefore\n\n{START}\n\nsecond\n{END}\n\nafter\n"
    path.write_text("# Mine\n")
    update_document(path, "third")
    assert path.read_text().startswith(f"# Mine\n\n## Strategies, measured\n\n{START}\n\nthird\n{END}\n")
