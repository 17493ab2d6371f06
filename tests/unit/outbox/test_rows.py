"""Rows of an outbox, and their records."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire.errors import ConfigError
from kafwire.outbox.rows import read_row, row_of

ROW = (1, "orders", "17", b"ordered", '{"type": "order"}', "2026-01-01")


def test_a_row_as_sqlite_has_it() -> None:
    row = row_of(ROW)
    assert row[:5] == (1, "orders", b"17", b"ordered", (("type", b"order"),))


def test_each_driver_has_the_same_row() -> None:
    """psycopg decodes JSON and has bytes, psycopg2 a memoryview."""
    others = [
        (1, "orders", b"17", memoryview(b"ordered"), {"type": "order"}, "2026-01-01"),
        (1, "orders", "17", bytearray(b"ordered"), [["type", "order"]], "2026-01-01"),
        (1, "orders", "17", "ordered", b'[["type", "order"]]', "2026-01-01"),
    ]
    assert [row_of(row) for row in others] == [row_of(ROW)] * 3


def test_null_is_a_value_too() -> None:
    assert row_of((1, "orders", None, None, None, "")).value is None
    assert row_of((1, "orders", None, None, None, "")).key is None
    assert row_of((1, "orders", "", "", '{"a": null}', ""))[2:5] == (b"", b"", (("a", None),))


@pytest.mark.parametrize("column", range(6))
def test_rows_that_differ_in_a_column_have_other_checks(column: int) -> None:
    other = (2, "bills", "18", b"paid", '{"type": "bill"}', "2026-01-02")[column]
    assert row_of((*ROW[:column], other, *ROW[column + 1 :])).check != row_of(ROW).check


@pytest.mark.parametrize(
    ("column", "value", "what"),
    [
        (0, 0, "its id is not a number of 1 or more"),
        (0, "x", "row x"),
        (1, None, "its topic is not text"),
        (1, "", "its topic is not text"),
        (2, 17, "aggregate_key is of type int"),
        (3, {"a": 1}, "payload is of type dict"),
        (4, "{", "row 1"),
        (4, "3", "headers are not"),
        (4, '"ab"', "headers are not"),
        (4, '{"a": 3}', "header 'a' is of type int"),
        (4, '[["a"]]', "a pair of a name and a text"),
        (4, '["ab"]', "a pair of a name and a text"),
        (4, '{"\\ud800": "a"}', "surrogates not allowed"),
    ],
)
def test_a_value_that_no_record_can_have_is_an_error_with_the_row(column: int, value: Any, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        row_of((*ROW[:column], value, *ROW[column + 1 :]))


@pytest.mark.parametrize(("column", "value"), [(1, ""), (2, 17), (3, {"a": 1}), (3, "\ud800"), (4, "{")])
def test_a_row_that_no_record_can_have_is_read_with_its_problem(column: int, value: Any) -> None:
    columns = (*ROW[:column], value, *ROW[column + 1 :])
    row = read_row(columns)
    assert row.id == 1
    assert str(row.problem).startswith("row 1 of the outbox cannot be sent: ")
    assert row.check == read_row(columns).check != read_row((*columns[:5], "2026-01-02")).check
    assert read_row(ROW) == row_of(ROW)


def test_a_bad_row_has_one_check_by_each_driver() -> None:
    """The repr of a memoryview would have its address."""
    rows = [(1, "orders", "17", kind(b"ordered"), "{", "") for kind in (bytes, bytearray, memoryview, memoryview)]
    assert len({read_row(row).check for row in rows}) == 1


@pytest.mark.parametrize("number", [0, -1, None, "x"])
def test_a_row_without_a_usable_id_is_an_error(number: Any) -> None:
    with pytest.raises(ConfigError, match="cannot be sent"):
        read_row((number, *ROW[1:]))
