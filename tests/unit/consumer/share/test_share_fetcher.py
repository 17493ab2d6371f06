"""`consumer.share.share_fetcher`: which errors a share consumer retries, and when."""

from __future__ import annotations

import pytest

from kafwire.broker.faults import Faults
from kafwire.broker.request import Request, Response
from kafwire.consumer.fetch.errors import UNREADABLE
from kafwire.errors import AuthorizationError, BrokerError, ProtocolError
from tests.support.share.world import BATCH, BATCHES, TOPIC, ShareWorld

PATIENCE_S = 30.0
LAST_S = 5.0
RETRIES = 12  # the most in LAST_S by retry_backoff_ms and retry_backoff_max_ms


def fail(world: ShareWorld, code: str, times: int | None, **whose: str | int) -> None:
    world.state.part(Faults).fail_next("ShareFetch", code, times=times, **whose)


def read_all(world: ShareWorld) -> int:
    with world.consumer() as consumer:
        return sum(len(batch) for batch in consumer.batches(PATIENCE_S))


@pytest.mark.parametrize("code", ["NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR", "UNKNOWN_SERVER_ERROR"])
def test_a_partition_with_an_error_that_passes_is_read_later(code: str) -> None:
    with ShareWorld() as world:
        fail(world, code, 3, topic=TOPIC, partition=0)
        assert read_all(world) == BATCH * BATCHES


@pytest.mark.parametrize("code", ["CORRUPT_MESSAGE", "TOPIC_AUTHORIZATION_FAILED", "INVALID_REQUEST"])
def test_a_partition_with_another_error_fails_the_read(code: str) -> None:
    with ShareWorld() as world, world.consumer() as consumer:
        fail(world, code, None, topic=TOPIC, partition=0)
        with pytest.raises(BrokerError, match=rf"{code} .*reading {TOPIC}-0"):
            consumer.poll(PATIENCE_S)


def test_an_error_of_a_partition_that_lasts_is_retried_with_a_backoff() -> None:
    with ShareWorld(2) as world, world.consumer() as consumer:
        fail(world, "NOT_LEADER_OR_FOLLOWER", None, topic=TOPIC, partition=0)
        until_s = world.loop.time() + LAST_S
        rows = 0
        while world.loop.time() < until_s:
            rows += sum(len(batch) for batch in consumer.poll(1.0))
        assert rows == BATCH * BATCHES, "the other partition is read"
        leader = world.topic.partitions[0].leader
        named = [
            request
            for _, request in world.asked
            if request.name == "ShareFetch" and request.node == leader and request.message.topics
        ]
        assert len(named) <= RETRIES


def test_an_error_after_a_success_is_retried_at_once() -> None:
    with ShareWorld() as world, world.consumer() as consumer:
        for _ in range(3):
            assert consumer.poll(PATIENCE_S)
            world.pass_time(1.0)  # lookups of one client have a least distance
            fail(world, "NOT_LEADER_OR_FOLLOWER", 1, topic=TOPIC, partition=0)
            began = world.loop.time()
            assert consumer.poll(PATIENCE_S)
            assert world.loop.time() - began < 0.05


def test_the_response_names_the_new_leader() -> None:
    """The metadata of all brokers lags, so only the response shows the new leader (KIP-951)."""
    with ShareWorld(2) as world, world.consumer() as consumer:
        partition = world.topic.partitions[0]
        other = 3 - partition.leader
        consumer.poll(PATIENCE_S)
        for node in (1, 2):
            world.lag(node)
        world.state.move_leader(TOPIC, 0, other)
        world.changed()
        asked, until_s = len(world.asked), world.loop.time() + PATIENCE_S
        while (0, other) not in {
            (part.partition_index, request.node)
            for _, request in world.asked[asked:]
            if request.name == "ShareFetch"
            for topic in request.message.topics
            for part in topic.partitions
        }:
            assert world.loop.time() < until_s
            consumer.poll(0.1)


@pytest.mark.parametrize("code", ["SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH"])
def test_the_first_session_error_is_retried_at_once_and_others_wait(code: str) -> None:
    waits = []
    for times in (1, 2):
        with ShareWorld() as world, world.consumer(share_acknowledgement_mode="explicit") as consumer:
            consumer.poll(PATIENCE_S)
            began, lookups = world.loop.time(), len(world.made("Metadata"))
            fail(world, code, times)
            assert consumer.poll(PATIENCE_S)
            waits.append(world.loop.time() - began)
            assert len(world.made("Metadata")) == lookups, "the leader is known"
    assert waits[0] < 0.02
    assert 0.08 < waits[1] < 0.5


def test_a_group_that_may_not_be_read_is_an_error_at_once() -> None:
    with ShareWorld() as world, world.consumer() as consumer:
        fail(world, "GROUP_AUTHORIZATION_FAILED", None)
        began = world.loop.time()
        with pytest.raises(AuthorizationError):
            consumer.poll(PATIENCE_S)
        assert world.loop.time() - began < 1.0


def damage(world: ShareWorld, times: int) -> None:
    """Damage the next responses to ShareFetch requests, which the broker executes."""
    left = iter(range(times))

    def damaged(response: Response) -> Response:
        return response if next(left, None) is None else b"damaged"

    def intercept(request: Request) -> None:
        if request.name == "ShareFetch":
            request.edits.append(damaged)

    world.state.interceptors.append(intercept)


def test_damaged_responses_of_a_broker_are_retried(caplog: pytest.LogCaptureFixture) -> None:
    with ShareWorld() as world:
        damage(world, UNREADABLE - 1)
        assert read_all(world) == BATCH * BATCHES
    (warning,) = (each.message for each in caplog.records if "cannot be decoded" in each.message)
    assert warning.endswith("this is tried again")


def test_a_broker_that_sends_only_damaged_responses_fails_the_read() -> None:
    with ShareWorld() as world, world.consumer() as consumer:
        damage(world, UNREADABLE)
        with pytest.raises(ProtocolError, match="broker 1 .* sent a response that cannot be decoded"):
            consumer.poll(PATIENCE_S)
        assert len(world.made("ShareFetch")) == UNREADABLE


def test_a_good_response_between_damaged_ones_resets_their_count() -> None:
    with ShareWorld() as world, world.consumer() as consumer:
        rows = 0
        for _ in range(2):
            damage(world, UNREADABLE - 1)
            rows += sum(len(batch) for batch in consumer.poll(PATIENCE_S))
        assert rows == 2 * BATCH
