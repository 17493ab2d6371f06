"""Whose connections pass a proxy, and clients that are parted from a server."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kafwire.testing.faults import FaultProxy
from kafwire.testing.faults.sources import pid_of, source_of
from tests.support import socket_server
from tests.support.socket_server import SocketServer

DEADLINE_S = 20.0


@pytest.fixture
def echo() -> Iterator[str]:
    """A server that sends back what it gets."""
    with SocketServer(socket_server.echo) as server:
        yield server.address


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=DEADLINE_S)


def test_a_connection_is_known_by_its_port(echo: str) -> None:
    with connect(echo) as client:
        port = client.getsockname()[1]
        assert pid_of(port, [1, os.getpid()]) == os.getpid()
        assert pid_of(port, [1]) is None
        assert source_of(port, {7: os.getpid()}) == 7
        assert source_of(port, {7: 1}) is None
    assert pid_of(port, [os.getpid()]) is None
    assert pid_of(int(echo.rpartition(":")[2]), []) is None


def test_another_process_is_distinguished(echo: str) -> None:
    program = f"""
import socket
client = socket.create_connection({("127.0.0.1", int(echo.rpartition(":")[2]))!r})
print(client.getsockname()[1], flush=True)
input()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        port = int(other.stdout.readline())
        assert source_of(port, {1: os.getpid(), 2: other.pid}) == 2
        other.communicate(b"\n")


@pytest.mark.parametrize("frames", [False, True])
def test_a_client_that_is_parted_gets_nothing_until_it_is_not(echo: str, frames: bool) -> None:
    me = {"pid": os.getpid()}

    def broker_at(port: int) -> int | None:
        return source_of(port, {3: me["pid"]})

    noise = b"\xff\xff\xff\xff what is no frame"
    with FaultProxy({1: echo}, frames=frames, source_of=broker_at) as proxy, connect(proxy.bootstrap) as old:
        old.sendall(noise)
        assert received(old, len(noise)) == noise
        proxy.sever(1, 2)  # another process
        old.sendall(noise)
        assert received(old, len(noise)) == noise
        proxy.sever(1, 3)
        old.sendall(noise)
        with connect(proxy.bootstrap) as new:
            new.sendall(noise)
            for silent in (old, new):
                silent.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    silent.recv(1)
                silent.settimeout(DEADLINE_S)
            proxy.heal()
            for client in (old, new):
                assert received(client, len(noise)) == noise
                client.sendall(noise)
                assert received(client, len(noise)) == noise


def received(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = client.recv(size - len(data))
        assert piece
        data += piece
    return data
