"""`producer.transactions.manager` in a simulated world: each error, loss and move that a transaction has to survive, by
name."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial

import pytest

from kafwire.errors import (
    BrokerError,
    ConfigError,
    ErrorCode,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionAbortedError,
    TransactionFatalError,
    TransactionStateError,
    TransactionTimeoutError,
)
from kafwire.producer.transactions.state import State
from kafwire.protocol import ProduceRequest
from kafwire.testing.simulation.calls import HANGUP, NEVER, Call, Response
from tests.support.simulated.consumer import Consuming
from tests.support.simulated.producer import committed_values
from tests.support.simulated.world import World
from tests.support.transactional_producer import IN, Transacting, lose, refuse

VERSIONS = (1, 2)


@pytest.fixture(params=VERSIONS, ids=[f"version {version}" for version in VERSIONS])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with World(brokers=3) as it:
        it.transaction_version = request.param
        for topic in ("t", "in"):
            it.create_topic(topic, partitions=3)
        it.move_coordinator("x", 2)
        it.move_coordinator("g", 3)
        yield it


def in_versions(*versions: int) -> pytest.MarkDecorator:
    """Only in these versions: another asks for nothing of the kind, or means something else by it."""
    return pytest.mark.parametrize("world", versions, ids=[f"version {version}" for version in versions], indirect=True)


# --- retries


def test_recoverable_errors(world: World) -> None:
    left = [
        refuse(
            world,
            "InitProducerId",
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ),
        refuse(world, "AddPartitionsToTxn", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.CONCURRENT_TRANSACTIONS),
        refuse(world, "AddOffsetsToTxn", ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS),
        refuse(
            world,
            "TxnOffsetCommit",
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.CONCURRENT_TRANSACTIONS,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.REQUEST_TIMED_OUT,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ),
        refuse(
            world,
            "EndTxn",
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.CONCURRENT_TRANSACTIONS,
        ),
    ]
    work = Transacting(world, batch_size=1)
    work.initialize()
    work.begin()
    work.send("t", b"1")
    work.flush()
    left.append(refuse(world, "Produce", ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS))
    work.send("t", b"2")
    work.flush()
    work.send_offsets(12)
    work.commit()
    assert work.seen == [b"1", b"2"]
    assert work.offset == 12
    if world.transaction_version == 1:
        assert not any(left)
    else:
        assert not world.made("AddPartitionsToTxn")
        assert not world.made("AddOffsetsToTxn")


@pytest.mark.parametrize(
    "api", ["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "Produce"]
)
def test_a_response_is_lost(world: World, api: str) -> None:
    work = Transacting(world)
    lose(world, api, 3)
    for number in range(3):
        work.begin()
        work.send("t", b"%d" % number)
        work.send("t", b"%d" % number, partition=1)
        work.send_offsets(number)
        work.commit()
    assert work.seen == [b"0", b"1", b"2"] * 2
    assert work.offset == 2


@pytest.mark.parametrize("api", ["AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"])
@in_versions(1)
def test_a_lost_response_costs_an_epoch(world: World, api: str) -> None:
    """KAFKA-17754: what comes late must not meet the next transaction."""
    work = Transacting(world)
    work.transact(b"1")
    assert work.identity.epoch == 0
    lose(world, api)
    work.begin()
    work.send("t", b"2")
    work.send_offsets(1)
    work.commit()
    work.transact(b"3")
    assert work.identity.epoch == 1
    assert work.seen == [b"1", b"2", b"3"]


def test_a_slow_end_does_not_decide_a_later_transaction(world: World) -> None:
    """KAFKA-17754, as it happened: an EndTxn is executed after the producer gave it up, asked again, and went on."""
    work = Transacting(world, request_timeout_ms=500)
    slow: list[Call] = []

    def handler(call: Call) -> Response:
        if slow:
            return None
        slow.append(call)
        return NEVER

    world.on("EndTxn", handler)
    work.transact(b"1")
    assert len(slow) == 1
    work.begin()
    work.send("t", b"2")
    work.flush()
    response = world.serve(slow[0])  # now
    assert response.error_code == ErrorCode.PRODUCER_FENCED or response.producer_epoch > slow[0].message.producer_epoch
    world.pass_time(1)
    work.send("t", b"3", partition=1)
    work.abort()
    assert work.seen == [b"1"]


def test_endtxn_is_retried_for_as_long_as_it_takes(world: World) -> None:
    for committed in (True, False):
        work = Transacting(world, f"x{committed}", max_block_ms=10_000_000)
        work.begin()
        work.send("t", b"v")
        work.flush()
        left = refuse(
            world,
            "EndTxn",
            *[
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.CONCURRENT_TRANSACTIONS,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.NOT_COORDINATOR,
            ]
            * 30,
        )
        work.commit() if committed else work.abort()
        assert not left
        world.off("EndTxn")
    assert work.seen == [b"v"]


def test_offset_commit_doesnt_retry_too_quickly(world: World) -> None:
    work = Transacting(world, retry_backoff_ms=100, retry_backoff_max_ms=1_000)
    refuse(world, "TxnOffsetCommit", *[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 4)
    work.begin()
    work.send_offsets(1)
    times = [call.at_ms for call in world.made("TxnOffsetCommit")]
    waits = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert len(waits) == 4
    assert waits[0] >= 80
    assert waits[-1] >= 600


def test_concurrent_transactions_is_asked_again_soon(world: World) -> None:
    work = Transacting(world, retry_backoff_ms=100)
    refuse(world, "TxnOffsetCommit", ErrorCode.CONCURRENT_TRANSACTIONS)
    work.begin()
    work.send_offsets(1)
    first, second = (call.at_ms for call in world.made("TxnOffsetCommit"))
    assert second - first < 40
    work.commit()
    world.pass_time(1)
    assert work.offset == 1


# --- what spoils the transaction


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ],
)
def test_a_refused_batch_requires_abort(world: World, code: int) -> None:
    """KIP-360: the producer recovers with a fresh epoch."""
    work = Transacting(world, batch_size=1)
    work.begin()
    work.send("t", b"1")
    work.flush()
    refuse(world, "Produce", code)
    refused = work.send("t", b"2")
    world.pass_time(1)
    assert work.transactions.state is State.ABORTABLE_ERROR
    expected = TransactionAbortableError if code == ErrorCode.INVALID_PRODUCER_EPOCH else BrokerError
    assert isinstance(refused.exception(), expected)
    with pytest.raises(TransactionAbortableError, match="can only be aborted") as caught:
        work.send("t", b"3")
    assert isinstance(caught.value.__cause__, BrokerError)
    assert (caught.value.abortable, caught.value.retriable, caught.value.fatal) == (True, False, False)
    with pytest.raises(TransactionAbortableError):
        work.commit()
    before = work.identity
    work.abort()
    work.transact(b"4")
    assert work.identity.epoch > before.epoch
    assert work.seen == [b"4"]


# Version 2 adds nothing; in version 1 the outcome of a transaction that is in no state to be ended is unknown.
@pytest.mark.parametrize(
    ("world", "api", "code"),
    [
        (1, "AddPartitionsToTxn", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (1, "AddPartitionsToTxn", ErrorCode.TRANSACTION_ABORTABLE),
        (1, "AddOffsetsToTxn", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        *(
            (version, *case)
            for version in VERSIONS
            for case in [
                ("TxnOffsetCommit", ErrorCode.GROUP_AUTHORIZATION_FAILED),
                ("TxnOffsetCommit", ErrorCode.FENCED_INSTANCE_ID),
                ("TxnOffsetCommit", ErrorCode.ILLEGAL_GENERATION),
                ("TxnOffsetCommit", ErrorCode.UNKNOWN_MEMBER_ID),
                ("TxnOffsetCommit", ErrorCode.TRANSACTION_ABORTABLE),
                ("EndTxn", ErrorCode.TRANSACTION_ABORTABLE),
            ]
        ),
        (2, "EndTxn", ErrorCode.INVALID_TXN_STATE),
    ],
    indirect=["world"],
)
def test_requires_abort_errors(world: World, api: str, code: int) -> None:
    work = Transacting(world)
    refuse(world, api, code)
    work.begin()
    unsent = work.send("t", b"1")
    with pytest.raises(TransactionAbortableError):
        work.send_offsets(1)
        work.commit()
    world.pass_time(1)
    assert unsent.done()
    work.abort()
    work.begin()
    work.send("t", b"2")
    work.send_offsets(2)
    work.commit()
    assert work.seen == [b"2"]
    assert work.offset == 2


def test_the_coordinator_has_forgotten_the_producer(world: World) -> None:
    """The id has expired there: the producer gets a new one, and no producer is fenced."""
    work = Transacting(world)
    for number, committed in enumerate((True, False)):
        work.transact(b"%d" % number)
        work.begin()
        work.send("t", b"lost", partition=number + 1)
        work.flush()
        before = work.identity
        world.transactions.by_id.clear()
        if committed:
            with pytest.raises(TransactionAbortableError, match="INVALID_PRODUCER_ID_MAPPING"):
                work.commit()
        work.abort()
        work.transact()
        assert work.identity.producer_id != before.producer_id
    work.transact(b"2")
    assert [v for v in values_seen(world) if v is not None] == [b"0", b"1", b"2"]


def values_seen(world: World) -> list[bytes | None]:
    world.pass_time(1)
    return committed_values(world.topics["t"].partitions[0])


def test_commit_after_a_message_timed_out(world: World) -> None:
    """A batch that was never sent, for want of a leader."""
    world.move_leader("t", 0, -1)
    work = Transacting(world, delivery_timeout_ms=3_000, request_timeout_ms=1_000)
    work.begin()
    lost = work.send("t", b"1")
    with pytest.raises(TransactionAbortableError, match="delivery_timeout_ms"):
        work.commit()
    assert isinstance(lost.exception(), KafkaTimeoutError)
    world.move_leader("t", 0, 1)
    work.abort()
    work.transact(b"2")
    assert work.seen == [b"2"]


def test_a_batch_of_unknown_fate_does_not_come_late(world: World) -> None:
    """Its response was lost and its time is up: its transaction is aborted, and it is refused when it comes again."""
    work = Transacting(world, delivery_timeout_ms=3_000, request_timeout_ms=1_000)
    work.begin()
    late: list[Call] = []

    def handler(call: Call) -> Response:
        late.append(call)
        return NEVER

    world.on("Produce", handler)
    lost = work.send("t", b"1")
    with pytest.raises(TransactionAbortableError, match="may or may not be in the log"):
        work.commit()
    assert isinstance(lost.exception(), KafkaTimeoutError)
    world.off("Produce")
    work.abort()
    work.begin()
    work.send("t", b"2", partition=1)
    work.flush()
    world.serve(late[0])
    work.commit()
    assert work.seen == [b"2"]


def test_an_abort_drops_unsent_records(world: World) -> None:
    work = Transacting(world, linger_ms=60_000)
    work.begin()
    sent = work.send("t", b"sent", partition=1)
    work.flush()
    unsent = work.send("t", b"unsent")
    work.abort()
    assert sent.result().offset == 0
    assert isinstance(unsent.exception(), TransactionAbortedError)
    assert work.used == 0
    assert work.seen == []
    assert len(world.made("Produce")) == 1


@pytest.mark.parametrize("stored", [True, False])
def test_an_aborted_record_without_a_response_is_reported_as_perhaps_stored(world: World, *, stored: bool) -> None:
    """No reader of committed records sees it; others do, and its offset is taken."""
    work = Transacting(world)
    work.begin()
    sends: list[Call] = []

    def handler(call: Call) -> Response:
        sends.append(call)
        if stored and len(sends) == 1:
            world.serve(call)
        return HANGUP

    world.on("Produce", handler)
    sent = work.send("t", b"1")
    while not sends:
        world.pass_time(0.01)
    world.pass_time(0.01)
    work.abort()
    error = sent.exception()
    assert isinstance(error, TransactionAbortedError)
    assert error.in_doubt
    assert world.topics["t"].partitions[0].values() == [b"1"] * stored
    world.off("Produce")
    work.transact(b"2")
    assert work.seen == [b"2"]


def test_an_abort_waits_for_records_in_flight(world: World) -> None:
    work = Transacting(world)
    work.begin()
    work.send("t", b"1")
    work.flush()

    async def slow(_: Call) -> None:
        await asyncio.sleep(2)

    world.on("Produce", slow)
    work.send("t", b"2")
    world.pass_time(0.1)
    before = world.engine.now_ms()
    work.abort()
    assert world.engine.now_ms() - before > 1_500
    assert work.seen == []


def test_nothing_is_asked_for_an_empty_transaction(world: World) -> None:
    work = Transacting(world)
    for _ in range(3):
        work.begin()
        work.commit()
        work.begin()
        work.abort()
    assert not world.made("EndTxn")
    assert not world.made("AddPartitionsToTxn")


def test_an_abort_is_sent_although_adding_was_retried(world: World) -> None:
    """An accepted or failed request is taken back."""
    work = Transacting(world)
    work.begin()
    refuse(world, "AddOffsetsToTxn", *[ErrorCode.NOT_COORDINATOR] * 20)
    refuse(world, "TxnOffsetCommit", *[ErrorCode.NOT_COORDINATOR] * 20)
    work.send("t", b"1")
    work.flush()
    with pytest.raises(TransactionTimeoutError):
        work.send_offsets(1, timeout_s=0.2)
    work.abort()
    (end,) = world.made("EndTxn")
    assert not end.message.committed
    assert work.seen == []
    assert work.offset is None


# --- what ends the producer


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED])
@in_versions(1)
def test_fenced_reinit(world: World, code: int) -> None:
    work = Transacting(world)
    work.begin()
    refuse(world, "Produce", ErrorCode.UNKNOWN_PRODUCER_ID)
    work.send("t", b"1")
    with pytest.raises(TransactionAbortableError):
        work.commit()
    refuse(world, "InitProducerId", code)
    work.abort()
    with pytest.raises(ProducerFencedError):
        work.begin()
    with pytest.raises(ProducerFencedError):
        work.send("t", b"2")
    assert not work.close()


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED])
@pytest.mark.parametrize("committed", [True, False])
def test_fenced_at_the_end(world: World, code: int, *, committed: bool) -> None:
    work = Transacting(world)
    work.begin()
    work.send("t", b"1")
    work.flush()
    refuse(world, "EndTxn", code)
    with pytest.raises(ProducerFencedError, match="another producer uses transactional_id 'x'") as caught:
        work.commit() if committed else work.abort()
    assert caught.value.fatal
    for call in (work.begin, work.commit, work.abort, work.initialize):
        with pytest.raises(ProducerFencedError):
            call()


# In version 2 a commit that its coordinator is in no state for was aborted by it, and an abort has nothing to end
# there: the producer goes on.
@pytest.mark.parametrize(
    ("world", "committed", "code"),
    [
        *itertools.product(VERSIONS, [True, False], [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, 42]),
        *((version, committed, ErrorCode.INVALID_TXN_STATE) for version, committed in [(1, True), (1, False)]),
    ],
    indirect=["world"],
)
def test_endtxn_errors_that_are_fatal(world: World, code: int, *, committed: bool) -> None:
    work = Transacting(world)
    work.begin()
    work.send("t", b"1")
    work.send_offsets(1)
    work.flush()
    refuse(world, "EndTxn", code)
    with pytest.raises(TransactionFatalError, match="cannot go on"):
        work.commit() if committed else work.abort()


def test_a_second_producer_fences_the_first(world: World) -> None:
    first, second = Transacting(world), Transacting(world)
    first.begin()
    first.send("t", b"1")
    first.flush()
    second.initialize()
    with pytest.raises(ProducerFencedError):
        first.commit()
    second.transact(b"2")
    assert second.seen == [b"2"]


def test_deliveries_of_a_fenced_producer_carry_transaction_errors(world: World) -> None:
    """A leader refuses the epoch; ending the transaction asks the coordinator, which reports fencing."""
    first, second = Transacting(world, batch_size=1), Transacting(world)
    first.begin()
    first.send("t", b"1")
    first.flush()
    second.transact(b"2")
    refused = first.send("t", b"3")
    world.pass_time(1)
    error = refused.exception()
    assert isinstance(error, TransactionAbortableError), error
    assert isinstance(error.__cause__, BrokerError)
    with pytest.raises(ProducerFencedError):
        first.abort()
    for call in (first.begin, first.commit, first.abort, first.initialize, lambda: first.send("t", b"4")):
        with pytest.raises(ProducerFencedError):
            call()
    assert second.seen == [b"2"]


@in_versions(2)
@pytest.mark.parametrize("offsets", [False, True])
def test_a_delivery_after_the_transaction_timed_out_is_abortable(world: World, *, offsets: bool) -> None:
    work = Transacting(world, batch_size=1)
    work.begin()
    work.send("t", b"1")
    work.flush()

    async def expire() -> None:
        world.transactions.expire_transaction("x")
        world.changed()

    world.run(expire())
    world.pass_time(1)
    if offsets:
        with pytest.raises(TransactionAbortableError):
            work.send_offsets(1)
    else:
        refused = work.send("t", b"2")
        world.pass_time(1)
        assert isinstance(refused.exception(), TransactionAbortableError)
    work.abort()
    work.transact(b"3")
    assert work.seen == [b"3"]


@pytest.mark.parametrize(
    ("api", "codes"),
    [
        ("Produce", [ErrorCode.INVALID_PRODUCER_EPOCH]),
        ("EndTxn", [ErrorCode.INVALID_TXN_STATE] * 2),
        ("EndTxn", [ErrorCode.INVALID_PRODUCER_ID_MAPPING]),
        ("EndTxn", [ErrorCode.TRANSACTION_ABORTABLE] * 3),
    ],
)
@in_versions(2)
def test_a_request_for_a_fresh_epoch_names_the_epoch_in_use(world: World, api: str, codes: list[int]) -> None:
    work = Transacting(world, batch_size=1)
    work.transact(b"1")
    named: list[int] = []

    def note(call: Call) -> Response:
        named.append(call.message.producer_epoch)
        return None

    world.on("InitProducerId", note)
    left = refuse(world, api, *codes)
    work.begin()
    work.send("t", b"2")
    with pytest.raises(TransactionAbortableError):
        work.commit()
    work.abort()
    assert not left
    work.transact(b"3")
    assert all(epoch >= 0 for epoch in named), named
    assert work.seen == [b"1", b"3"]


def test_the_coordinator_aborts_a_transaction_that_takes_too_long(world: World) -> None:
    """In version 2 its producer learns of it, and goes on."""
    work = Transacting(world)
    work.begin()
    work.send("t", b"1")
    work.flush()

    async def expire() -> None:
        world.transactions.expire_transaction("x")
        world.changed()

    world.run(expire())
    if world.transaction_version == 1:
        with pytest.raises(ProducerFencedError, match="took longer than transaction_timeout_ms"):
            work.commit()
    else:
        with pytest.raises(TransactionAbortableError, match="did it take longer than transaction_timeout_ms"):
            work.commit()
        work.abort()
        work.transact(b"2")
    assert work.seen == [b"2"] * (world.transaction_version == 2)


@pytest.mark.parametrize("arrives", [False, True])
def test_an_abort_while_the_transaction_before_is_still_being_ended(world: World, *, arrives: bool) -> None:
    """A coordinator sends no response about the next epoch until all markers are written."""
    work = Transacting(world)
    work.transact(b"1")
    world.pass_time(1)
    world.transactions.marker_delay_ms = 5_000.0
    work.transact(b"2")
    work.begin()
    unsent = work.send("t", b"3")
    world.pass_time(6 if arrives else 1)
    work.abort()
    assert arrives or isinstance(unsent.exception(), TransactionAbortedError)
    work.transact(b"4")
    world.pass_time(10)
    assert work.seen == [b"1", b"2", b"4"]


def test_an_abort_of_a_fenced_producer_before_any_record_of_its_arrived(world: World) -> None:
    first, second = Transacting(world), Transacting(world)
    first.transact(b"1")
    first.begin()
    world.on("Produce", lambda call: NEVER if call.message.transactional_id else None)
    first.send("t", b"2")
    world.pass_time(0.1)
    world.off("Produce")
    second.transact(b"3")
    with pytest.raises(ProducerFencedError):  # by the abort, or the next transaction
        first.abort()
        first.begin()
    assert second.seen == [b"1", b"3"]


@pytest.mark.parametrize(
    "code", [ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
)
@pytest.mark.parametrize("api", ["InitProducerId", "FindCoordinator"])
def test_auth_failure(world: World, api: str, code: int) -> None:
    """Nothing has begun: the user may try again once the ACL is there."""
    work = Transacting(world)
    refuse(world, api, code)
    with pytest.raises(TransactionFatalError, match="there is no producer id"):
        work.initialize()
    assert work.transactions.state is State.UNINITIALIZED
    work.initialize()
    work.transact(b"1")
    assert work.seen == [b"1"]


def test_transactions_are_not_supported(world: World) -> None:
    for node in world.nodes.values():
        node.versions["InitProducerId"] = (9, 9)
    work = Transacting(world)
    with pytest.raises(TransactionFatalError, match="no common version of InitProducerIdRequest"):
        work.initialize()


def test_a_broker_without_the_finalized_version() -> None:
    """Version 2 was finalised, and a broker does not have its requests."""
    with World() as world:
        world.create_topic("t")
        world.nodes[1].versions["Produce"] = (3, 11)
        work = Transacting(world)
        work.begin()
        refused = work.send("t", b"1")
        with pytest.raises(TransactionAbortableError, match="transactions of version 2"):
            work.commit()
        assert isinstance(refused.exception(), KafkaError)
        work.abort()


# --- brokers and coordinators


@pytest.mark.parametrize("which", ["transaction's coordinator", "group's coordinator", "leader"])
def test_broker_down_in_transaction(world: World, which: str) -> None:
    node = {"transaction's coordinator": 2, "group's coordinator": 3, "leader": 1}[which]
    work = Transacting(world)
    work.begin()
    work.send("t", b"1")
    work.flush()
    world.kill(node)
    work.send("t", b"2")

    async def come_back() -> None:
        await asyncio.sleep(3)
        world.nodes[node].down = False

    async def both() -> None:
        back = asyncio.ensure_future(come_back())
        await work.transactions.send_offsets({("in", 0): 5}, "g")
        await work.transactions.commit()
        await back

    world.run(both())
    assert work.seen == [b"1", b"2"]
    assert work.offset == 5


def test_switch_coordinator(world: World) -> None:
    work = Transacting(world)
    work.begin()
    for number in range(6):
        world.move_coordinator("x", 1 + number % 3)
        world.move_coordinator("g", 1 + (number + 1) % 3)
        work.send("t", b"%d" % number, partition=number % 3)
        work.send_offsets(number)
    world.move_coordinator("x", 2)
    work.commit()
    assert sorted(map(bytes, filter(None, work.seen))) == [b"%d" % number for number in range(6)]
    assert work.offset == 5


@pytest.mark.parametrize("which", ["transaction's coordinator", "group's coordinator"])
def test_a_coordinator_that_takes_connections_and_only_closes_them_is_looked_up_again(world: World, which: str) -> None:
    """Another has taken over; the one before is there, and says nothing of it."""
    of_group = which == "group's coordinator"
    api, key, node = ("TxnOffsetCommit", "g", 3) if of_group else ("EndTxn", "x", 2)
    work = Transacting(world)
    work.begin()
    work.send("t", b"1")
    work.flush()
    work.send_offsets(1)
    world.on(api, lambda call: HANGUP if call.node == node else None)
    world.move_coordinator(key, 1)
    before = world.engine.now_ms()
    work.send_offsets(2)
    work.commit()
    assert world.engine.now_ms() - before < 200
    assert work.seen == [b"1"]
    assert work.offset == 2


def test_no_coordinator_is_not_fatal(world: World) -> None:
    work = Transacting(world)
    work.begin()
    work.send("t", b"1")
    work.flush()
    world.move_coordinator("x", -1)
    with pytest.raises(TransactionTimeoutError, match="COORDINATOR_NOT_AVAILABLE"):
        work.commit(timeout_s=2)
    world.move_coordinator("x", 1)
    work.commit()
    assert work.seen == [b"1"]


def test_disconnected_group_coordinator(world: World) -> None:
    work = Transacting(world)
    for number, node in enumerate((3, 1)):
        work.begin()
        world.break_connections(3)
        world.move_coordinator("g", node)
        work.send_offsets(number)
        work.commit()
        world.pass_time(1)
        assert work.offset == number


def test_topic_disappears_for_a_while(world: World) -> None:
    work = Transacting(world, batch_size=1, metadata_max_age_ms=200)
    work.begin()
    for number in range(5):
        work.send("t", b"%d" % number)
    work.flush()
    kept = world.topics.pop("t")
    work.send("t", b"5")
    world.pass_time(2)
    world.topics["t"] = kept
    work.send("t", b"6")
    work.commit()
    assert work.seen == [b"%d" % number for number in range(7)]


@in_versions(1)
def test_partitions_are_added_as_they_are_written(world: World) -> None:
    work = Transacting(world)
    for _ in range(2):
        work.begin()
        for partition in (0, 1, 0, 2, 2):
            work.send("t", b"v", partition=partition)
            work.flush()
        work.commit()
    asked = [call.message.v3_and_below_topics[0].partitions for call in world.made("AddPartitionsToTxn")]
    assert asked == [[0], [1], [2]] * 2


def test_a_start_from_committed_offsets_waits_for_those_of_an_open_transaction(world: World) -> None:
    """KIP-447: or what a transaction that is about to commit has worked on would be worked on again."""
    log = world.topics["in"].partitions[0]
    log.append_values(b"%d" % number for number in range(8))
    work = Transacting(world)
    work.begin()
    work.send_offsets(3)
    work.commit()
    work.begin()
    work.send_offsets(6)

    async def commit_later() -> None:
        await asyncio.sleep(5)
        await work.transactions.commit()

    committing = world.loop.create_task(commit_later())
    with Consuming(world, assign=[IN], group_id="g", start=None) as consuming:
        consuming.until(lambda: consuming.rows.get(IN), limit_s=20)
        assert consuming.rows[IN] == [(6, b"6"), (7, b"7")]
        assert committing.done()


# --- calls whose time is up


@pytest.mark.parametrize("committed", [True, False])
def test_resumable_calls(world: World, *, committed: bool) -> None:
    """The user's time is honoured, the ending goes on, and the same call waits for it again."""
    work = Transacting(world, request_timeout_ms=5_000)
    work.begin()
    work.send("t", b"1")
    work.flush()

    async def slow(_: Call) -> None:
        await asyncio.sleep(3)

    world.on("EndTxn", slow)
    end = work.commit if committed else work.abort
    before = world.engine.now_ms()
    for _ in range(2):
        with pytest.raises(TransactionTimeoutError, match="call it again to wait for it") as caught:
            end(timeout_s=1)
        assert caught.value.retriable
    assert 1_990 < world.engine.now_ms() - before < 2_100
    with pytest.raises(TransactionStateError):
        work.abort() if committed else work.commit()
    with pytest.raises(TransactionStateError):
        work.begin()
    with pytest.raises(TransactionStateError):
        work.send("t", b"2")
    end()
    assert len(world.made("EndTxn")) == 1
    assert work.seen == ([b"1"] if committed else [])
    with pytest.raises(TransactionStateError):
        end()


