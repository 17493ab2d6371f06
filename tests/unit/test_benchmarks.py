"""The benchmark's own arithmetic: choosing rows, turns, medians, verdicts, tables. No process is started."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from benchmarks.payload import make_pool, split_pool
from benchmarks.report import END, START, render, update_readme
from benchmarks.rounds import ContenderError, Figure, Measured, as_json, judge, run_row
from benchmarks.rows import ROWS, Contender, Goal, Kind, Row, Topic, choose

TOPIC = Topic(100, "lz4", 1_000_000)


def make_row(*contenders: Contender, kind: Kind = "consume", goals: Sequence[Goal] = ()) -> Row:
    return Row("consume-test", kind, "M records/s", TOPIC, contenders, goals)


def test_names_of_rows_are_unique_and_choose_finds_them() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert [row.name for row in choose(["import"], short=False)] == ["import"]
    assert {row.kind for row in choose(["consume"], short=False)} == {"consume"}
    assert {row.topic.codec for row in choose(["consume-*-lz4-*"], short=False)} == {"lz4"}
    assert len(choose([], short=False)) == len(ROWS) > len(choose([], short=True)) > 0
    with pytest.raises(ValueError, match="no row is called 'consum'"):
        choose(["consum"], short=False)


def test_goals_name_contenders_of_their_row() -> None:
    for row in ROWS:
        names = {contender.name for contender in row.contenders}
        for goal in row.goals:
            assert goal.of in names
            assert not goal.over or goal.over in names


def test_contenders_take_turns_and_each_round_begins_with_another() -> None:
    order: list[str] = []

    def measure(_row: Row, contender: Contender, _variant: Mapping[str, str]) -> Measured:
        order.append(contender.name)
        return Measured(1.0, 0.5)

    row = make_row(*(Contender(name, "x", "consume") for name in "abc"))
    figures = run_row(row, row.contenders, 3, measure, lambda _line: None)
    assert "".join(order) == "abcbcacab"
    assert figures["a"].rounds == [1.0, 1.0, 1.0]
    assert figures["a"].seconds == 1.5


@pytest.mark.parametrize(("kind", "best"), [("consume", "fast"), ("memory", "slow")])
def test_the_best_variant_runs_the_rounds(kind: Kind, best: str) -> None:
    given = {"slow": 1.0, "fast": 3.0}
    seen: list[str] = []

    def measure(_row: Row, _contender: Contender, variant: Mapping[str, str]) -> Measured:
        seen.append(variant["name"])
        return Measured(given[variant["name"]], 1.0)

    contender = Contender("a", "x", "consume", variants={name: {"name": name} for name in given})
    row = make_row(contender, kind=kind)
    figure = run_row(row, row.contenders, 2, measure, lambda _line: None)["a"]
    assert seen == ["slow", "fast", best, best]
    assert figure.variant == best
    assert figure.tried == given
    assert figure.rounds == [given[best]] * 2


def test_a_contender_that_fails_is_out_and_says_why() -> None:
    calls: list[str] = []

    def measure(_row: Row, contender: Contender, _variant: Mapping[str, str]) -> Measured:
        calls.append(contender.name)
        if contender.name == "b" and calls.count("b") == 2:
            raise ContenderError("lost 3 records")
        return Measured(float(len(calls)), 1.0)

    row = make_row(Contender("a", "x", "consume"), Contender("b", "x", "consume"), goals=[Goal("a", "b", 1.0)])
    figures = run_row(row, row.contenders, 4, measure, lambda _line: None)
    assert calls.count("a") == 4
    assert calls.count("b") == 2
    assert figures["b"].median is None
    assert figures["b"].error == "lost 3 records"
    assert judge(row, figures)[0].value is None
    assert not judge(row, figures)[0].met
    tables = render([(row, figures)], {}, {})
    assert "| failed |" in tables
    assert "lost 3 records" in tables
    assert as_json(row, figures)["contenders"]["b"]["median"] is None


def test_a_contender_whose_every_variant_fails_is_failed() -> None:
    def measure(_row: Row, _contender: Contender, _variant: Mapping[str, str]) -> Measured:
        raise ContenderError("no")

    contender = Contender("a", "x", "consume", variants={"one": {}, "two": {}})
    row = make_row(contender)
    assert run_row(row, row.contenders, 2, measure, lambda _line: None)["a"].error == "failed: no"


def test_verdicts() -> None:
    row = make_row(goals=[Goal("a", "b", least=4.0), Goal("a", most=40.0), Goal("gone", "b", least=1.0)])
    figures = {"a": Figure([30.0, 41.0, 39.0]), "b": Figure([10.0])}
    ratio, ceiling, gone = judge(row, figures)
    assert (ratio.value, ratio.met) == (3.9, False)
    assert (ceiling.value, ceiling.met) == (39.0, True)
    assert (gone.value, gone.met) == (None, False)
    assert ratio.as_text("ms") == "a / b 3.90 x (goal >= 4 x): NOT MET"
    assert ceiling.as_text("ms") == "a 39.0 ms (goal <= 40 ms): met"


def test_the_readme_keeps_what_is_around_the_marks(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text(f"before\n{START}\nold\n{END}\nafter\n")
    update_readme(path, "| new |\n")
    update_readme(path, "| newer |\n")
    assert path.read_text() == f"before\n{START}\n\n| newer |\n\n{END}\nafter\n"


@pytest.mark.parametrize("value_bytes", [100, 1000])
def test_values_are_the_same_every_time_and_compress_like_real_data(value_bytes: int) -> None:
    from lz4 import frame

    pool = make_pool(value_bytes)
    assert make_pool(value_bytes) == pool
    values = split_pool(pool, value_bytes)
    assert {len(value) for value in values} == {value_bytes}
    assert len(set(values)) == len(values)
    at = random.Random(1).randrange(8) * 1_000_000
    assert 2 <= 1_000_000 / len(frame.compress(pool[at : at + 1_000_000], block_linked=False)) <= 3
