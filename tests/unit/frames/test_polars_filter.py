"""Predicates of polars as filters of a scan."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from kafwire.frames.polars_filter import expression_of
from kafwire.scanner.row_filter import (
    FALSE,
    OTHER,
    TRUE,
    All,
    Comparison,
    Either,
    Expression,
    ExpressionFilter,
    IsNull,
    Membership,
    Negation,
)
from tests.support.frame_rows import NAMES, START_MS, drawn_rows, drawn_value, rows_within, time_at
from tests.support.seeds import examples, of_test

COMPARED: list[Callable[[Any, Any], pl.Expr]] = [
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
]
OFFSET, AT, NUMBER, TOPIC = pl.col("offset"), pl.col("at"), pl.col("number"), pl.col("topic")


def drawn(chance: random.Random, depth: int = 3) -> pl.Expr:
    if depth and chance.random() < 0.6:
        left, right = drawn(chance, depth - 1), drawn(chance, depth - 1)
        return chance.choice([left & right, left | right, ~left])
    column = chance.choice(["topic", "number", "offset", "at"])
    found, value = pl.col(column), drawn_value(chance, column)
    kind = chance.randrange(12)
    if kind == 0:
        return chance.choice([found.is_null(), found.is_not_null()])
    if kind == 1:
        values = pl.Series([value, drawn_value(chance, column)])
        return found.is_in(values.cast(pl.Datetime("ms", "UTC")) if column == "at" else values)
    if kind == 2:
        closed: Any = chance.choice(["both", "left", "right", "none"])
        ends = [pl.lit(value), pl.lit(drawn_value(chance, column))]
        if chance.random() < 0.5:  # an end that no bound can have
            others = [found, pl.lit(None)] if column in ("topic", "at") else [found, pl.lit(None), pl.lit(3.5)]
            ends[chance.randrange(2)] = chance.choice(others)
        between = found.is_between(ends[0], ends[1], closed=closed)
        return chance.choice([between, ~between])
    if kind == 3:
        return chance.choice([found.eq_missing(value), found.ne_missing(value)])
    if kind == 4:
        return chance.choice([pl.col("value") == b"9", OFFSET + 1 > 4, OFFSET > 3.5, pl.lit(value=True)])
    if kind == 5:
        return chance.choice(COMPARED)(pl.lit(value), found)
    return chance.choice(COMPARED)(found, value)


def optimized(frame: pl.DataFrame, predicate: pl.Expr) -> tuple[list[Any], Expression]:
    """The rows that pass, and the filter of the predicate in the form in which polars pushes it down."""
    pushed: list[Expression] = []

    def source(columns: Any, given: pl.Expr | None, *_: Any) -> Any:
        pushed.append(TRUE if given is None else expression_of(given, NAMES))
        found = frame if given is None else frame.filter(given)
        yield found if columns is None else found.select(columns)

    lazy = pl.io.plugins.register_io_source(source, schema=frame.schema)
    return lazy.filter(predicate).collect().rows(named=True), pushed[0] if pushed else FALSE


def test_no_row_that_polars_keeps_lies_outside_of_the_bounds() -> None:
    first, narrower = of_test(), 0
    for seed in range(first, first + examples(200)):
        chance = random.Random(seed)
        frame = pl.DataFrame(drawn_rows(chance))
        predicate = drawn(chance)
        wanted, pushed = optimized(frame, predicate)
        for given in (pushed, expression_of(predicate, NAMES)):
            row_filter = ExpressionFilter(given)
            read = rows_within(frame.rows(named=True), row_filter)
            assert all(row in read for row in wanted), f"seed {seed}: {predicate} is {given}"
        narrower += len(read) < frame.height
    assert narrower > examples(200) / 3


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (OFFSET > 5, Comparison("offset", ">", 5, 5)),
        (pl.lit(5) <= OFFSET, Comparison("offset", ">=", 5, 5)),
        (OFFSET == 5, Comparison("offset", "==", 5, 5)),
        (OFFSET != 5, Negation(Comparison("offset", "==", 5, 5))),
        (NUMBER < 2, Comparison("partition", "<", 2, 2)),
        (TOPIC == "a", Comparison("topic", "==", "a", "a")),
        (AT.is_null(), IsNull("timestamp")),
        (AT.is_not_null(), Negation(IsNull("timestamp"))),
        (AT.eq_missing(time_at(7)), Comparison("timestamp", "==", 7, 7, null_safe=True)),
        (time_at(START_MS) <= AT, Comparison("timestamp", ">=", START_MS, START_MS)),
        (pl.lit(5).cast(pl.Int64) > OFFSET, Comparison("offset", "<", 5, 5)),
        (NUMBER.cast(pl.Int64) == 1, Comparison("partition", "==", 1, 1)),
        (NUMBER.cast(pl.Int8) == 1, OTHER),
        (OFFSET > 5.5, OTHER),
        (OFFSET > NUMBER, OTHER),
        (pl.col("value") == b"x", OTHER),
        (NUMBER.is_in([2, 1]), Membership("partition", ((2, 2), (1, 1)))),
        (NUMBER.is_in(pl.Series([], dtype=pl.Int32)), Membership("partition", ())),
        (
            OFFSET.is_between(3, 9, closed="left"),
            All((Comparison("offset", ">=", 3, 3), Comparison("offset", "<", 9, 9))),
        ),
        (~OFFSET.is_between(3.5, 9), Negation(All((OTHER, Comparison("offset", "<=", 9, 9))))),
        (~OFFSET.is_between(NUMBER, None), Negation(All((OTHER, OTHER)))),
        (
            ~(OFFSET > 5) | (NUMBER == 1),
            Either((Negation(Comparison("offset", ">", 5, 5)), Comparison("partition", "==", 1, 1))),
        ),
        (pl.lit(value=False), FALSE),
        (pl.lit(None) == OFFSET, OTHER),
    ],
)
def test_a_predicate_is_read(predicate: pl.Expr, expected: Expression) -> None:
    assert expression_of(predicate, NAMES) == expected


def test_a_form_that_is_not_known_bounds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Meta:
        text = ""

        def serialize(self, **_: object) -> str:
            return self.text

    monkeypatch.setattr(pl.Expr, "meta", Meta())
    for text in (
        '{"BinaryExpr": 1}',
        '{"New": {}}',
        "[]",
        "no JSON",
        '{"Function": {"input": [], "function": {"Boolean": "Not"}}}',
    ):
        monkeypatch.setattr(Meta, "text", text)
        assert expression_of(OFFSET > 5, NAMES) == OTHER
