"""`runtime.resolver`: names to addresses by the system's resolver, in threads."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kafwire.runtime.engine import NativeEngine
from kafwire.runtime.resolver import LOOK_UPS, failing_part

SOON_S = 10.0


@pytest.fixture
def engine() -> Iterator[NativeEngine]:
    it = NativeEngine()
    yield it
    it.stop()


class NameServer:
    """Stands in for the system's resolver: it knows addresses, resolves one name, and hangs on all others."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_respond = threading.Event()
        self._real = socket.getaddrinfo

    def __call__(self, host: str, port: int, **options: Any) -> Any:
        if options.get("flags", 0) & socket.AI_NUMERICHOST:
            return self._real(host, port, **options)
        self.asked.append(host)
        if host != "known.example":
            self.may_respond.wait(SOON_S)
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", port))]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    it = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", it)
    yield it
    it.may_respond.set()


def test_numeric_addresses_need_no_look_up(engine: NativeEngine, server: NameServer) -> None:
    resolve = engine.resolver.resolve
    assert engine.run(resolve, "127.0.0.1", 9092) == [(socket.AF_INET, ("127.0.0.1", 9092))]
    assert engine.run(resolve, "::1", 9092) == [(socket.AF_INET6, ("::1", 9092, 0, 0))]
    assert server.asked == []


def test_names_are_looked_up_while_other_threads_are_busy(engine: NativeEngine, server: NameServer) -> None:
    async def look_up() -> list[Any]:
        for _ in range(40):
            engine.in_thread("kafwire-metrics", server.may_respond.wait, SOON_S)
        async with asyncio.timeout(SOON_S):
            return await engine.resolver.resolve("known.example", 9092)

    assert engine.run(look_up) == [(socket.AF_INET, ("10.0.0.1", 9092))]


def test_a_few_names_are_looked_up_at_a_time(engine: NativeEngine, server: NameServer) -> None:
    """A call that gave up has not freed its place: its thread is still there."""

    async def look_up() -> None:
        for number in range(2 * LOOK_UPS):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.005):
                    await engine.resolver.resolve(f"{number}.example", 9092)

    engine.run(look_up)
    assert len(server.asked) == LOOK_UPS
    server.may_respond.set()
    assert engine.run(engine.resolver.resolve, "known.example", 1) == [(socket.AF_INET, ("10.0.0.1", 1))]


def test_the_error_of_a_look_up_is_raised(engine: NativeEngine, server: NameServer) -> None:
    server.may_respond.set()
    with pytest.raises(OSError, match="no such name"):
        engine.run(engine.resolver.resolve, "unknown.example", 9092)


@pytest.mark.parametrize("host", ["foo..bar", "x" * 64 + ".example"])
def test_an_impossible_host_name_is_an_error(engine: NativeEngine, host: str) -> None:
    with pytest.raises(UnicodeError):
        engine.run(engine.resolver.resolve, host, 9092)


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "name"),
        (UnicodeError("label empty or too long"), "name"),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), "server"),
        (socket.gaierror(socket.EAI_FAIL, "Non-recoverable failure in name resolution"), ""),
        (OSError(24, "Too many open files"), ""),
        (RuntimeError("can't start new thread"), ""),
    ],
)
def test_the_part_that_an_error_of_resolving_blames(error: Exception, part: str) -> None:
    assert failing_part(error) == part
