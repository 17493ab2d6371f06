"""A partition's leader and idempotent producers: the batches that it takes, and those that it has already."""

from __future__ import annotations

from collections.abc import Iterator

from tests.scenarios.scene import Scene
from tests.scenarios.script import Restart, scenario

WRAP = 2**31


@scenario()
def the_first_batch_begins_at_zero(s: Scene) -> None:
    s.topic()
    s.init("a")
    s.produce("a", 0, 3)
    s.produce("a", 3)
    s.producers()
    s.read()


@scenario()
def a_producer_that_is_not_known_may_begin_anywhere(s: Scene) -> None:
    s.topic(partitions=2)
    s.init("a")
    s.produce("a", 7, 2)
    s.produce("a", 8)
    s.produce("a", 9)
    s.produce("a", 0, to=("t", 1), epoch=3)
    s.produce("a", 5, to=("t", 1), epoch=9)
    s.producers()
    s.producers(partition=1)


@scenario()
def the_last_five_batches_are_known_again(s: Scene) -> None:
    s.topic()
    s.init("a")
    for sequence in range(0, 14, 2):
        s.produce("a", sequence, 2)
    for sequence in (12, 10, 8, 6, 4, 2, 0):
        s.produce("a", sequence, 2)
    s.produce("a", 14, 2)
    s.produce("a", 4, 2)
    s.produce("a", 6, 2)
    s.read()


@scenario()
def what_overlaps_a_batch_is_no_duplicate(s: Scene) -> None:
    s.topic()
    s.init("a")
    s.produce("a", 0, 4)
    s.produce("a", 4, 4)
    for sequence, count in ((4, 3), (5, 3), (4, 5), (0, 8), (3, 1), (7, 1), (7, 2), (0, 1)):
        s.produce("a", sequence, count)
    s.produce("a", 8)
    s.read()


@scenario()
def a_gap_is_refused(s: Scene) -> None:
    s.topic()
    s.init("a")
    s.produce("a", 0, 2)
    s.produce("a", 3)
    s.produce("a", 2)
    s.produce("a", 1)
    s.produce("a", 4)
    s.produce("a", 3)
    s.producers()


@scenario()
def a_new_epoch_begins_at_zero(s: Scene) -> None:
    s.topic()
    s.init("a")
    s.produce("a", 0, 2)
    s.produce("a", 2, 2, epoch=1)
    s.produce("a", 1, 1, epoch=1)
    s.produce("a", 0, 2, epoch=1)
    s.produce("a", 0, 2, epoch=1)
    s.produce("a", 2, epoch=1)
    s.producers()
    s.read()


@scenario()
def an_old_epoch_is_fenced(s: Scene) -> None:
    s.topic()
    s.init("a")
    s.produce("a", 0, 2)
    s.produce("a", 0, 1, epoch=2)
    s.produce("a", 0, 2)
    s.produce("a", 2)
    s.produce("a", 0, epoch=1)
    s.produce("a", 1, epoch=2)
    s.producers()


@scenario()
def sequences_wrap(s: Scene) -> None:
    s.topic()
    s.init("a")
    s.produce("a", WRAP - 2, 2)
    s.produce("a", 0, 2)
    s.produce("a", WRAP - 2, 2)
    s.produce("a", 0, 2)
    s.produce("a", 1)
    s.produce("a", 2)
    s.producers()


@scenario()
def a_batch_goes_over_the_wrap(s: Scene) -> None:
    s.topic()
    s.init("a")
    s.produce("a", WRAP - 3, 5)
    s.producers()
    s.produce("a", WRAP - 3, 5)
    s.produce("a", 1)
    s.produce("a", 3)
    s.produce("a", 2)
    s.read()


@scenario()
def partitions_and_producers_are_apart(s: Scene) -> None:
    s.topic(partitions=2)
    s.init("a")
    s.init("b")
    s.produce("a", 0)
    s.produce("b", 0)
    s.produce("a", 0, to=("t", 1))
    s.produce("a", 1, to=("t", 1))
    s.produce("b", 2)
    s.produce("a", 1)
    s.producers()
    s.producers(partition=1)
    s.read()
    s.read(partition=1)


@scenario()
def what_does_not_exist(s: Scene) -> None:
    s.topic()
    s.init("a")
    s.produce("a", 0, to=("t", 1))
    s.produce("a", 0, to=("unknown", 0))
    s.producers(partition=1)
    s.producers("unknown")
    s.producers()
    s.ends()


@scenario()
def an_idempotent_producer_asks_again_for_its_id(s: Scene) -> None:
    """KIP-360: without a transactional id the broker has nothing to compare, and gives another id."""
    s.topic()
    s.init("a")
    s.produce("a", 0)
    s.init("b", current=("a", 0))
    s.produce("b", 0)
    s.producers()


@scenario()
def a_transactional_batch_of_a_producer_that_has_no_transaction(s: Scene) -> None:
    s.topic()
    s.init("a")
    s.produce("a", 0)
    s.init("b", "x")
    s.produce("b", 0, transactional=False)
    s.producers()
    s.read(committed=True)


@scenario(restart=Restart.CLEAN)
def a_restart_keeps_the_last_batch_of_each_producer(s: Scene) -> Iterator[None]:
    s.topic(partitions=2)
    s.init("a")
    s.init("b")
    for sequence in range(3):
        s.produce("a", sequence)
    s.produce("b", 0, 3)
    s.produce("b", 0, 2, epoch=1)
    s.produce("a", 5, 2, to=("t", 1))
    yield
    s.producers()
    s.produce("a", 2)
    s.produce("a", 1)
    s.produce("a", 4)
    s.produce("a", 3)
    s.produce("a", 2)
    s.produce("a", 3)
    s.produce("b", 0, 3)
    s.produce("b", 0, 2, epoch=1)
    s.produce("b", 0, epoch=2)
    s.produce("a", 7, to=("t", 1))
    s.producers()
    s.read()


@scenario(restart=Restart.CRASH)
def a_crash_keeps_the_last_batch_of_each_producer(s: Scene) -> Iterator[None]:
    """A stop in order does so, too: the recovery of a log writes a snapshot of the producers, and reads it."""
    s.topic()
    s.init("a")
    s.init("b")
    for sequence in range(7):
        s.produce("a", sequence)
    s.produce("b", 0, 3)
    s.produce("b", 0, 2, epoch=1)
    yield
    s.producers()
    for sequence in (6, 3, 2, 1, 0):
        s.produce("a", sequence)
    s.produce("a", 8)
    s.produce("a", 7)
    s.produce("a", 3)
    s.produce("a", 2)
    s.produce("b", 0, 3)
    s.produce("b", 0, 2, epoch=1)
    s.produce("b", 2, epoch=1)
    s.producers()
    s.read()
