"""`scanner.plan`: cursors move forward only, and nobody waits for ever for its turn."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.errors import ProtocolError
from kafwire.scanner.plan import Cursor, Rotation, finish_invisible

TOPIC_ID = uuid.UUID(int=1)


def cursor(number: int, position: int = 0, end: int = 10) -> Cursor:
    return Cursor(number, "t", TOPIC_ID, number, position, end)


def test_a_cursor_is_done_at_its_end() -> None:
    assert cursor(0, 10, 10).done
    assert not cursor(0, 9, 10).done


def test_a_cursor_moves_forward_only() -> None:
    it = cursor(3, 5)
    it.failing_since_ms = 1.0
    it.advance(7)
    assert it.position == 7
    assert it.failing_since_ms is None
    for offset in (7, 6, -1):
        with pytest.raises(ProtocolError, match="answered t-3 from offset 7 with batches that end before it"):
            it.advance(offset)
    it.advance(100)
    assert it.done


def test_finished_cursors_are_not_taken_in() -> None:
    rotation = Rotation([cursor(0), cursor(1, 10)])
    rotation.add([cursor(2, 11), cursor(3)])
    assert [c.number for c in rotation.order] == [0, 3]
    assert len(rotation) == 2


def test_the_served_go_to_the_back_and_the_lost_leave() -> None:
    cursors = [cursor(n) for n in range(5)]
    rotation = Rotation(cursors)
    cursors[3].position = 10
    assert rotation.settle({0, 2}, {1}) == [cursors[1]]
    assert [c.number for c in rotation.order] == [4, 0, 2]


def test_the_order_is_a_copy() -> None:
    rotation = Rotation([cursor(0)])
    rotation.order.clear()
    assert len(rotation) == 1


batch_sizes = st.lists(st.integers(1, 40), min_size=0, max_size=12)


@given(st.lists(batch_sizes, min_size=1, max_size=10), st.integers(1, 50))
def test_no_cursor_with_data_waits_for_more_answers_than_there_are_cursors(
    partitions: list[list[int]], max_bytes: int
) -> None:
    """The broker's side: it goes through the request in order and fills the answer to `max_bytes`.

    The first partition that has data gives one batch whatever its size; a later one gives the batches that are whole
    within what is left. A partition without batches is one whose tail is invisible: it stays, and hinders nobody.
    """
    left = {number: list(sizes) for number, sizes in enumerate(partitions)}
    cursors = {number: cursor(number, 0, len(sizes) + 1) for number, sizes in left.items()}
    rotation = Rotation(cursors.values())
    waited = dict.fromkeys(left, 0)
    while any(left.values()):
        served: set[int] = set()
        room = max_bytes
        for asked in rotation.order:
            sizes = left[asked.number]
            taken = 0
            while taken < len(sizes) and (sizes[taken] <= room or not (served or taken)):
                room -= sizes[taken]
                taken += 1
            if taken:
                served.add(asked.number)
                asked.advance(asked.position + taken)
                del sizes[:taken]
        for number, sizes in left.items():
            waited[number] = 0 if number in served or not sizes else waited[number] + 1
        assert max(waited.values()) < len(left)
        rotation.settle(served, set())


def test_an_empty_answer_ends_those_whose_end_the_broker_has_passed() -> None:
    passed, exactly, behind, untold = cursor(0), cursor(1), cursor(2), cursor(3)
    finished = finish_invisible([passed, exactly, behind, untold], {0: 11, 1: 10, 2: 9})
    assert finished == [passed, exactly]
    assert passed.done
    assert exactly.done
    assert not behind.done
    assert not untold.done
