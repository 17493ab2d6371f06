"""`producer.outcome.sequencer` against a model of a broker's producer state: no batch twice, lost, or out of order."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafwire.errors import ErrorCode
from kafwire.producer.outcome.sequencer import (
    LAST_EPOCH,
    SEQUENCE_LIMIT,
    BatchOutcome,
    Identity,
    Sequencer,
    add,
)
from tests.support import seeds
from tests.support.simulated.sequenced_world import EVENTS, Batch, World, batches


@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=12),
    too_large=st.sets(st.integers(0, 30), max_size=3),
    invalid=st.sets(st.integers(0, 30), max_size=3),
    broker_limit=st.integers(2, 100),
    events=st.lists(EVENTS, max_size=60),
    limit=st.integers(1, 5),
    reading=st.sampled_from(["", "", "", "not readable", "not permitted"]),
    may_move=st.booleans(),
)
@settings(max_examples=seeds.examples(800), deadline=None)
def test_any_schedule_keeps_order_and_delivers_once(
    counts: list[int],
    too_large: set[int],
    invalid: set[int],
    broker_limit: int,
    events: list[tuple[str, int]],
    limit: int,
    reading: str,
    *,
    may_move: bool,
) -> None:
    """Where the log cannot be read, a broker that has forgotten the producer altogether may be given a batch twice."""
    if reading == "not permitted":
        events = [event for event in events if event[0] != "forget"]
    world = World(batches(*counts), limit, may_move=may_move)
    world.is_readable, world.may_read = not reading, reading != "not permitted"
    broker = world.broker
    broker.limit, broker.too_large, broker.invalid = broker_limit, too_large, invalid - too_large
    for event, number in events:
        world.step(event, number)
    world.finish()
    world.judge(sum(counts))
    quiet = not {"expire", "limit", "after append", "die", "refuse", "restart", "forget", "fence"}.intersection(
        event for event, _ in events
    )
    if quiet:
        assert set(world.failed) == {r for r in too_large | invalid if r < sum(counts)}, "a neighbour has failed"
        assert not world.in_doubt


def test_one_batch_goes_alone_until_the_broker_knows_the_producer() -> None:
    """Were the first refused and the second taken, as by a leader of this moment, the first could never follow."""
    world = World(batches(1, 1, 1, 1))
    assert world.send()
    assert not world.send()
    world.refuse()
    assert world.send()
    assert not world.send()
    world.respond()
    assert world.send()
    assert world.send()
    world.finish()
    assert world.broker.log == [0, 1, 2, 3]


def test_a_retry_keeps_its_number() -> None:
    world = World(batches(1, 3, 2))
    world.send()
    world.respond()
    assert world.send()
    assert world.send()
    first, second = world.wire
    world.die(1)
    assert world.send()
    assert world.wire[0] is first
    assert (first.sequence, second.sequence) == (1, 4)
    world.finish()
    assert world.broker.log == list(range(6))


def test_nothing_new_goes_while_a_retry_waits_for_others_in_flight() -> None:
    world = World(batches(1, 1, 1, 1, 1))
    world.send()
    world.respond()
    assert world.send()
    assert world.send()
    world.refuse()
    assert not world.send()


def test_a_used_number_that_was_given_up_moves_the_partition_to_the_next_epoch() -> None:
    world = World(batches(1, 1, 1))
    world.broker.too_large = {0}
    world.finish()
    assert world.identity == Identity(7, 1)
    assert world.broker.log == [1, 2]
    assert world.failed == [0]


def test_a_batch_whose_response_was_lost_is_not_forgotten_by_the_broker_while_it_is_retried() -> None:
    """Stored, response lost; then refused again and again by a broker that takes the batches after it."""
    world = World(batches(*[1] * 13))
    world.send()
    world.respond()
    world.send()
    world.store_and_refuse()
    for _ in range(4):
        while world.send():
            pass
        world.refuse()
        while world.wire:
            world.respond()
    world.finish()
    assert world.broker.log == list(range(13))
    assert world.delivered == [0, *range(2, 6), 1, *range(6, 13)]
    assert not world.failed


def test_the_parts_of_a_batch_that_is_too_large_share_its_numbers() -> None:
    """The batches in flight behind it then follow them, and no epoch is used up."""
    world = World(batches(1, 4, 2, 2))
    world.send()
    world.respond()
    while world.send():
        pass
    world.broker.limit = 2
    world.finish()
    assert world.broker.log == list(range(9))
    assert world.identity == Identity(7, 0)
    assert not world.failed


def test_parts_are_counted_where_the_broker_counts_batches() -> None:
    """Five batches become ten; the first is stored and refused, and must stay among the last five."""
    world = World(batches(1, *[2] * 5))
    world.send()
    world.respond()
    while world.send():
        pass
    world.broker.limit = 1
    while world.wire:
        world.respond()
    for _ in range(4):
        while world.send():
            pass
        world.store_and_refuse()
        while world.wire:
            world.respond()
    world.finish()
    assert world.broker.log == list(range(11))
    assert not world.failed
    assert not world.in_doubt


@pytest.mark.parametrize("may_read", [True, False])
def test_parts_of_a_batch_in_doubt_are_not_stored_twice(*, may_read: bool) -> None:
    """Stored, the response lost; then the topic's limit was lowered, and the broker looks at that first."""
    world = World(batches(1, 4, 1))
    world.may_read = may_read
    world.send()
    world.respond()
    world.send()
    world.die(processed=1)
    world.broker.limit = 2
    world.finish()
    assert world.broker.log == list(range(6))
    assert world.in_doubt == ([] if may_read else [1, 2, 3, 4])
    assert world.delivered == ([0, 1, 2, 3, 4, 5] if may_read else [0, 5])


