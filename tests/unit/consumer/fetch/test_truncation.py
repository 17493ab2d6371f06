"""`consumer.fetch.truncation`: the decision for a log that was cut."""

from __future__ import annotations

import uuid

import pytest

from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.consumer.fetch.truncation import Divergence, Place, Truncation, beyond_end, is_behind, parts_from, place_of


def at(position: int, epoch: int) -> FetchCursor:
    """A cursor that is there, after a record of that leader epoch."""
    return FetchCursor(0, "t", uuid.UUID(int=1), 0, position=position, last_epoch=epoch)


@pytest.mark.parametrize(("end_offset", "offset"), [(0, 0), (7, 7), (20, 20), (21, 20), (-1, 0)])
def test_reading_continues_at_the_divergence(end_offset: int, offset: int) -> None:
    found = Truncation(at(20, 4), Divergence(3, end_offset), "broker 1")
    assert (found.epoch, found.offset) == (3, offset)
    assert (found.error.position, found.error.offset) == (20, offset)
    assert str(found.error) == (
        f"t-0 was fetched up to offset 20, but the log that broker 1 has agrees with that only up to {offset}: "
        f"a leader without the rest was elected; seek to {offset} to read the present records"
    )


@pytest.mark.parametrize(
    ("reported", "parts"),
    [
        ((-1, -1), False),  # it knows nothing of it
        ((4, 20), False),
        ((4, 30), False),
        ((4, 19), True),
        ((3, 20), True),
        ((3, 30), True),
    ],
)
def test_the_leader_s_end_of_an_epoch_decides(reported: tuple[int, int], *, parts: bool) -> None:
    assert parts_from(Divergence(*reported), position=20, epoch=4) is parts


@pytest.mark.parametrize(("leader_epoch", "behind"), [(-1, False), (0, True), (3, True), (4, False), (5, False)])
def test_a_leader_of_before_is_behind(leader_epoch: int, *, behind: bool) -> None:
    assert is_behind(at(20, 4), leader_epoch) is behind
    assert not is_behind(at(20, -1), leader_epoch)


@pytest.mark.parametrize(
    ("position", "place"),
    [(4, Place.BEFORE), (5, Place.WITHIN), (9, Place.WITHIN), (10, Place.WITHIN), (11, Place.BEYOND)],
)
def test_a_position_in_a_log(position: int, place: Place) -> None:
    assert place_of(position, 5, 10) is place


def test_a_position_beyond_the_end_is_an_error() -> None:
    error = beyond_end(at(20, 4), 10, "none knows it")
    assert str(error) == "none knows it; the log ends at 10: seek to 10 to read what comes there"
    assert (error.topic, error.partition, error.position, error.offset) == ("t", 0, 20, 10)
