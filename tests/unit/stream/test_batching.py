"""`Batcher` against a list that is cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafwire.records import Record
from kafwire.stream.batching import Batcher
from tests.support import seeds


def records(*offsets: int) -> list[Record]:
    return [Record(b"", offset=offset) for offset in offsets]


@settings(max_examples=seeds.examples(200), deadline=None)
@given(sizes=st.lists(st.integers(0, 9), max_size=12), most=st.integers(1, 5))
def test_lists_are_full_and_in_order(sizes: list[int], most: int) -> None:
    batcher = Batcher(most, None)
    made, offset = [], 0
    for size in sizes:
        part = records(*range(offset, offset + size))
        offset += size
        made += batcher.add([record.offset for record in part], part, 0.0)
        assert len(batcher) < most
    rest = batcher.flush()
    assert all(len(values) == most for values, _ in made)
    every = [*made, *([] if rest is None else [rest])]
    assert [value for values, _ in every for value in values] == list(range(offset))
    assert all(gathered.next_offset == values[-1] + 1 for values, gathered in every)
    assert batcher.flush() is None


def test_time_begins_with_the_first_value() -> None:
    batcher = Batcher(3, 2.0)
    assert batcher.due_at is None
    batcher.add([0], records(0), 10.0)
    batcher.add([1], records(1), 11.0)
    assert batcher.due_at == 12.0
    batcher.add([2], records(2), 11.5)
    assert batcher.due_at is None
    batcher.add([3], records(3), 20.0)
    assert batcher.due_at == 22.0
    batcher.flush()
    assert batcher.due_at is None


def test_a_record_whose_values_are_cut_apart_ends_in_the_last_list() -> None:
    first, second = records(0, 1)
    batcher = Batcher(2, None)
    made = batcher.add(["a", "b", "c", "d"], [first, second, second, second], 0.0)
    assert [(values, gathered.next_offset) for values, gathered in made] == [(["a", "b"], 1), (["c", "d"], 2)]


def test_by_length_batches_are_not_cut() -> None:
    batcher = Batcher(4, None, by_length=True)
    made = batcher.add([[1, 2, 3], [4, 5], [6]], records(0, 1, 2), 0.0)
    assert [values for values, _ in made] == [[[1, 2, 3], [4, 5]]]
    assert len(batcher) == 1


@pytest.mark.parametrize("values", [[], [[]]])
def test_nothing_makes_no_list(values: list[list[int]]) -> None:
    batcher = Batcher(1, None, by_length=True)
    assert batcher.add(values, records(*range(len(values))), 0.0) == []
