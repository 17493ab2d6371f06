"""Filters of pyarrow as filters of a scan."""

from __future__ import annotations

import operator
import random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kafwire.frames.arrow_filter import MOST_CUTS, ArrowFilter
from kafwire.scanner.row_filter import END, NOTHING, WHOLE, Bounds
from tests.support.frame_rows import NAMES, SCHEMA, START_MS, drawn_rows, drawn_value, rows_within, time_at
from tests.support.seeds import examples, of_test

COMPARED = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
OFFSET, AT, NUMBER, TOPIC = (pc.field(name) for name in ("offset", "at", "number", "topic"))


def drawn(chance: random.Random, depth: int = 3) -> Any:
    if depth and chance.random() < 0.6:
        left, right = drawn(chance, depth - 1), drawn(chance, depth - 1)
        return chance.choice([left & right, left | right, ~left])
    column = chance.choice(["topic", "number", "offset", "at"])
    found, value = pc.field(column), drawn_value(chance, column)
    kind = chance.randrange(10)
    if kind == 0:
        return chance.choice([found.is_null(), found.is_valid()])
    if kind == 1:
        values = pa.array([value, drawn_value(chance, column)])
        if column == "at":
            values = values.cast(pa.timestamp("ms", "UTC"), safe=False)
        isin = found.isin(values)
        return chance.choice([isin, pc.if_else(found.is_valid(), isin, pa.scalar(None, pa.bool_()))])
    if kind == 2:
        return chance.choice([pc.field("value") == b"9", OFFSET + 1 > 4, OFFSET > 3.5, pc.scalar(True)])
    if column == "at" and chance.random() < 0.5:
        value = pa.scalar(value, pa.timestamp("us", "UTC")).cast(pa.timestamp("ms", "UTC"), safe=False)
    return chance.choice(COMPARED)(found, value)


def test_no_row_that_arrow_keeps_lies_outside_of_the_bounds() -> None:
    first, narrower = of_test(), 0
    for seed in range(first, first + examples(200)):
        chance = random.Random(seed)
        rows = drawn_rows(chance)
        given = drawn(chance)
        row_filter = ArrowFilter(given, SCHEMA, NAMES)
        read = rows_within(rows.to_pylist(), row_filter)
        assert all(row in read for row in rows.filter(given).to_pylist()), f"seed {seed}: {given}"
        narrower += len(read) < rows.num_rows
    assert narrower > examples(200) / 3


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (OFFSET > 5, Bounds(first=6)),
        ((OFFSET > 5) & (OFFSET <= 9), Bounds(6, 10)),
        (~(OFFSET > 5), Bounds(stop=6)),
        (OFFSET.isin([3, 9]), Bounds(3, 10)),
        ((OFFSET == 3) | (pc.field("value") == b"1"), WHOLE),
        ((OFFSET > 5) & (OFFSET < 3), NOTHING),
        (AT.is_null(), Bounds(since=0, until=0)),
        (time_at(START_MS) <= AT, Bounds(since=START_MS, with_null=False)),
        ((time_at(0) <= AT) & (time_at(9) > AT), Bounds(since=0, until=9, with_null=False)),
        ((time_at(START_MS) <= AT) | AT.is_null(), Bounds(since=START_MS, until=END)),
        (NUMBER == 7, WHOLE),
        (pc.field("value") == b"9", WHOLE),
        (pc.field("value") == b"0" * 3000, WHOLE),  # 6,000 digits in the filter's text
        ((TOPIC == "2013-99-99 10:00:00") & (OFFSET > 5), Bounds(first=6)),  # no time
    ],
)
def test_bounds_of_a_filter(given: Any, expected: Bounds) -> None:
    assert ArrowFilter(given, SCHEMA, NAMES).bounds() == expected


def test_partitions_that_cannot_pass_are_left_out() -> None:
    either = ((NUMBER == 0) & (OFFSET < 5)) | ((NUMBER == 1) & (OFFSET >= 90) & (TOPIC == "a"))
    row_filter = ArrowFilter(either, SCHEMA, NAMES)
    assert row_filter.bounds("a", 0) == Bounds(stop=5)
    assert row_filter.bounds("a", 1) == Bounds(first=90)
    assert row_filter.bounds("b", 1) == NOTHING
    assert row_filter.bounds("a", 2) == NOTHING
    listed = pc.if_else(NUMBER.is_valid(), NUMBER.isin([1, 2]), pa.scalar(None, pa.bool_()))  # DuckDB's IN
    assert [ArrowFilter(listed, SCHEMA, NAMES).bounds("a", number).is_empty for number in range(4)] == [
        *(True, False, False, True)
    ]


def test_many_values_are_cut_at_some_of_them() -> None:
    given = OFFSET.isin(list(range(10_000, 90_000, 7)))
    bounds = ArrowFilter(given, SCHEMA, NAMES).bounds()
    assert bounds.first <= 10_000
    assert bounds.stop > 89_993
    assert len(ArrowFilter(given, SCHEMA, NAMES)._offsets) <= MOST_CUTS + 1


def test_a_bound_that_cannot_be_cast_bounds_nothing() -> None:
    exact = (1 << 53) + 1  # no double
    given = (OFFSET.cast(pa.float64()) == 3.5) | (exact == OFFSET)
    rows = pa.Table.from_pylist([{"offset": 3}], SCHEMA)
    assert rows.filter(given).num_rows == 0
    assert ArrowFilter(given, SCHEMA, NAMES).bounds() == WHOLE
    assert ArrowFilter(pc.field("missing") == exact, SCHEMA, NAMES).bounds() == WHOLE


def test_a_table_without_the_columns_is_bounded_by_nothing() -> None:
    schema = pa.schema([("value", pa.binary())])
    assert ArrowFilter(pc.field("value") == b"9", schema, {}).bounds("t", 0) == WHOLE
    assert ArrowFilter(pc.scalar(False), schema, {}).bounds("t", 0) == NOTHING
