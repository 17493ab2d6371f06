"""`Sequencer.lease` and `resume`: another thread numbers the batches of a leased partition; the log is as ever."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import event as note
from hypothesis import given, settings
from hypothesis import strategies as st

from kafwire.errors import ErrorCode
from kafwire.producer.outcome.sequencer import LOST, SEQUENCE_LIMIT, BatchOutcome, Identity, Sequencer, add
from tests.support import seeds
from tests.support.simulated.sequenced_world import EVENTS, Batch, World, batches

SELF = (7, 0)


class Borrower:
    """Sends one batch after the other from the place that it was leased, as `producer.buffer._direct_send` does."""

    def __init__(self, producer: tuple[int, int] | None, sequence: int, ordinal: int) -> None:
        self.producer, self.sequence, self.ordinal = producer, sequence, ordinal
        self.batch: Batch | None = None

    def send(self, fresh: deque[Batch]) -> Batch:
        assert self.batch is None
        batch = self.batch = fresh.popleft()
        batch.producer, batch.sequence, batch.ordinal = self.producer, self.sequence, self.ordinal
        self.sequence = add(self.sequence, batch.count)
        self.ordinal += 1
        return batch


class LendingWorld(World):
    """A world whose partition may be leased: then the borrower sends, and anything but good news has it taken back."""

    borrower: Borrower | None = None
    borrowed = 0  # batches that were delivered without the sequencer's knowing

    def lease(self) -> bool:
        if self.borrower is None:
            place = self.sequencer.lease(self.identity)
            self.borrower = None if place is None else Borrower(*place)
        return self.borrower is not None

    def revoke(self) -> None:
        if self.borrower is not None:
            self.sequencer.resume(self.borrower.sequence, self.borrower.ordinal, self.borrower.batch)
            self.borrower = None

    def send(self) -> bool:
        if self.borrower is None or self.borrower.batch is not None or not self.fresh:
            self.revoke()
            return super().send()
        assert not self.wire
        self.wire.append(self.borrower.send(self.fresh))
        return True

    def settle(self, batch: Batch, code: int, *, retriable: bool) -> None:
        if self.borrower is not None and self.borrower.batch is batch and code == 0:
            self.borrower.batch = None
            self.borrowed += 1
            self.reported(BatchOutcome.DELIVERED, batch)
        else:
            self.revoke()
            super().settle(batch, code, retriable=retriable)

    def calm(self, number: int) -> None:
        """The batches in flight get their responses, and then so many more, one at a time."""
        while self.wire:
            self.respond()
        for _ in range(number):
            self.lease()
            if self.send():
                self.respond()
        self.lease()

    def step(self, event: str, number: int) -> None:
        if event == "lease":
            self.lease()
        elif event == "calm":
            self.calm(number)
        elif event == "revoke":
            self.revoke()
        elif event == "epoch":  # another partition needed it
            self.revoke()
            following = self.identity.next_epoch
            assert following is not None
            self.identity = following
        elif event == "expire":
            self.revoke()
            super().step(event, number)
        else:
            super().step(event, number)


def leased(*counts: int, limit: int = 5) -> LendingWorld:
    """The first batch was taken and the partition is leased; the others are still to be sent."""
    world = LendingWorld(batches(*counts), limit)
    assert world.send()
    world.respond()
    assert world.lease()
    return world


def taken_back(*counts: int) -> tuple[LendingWorld, Batch]:
    """The second batch was sent by the borrower, and is in flight when the partition is taken back."""
    world = leased(*counts)
    assert world.send()
    world.revoke()
    (batch,) = world.wire
    assert list(world.sequencer.in_flight) == [batch]
    assert world.sequencer.is_doubtful(batch)
    return world, batch


LENDING = st.one_of(
    EVENTS,
    st.just(("lease", 0)),
    st.tuples(st.just("calm"), st.integers(0, 3)),
    st.tuples(st.just("calm"), st.integers(0, 3)),
    st.just(("revoke", 0)),
    st.just(("epoch", 0)),
)


@given(
    counts=st.lists(st.integers(1, 4), min_size=4, max_size=20),
    too_large=st.sets(st.integers(0, 50), max_size=2),
    invalid=st.sets(st.integers(0, 50), max_size=2),
    broker_limit=st.integers(2, 100),
    events=st.lists(LENDING, min_size=5, max_size=60),
    limit=st.integers(1, 5),
)
@settings(max_examples=seeds.examples(80), deadline=None)
def test_any_schedule_in_which_it_is_leased_keeps_order_and_delivers_once(
    counts: list[int],
    too_large: set[int],
    invalid: set[int],
    broker_limit: int,
    events: list[tuple[str, int]],
    limit: int,
) -> None:
    world = LendingWorld(batches(*counts), limit)
    world.calm(2)
    assert world.borrowed == 1
    broker = world.broker
    broker.limit, broker.too_large, broker.invalid = broker_limit, too_large, invalid - too_large
    for event, number in events:
        world.step(event, number)
    note(f"batches by a borrower: {min(world.borrowed, 3)}")
    world.finish()
    world.judge(sum(counts))


@given(
    counts=st.lists(st.integers(1, 4), min_size=4, max_size=20),
    events=st.lists(st.sampled_from(["send", "send", "respond", "lease", "calm", "revoke"]), min_size=5, max_size=60),
)
@settings(max_examples=seeds.examples(80), deadline=None)
def test_where_all_goes_well_no_number_is_left_out(counts: list[int], events: list[str]) -> None:
    """Otherwise the partition would have to move to another epoch."""
    world = LendingWorld(batches(*counts))
    world.calm(2)
    for event in events:
        world.step(event, 1)
    world.finish()
    assert world.delivered == world.broker.log == list(range(sum(counts)))
    assert world.identity == Identity(*SELF)


def test_a_borrower_has_the_next_numbers_and_hands_back_those_after_its_own() -> None:
    world = leased(3, 2, 4, 1, 1)
    assert world.borrower is not None
    assert (world.borrower.producer, world.borrower.sequence, world.borrower.ordinal) == (SELF, 3, 1)
    for _ in range(2):
        assert world.send()
        world.respond()
    assert world.borrowed == 2
    world.revoke()
    assert world.send()
    assert (world.wire[0].producer, world.wire[0].sequence, world.wire[0].ordinal) == (SELF, 9, 3)
    world.finish()
    assert world.broker.log == list(range(11))
    assert world.identity == Identity(*SELF)


def test_a_partition_that_was_leased_for_nothing_goes_on_as_before() -> None:
    world = leased(2, 1, 1)
    world.revoke()
    assert world.send()
    assert world.send(), "the broker still knows the producer"
    assert [(batch.sequence, batch.ordinal) for batch in world.wire] == [(2, 1), (3, 2)]


def test_it_can_be_leased_again_after_batches_in_flight_have_arrived() -> None:
    world, _ = taken_back(1, 2, 1)
    assert not world.lease()
    world.respond()
    assert world.sequencer.lease(world.identity) == (SELF, 3, 2)


def one_in_flight(world: World) -> None:
    world.send()


def one_to_be_sent_again(world: World) -> None:
    world.send()
    world.refuse()


def a_number_lost(world: World) -> None:
    world.send()
    world.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    world.expire()


def another_epoch(world: World) -> None:
    world.identity = Identity(7, 1)


def another_id(world: World) -> None:
    world.identity = Identity(8, 0)


def another_log(world: World) -> None:
    world.sequencer = world.sequencer.restarted()


@pytest.mark.parametrize(
    "happens", [one_in_flight, one_to_be_sent_again, a_number_lost, another_epoch, another_id, another_log]
)
def test_nothing_is_leased_while_anything_is_under_way_or_unknown(happens: Callable[[World], None]) -> None:
    world = LendingWorld(batches(1, 1, 1, 1))
    assert not world.lease(), "the broker does not know the producer"
    world.send()
    world.respond()
    happens(world)
    assert not world.lease()
    if happens is not another_id:  # the broker here knows one only
        world.finish()
        assert world.lease()


def test_nothing_is_leased_without_an_identity() -> None:
    world = LendingWorld(batches(1))
    assert world.sequencer.lease(None) is None
    world.finish()
    assert world.sequencer.lease(None) is None


def test_a_batch_in_flight_is_delivered_as_if_it_had_been_sent_here() -> None:
    world, batch = taken_back(1, 2, 1, 1, 1, 1, 1)
    while world.send():
        pass
    assert len(world.wire) == 5, "it counts among those in flight"
    assert world.wire[0] is batch
    world.respond()
    assert not world.sequencer.is_doubtful(batch)
    world.finish()
    assert world.delivered == list(range(8))


@pytest.mark.parametrize("code", [ErrorCode.NOT_ENOUGH_REPLICAS, 6])
def test_a_batch_in_flight_is_sent_again_under_its_number_before_others(code: int) -> None:
    world, batch = taken_back(1, 2, 1, 1)
    world.refuse(code)
    assert list(world.sequencer.retries) == [batch]
    assert world.send()
    assert world.wire[0] is batch
    assert (batch.producer, batch.sequence, batch.ordinal) == (SELF, 1, 1)
    assert world.send()
    assert (world.wire[1].sequence, world.wire[1].ordinal) == (3, 2)
    world.finish()
    assert world.broker.log == world.delivered == list(range(5))


@pytest.mark.parametrize("stored", [0, 1])
def test_a_batch_in_flight_when_the_connection_is_lost_is_sent_again_and_stored_once(stored: int) -> None:
    world, batch = taken_back(1, 2, 1)
    world.die(stored)
    assert world.sequencer.is_doubtful(batch)
    world.finish()
    assert world.broker.log == world.delivered == [0, 1, 2, 3]


@pytest.mark.parametrize("stored", [0, 1])
def test_a_lost_batch_that_was_given_up_is_in_doubt(stored: int) -> None:
    world, _ = taken_back(1, 2, 1)
    world.die(stored)
    world.expire()
    assert (world.in_doubt, world.failed) == ([1, 2], [])
    world.finish()
    world.judge(4)
    assert world.identity == Identity(7, 1), "its numbers may never be used"


def test_a_refused_batch_that_was_given_up_has_failed() -> None:
    world, _ = taken_back(1, 2, 1)
    world.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    world.expire()
    assert (world.in_doubt, world.failed) == ([], [1, 2])


def test_a_permanent_error_fails_the_batch_and_changes_the_epoch() -> None:
    world, _ = taken_back(1, 1, 2)
    world.broker.invalid = {1}
    world.respond()
    assert world.failed == [1]
    assert world.sequencer.wants_epoch(world.identity)
    assert not world.lease()
    world.finish()
    assert world.broker.log == [0, 2, 3]
    assert world.identity == Identity(7, 1)


def test_a_batch_out_of_order_with_none_before_it_goes_again_in_the_next_epoch() -> None:
    """The broker has lost what it had acknowledged to the borrower."""
    world = leased(1, 1, 2, 1)
    assert world.send()
    world.respond()
    assert world.broker.lose_last() == [1]
    assert world.send()
    (batch,) = world.wire
    assert world.broker.append(batch) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    world.respond()
    assert world.borrower is None
    assert list(world.sequencer.retries) == [batch]
    assert world.sequencer.wants_epoch(world.identity)
    world.finish()
    assert (batch.producer, batch.sequence) == ((7, 1), 0)
    assert world.broker.log == [0, 2, 3, 4]
    assert world.delivered == [0, 1, 2, 3, 4]


def test_a_follower_that_is_out_of_order_waits_for_the_retry() -> None:
    world, batch = taken_back(1, 1, 1)
    assert world.send()
    world.refuse()
    follower = world.wire[0]
    world.respond()
    assert list(world.sequencer.retries) == [batch, follower]
    world.finish()
    assert world.broker.log == [0, 1, 2]
    assert world.identity == Identity(*SELF)


def test_a_refused_epoch_takes_a_new_id() -> None:
    world, _ = taken_back(1, 1)
    world.settle(world.wire.popleft(), ErrorCode.INVALID_PRODUCER_EPOCH, retriable=False)
    assert world.sequencer.needs_id


@pytest.mark.parametrize("code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD])
def test_a_batch_in_flight_is_divided(code: int) -> None:
    world, _ = taken_back(1, 4, 1)
    if code == ErrorCode.MESSAGE_TOO_LARGE:
        world.broker.limit = 2
    else:
        world.broker.invalid = {2}
    world.finish()
    assert world.broker.log == [n for n in range(6) if n not in world.broker.invalid]


def test_the_broker_does_not_forget_a_batch_sent_again_behind_too_many_others() -> None:
    """Stored, response lost, then refused again and again while its followers are taken: these end with the fifth."""
    world, batch = taken_back(*[1] * 13)
    world.die(1)
    for _ in range(4):
        while world.send():
            pass
        assert world.wire[0] is batch
        world.refuse()
        while world.wire:
            world.respond()
    world.finish()
    assert world.broker.log == list(range(13))
    assert not world.failed


@pytest.mark.parametrize("count", [1, 2, 5])
def test_numbers_wrap_to_zero_on_either_side(count: int) -> None:
    world = leased(1, count, count, 1)
    world.revoke()
    world.sequencer.resume(SEQUENCE_LIMIT - 1, 1, None)
    world.broker.producers[7].recent.clear()
    assert world.sequencer.lease(world.identity) == (SELF, SEQUENCE_LIMIT - 1, 1)
    assert world.lease()
    assert world.send()
    assert world.wire[0].sequence == SEQUENCE_LIMIT - 1
    world.respond()
    world.revoke()
    assert world.send()
    assert world.wire[0].sequence == count - 1
    world.finish()
    assert world.broker.log == list(range(2 + 2 * count))

    world.sequencer.resume(SEQUENCE_LIMIT - 1, 9, None)
    (last,) = batches(count)
    assert world.sequencer.send(deque([last]), world.identity) is last
    world.sequencer.outcome(last, 0, retriable=False)
    assert (last.sequence, last.ordinal) == (SEQUENCE_LIMIT - 1, 9)
    assert world.sequencer.lease(world.identity) == (SELF, count - 1, 10)


@pytest.mark.parametrize("identity", [None, Identity(*SELF)])
def test_without_idempotence_only_the_order_is_leased(identity: Identity | None) -> None:
    """The borrower has no numbers, so there is none to hand back."""
    sequencer: Sequencer[Batch] = Sequencer(idempotent=False, limit=2)
    fresh = deque(batches(1, 1, 1))
    assert sequencer.lease(identity) == (None, 0, 0)
    sequencer.resume(-1, 3, None)
    first = sequencer.send(fresh, identity)
    assert first is not None
    assert (first.producer, first.sequence, first.ordinal) == (None, -1, 3)
    assert sequencer.lease(identity) is None
    assert sequencer.outcome(first, 6, retriable=True) is BatchOutcome.RETRY
    assert sequencer.lease(identity) is None
    assert sequencer.send(fresh, identity) is first
    assert sequencer.outcome(first, 0, retriable=False) is BatchOutcome.DELIVERED
    place = sequencer.lease(identity)
    assert place is not None
    assert (place[0], place[2]) == (None, 4)


@pytest.mark.parametrize(
    ("code", "retriable", "verdict"),
    [
        (0, False, BatchOutcome.DELIVERED),
        (6, True, BatchOutcome.RETRY),
        (ErrorCode.INVALID_RECORD, False, BatchOutcome.FAILED),
        (LOST, False, BatchOutcome.DOUBTFUL),
    ],
)
def test_without_idempotence_a_batch_in_flight_is_taken_over_too(
    code: int, retriable: bool, verdict: BatchOutcome
) -> None:
    sequencer: Sequencer[Batch] = Sequencer(idempotent=False, limit=2)
    fresh = deque(batches(1, 1, 1))
    assert sequencer.lease(None) == (None, 0, 0)
    taken = fresh.popleft()
    taken.ordinal = 0
    sequencer.resume(-1, 1, taken)
    assert sequencer.send(fresh, None) is not None
    assert sequencer.send(fresh, None) is None, "it counts among those in flight"
    assert sequencer.outcome(taken, code, retriable=retriable) is verdict
    assert not sequencer.wants_epoch(None)
    assert list(sequencer.retries) == ([taken] if verdict is BatchOutcome.RETRY else [])


@pytest.mark.parametrize("in_flight", [True, False])
def test_numbers_go_on_where_the_borrower_has_come_to(*, in_flight: bool) -> None:
    it = Sequencer[Batch](idempotent=True, limit=5)
    identity = Identity(*SELF)
    first, second, third = batches(2, 3, 4)
    assert it.send(deque([first]), identity) is first
    assert it.outcome(first, 0, retriable=False) is BatchOutcome.DELIVERED
    leased = it.lease(identity)
    assert leased is not None
    assert leased[1:] == (first.count, 1)
    borrower = Borrower(*leased)
    borrower.send(deque([second]))
    it.resume(borrower.sequence, borrower.ordinal, second if in_flight else None)
    assert list(it.in_flight) == ([second] if in_flight else [])
    assert it.send(deque([third]), identity) is third
    assert (third.sequence, third.ordinal) == (first.count + second.count, 2)
