"""`close(timeout)` of a member bounds the whole close: handlers, the commit, leaving, the fetch sessions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafwire.broker.request import Request
from tests.support.group.consumers import PROTOCOLS, GroupWorld
from tests.support.share.world import ShareWorld


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of one protocol."""
    return PROTOCOLS[request.param]


def hang(request: Request) -> None:
    """Brokers send no response in time."""
    request.delay_ms = 300_000


async def seconds_to_close(group: GroupWorld, *timeout: float, **options: Any) -> float:
    """How long a member with rows to commit takes while no broker responds."""
    member = group.member(**options)
    await member.consumer.start()
    await group.until(lambda: len(member.consumer.assignment) == 4)
    for partition in group.world.state.topics.by_name["t"].partitions:
        partition.append_values([b"v"])
    group.world.changed()
    assert await member.consumer.poll(30.0)
    await member.consumer.poll(0.1)  # the records are processed
    group.world.state.interceptors.insert(0, hang)
    began = group.world.loop.time()
    await member.consumer.close(*timeout)
    return group.world.loop.time() - began


def test_close_ends_in_time_though_no_broker_responds(protocol: dict[str, Any]) -> None:
    with GroupWorld() as group:

        async def main() -> None:
            assert 1.9 < await seconds_to_close(group, 2.0, **protocol) < 2.2

        group.world.run(main())


def test_close_without_a_timeout_ends_before_kubernetes_loses_patience(protocol: dict[str, Any]) -> None:
    with GroupWorld() as group:

        async def main() -> None:
            assert await seconds_to_close(group, **protocol) < 11.0

        group.world.run(main())


def test_a_slow_handler_takes_from_the_time_of_the_close(protocol: dict[str, Any]) -> None:
    async def on_revoked(*_: object) -> None:
        await asyncio.sleep(1.5)

    with GroupWorld() as group:

        async def main() -> None:
            assert 1.9 < await seconds_to_close(group, 2.0, **protocol, on_revoked=on_revoked) < 2.2

        group.world.run(main())


def test_close_of_a_share_consumer_ends_in_time_though_no_broker_responds() -> None:
    with ShareWorld() as world:
        consumer = world.consumer()
        assert consumer.poll(30.0)
        world.state.interceptors.insert(0, hang)
        began = world.loop.time()
        consumer.close(2.0)
        assert 1.9 < world.loop.time() - began < 2.2
