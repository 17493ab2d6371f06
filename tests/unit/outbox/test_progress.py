"""The journal of a relay about its rows, and reading it again."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.errors import ProtocolError
from kafwire.outbox.progress import Letter, Progress, ranges

ROWS = st.dictionaries(st.integers(1, 1 << 62), st.integers(0, (1 << 32) - 1), max_size=40)
NEAR = st.dictionaries(st.integers(1, 60), st.integers(0, (1 << 32) - 1), max_size=40)


@given(number=st.integers(0, 1 << 62), rows=ROWS | NEAR)
def test_written_progress_is_read(number: int, rows: dict[int, int]) -> None:
    assert Progress.decode(Progress(number, rows).encode()) == Progress(number, rows)


@given(rows=NEAR, table=st.sampled_from(["letters", "shop.letters"]), reason=st.text(max_size=50))
def test_where_refused_rows_go_is_read_again(rows: dict[int, int], table: str, reason: str) -> None:
    progress = Progress(3, rows, Letter(table, reason))
    assert Progress.decode(progress.encode()) == progress


def test_a_relay_that_knows_no_dead_letters_refuses_them() -> None:
    """Such a relay would delete a row that is to be moved."""
    assert json.loads(Progress(1, {1: 1}, Letter("letters", "large")).encode())["version"] == 2


def test_people_can_read_it() -> None:
    found = json.loads(Progress(17, {9: 1, 5: 2, 6: 3, 7: 4}).encode())
    assert found == {"version": 1, "number": 17, "ids": "5-7,9", "crc32": "AAAAAgAAAAMAAAAEAAAAAQ=="}


def test_rows_in_a_line_take_little_room() -> None:
    rows = {number: number for number in range(1_000_000, 1_000_500)}
    assert len(Progress(1, rows).encode()) < 3000


@given(rows=NEAR)
def test_ranges_cover_the_ids_and_nothing_else(rows: dict[int, int]) -> None:
    found = list(ranges(rows))
    assert [number for low, high in found for number in range(low, high + 1)] == sorted(rows)
    assert all(high + 1 < low for (_, high), (low, _) in pairwise(found))


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"\xff",
        b"{}",
        b'{"version":3,"number":1,"ids":"","crc32":""}',
        b'{"version":2,"number":1,"ids":"","crc32":""}',
        b'{"version":2,"number":1,"ids":"","crc32":"","letter":{"table":"letters"}}',
        b'{"version":2,"number":1,"ids":"","crc32":"","letter":{"table":"a; DROP TABLE b","reason":""}}',
        b'{"version":1,"number":1,"ids":"1-2","crc32":"AAAAAg=="}',
        b'{"version":1,"number":1,"ids":"a","crc32":"AAAAAg=="}',
        b'{"version":1,"number":1,"ids":"1","crc32":"?"}',
    ],
)
def test_another_value_is_refused(value: bytes) -> None:
    with pytest.raises(ProtocolError, match="cannot be read"):
        Progress.decode(value)
