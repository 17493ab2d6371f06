"""`logic.sequence` against a model of a broker's producer state: nothing twice, nothing lost, nothing out of order."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafwire.logic.sequence import LAST_EPOCH, SEQUENCE_LIMIT, Identity, Sequencer, Verdict, add

LOST = -1
NOT_LEADER = 6
TOO_LARGE = 10
OUT_OF_ORDER = 45
BAD_EPOCH = 47


@dataclass(eq=False)
class Batch:
    """What a sequencer needs, and what the test wants to know."""

    name: int
    count: int
    too_large: bool = False
    producer: tuple[int, int] | None = None
    sequence: int = -1
    ordinal: int = -1


@dataclass
class Broker:
    """A partition's log and what the broker remembers of one producer (KIP-98, KIP-360)."""

    log: list[int] = field(default_factory=list)
    epoch: int = -1
    recent: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=5))

    def append(self, batch: Batch) -> int:
        assert batch.producer is not None
        _, epoch = batch.producer
        if batch.too_large:
            return TOO_LARGE
        if epoch < self.epoch:
            return BAD_EPOCH
        if epoch > self.epoch:
            if batch.sequence and self.epoch >= 0:  # a producer it does not know may begin with any number
                return OUT_OF_ORDER
            self.epoch = epoch
            self.recent.clear()
        elif (batch.sequence, batch.count) in self.recent:
            return 0
        elif self.recent and batch.sequence != add(*self.recent[-1]):
            return OUT_OF_ORDER
        self.recent.append((batch.sequence, batch.count))
        self.log.append(batch.name)
        return 0


class World:
    """One partition, one connection at a time; `step` takes one event of a schedule."""

    def __init__(self, batches: list[Batch], limit: int = 5) -> None:
        self.sequencer: Sequencer[Batch] = Sequencer(idempotent=True, limit=limit)
        self.identity = Identity(7, 0)
        self.fresh: deque[Batch] = deque(batches)
        self.wire: deque[Batch] = deque()
        self.broker = Broker()
        self.delivered: list[int] = []
        self.failed: list[int] = []
        self.given_up: list[int] = []

    def send(self) -> bool:
        if self.sequencer.wants_epoch(self.identity):
            following = self.identity.next_epoch
            assert following is not None
            self.identity = following
        batch = self.sequencer.send(self.fresh, self.identity)
        if batch is None:
            return False
        self.wire.append(batch)
        assert len(self.wire) <= 5
        return True

    def settle(self, batch: Batch, code: int, *, retriable: bool) -> None:
        verdict = self.sequencer.outcome(batch, code, retriable=retriable)
        if verdict is Verdict.DELIVERED:
            self.delivered.append(batch.name)
        elif verdict is Verdict.FAILED:
            self.failed.append(batch.name)

    def answer(self) -> None:
        batch = self.wire.popleft()
        self.settle(batch, self.broker.append(batch), retriable=False)

    def refuse(self) -> None:
        self.settle(self.wire.popleft(), NOT_LEADER, retriable=True)

    def die(self, processed: int) -> None:
        """The connection dies; the broker got the first `processed` requests, and no answer came back."""
        lost = list(self.wire)
        self.wire.clear()
        for batch in lost[:processed]:
            self.broker.append(batch)
        for batch in lost:
            self.settle(batch, LOST, retriable=True)

    def expire(self) -> None:
        if self.sequencer.retries:
            batch = self.sequencer.retries[0]
            self.sequencer.give_up(batch)
            self.given_up.append(batch.name)

    def finish(self) -> None:
        for _ in range(10_000):
            while self.send():
                pass
            if not self.wire:
                return
            self.answer()
        raise AssertionError("the sequencer does not come to an end")


EVENTS = st.one_of(
    st.just(("send", 0)),
    st.just(("send", 0)),
    st.just(("answer", 0)),
    st.just(("refuse", 0)),
    st.tuples(st.just("die"), st.integers(0, 5)),
    st.just(("expire", 0)),
)