@pytest.mark.parametrize("committed", [True, False])
def test_an_ending_comes_after_the_call_timed_out(world: World, *, committed: bool) -> None:
    """The same call says so, once; the other one does not."""
    work = Transacting(world)
    work.begin()
    work.send("t", b"1")
    work.flush()

    async def slow(_: Call) -> None:
        await asyncio.sleep(2)

    world.on("EndTxn", slow)
    end, other = (work.commit, work.abort) if committed else (work.abort, work.commit)
    with pytest.raises(TransactionTimeoutError):
        end(timeout_s=1)
    world.pass_time(3)
    with pytest.raises(TransactionStateError):
        other()
    end()
    with pytest.raises(TransactionStateError):
        end()
    assert work.seen == ([b"1"] if committed else [])


@pytest.mark.parametrize("committed", [True, False])
def test_an_error_comes_after_the_call_timed_out(world: World, *, committed: bool) -> None:
    work = Transacting(world)
    work.begin()
    work.send("t", b"1")
    work.flush()

    async def slow(_: Call) -> None:
        await asyncio.sleep(2)

    refuse(world, "EndTxn", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    world.on("EndTxn", slow)
    end = work.commit if committed else work.abort
    with pytest.raises(TransactionTimeoutError):
        end(timeout_s=1)
    with pytest.raises(TransactionFatalError):
        end()


def test_resumable_init(world: World) -> None:
    world.loading.add("x")
    work = Transacting(world)
    for _ in range(2):
        with pytest.raises(TransactionTimeoutError, match=r"init_transactions\(\) has no outcome after 1 s"):
            work.initialize(timeout_s=1)
    world.loading.clear()
    work.initialize()
    work.transact(b"1")
    assert work.seen == [b"1"]


@in_versions(1)
def test_slow_reinit(world: World) -> None:
    """The epoch that an abort needs takes longer than the call waits: the next transaction waits for it."""
    work = Transacting(world, max_block_ms=2_000)
    work.begin()
    refuse(world, "Produce", ErrorCode.UNKNOWN_PRODUCER_ID)
    work.send("t", b"1")
    with pytest.raises(TransactionAbortableError):
        work.commit()
    left = refuse(world, "InitProducerId", *[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 50)
    work.abort()
    with pytest.raises(TransactionTimeoutError, match=r"begin_transaction\(\) has no outcome"):
        work.begin()
    left.clear()
    work.transact(b"2")
    assert work.seen == [b"2"]


def test_flush_timeout(world: World) -> None:
    """A commit whose records take longer than its time."""
    work = Transacting(world, request_timeout_ms=30_000)
    work.begin()
    work.send("t", b"1")
    work.flush()

    async def slow(_: Call) -> None:
        await asyncio.sleep(4)

    world.on("Produce", slow)
    work.send("t", b"2")
    with pytest.raises(TransactionTimeoutError):
        work.commit(timeout_s=1)
    assert not world.made("EndTxn")
    work.commit()
    assert work.seen == [b"1", b"2"]


def test_no_timeout_crash(world: World) -> None:
    """Requests that never get a response: each is given up after its time, and asked again."""

    def respond(never: list[Response], _: Call) -> Response:
        return never.pop() if never else None

    work = Transacting(world, request_timeout_ms=500)
    for api in ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"):
        never: list[Response] = [NEVER, NEVER]
        world.on(api, partial(respond, never))
    work.begin()
    work.send("t", b"1")
    work.send_offsets(1)
    work.commit()
    assert work.seen == [b"1"]
    assert work.offset == 1


# --- calls that make no sense, and ends


def test_concurrent_operations(world: World) -> None:
    work = Transacting(world)
    work.begin()
    work.send("t", b"1")

    async def both() -> Sequence[object]:
        return await asyncio.gather(
            work.transactions.commit(),
            work.transactions.abort(),
            work.transactions.commit(),
            work.transactions.begin(),
            return_exceptions=True,
        )

    first, second, third, fourth = world.run(both())
    assert first is None
    assert third is None
    assert isinstance(second, TransactionStateError)
    assert isinstance(fourth, TransactionStateError)
    assert work.seen == [b"1"]


def test_offsets_that_are_none(world: World) -> None:
    work = Transacting(world)
    with pytest.raises(TransactionStateError, match="cannot send offsets: the producer"):
        work.send_offsets(1)
    work.begin()
    world.run(work.transactions.send_offsets({}, "g"))
    for offsets in ({("t", 0): -1}, {("t", 0): None}, {"t": 1}, {("t", 0): True}, 5, {("t", 0): 1 << 63}):
        with pytest.raises(ConfigError, match="TopicPartition"):
            world.run(work.transactions.send_offsets(offsets, "g"))  # type: ignore[arg-type]
    for group in ("", None, 5):
        with pytest.raises(ConfigError, match="a group id"):
            world.run(work.transactions.send_offsets({("t", 0): 1}, group))  # type: ignore[arg-type]
    work.commit()
    assert not world.made("TxnOffsetCommit")


def test_closing_aborts(world: World) -> None:
    work = Transacting(world, linger_ms=60_000)
    work.begin()
    work.send("t", b"1", partition=1)
    work.flush()
    unsent = work.send("t", b"2")
    assert not work.close()
    assert isinstance(unsent.exception(), TransactionAbortedError)
    assert work.seen == []


def test_closing_sees_a_commit_through(world: World) -> None:
    work = Transacting(world)
    work.begin()
    work.send("t", b"1")
    left = refuse(world, "EndTxn", *[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 20)
    with pytest.raises(TransactionTimeoutError):
        work.commit(timeout_s=0.2)
    assert left
    work.close()
    assert work.seen == [b"1"]


def test_closing_fails_waiting_calls(world: World) -> None:
    work = Transacting(world)
    work.begin()
    work.send("t", b"1")
    refuse(world, "EndTxn", *[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 1000)

    async def both() -> Sequence[object]:
        waiting = asyncio.ensure_future(work.transactions.commit())
        await asyncio.sleep(1)
        await work.core.close(2.0)
        return await asyncio.gather(waiting, return_exceptions=True)

    (error,) = world.run(both())
    assert isinstance(error, TransactionFatalError)
    assert "was closed before" in str(error)


# --- versions


def test_the_version_is_that_of_the_newest_news() -> None:
    with World(brokers=2) as world:
        world.transaction_version = 1
        world.create_topic("t")
        work = Transacting(world)
        work.transact(b"1")
        world.transaction_version, world.state.features_epoch = 2, 2
        work.transact(b"2")  # no response has it yet
        assert [call.version for call in world.made("EndTxn")] == [4, 4]
        world.break_connections(1)
        world.break_connections(2)
        world.pass_time(1)
        work.transact(b"3")
        work.transact(b"4")
        assert [call.version for call in world.made("EndTxn")][-1] == 5
        before = ProduceRequest.ADDS_PARTITIONS - 1
        assert {call.version for call in world.made("Produce")} == {before, ProduceRequest.max_version}
        assert work.seen == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_an_epoch_is_of_one_version(before: int, after: int) -> None:
    """KIP-890: after the feature's level changed, the next transaction begins with a fresh epoch of the same id."""
    with World(brokers=2) as world:
        world.transaction_version = before
        world.create_topic("t")
        work = Transacting(world)
        work.transact(b"1")
        old = work.identity
        world.transaction_version, world.state.features_epoch = after, 2
        world.break_connections(1)
        world.break_connections(2)
        world.pass_time(1)
        world.run(work.cluster.refresh())
        work.transact(b"2")
        first, again = world.made("InitProducerId")
        assert (first.message.producer_id, first.message.producer_epoch) == (-1, -1)
        assert (again.message.producer_id, again.message.producer_epoch) == (old.producer_id, old.epoch)
        versions: dict[int, set[bool]] = defaultdict(set)
        for call in world.made("EndTxn"):
            versions[call.message.producer_epoch].add(call.version >= 5)
        assert [len(spoken) for spoken in versions.values()] == [1, 1]
        assert work.seen == [b"1", b"2"]
