"""This tree beside another commit: turns, ratios, verdicts. No process is started."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.ratios import Comparison, as_json, compare, is_lacking, own_contenders, render
from benchmarks.rounds import ContenderError, Measured
from benchmarks.row import Contender, Kind, Row, Topic
from benchmarks.rows import ROWS

FOLDERS = (Path("/sides/this"), Path("/sides/base"))
OWN = Contender("kafwire", "kafwire_group", "join")


def make_row(kind: Kind = "group", *contenders: Contender) -> Row:
    return Row("group-test", kind, "M records/s", Topic(100, "lz4", 1_000_000), contenders)


def quiet(_line: str) -> None:
    pass


def test_trees_take_turns_and_each_pair_begins_with_the_other_one() -> None:
    order: list[str] = []

    def measure(_row: Row, contender: Contender, _variant: Mapping[str, str]) -> Measured:
        assert contender.folder is not None
        order.append(contender.folder.name)
        return Measured(float(len(order)), 1.0, cpu=2.0 if contender.folder.name == "this" else 3.0)

    found = compare(make_row(), OWN, 3, measure, quiet, FOLDERS)
    assert order == ["this", "base", "this", "base", "base", "this", "this", "base"]
    assert (found.this, found.base) == ([3.0, 6.0, 7.0], [4.0, 5.0, 8.0])  # the first pair does not count
    assert found.ratios == [3 / 4, 6 / 5, 7 / 8]
    assert found.cpu == 1.5  # the base takes more
    assert as_json([found])[0]["this_cpu_us_per_record"] == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(("kind", "ratio"), [("group", 0.5), ("rebalance", 2.0), ("wait", 2.0), ("share", 0.5)])
def test_a_ratio_below_one_is_slower_whatever_the_unit(kind: Kind, ratio: float) -> None:
    assert Comparison(make_row(kind), "kafwire", [1.0], [2.0]).median == ratio


@pytest.mark.parametrize(("this", "verdict"), [([0.97, 2.0, 0.97], "ok"), ([0.96, 0.1, 2.0], "slower"), ([], "slower")])
def test_the_median_of_the_pairs_decides(this: list[float], verdict: str) -> None:
    assert Comparison(make_row(), "kafwire", this, [1.0] * len(this)).verdict() == verdict


@pytest.mark.parametrize(
    ("error", "lacking"),
    [
        ("exit code 1: ImportError: cannot import name 'ShareConsumer' from 'kafwire'", True),
        ("exit code 1: ModuleNotFoundError: No module named 'kafwire.stream'", True),
        ("exit code 1: AttributeError: 'Consumer' object has no attribute 'commit'", True),
        ("exit code 1: TypeError: Pipeline() got an unexpected keyword argument 'x'", True),
        ("exit code 1: kafwire.errors.ConfigError: unknown option 'new'; known: acks", True),
        ("exit code 1: kafwire.errors.ConfigError: acks=7: -1, 0 or 1 is needed", False),
        ("exit code 1: TypeError: an integer is required", False),
        ("exit code 1: kafwire.errors.KafkaTimeoutError: no response", False),
        ("read 3 records, 300 bytes of 4 records", False),
        ("not done after 600 s", False),
    ],
)
def test_a_missing_name_differs_from_a_failure(error: str, lacking: bool) -> None:
    assert is_lacking(error) is lacking


@pytest.mark.parametrize(
    ("side", "error", "verdict"),
    [
        ("base", "exit code 1: ImportError: no", "not in the base"),
        ("base", "exit code 1: ValueError: no", "failed"),
        ("this", "exit code 1: ImportError: no", "failed"),
    ],
)
def test_only_the_base_may_lack_something(side: str, error: str, verdict: str) -> None:
    calls: list[str] = []

    def measure(_row: Row, contender: Contender, _variant: Mapping[str, str]) -> Measured:
        assert contender.folder is not None
        calls.append(contender.folder.name)
        if contender.folder.name == side:
            raise ContenderError(error)
        return Measured(1.0, 1.0)

    found = compare(make_row(), OWN, 5, measure, quiet, FOLDERS)
    assert calls == ["this", "base"]
    assert found.verdict() == verdict
    assert found.median is None
    assert error in render([found])


def test_a_tree_that_fails_later_fails_the_row() -> None:
    calls: list[str] = []

    def measure(_row: Row, contender: Contender, _variant: Mapping[str, str]) -> Measured:
        calls.append(contender.name)
        if len(calls) == 6:
            raise ContenderError("read 3 records")
        return Measured(1.0, 1.0)

    found = compare(make_row(), OWN, 3, measure, quiet, FOLDERS)
    assert found.verdict() == "failed"
    assert found.median is None


def test_the_table_names_the_slower_rows() -> None:
    found = [
        Comparison(make_row(), "steady", [2.0, 3.0, 4.0], [2.0, 2.0, 2.0]),
        Comparison(make_row(), "torn", [1.0, 1.0, 3.0], [2.0, 2.0, 2.0]),
        Comparison(make_row(), "worse", [1.0], [2.0], [3.0], [4.5]),
    ]
    table = render(found)
    assert "| group-test | steady | 3 M records/s | 2 M records/s | 1.500 (1.000-2.000, 3) |  |  |" in table
    assert "| 1 M records/s | 2 M records/s | 0.500 (0.500-1.500, 3), pairs disagree |  | SLOWER |" in table
    assert "| 0.500 (0.500-0.500, 1) | 1.500 | SLOWER |" in table
    assert "below 97% of the base: group-test (torn), group-test (worse)\n" in table
    assert "below 97% of the base: none\n" in render(found[:1])
    reported: list[dict[str, Any]] = json.loads(json.dumps(as_json(found)))
    assert [one["verdict"] for one in reported] == ["ok", "slower", "slower"]
    assert reported[0]["ratios"] == [1.0, 1.5, 2.0]
    assert (reported[0]["median"], reported[0]["unit"], reported[0]["error"]) == (1.5, "M records/s", "")


def test_every_row_compares_something_and_no_peer() -> None:
    for row in ROWS:
        own = own_contenders(row, context=False, only=None)
        assert own, row.name
        assert not [one.name for one in own if not one.name.startswith("kafwire")]
    row = make_row("group", OWN, Contender("kafwire records", "kafwire_group", "records", context=True))
    assert [one.name for one in own_contenders(row, context=True, only=None)] == ["kafwire", "kafwire records"]
    assert [one.name for one in own_contenders(row, context=False, only=None)] == ["kafwire"]
    assert [one.name for one in own_contenders(row, context=True, only=["kafwire r"])] == ["kafwire records"]