@pytest.mark.parametrize("may_read", [True, False])
def test_parts_in_doubt_come_to_an_end_where_a_number_before_them_is_lost(*, may_read: bool) -> None:
    """A batch out of order under the old epoch stays so: there, nothing fills the gap any more."""
    world = World(batches(1, 2, 4, 1))
    world.may_read = may_read
    world.send()
    world.respond()
    while world.send():
        pass
    world.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    while world.wire:
        world.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    world.broker.limit, world.broker.too_large = 3, {1}
    world.finish()
    assert world.broker.log == ([0, 2, 3, 4, 5, 6, 7] if may_read else [0, 2])
    assert world.failed == [1]
    assert world.in_doubt == ([] if may_read else [3, 4, 5, 6, 7])


def test_a_refused_record_is_taken_out_and_its_neighbours_go_on() -> None:
    world = World(batches(1, 4, 2))
    world.broker.invalid = {2}
    world.finish()
    assert world.broker.log == [0, 1, 3, 4, 5, 6]
    assert world.failed == [2]
    assert world.identity == Identity(7, 1)


def test_batches_after_a_refused_record_are_renumbered_before_they_are_sent() -> None:
    """Its number is one that nothing leads up to any more: a broker would only call it out of order."""
    world = World(batches(1, 4, 2), limit=1)
    world.broker.invalid = {2}
    world.finish()
    assert world.broker.log == [0, 1, 3, 4, 5, 6]
    assert world.codes == [0, ErrorCode.INVALID_RECORD, 0, 0, 0]


def test_records_that_the_broker_has_lost_do_not_fail_those_that_come_after() -> None:
    """An unclean election: the broker misses what it has acknowledged, so what follows is out of order."""
    world = World(batches(1, 1, 1, 1))
    for _ in range(2):
        world.send()
        world.respond()
    assert world.broker.lose_last() == [1]
    world.finish()
    assert world.broker.log == [0, 2, 3]
    assert world.delivered == [0, 1, 2, 3]
    assert world.identity == Identity(7, 1)


def test_a_transactional_partition_does_not_move_by_itself() -> None:
    world = World(batches(1, 1, 1, 1), may_move=False)
    for _ in range(2):
        world.send()
        world.respond()
    world.broker.lose_last()
    world.send()
    world.respond()
    assert world.failed == [2]


def responses_lost(*, stored: int, **options: bool) -> World:
    """The first batch was acknowledged; of five more so many are stored when the connection breaks."""
    world = World(batches(*[1] * 8), **options)
    world.send()
    world.respond()
    for _ in range(5):
        assert world.send()
    world.die(processed=stored)
    return world


@pytest.mark.parametrize("stored", range(6))
@pytest.mark.parametrize("kept", range(6))
def test_batches_that_a_restarted_broker_has_forgotten_are_found_in_the_log(kept: int, stored: int) -> None:
    """`kept`: one batch in its snapshot, up to five replayed, none of a producer that has expired."""
    world = responses_lost(stored=stored)
    world.broker.forget(kept)
    world.finish()
    assert world.broker.log == list(range(8))
    assert world.delivered == list(range(8))
    if stored == 5 and kept == 1:
        assert world.identity == Identity(7, 0), "nothing was sent under another number"


