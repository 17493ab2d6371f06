"""Filters as bounds of a read: no record that passes lies outside, and exact bounds have no other record."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from kafwire.scanner.narrowing import both_windows, narrowed
from kafwire.scanner.ranges import Range
from kafwire.scanner.row_filter import (
    END,
    FALSE,
    LOWEST,
    NOTHING,
    OTHER,
    TRUE,
    WHOLE,
    All,
    Bounds,
    Comparison,
    Constant,
    Either,
    Expression,
    ExpressionFilter,
    IsNull,
    Membership,
    Negation,
)
from tests.support.seeds import examples, of_test

COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
TIMES = (LOWEST, -7, 0, 2, 8, END - 1, None)


@dataclass(frozen=True)
class Row:
    topic: str
    partition: int
    offset: int
    timestamp: int | None
    other: bool | None = True


ROWS = [
    Row(topic, partition, offset, timestamp, other)
    for topic in "ab"
    for partition in range(2)
    for offset in (0, 1, 3, 6, 7)
    for timestamp in TIMES
    for other in (True, False, None)
]


def passes(row: Row, given: Expression) -> bool | None:
    """SQL's result of a filter: the plain reading of each kind, without bounds."""
    match given:
        case Constant():
            return row.other if given.value is None else given.value
        case Comparison():
            value = getattr(row, given.column)
            if value is None:
                return False if given.null_safe and given.sign == "==" else None
            return COMPARED[given.sign](value, given.low)
        case Membership():
            value = getattr(row, given.column)
            return None if value is None else any(value == low for low, _ in given.values)
        case IsNull():
            return getattr(row, given.column) is None
        case Negation():
            found = passes(row, given.inner)
            return None if found is None else not found
        case All() | Either():
            results = [passes(row, part) for part in given.parts]
            decides = isinstance(given, Either)
            return decides if decides in results else None if None in results else not decides
    raise AssertionError(given)


def drawn_value(chance: random.Random, column: str) -> Any:
    draws: dict[str, Callable[[], Any]] = {
        "topic": lambda: chance.choice("abc"),
        "partition": lambda: chance.randrange(-1, 3),
        "offset": lambda: chance.choice([-1, 0, 1, 3, 6, 7, 9, END - 1, END + 4]),
        "timestamp": lambda: chance.choice([LOWEST, -8, -7, 0, 1, 2, 3, 4, 8, 9, 10, END - 1, END]),
    }
    return draws[column]()


def drawn(chance: random.Random, depth: int = 3) -> Expression:
    if depth and chance.random() < 0.6:
        parts = tuple(drawn(chance, depth - 1) for _ in range(chance.randint(1, 3)))
        choices: list[Expression] = [All(parts), Either(parts), Negation(parts[0])]
        return chance.choice(choices)
    if chance.random() < 0.15:
        return chance.choice([TRUE, FALSE, OTHER])
    column: Any = chance.choice(["topic", "partition", "offset", "timestamp"])
    if chance.random() < 0.1:
        return IsNull(column)
    if chance.random() < 0.3:
        values = [drawn_value(chance, column) for _ in range(chance.randrange(4))]
        return Membership(column, tuple((each, each) for each in values))
    sign: Any = chance.choice(list(COMPARED))
    value = drawn_value(chance, column)
    return Comparison(column, sign, value, value, null_safe=sign == "==" and chance.random() < 0.5)


def within(row: Row, bounds: Bounds) -> bool:
    timed = bounds.with_null if row.timestamp is None else bounds.since <= row.timestamp < bounds.until
    return bounds.first <= row.offset < bounds.stop and timed


