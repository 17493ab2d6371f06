"""`consumer/fetch/suspects.py`: the partition whose batch makes a response too long is found, and fails last."""

from __future__ import annotations

import uuid

import pytest

from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.consumer.fetch.suspects import Suspects
from kafwire.errors import KafkaError, RecordTooLargeError

TOO_LONG = KafkaError("a response of 2000 bytes")


def cursors(count: int) -> list[FetchCursor]:
    return [FetchCursor(i, "t", uuid.UUID(int=1), i, position=7) for i in range(count)]


def test_the_partitions_of_a_long_response_are_suspects_in_their_order() -> None:
    suspects, (a, b, c) = Suspects(1000), cursors(3)
    assert not suspects.are_pending
    assert suspects.first([a, b]) is None
    suspects.note({b: 7, a: 7}, TOO_LONG)
    assert suspects.are_pending
    assert suspects.first([c, a, b]) is a
    suspects.clear(a)
    assert suspects.first([c, a, b]) is b
    assert suspects.are_pending
    suspects.clear(b)
    assert not suspects.are_pending


def test_a_suspect_alone_is_convicted_by_its_second_response_and_fails_once() -> None:
    suspects, (a, b) = Suspects(1000), cursors(2)
    suspects.note({a: 7}, TOO_LONG)
    assert suspects.take_error(a) is None, "the first response may have been damaged"
    suspects.note({a: 7}, TOO_LONG)
    assert suspects.first([a, b]) is None
    assert suspects.are_pending
    assert suspects.take_error(b) is None
    error = suspects.take_error(a)
    assert isinstance(error, RecordTooLargeError)
    assert str(error) == (
        "MESSAGE_TOO_LARGE (10): the batch of t-0 at offset 7 makes a response that is longer than "
        "max_frame_bytes (1000): raise max_frame_bytes, or seek behind the batch (a response of 2000 bytes)"
    )
    assert not suspects.are_pending
    assert suspects.take_error(a) is None


def test_two_responses_of_several_partitions_convict_none() -> None:
    suspects, (a, b) = Suspects(1000), cursors(2)
    suspects.note({a: 7, b: 7}, TOO_LONG)
    suspects.note({a: 7, b: 7}, TOO_LONG)
    assert suspects.take_error(a) is None
    assert suspects.first([b, a]) is b


@pytest.mark.parametrize("sought", ["before", "after"], ids=lambda when: f"seek {when} the response")
def test_a_seek_saves_a_partition(sought: str) -> None:
    suspects, (a,) = Suspects(1000), cursors(1)
    suspects.note({a: 7}, TOO_LONG)
    if sought == "before":
        a.seek(9, 1)
    suspects.note({a: 7}, TOO_LONG)
    if sought == "after":
        a.seek(9, 1)
    assert suspects.take_error(a) is None
    assert not suspects.are_pending


def test_a_dropped_cursor_is_forgotten() -> None:
    suspects, (a, b) = Suspects(1000), cursors(2)
    suspects.note({a: 7}, TOO_LONG)
    suspects.note({a: 7}, TOO_LONG)
    suspects.note({b: 7}, TOO_LONG)
    suspects.forget(b)
    assert suspects.are_pending
    suspects.forget(a)
    assert not suspects.are_pending
    assert suspects.take_error(a) is None
