"""`consumer.leader_epochs`: which leader epoch a commit names, against a log that is fetched in pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafwire.consumer.leader_epochs import MOST, FetchedEpochs

LOG = [0] * 7 + [1] * 5 + [4] * 9 + [6] * 3  # the epoch of each record


@given(st.lists(st.tuples(st.integers(0, len(LOG)), st.integers(0, len(LOG)), st.booleans()), max_size=12))
def test_what_is_told_is_true(pieces: list[tuple[int, int, bool]]) -> None:
    it = FetchedEpochs()
    known: dict[int, int] = {}
    for first, last, cut in pieces:
        start, end = min(first, last), max(first, last)
        known = {offset: epoch for offset, epoch in known.items() if offset < start}
        if cut:
            it.cut(start)
            continue
        for epoch in sorted(set(LOG)):
            of_epoch = [offset for offset in range(start, end) if LOG[offset] == epoch]
            if of_epoch:
                it.note(of_epoch[0], of_epoch[-1] + 1, epoch)
                known |= dict.fromkeys(of_epoch, epoch)
        if start == end:
            it.note(start, end, 0)
    assert [it.before(offset) for offset in range(len(LOG) + 1)] == [
        known.get(offset - 1, -1) for offset in range(len(LOG) + 1)
    ]


def test_an_epoch_that_is_not_known_is_not_guessed() -> None:
    it = FetchedEpochs()
    it.note(0, 5, 2)
    it.note(5, 8, -1)
    it.note(8, 9, 2)
    assert [it.before(offset) for offset in (0, 5, 6, 8, 9, 10)] == [-1, 2, -1, -1, 2, -1]


def test_the_latest_are_remembered() -> None:
    it = FetchedEpochs()
    for epoch in range(MOST + 3):
        it.note(epoch, epoch + 1, epoch)
    assert [it.before(offset) for offset in (1, 3, 4, MOST + 3)] == [-1, -1, 3, MOST + 2]


def test_what_says_nothing_takes_no_place() -> None:
    it = FetchedEpochs()
    for epoch in range(MOST):
        it.note(epoch, epoch + 1, epoch)
    it.note(MOST, MOST + 5, -1)
    it.note(MOST + 5, MOST + 5, MOST)
    assert it.before(1) == 0
    it.note(MOST + 5, MOST + 6, MOST)
    assert it.before(1) == -1
    assert it.before(MOST + 6) == MOST
