"""`consumer.fetch.epochs`: which leader epoch a commit names, against a log that is fetched in pieces."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.broker.groups.offsets_topic import Committed as Kept
from kafwire.consumer.fetch.epochs import MOST, FetchedEpochs
from kafwire.types import TopicPartition
from tests.support.simulated.consumer import Consuming, fill, log_of, write
from tests.support.simulated.world import World

in_all_shapes = pytest.mark.usefixtures("shape")

WHERE = TopicPartition("t", 0)

LOG = [0] * 7 + [1] * 5 + [4] * 9 + [6] * 3  # the epoch of each record


@given(st.lists(st.tuples(st.integers(0, len(LOG)), st.integers(0, len(LOG)), st.booleans()), max_size=12))
def test_the_reported_epochs_are_true(pieces: list[tuple[int, int, bool]]) -> None:
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


def test_empty_ranges_and_unknown_epochs_take_no_place() -> None:
    it = FetchedEpochs()
    for epoch in range(MOST):
        it.note(epoch, epoch + 1, epoch)
    it.note(MOST, MOST + 5, -1)
    it.note(MOST + 5, MOST + 5, MOST)
    assert it.before(1) == 0
    it.note(MOST + 5, MOST + 6, MOST)
    assert it.before(1) == -1
    assert it.before(MOST + 6) == MOST


def changing(world: World, *, each: int = 6) -> dict[int, int]:
    """Batches of several leaders, one after the other; the epoch of the record before each offset."""
    fill(world, "t", batches=each)
    epochs = dict.fromkeys(range(1, log_of(world).end + 1), 0)
    for epoch in (1, 2, 5):
        log_of(world).lead(1, epoch)
        before = log_of(world).end
        write(world, "t", 0, each, 3)
        epochs |= dict.fromkeys(range(before + 1, log_of(world).end + 1), epoch)
    return epochs


@in_all_shapes
@pytest.mark.parametrize("lag_ms", [0, 30])
@pytest.mark.parametrize("at_most", [200, 100_000])
@pytest.mark.parametrize("by", ["processed", "batch", "offset", "automatic"])
def test_commits_name_the_leader_epoch_of_the_last_delivered_record(by: str, at_most: int, lag_ms: int) -> None:
    """Whatever is buffered beyond it, and before the engine has seen what the I/O thread gave out."""
    with World() as world:
        epochs = changing(world)
        world.engine_lag_s = lambda: lag_ms / 1000
        options: dict[str, Any] = {"assign": [("t", 0)], "group_id": "g", "auto_commit_interval_ms": 50}
        options |= {"max_partition_fetch_bytes": at_most, "enable_auto_commit": by == "automatic"}
        with Consuming(world, **options) as consuming:
            while len(consuming.rows.get(("t", 0), ())) < len(epochs):
                batch = consuming.take()
                if batch is None:
                    consuming.idle(0.001)
                    continue
                if by == "automatic":
                    consuming.idle(0.2)
                    if not world.committed["g"]:
                        continue
                elif by == "processed":
                    consuming.reader.settle()
                    world.run(consuming.core.commits.commit(None))
                else:
                    what = batch if by == "batch" else {WHERE: batch.next_offset}
                    world.run(consuming.core.commits.commit(what))
                kept = world.committed["g"]["t", 0]
                assert kept.leader_epoch == epochs.get(kept.offset, -1)
        assert len(set(world.history["t", 0])) > 3


@in_all_shapes
def test_a_commit_of_an_unread_offset_names_no_epoch() -> None:
    with World() as world:
        epochs = changing(world)
        with Consuming(world, assign=[("t", 0)], group_id="g", start={WHERE: 30}) as consuming:
            consuming.until(lambda: len(consuming.rows.get(("t", 0), ())) >= len(epochs) - 30)
            for offset, epoch in ((5, -1), (30, -1), (31, epochs[31]), (len(epochs), 5), (len(epochs) + 9, -1)):
                world.run(consuming.core.commits.commit({WHERE: offset}))
                assert world.committed["g"]["t", 0][:3] == Kept(offset, epoch)[:3]
