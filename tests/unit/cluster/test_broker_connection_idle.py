"""Connections that nothing is sent on: closed by the client, without a word, and opened again when they are needed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import Any

import pytest

from kafwire import protocol
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.cluster import Cluster
from kafwire.config import ClientConfig
from kafwire.runtime.engine import NativeEngine
from kafwire.testing.simulation.calls import Call
from tests.support.broker.frame_server import FrameServer
from tests.support.simulated.consumer import Consuming, write
from tests.support.simulated.producer import Work
from tests.support.simulated.world import World

DEFAULT_S = 540


def make_cluster(world: World, **options: Any) -> Cluster:
    return Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap, **options}))


def metadata() -> protocol.MetadataRequest:
    return protocol.MetadataRequest(topics=[])


def open_ones(world: World) -> int:
    return sum(not connection.closed for connection in world.connections)


def test_an_idle_connection_is_closed_and_opened_again() -> None:
    with World() as world:
        cluster = make_cluster(world)
        world.run(cluster.call(metadata()))
        for _ in range(3):
            world.pass_time(DEFAULT_S - 1)
            world.run(cluster.call(metadata()))
        assert len(world.connections) == 1
        world.pass_time(DEFAULT_S + 1)
        assert open_ones(world) == 0
        world.run(cluster.call(metadata()))
        assert open_ones(world) == 1
        assert all(connection.failures == 0 for connection in cluster.connections)


@pytest.mark.parametrize("limit", [0, -1])
def test_an_idle_connection_can_stay_open(limit: int) -> None:
    with World() as world:
        cluster = make_cluster(world, connections_max_idle_ms=limit)
        world.run(cluster.call(metadata()))
        world.pass_time(10 * DEFAULT_S)
        assert open_ones(world) == 1


def test_a_connection_that_owes_a_response_is_not_idle() -> None:
    async def slow(call: Call) -> None:
        del call
        await asyncio.sleep(20)

    with World() as world:
        cluster = make_cluster(world, connections_max_idle_ms=5_000)
        world.on("Metadata", slow)
        world.run(cluster.call(metadata()))
        assert len(world.connections) == 1
        world.pass_time(4.9)
        assert open_ones(world) == 1
        world.pass_time(5.2)
        assert open_ones(world) == 0


def test_records_are_delivered_after_a_long_silence() -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", linger_ms=0)
        for number in range(3):
            delivery = work.send("t", b"x")
            world.pass_time(1)
            assert delivery.result(0).offset == number
            world.pass_time(DEFAULT_S + 1)
            assert open_ones(world) == 0
        assert work.core.metrics()["producer"]["errors"] == {}


def test_a_consumer_that_was_paused_for_long_reads_on() -> None:
    with World() as world:
        world.create_topic("t")
        write(world, "t")
        with Consuming(world, topics="t") as consuming:
            consuming.until(lambda: len(consuming.rows.get(("t", 0), [])) == 1)
            consuming.idle(DEFAULT_S + 1)
            before = len(world.connections)
            write(world, "t")
            consuming.until(lambda: len(consuming.rows["t", 0]) == 2, limit_s=1)
            assert len(world.connections) == before, "a parked fetch is owed a response"


def connected_to(port: int) -> socket.socket:
    """This process's end of a connection to a port of its own: the native thread's, of which Python knows nothing."""
    for fd in range(3, 1024):
        try:
            found = socket.socket(fileno=os.dup(fd))
        except OSError:
            continue
        with contextlib.suppress(OSError):
            if found.family == socket.AF_INET and found.getpeername() == ("127.0.0.1", port):
                return found
        found.close()
    raise AssertionError("no such connection")


def test_a_dead_peer_is_looked_for() -> None:
    """The operating system probes a silent connection: SO_KEEPALIVE, after a minute, every ten seconds, six times."""
    engine = NativeEngine()
    try:
        with FrameServer() as server:
            config = ClientConfig.build({"bootstrap_servers": server.address})
            connection = BrokerConnection(engine, config, "127.0.0.1", server.port, "control", 1)

            async def connect() -> None:
                await connection._connect(socket.AF_INET, ("127.0.0.1", server.port))

            engine.run(connect)
            mine = connected_to(server.port)
            try:
                assert mine.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
                assert mine.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
                assert [
                    mine.getsockopt(socket.IPPROTO_TCP, option)
                    for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
                ] == [60, 10, 6]
            finally:
                mine.close()
            engine.start(connection.close)
    finally:
        engine.stop()
