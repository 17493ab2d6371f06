"""A producer gives its open transaction away: nothing more is sent, `close` leaves it open, and its handle ends it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafwire import protocol
from kafwire.errors import (
    ErrorCode,
    TransactionAbortableError,
    TransactionStateError,
    TransactionTimeoutError,
)
from kafwire.testing.simulation.calls import NEVER, Call, Response
from kafwire.types import TransactionHandle
from tests.support.simulated.producer import committed_values
from tests.support.simulated.world import World
from tests.support.transactional_producer import Transacting, refuse

VERSIONS = (1, 2)


@pytest.fixture(params=VERSIONS, ids=[f"version {version}" for version in VERSIONS])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with World(brokers=3) as it:
        it.transaction_version = request.param
        it.create_topic("t", partitions=3)
        it.move_coordinator("x", 2)
        yield it


def end(work: Transacting, handle: TransactionHandle, *, committed: bool) -> int:
    """EndTxn by another process than the producer's."""
    world = work.world
    with_epoch = world.transaction_version >= 2
    request = protocol.EndTxnRequest(**handle._asdict(), committed=committed)
    other = Transacting(world, transactional_id="other")
    response = world.run(other.core.cluster.call(request, node=2, version=5 if with_epoch else 4))
    world.run(other.core.close(1.0))
    return int(response.error_code)


@pytest.mark.parametrize("linger_ms", [0, 60_000])
@pytest.mark.parametrize("committed", [True, False])
def test_another_process_ends_a_detached_transaction(world: World, linger_ms: int, committed: bool) -> None:
    work = Transacting(world, linger_ms=linger_ms)
    work.begin()
    deliveries = [work.send("t", b"%d" % number) for number in range(3)]
    identity = work.identity
    handle = world.run(work.transactions.detach())
    assert handle == ("x", identity.producer_id, identity.epoch)
    assert all(delivery.done() for delivery in deliveries)  # buffered records too
    world.run(work.core.close(None))
    with pytest.raises(AssertionError, match="a transaction is not decided"):  # readers wait for its end
        work.world.pass_time(1)
        committed_values(world.topics["t"].partitions[deliveries[0].result().partition])
    assert end(work, handle, committed=committed) == 0
    assert sorted(filter(None, work.seen)) == ([b"0", b"1", b"2"] if committed else [])


def test_a_producer_without_its_transaction_sends_nothing(world: World) -> None:
    work = Transacting(world)
    work.begin()
    work.send("t", b"1")
    handle = world.run(work.transactions.detach())
    assert world.run(work.transactions.detach()) == handle
    asked: list[Call] = []

    def refused(call: Call) -> Response:
        asked.append(call)
        return None

    world.on("Produce", refused)
    world.on("EndTxn", refused)
    world.on("InitProducerId", refused)
    with pytest.raises(TransactionStateError, match="cannot send: .* without its transaction, which was detached"):
        work.send("t", b"2")
    for call in (work.begin, work.commit, work.abort, work.initialize):
        with pytest.raises(TransactionStateError, match="detached; the handle that detach.. returned ends it"):
            call()
    world.run(work.core.close(None))
    assert not asked


def test_a_failed_batch_keeps_the_transaction(world: World) -> None:
    work = Transacting(world)
    work.begin()
    refuse(world, "Produce", ErrorCode.MESSAGE_TOO_LARGE)
    work.send("t", b"1")
    with pytest.raises(TransactionAbortableError):
        world.run(work.transactions.detach())
    work.abort()
    work.transact(b"2")
    assert work.seen == [b"2"]


def test_an_empty_transaction_is_not_detached(world: World) -> None:
    work = Transacting(world)
    work.begin()
    with pytest.raises(TransactionStateError, match="has no records; abort it"):
        world.run(work.transactions.detach())
    work.send("t", b"1")
    work.commit()
    assert work.seen == [b"1"]


def test_a_detach_that_ran_out_of_time_goes_on_or_is_aborted(world: World) -> None:
    work = Transacting(world)
    work.begin()
    world.on("Produce", lambda call: NEVER if call.message.transactional_id else None)
    work.send("t", b"1")
    with pytest.raises(TransactionTimeoutError, match=r"detach\(\) has no outcome after 0.1 s"):
        world.run(work.transactions.detach(0.1))
    with pytest.raises(TransactionStateError, match=r"call detach\(\) again"):
        work.send("t", b"2")