@given(
    counts=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), min_size=1, max_size=12),
    events=st.lists(EVENTS, max_size=60),
    limit=st.integers(1, 5),
)
@settings(max_examples=1500, deadline=None)
def test_any_schedule_keeps_order_and_delivers_once(
    counts: list[tuple[int, int]], events: list[tuple[str, int]], limit: int
) -> None:
    batches = [Batch(i, count, too_large=odds == 0) for i, (count, odds) in enumerate(counts)]
    world = World(batches, limit)
    for event, number in events:
        if event == "send":
            world.send()
        elif event == "answer" and world.wire:
            world.answer()
        elif event == "refuse" and world.wire:
            world.refuse()
        elif event == "die":
            world.die(number)
        elif event == "expire":
            world.expire()
    world.finish()
    log = world.broker.log
    assert len(log) == len(set(log)), "a batch is in the log twice"
    assert log == sorted(log), "the log is out of order"
    assert set(world.delivered) <= set(log), "an acknowledged batch is not in the log"
    assert not set(world.failed) & set(log), "a failed batch is in the log"
    assert sorted([*world.delivered, *world.failed, *world.given_up]) == list(range(len(batches)))
    assert set(world.failed) == {b.name for b in batches if b.too_large} - set(world.given_up)


def test_one_batch_goes_alone_until_the_broker_knows_the_producer() -> None:
    """Were the first refused and the second taken, as by a leader of this moment, the first could never follow."""
    world = World([Batch(n, 1) for n in range(4)])
    assert world.send()
    assert not world.send()
    world.refuse()
    assert world.send()
    assert not world.send()
    world.answer()
    assert world.send()
    assert world.send()
    world.finish()
    assert world.broker.log == [0, 1, 2, 3]


def test_a_retry_keeps_its_number() -> None:
    world = World([Batch(0, 1), Batch(1, 3), Batch(2, 2)])
    world.send()
    world.answer()
    assert world.send()
    assert world.send()
    first, second = world.wire
    world.die(1)
    assert world.send()
    assert world.wire[0] is first
    assert (first.sequence, second.sequence) == (1, 4)
    world.finish()
    assert world.broker.log == [0, 1, 2]


def test_nothing_new_goes_while_a_retry_waits_for_others_in_flight() -> None:
    world = World([Batch(i, 1) for i in range(5)])
    world.send()
    world.answer()
    assert world.send()
    assert world.send()
    world.refuse()
    assert not world.send()


def test_a_used_number_that_was_given_up_moves_the_partition_to_the_next_epoch() -> None:
    world = World([Batch(0, 1, too_large=True), Batch(1, 1), Batch(2, 1)])
    world.finish()
    assert world.identity == Identity(7, 1)
    assert world.broker.log == [1, 2]
    assert world.failed == [0]


def test_a_batch_whose_answer_was_lost_is_not_forgotten_by_the_broker_while_it_is_retried() -> None:
    """Stored, answer lost; then refused again and again by a broker that takes what comes after it."""
    world = World([Batch(n, 1) for n in range(13)])
    world.send()
    world.answer()
    world.send()
    world.die(processed=1)
    for _ in range(4):
        while world.send():
            pass
        world.refuse()
        while world.wire:
            world.answer()
    world.finish()
    assert world.broker.log == list(range(13))
    assert world.delivered == [0, *range(2, 6), 1, *range(6, 13)]
    assert not world.failed


def test_without_idempotence_batches_are_not_numbered() -> None:
    sequencer: Sequencer[Batch] = Sequencer(idempotent=False, limit=5)
    batch = Batch(0, 1)
    assert sequencer.send(deque([batch]), None) is batch
    assert (batch.producer, batch.sequence) == (None, -1)


def test_an_idempotent_partition_waits_for_an_identity() -> None:
    sequencer: Sequencer[Batch] = Sequencer(idempotent=True, limit=5)
    assert sequencer.send(deque([Batch(0, 1)]), None) is None


@pytest.mark.parametrize(
    ("sequence", "count", "expected"), [(0, 5, 5), (SEQUENCE_LIMIT - 1, 1, 0), (SEQUENCE_LIMIT - 2, 5, 3)]
)
def test_sequences_wrap_to_zero(sequence: int, count: int, expected: int) -> None:
    assert add(sequence, count) == expected


def test_the_last_epoch_has_no_next() -> None:
    assert Identity(1, LAST_EPOCH).next_epoch is None
    assert Identity(1, 3).next_epoch == Identity(1, 4)