def test_no_record_that_passes_lies_outside_of_random_bounds() -> None:
    first, narrower, exact = of_test(), 0, 0
    for seed in range(first, first + examples(150)):
        given = drawn(random.Random(seed))
        row_filter = ExpressionFilter(given)
        everywhere = row_filter.bounds()
        bounds = {(t, p): row_filter.bounds(t, p) for t in "ab" for p in range(2)}
        read = [row for row in ROWS if within(row, bounds[row.topic, row.partition])]
        wanted = [row for row in ROWS if passes(row, given) is True]
        assert set(wanted) <= set(read), f"seed {seed}: {given}"
        assert all(within(row, everywhere) for row in wanted), f"seed {seed}: {given}"
        if given.is_exact():
            assert read == wanted, f"seed {seed}: {given}"
            exact += 1
        narrower += len(read) < len(ROWS)
    assert narrower > examples(150) / 3
    assert exact > examples(150) / 10


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Comparison("offset", ">=", 5, 5), Bounds(first=5)),
        (Comparison("offset", ">", 5, 5), Bounds(first=6)),
        (Negation(Comparison("offset", ">", 5, 5)), Bounds(stop=6)),
        (Comparison("offset", "==", 5, 5), Bounds(5, 6)),
        (Membership("offset", ((9, 9), (3, 3))), Bounds(3, 10)),
        (Membership("offset", ()), NOTHING),
        (Comparison("offset", "<", 0, 0), NOTHING),
        (Comparison("timestamp", ">=", 7, 7), Bounds(since=7, with_null=False)),
        (Comparison("timestamp", ">", 7, 8), Bounds(since=7, with_null=False)),
        (Comparison("timestamp", "<", 7, 8), Bounds(until=8, with_null=False)),
        (Comparison("timestamp", "<=", 7, 8), Bounds(until=9, with_null=False)),
        (Comparison("timestamp", "==", 7, 8), Bounds(since=7, until=9, with_null=False)),
        (Negation(Comparison("timestamp", "==", 7, 7)), Bounds(with_null=False)),
        (Negation(Comparison("timestamp", "==", 7, 7, null_safe=True)), WHOLE),
        (
            Either((Comparison("timestamp", ">=", 7, 7), IsNull("timestamp"))),
            Bounds(since=7, until=END),
        ),
        (
            All((Comparison("timestamp", ">=", 7, 7), Comparison("timestamp", "<", 3, 3))),
            NOTHING,
        ),
    ],
)
def test_bounds_of_an_expression(given: Expression, expected: Bounds) -> None:
    assert ExpressionFilter(given).bounds() == expected


def test_each_partition_has_its_own_bounds() -> None:
    low = All((Comparison("partition", "==", 0, 0), Comparison("offset", "<", 5, 5)))
    high = All((Comparison("partition", "==", 1, 1), Comparison("offset", ">=", 90, 90)))
    row_filter = ExpressionFilter(Either((low, high)))
    assert row_filter.bounds("t", 0) == Bounds(stop=5)
    assert row_filter.bounds("t", 1) == Bounds(first=90)
    assert row_filter.bounds("t", 2) == NOTHING
    assert row_filter.bounds() == WHOLE
    ranges = [Range("t", partition, 3, 80) for partition in range(3)]
    assert [part for part, _ in narrowed(ranges, row_filter)] == [Range("t", 0, 3, 5)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (WHOLE, None),
        (Bounds(since=5), None),  # records without a timestamp pass
        (Bounds(with_null=False), None),
        (Bounds(since=5, with_null=False), None),  # the latest time of all passes
        (Bounds(5, 9, 5, 8, with_null=False), (5, 8)),
        (Bounds(until=5, with_null=False), (LOWEST, 5)),
    ],
)
def test_the_window_of_a_scan(given: Bounds, expected: tuple[int, int] | None) -> None:
    assert given.window == expected


def test_two_windows_are_read_where_they_overlap() -> None:
    assert both_windows(None, None) is None
    assert both_windows((1, 5), None) == both_windows(None, (1, 5)) == (1, 5)
    assert both_windows((1, 5), (3, 9)) == (3, 5)
    assert both_windows((1, 5), (7, 9)) == (7, 7)


LOW, HIGH = Comparison("offset", "<", 3, 3), Comparison("offset", ">", 5, 5)


@pytest.mark.parametrize(
    ("given", "exact"),
    [
        (LOW, True),
        (Negation(LOW), True),
        (All((LOW, HIGH)), True),
        (Either((LOW, HIGH)), False),
        (Negation(All((LOW, HIGH))), False),
        (Negation(Either((LOW, HIGH))), True),
        (Either((Comparison("partition", "==", 0, 0), Comparison("topic", "<", "b", "b"))), True),
        (Either((Comparison("partition", "==", 0, 0), HIGH)), False),
        (Negation(Comparison("offset", "==", 3, 3)), False),
        (Membership("offset", ((3, 3), (4, 4))), True),
        (Membership("offset", ((3, 3), (5, 5))), False),
        (Negation(Membership("offset", ((3, 3), (4, 4)))), False),
        (Negation(Membership("partition", ((3, 3), (5, 5)))), True),
        (Comparison("timestamp", ">", 5, 5), False),
        (IsNull("timestamp"), False),
        (All((LOW, OTHER)), False),
        (FALSE, True),
    ],
)
def test_bounds_are_exact(given: Expression, exact: bool) -> None:
    assert given.is_exact() is exact