def test_a_broker_that_remembers_is_asked_and_the_log_is_not_searched() -> None:
    world = responses_lost(stored=3)
    world.finish()
    assert world.broker.log == list(range(8))
    assert world.searches == 0


def test_a_broker_that_has_lost_records_says_so_without_a_search() -> None:
    """Its last sequence lies before the batches in doubt: they are not there."""
    world = responses_lost(stored=3)
    for _ in range(3):
        world.broker.lose_last()
    assert world.broker.log == [0]
    world.broker.stored.clear()
    world.finish()
    assert world.broker.log == list(range(8))
    assert world.searches == 0


@pytest.mark.parametrize("permitted", [True, False])
def test_batches_without_a_search_are_in_doubt_and_not_sent_again(*, permitted: bool) -> None:
    """A broker calls the first out of order although it has it; DescribeProducers, if permitted, shows its number."""
    world = responses_lost(stored=3)
    world.broker.forget(1)
    world.may_read, world.is_readable = permitted, False
    world.finish()
    assert world.broker.log == list(range(8))
    assert world.in_doubt == ([] if permitted else [1, 2])
    assert not world.failed


def test_batches_of_a_forgotten_producer_are_not_sent_again_without_reading_the_log() -> None:
    world = responses_lost(stored=1)
    world.broker.forget(0)
    world.is_readable = False
    world.finish()
    assert world.broker.log == [0, 1, 6, 7]
    assert world.in_doubt == [1, 2, 3, 4, 5]


def test_a_transaction_fails_only_by_batches_that_are_not_in_the_log() -> None:
    world = responses_lost(stored=2, may_move=False)
    world.broker.forget(1)
    world.finish()
    assert world.broker.log == list(range(8))
    assert not world.failed


def test_a_leaders_producer_state_counts_only_on_its_connection() -> None:
    """Between the question and the sending the broker restarts, and forgets the producer."""
    world = responses_lost(stored=1)
    assert world.ask()
    world.restart(0, kept=0)
    world.finish()
    assert world.broker.log == list(range(8))
    assert world.delivered == list(range(8))


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER])
def test_a_batch_that_is_refused_at_the_start_of_an_epoch_takes_a_new_id(code: int) -> None:
    world = World(batches(1))
    world.send()
    world.settle(world.wire.popleft(), code, retriable=False)
    assert world.sequencer.needs_id
    assert world.sequencer.wants_epoch(world.identity)


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize(
    "code",
    [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING],
)
def test_a_producer_whose_epoch_or_id_is_refused_takes_a_new_id(code: int, *, lost: bool) -> None:
    """A batch that may have been stored under the old one is not sent under the new one."""
    world = World(batches(1, 1, 1))
    world.send()
    world.respond()
    world.send()
    if lost:
        world.die(1)
        world.send()
    batch = world.wire.popleft()
    world.settle(batch, code, retriable=False)
    assert world.ask() == lost
    assert world.delivered == ([0, 1] if lost else [0])
    assert world.sequencer.wants_epoch(world.identity)
    assert world.sequencer.needs_id
    assert world.sequencer.wants_epoch(Identity(7, 1)), "another epoch of the same id is of no use"
    assert world.sequencer.send(world.fresh, Identity(7, 1)) is None
    sent = world.sequencer.send(world.fresh, Identity(8, 0))
    assert sent is not None
    assert sent.records == ([2] if lost else [1])
    assert (sent.producer, sent.sequence) == ((8, 0), 0)


@pytest.mark.parametrize(
    ("code", "doubt"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, False),
        (2, False),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (7, True),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, True),
    ],
)
def test_an_expired_batch_is_in_doubt_unless_every_attempt_was_refused(code: int, *, doubt: bool) -> None:
    world = World(batches(1, 1))
    for _ in range(3):
        world.send()
        world.refuse(code)
    world.expire()
    assert (world.in_doubt, world.failed) == (([0], []) if doubt else ([], [0]))


@pytest.mark.parametrize("other_id", [False, True])
def test_under_a_new_identity_one_batch_goes_alone(*, other_id: bool) -> None:
    """A broker that does not know the id takes any number: a second batch, while the first is refused."""
    world = World(batches(*[1] * 8))
    world.send()
    world.respond()
    if other_id:
        world.broker.fence(world.identity)
    else:
        world.broker.invalid = {1}
    for _ in range(3):
        assert world.send()
    while world.wire:
        world.respond()
    assert world.send()
    assert world.identity == (Identity(8, 0) if other_id else Identity(7, 1))
    assert not world.send()
    world.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert world.send()
    assert not world.send()
    world.respond()
    assert world.send()
    assert world.send()
    world.finish()
    world.judge(8)
    assert world.failed == ([] if other_id else [1])


