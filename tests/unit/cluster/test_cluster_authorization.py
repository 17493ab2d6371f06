"""A call that an ACL denies fails at once, with the broker's error, and works as soon as it is permitted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from kafwire import protocol
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.list_offsets import LATEST, list_offsets
from kafwire.config import ScanConfig
from kafwire.errors import BrokerError, KafkaError, ProtocolError, TransactionFatalError
from kafwire.testing.simulation.calls import Call
from tests.support.simulated.consumer import Consuming, write
from tests.support.simulated.group_offsets import commit, fetch, make
from tests.support.simulated.producer import Work, errors, log_of, produced
from tests.support.simulated.world import World
from tests.support.transactional_producer import Transacting

SOON_S = 1.0
CODES = {
    "TOPIC_AUTHORIZATION_FAILED": 29,
    "GROUP_AUTHORIZATION_FAILED": 30,
    "CLUSTER_AUTHORIZATION_FAILED": 31,
    "UNSUPPORTED_VERSION": 35,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": 53,
}


def deny(world: World, code: int) -> Callable[[Call], Any]:
    """A handler for Metadata by which no topic may be described."""

    def respond(call: Call) -> Any:
        found = world.serve(call)
        for topic in found.topics:
            topic.error_code, topic.partitions = code, []
        return found

    return respond


def refused(work: Work, *deliveries: Any) -> list[KafkaError]:
    """The errors of these, which must be there soon."""
    work.world.pass_time(SOON_S)
    assert all(delivery.done() for delivery in deliveries)
    return [delivery.exception(0) for delivery in deliveries]


@pytest.mark.parametrize("name", ["CLUSTER_AUTHORIZATION_FAILED", "UNSUPPORTED_VERSION"])
def test_a_refused_producer_id_fails_waiting_records_and_no_later_ones(name: str) -> None:
    with World() as world:
        world.create_topic("t", partitions=3)
        world.on("InitProducerId", lambda _: protocol.InitProducerIdResponse(error_code=CODES[name]))
        work = Work(world, "t", linger_ms=200)
        for error in refused(work, *(work.send("t", b"x", partition=number) for number in range(3))):
            assert isinstance(error, BrokerError)
            assert error.name == name
            assert not error.in_doubt
        assert work.used == 0
        world.off("InitProducerId")
        later = work.send("t", b"y")
        world.pass_time(1.5)
        assert later.result(0).offset >= 0


def test_records_that_come_again_and_again_do_not_ask_again_and_again() -> None:
    with World() as world:
        world.create_topic("t")
        world.on("InitProducerId", lambda _: protocol.InitProducerIdResponse(error_code=31))
        work = Work(world, "t", linger_ms=0)
        deliveries = []
        for _ in range(1_000):
            deliveries.append(work.send("t", b"x"))
            world.pass_time(0.01)
        world.pass_time(2)
        assert all("CLUSTER_AUTHORIZATION_FAILED" in str(delivery.exception(0)) for delivery in deliveries)
        assert len(world.made("InitProducerId")) < 20


def test_a_broker_without_producer_ids_is_named() -> None:
    with World() as world:
        world.create_topic("t")
        world.nodes[1].versions["InitProducerId"] = (98, 99)
        work = Work(world, "t", linger_ms=0)
        (error,) = refused(work, work.send("t", b"x"))
        assert isinstance(error, ProtocolError)
        assert "InitProducerId" in str(error)


def test_a_refused_new_producer_id_fails_only_the_partitions_that_need_it() -> None:
    """A batch of one partition was given up, so that needs another epoch, and the last one has been used up."""
    with World() as world:
        world.create_topic("t", partitions=2)
        work = Work(world, "t", linger_ms=0)
        work.send("t", b"x")
        work.flush()
        identity = work.core.identity
        assert identity is not None
        work.core.identity = dataclasses.replace(identity, epoch=32_767)
        world.on("Produce", lambda call: errors(29)(call) if produced(call)[0][0] == 0 else None)
        work.send("t", b"a")
        world.pass_time(SOON_S)
        world.off("Produce")
        world.on("InitProducerId", lambda _: protocol.InitProducerIdResponse(error_code=31))
        mine, other = work.send("t", b"a"), work.send("t", b"b", partition=1)
        world.pass_time(SOON_S)
        assert "CLUSTER_AUTHORIZATION_FAILED" in str(mine.exception(0))
        assert other.result(0).offset == 0


@pytest.mark.parametrize("api", ["InitProducerId", "FindCoordinator"])
@pytest.mark.parametrize("name", ["CLUSTER_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"])
def test_a_transactional_producer_is_refused_for_good(api: str, name: str) -> None:
    def find(call: Call) -> Any:
        kind = protocol.FindCoordinatorResponse
        keys = call.message.coordinator_keys
        return kind(coordinators=[kind.Coordinator(key=key, error_code=CODES[name]) for key in keys])

    with World() as world:
        world.create_topic("t")
        init = protocol.InitProducerIdResponse(error_code=CODES[name])
        world.on(api, find if api == "FindCoordinator" else lambda _: init)
        work = Transacting(world)
        started = world.loop.time()
        with pytest.raises(TransactionFatalError, match=name):
            work.begin()
        assert world.loop.time() - started < SOON_S


def test_a_topic_that_must_not_be_described_fails_a_send() -> None:
    with World() as world:
        world.create_topic("t")
        world.on("Metadata", deny(world, 29))
        work = Work(world)
        started = world.loop.time()
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED.*'t'"):
            world.run(work.core.ensure_metadata(["t"], 60_000))
        assert world.loop.time() - started < SOON_S
        world.run(work.cluster.refresh())
        assert world.made("Metadata")[-1].message.topics == [], "no send waits for it any more"
        world.off("Metadata")
        world.run(work.core.ensure_metadata(["t"], 60_000))
        delivery = work.send("t", b"x")
        work.flush()
        assert delivery.result(0).offset == 0


def test_a_revoked_permission_fails_records_that_wait_for_a_leader() -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", linger_ms=0)
        log_of(world).leader = -1
        world.run(work.cluster.refresh())
        delivery = work.send("t", b"x")
        world.pass_time(SOON_S)
        assert not delivery.done()
        world.on("Metadata", deny(world, 29))
        world.pass_time(2 * SOON_S)
        assert "TOPIC_AUTHORIZATION_FAILED" in str(delivery.exception(0))


def test_a_topic_that_must_not_be_described_fails_a_consumer() -> None:
    with World() as world:
        world.create_topic("t")
        write(world, "t")
        world.on("Metadata", deny(world, 29))
        started = world.loop.time()
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
            Consuming(world, topics="t")
        assert world.loop.time() - started < SOON_S
        world.off("Metadata")
        with Consuming(world, topics="t") as consuming:
            consuming.until(lambda: len(consuming.rows.get(("t", 0), [])) == 1)


def test_a_topic_that_must_not_be_described_fails_a_scan() -> None:
    with World() as world:
        world.create_topic("t")
        world.on("Metadata", deny(world, 29))
        config = ScanConfig.build({"bootstrap_servers": world.bootstrap})
        cluster = Cluster(world.engine, config)
        started = world.loop.time()
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
            world.run(list_offsets(cluster, {("t", 0): LATEST}))
        assert world.loop.time() - started < SOON_S
        world.off("Metadata")
        assert world.run(list_offsets(cluster, {("t", 0): LATEST})) == {("t", 0): 0}


@pytest.mark.parametrize("api", ["FindCoordinator", "OffsetFetch", "OffsetCommit"])
def test_a_group_that_must_not_be_used_is_an_error_at_once(api: str) -> None:
    with World() as world:
        world.create_topic("t")
        offsets = make(world)
        act = fetch if api == "OffsetFetch" else commit
        what: Any = [("t", 0)] if api == "OffsetFetch" else {("t", 0): 1}
        world.on(api, refusing_group(world, api))
        started = world.loop.time()
        with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
            act(world, offsets, what)
        assert world.loop.time() - started < SOON_S
        world.off(api)
        act(world, offsets, what)


def refusing_group(world: World, api: str) -> Callable[[Call], Any]:
    def respond(call: Call) -> Any:
        found: Any = world.serve(call)
        if api == "FindCoordinator":
            for entry in found.coordinators:
                entry.error_code = 30
        elif api == "OffsetFetch":
            for entry in found.groups:
                entry.error_code, entry.topics = 30, []
        else:
            for topic in found.topics:
                for part in topic.partitions:
                    part.error_code = 30
        return found

    return respond
