"""`producer.outcome.response`: the outcomes and leaders in responses to produce requests, and undecodable responses."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire import protocol
from kafwire.errors import ErrorCode, KafkaTimeoutError
from kafwire.producer.outcome.sequencer import Identity
from kafwire.testing.simulation.calls import Call
from tests.support.simulated.producer import Work, errors, log_of, produced, values
from tests.support.simulated.world import World

Kind = protocol.ProduceResponse


def test_acks_0_ends_with_the_sending() -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", acks=0, batch_size=100)
        deliveries = [work.send("t", value) for value in values(10, size=50)]
        work.flush()
        assert {delivery.result().offset for delivery in deliveries} == {-1}
        world.pass_time(1)
        assert log_of(world).values() == values(10, size=50)
        assert not world.made("InitProducerId")
        assert work.used == 0
        batch = produced(world.made("Produce")[0])[0][1]
        assert (batch.producer_id, batch.base_sequence) == (-1, -1)


def test_the_errors_of_single_records_are_reported() -> None:
    def complain(call: Call) -> Any:
        response = errors(ErrorCode.INVALID_RECORD)(call)
        part = response.responses[0].partition_responses[0]
        part.error_message = "no such field"
        part.record_errors = [
            protocol.ProduceResponse.BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="bad")
        ]
        return response

    with World() as world:
        world.create_topic("t")
        world.on("Produce", complain)
        work = Work(world, "t")
        delivery = work.send("t", b"v")
        work.flush()
        assert "no such field (record 1: bad)" in str(delivery.exception())


def test_a_response_that_cannot_be_read_is_an_unknown_fate() -> None:
    def garble(call: Call) -> Any:
        world.serve(call)
        return b"\0\xff\xff" if len(world.made("Produce")) == 1 else None

    with World() as world:
        world.create_topic("t")
        world.on("Produce", garble)
        work = Work(world, "t")
        delivery = work.send("t", b"v")
        work.flush()
        assert delivery.result().offset == 0
        assert log_of(world).values() == [b"v"]
        assert world.connections[world.made("Produce")[0].connection].closed


def test_a_response_that_leaves_a_partition_out_is_an_unknown_fate() -> None:
    with World() as world:
        world.create_topic("t")
        world.on("Produce", lambda _: protocol.ProduceResponse() if len(world.made("Produce")) == 1 else None)
        work = Work(world, "t")
        delivery = work.send("t", b"v")
        work.flush()
        assert delivery.result().offset == 0


def redirect(world: World, to: int, *, epoch: int, code: int = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> Any:
    """A handler by which broker 1 names another leader."""

    def respond(call: Call) -> Any:
        if call.node != 1:
            return None
        refusal = errors(code)(call)
        for part in refusal.responses[0].partition_responses:
            part.current_leader = Kind.LeaderIdAndEpoch(leader_id=to, leader_epoch=epoch)
        node = world.nodes[to]
        refusal.node_endpoints = [Kind.NodeEndpoint(node_id=to, host=node.host, port=node.port)]
        return refusal

    return respond


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH])
@pytest.mark.parametrize("in_flight", [1, 4])
def test_a_record_goes_to_the_new_leader_without_asking_for_metadata(code: int, in_flight: int) -> None:
    with World(brokers=2) as world:
        world.create_topic("t")
        work = Work(world, "t", batch_size=100, retry_backoff_ms=5_000, retry_backoff_max_ms=5_000)
        work.send("t", b"0")
        work.flush()
        world.move_leader("t", 0, 2)
        world.on("Produce", redirect(world, 2, epoch=1, code=code))
        asked = len(world.made("Metadata"))
        started = world.engine.now_ms()
        deliveries = [work.send("t", value) for value in values(in_flight, size=60)]
        work.flush()
        assert len(world.made("Metadata")) == asked
        assert world.engine.now_ms() - started < 100
        assert [delivery.result().offset for delivery in deliveries] == list(range(1, in_flight + 1))
        assert [call.node for call in world.made("Produce")] == [1] + [1] * in_flight + [2] * in_flight
        assert work.core.identity == Identity(1000, 0)


def test_a_leader_of_a_broker_that_was_not_known_is_found_at_its_address() -> None:
    with World(brokers=2) as world:
        world.nodes[2].down = True
        world.create_topic("t")
        world.topics["t"].partitions[0].leader = 1
        work = Work(world, "t")
        work.send("t", b"0")
        work.flush()
        assert 2 not in work.cluster.metadata.brokers
        world.nodes[2].down = False
        world.move_leader("t", 0, 2)
        world.on("Produce", redirect(world, 2, epoch=1))
        asked = len(world.made("Metadata"))
        delivery = work.send("t", b"1")
        work.flush()
        assert delivery.result().offset == 1
        assert len(world.made("Metadata")) == asked


@pytest.mark.parametrize("epoch", [-1, 0])
def test_an_old_hint_is_not_followed(epoch: int) -> None:
    with World(brokers=2) as world:
        world.create_topic("t")
        work = Work(world, "t")
        world.on("Produce", redirect(world, 2, epoch=epoch))
        delivery = work.send("t", b"v")
        world.pass_time(3)
        assert {call.node for call in world.made("Produce")} == {1}
        assert not delivery.done()
        world.off("Produce")
        work.flush()
        assert delivery.result().offset == 0


def test_two_brokers_that_send_each_other_away_are_not_asked_without_pause() -> None:
    def away(call: Call) -> Any:
        return redirect(world, 3 - call.node, epoch=len(world.made("Produce")) // 2)(call) or errors(
            ErrorCode.NOT_LEADER_OR_FOLLOWER
        )(call)

    with World(brokers=2) as world:
        world.create_topic("t")
        work = Work(world, "t", delivery_timeout_ms=40_000)
        world.on("Produce", away)
        delivery = work.send("t", b"v")
        work.flush()
        assert isinstance(delivery.exception(), KafkaTimeoutError)
        assert len(world.made("Produce")) < 200