def test_an_epoch_is_wanted_once_nothing_of_the_one_before_is_open() -> None:
    """A batch in flight, or perhaps in the log, is settled under the identity that it was sent with."""
    world = World(batches(*[1] * 5))
    world.send()
    world.respond()
    world.broker.invalid = {1}
    for _ in range(3):
        assert world.send()
    world.respond()
    assert world.failed == [1]
    assert not world.sequencer.wants_epoch(world.identity), "two are in flight"
    world.die(0)
    assert not world.sequencer.wants_epoch(world.identity), "two may be in the log"
    while not world.sequencer.wants_epoch(world.identity):
        assert world.ask() or world.send()
        if world.wire:
            world.respond()
    assert not any(map(world.sequencer.is_doubtful, world.sequencer.retries))
    world.finish()
    assert world.broker.log == [0, 2, 3, 4]


def test_a_recreated_log_gets_one_batch_first() -> None:
    world = World(batches(1, 1, 1))
    world.send()
    world.respond()
    world.sequencer = world.sequencer.restarted()
    assert world.send()
    assert world.sequencer.in_flight[0].sequence == 1, "the log may be the old one: no number comes again"
    assert not world.send()


def test_without_idempotence_batches_are_not_numbered() -> None:
    sequencer: Sequencer[Batch] = Sequencer(idempotent=False, limit=5)
    (batch,) = batches(1)
    assert sequencer.send(deque([batch]), None) is batch
    assert (batch.producer, batch.sequence) == (None, -1)


def test_an_idempotent_partition_waits_for_an_identity() -> None:
    sequencer: Sequencer[Batch] = Sequencer(idempotent=True, limit=5)
    assert sequencer.send(deque(batches(1)), None) is None


@pytest.mark.parametrize(
    ("sequence", "count", "expected"), [(0, 5, 5), (SEQUENCE_LIMIT - 1, 1, 0), (SEQUENCE_LIMIT - 2, 5, 3)]
)
def test_sequences_wrap_to_zero(sequence: int, count: int, expected: int) -> None:
    assert add(sequence, count) == expected


def test_the_last_epoch_has_no_next() -> None:
    assert Identity(1, LAST_EPOCH).next_epoch is None
    assert Identity(1, 3).next_epoch == Identity(1, 4)


@pytest.mark.parametrize("limit", [2, 3, 5])
def test_behind_a_retry_no_more_goes_than_a_broker_remembers(limit: int) -> None:
    """A broker remembers the last `limit` batches: a retry that is no longer among them would be out of order."""
    it = Sequencer[Batch](idempotent=True, limit=limit)
    identity = Identity(7, 0)
    fresh = deque(batches(*[1] * 20))
    first = it.send(fresh, identity)
    assert first is not None
    assert it.outcome(first, 0, retriable=True) is BatchOutcome.DELIVERED
    sent = [it.send(fresh, identity) for _ in range(limit)]
    late, *others = [batch for batch in sent if batch is not None]
    assert it.outcome(late, ErrorCode.NOT_ENOUGH_REPLICAS, retriable=True) is BatchOutcome.RETRY
    for batch in others:
        assert it.outcome(batch, 0, retriable=True) is BatchOutcome.DELIVERED
    assert it.send(fresh, identity) is late
    assert it.send(fresh, identity) is None, "one more, and the retry would be forgotten"
    assert it.outcome(late, 0, retriable=True) is BatchOutcome.DELIVERED
    behind = it.send(fresh, identity)
    assert behind is not None
    assert behind.sequence == limit + 1


def test_behind_a_retry_others_go_as_long_as_a_broker_remembers_it() -> None:
    it = Sequencer[Batch](idempotent=True, limit=5)
    identity = Identity(7, 0)
    fresh = deque(batches(*[1] * 20))
    first = it.send(fresh, identity)
    assert first is not None
    it.outcome(first, 0, retriable=True)
    late, other = it.send(fresh, identity), it.send(fresh, identity)
    assert late is not None
    assert other is not None
    it.outcome(late, ErrorCode.NOT_ENOUGH_REPLICAS, retriable=True)
    it.outcome(other, 0, retriable=True)
    assert it.send(fresh, identity) is late
    behind = [it.send(fresh, identity) for _ in range(4)]
    assert [None if batch is None else batch.ordinal - late.ordinal for batch in behind] == [2, 3, 4, None]
    assert len(it.in_flight) == 4, "there is room for one, but not behind this retry"
