"""`runtime.native_transport`: what the native I/O thread completed reaches the one that it is for."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any, cast

import pytest

from kafwire.memory._buffer import Buffer
from kafwire.runtime import _io
from kafwire.runtime.interfaces import Notifier, RequestTable
from kafwire.runtime.native_transport import NativeConnection, NativeTransport


class ScriptedLoop:
    """Stands in for the native loop: completions as the test wants them."""

    def __init__(self) -> None:
        self.completed: list[tuple[int, int, int, Any]] = []
        self.calls: list[tuple[Any, ...]] = []
        self.cookies: list[int] = []

    def connect(self, address: object, family: int, *, max_frame: int, stream: object) -> int:
        self.calls.append(("connect", address, family, max_frame, *([] if stream is None else [stream])))
        return len(self.calls)

    def submit(self, *arguments: object) -> None:
        self.calls.append(("submit", *arguments))

    def hold(self, *arguments: object) -> None:
        self.calls.append(("hold", *arguments))

    def set_max_frame(self, *arguments: object) -> None:
        self.calls.append(("set_max_frame", *arguments))

    def close_connection(self, *arguments: object) -> None:
        self.calls.append(("close", *arguments))

    def requests(self, connection: int) -> RequestTable:
        del connection
        return RequestTable()

    def notifier(self, cookie: int) -> Notifier:
        self.cookies.append(cookie)
        return Notifier()

    def drain(self) -> list[tuple[int, int, int, Any]]:
        completed, self.completed = self.completed, []
        return completed


class Notes:
    """A receiver that writes down its calls."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def on_connected(self) -> None:
        self.heard.append(("connected",))

    def on_response(self, token: int, frame: Buffer) -> None:
        self.heard.append(("response", token, bytes(frame)))

    def on_sent(self, token: int) -> None:
        self.heard.append(("sent", token))

    def on_closed(self, errno: int, reason: str) -> None:
        self.heard.append(("closed", errno, reason))


def connected(transport: NativeTransport, address: tuple[str, int], receiver: Any, max_frame: int) -> NativeConnection:
    connection = transport.connect(socket.AF_INET, address, receiver, max_frame)
    assert isinstance(connection, NativeConnection)
    return connection


@pytest.fixture
def native() -> ScriptedLoop:
    return ScriptedLoop()


@pytest.fixture
def transport(native: ScriptedLoop) -> NativeTransport:
    return NativeTransport(cast("_io.Loop", native))


def test_completions_reach_their_connection(native: ScriptedLoop, transport: NativeTransport) -> None:
    first, second = Notes(), Notes()
    address = ("10.0.0.1", 9092)
    one = connected(transport, address, first, 1000)
    two = connected(transport, address, second, 2000)
    native.completed = [
        (_io.CONNECTED, two.number, 0, None),
        (_io.CONNECTED, one.number, 0, None),
        (_io.RESPONSE, one.number, 5, Buffer(b"five")),
        (_io.SENT, two.number, 6, None),
        (_io.CLOSED, one.number, 0, (104, "reset")),
    ]
    transport.dispatch()
    assert first.heard == [("connected",), ("response", 5, b"five"), ("closed", 104, "reset")]
    assert second.heard == [("connected",), ("sent", 6)]
    assert native.calls[0] == ("connect", address, socket.AF_INET, 1000)


def test_a_closed_connection_is_forgotten(native: ScriptedLoop, transport: NativeTransport) -> None:
    connection = connected(transport, ("10.0.0.1", 9092), Notes(), 1000)
    native.completed = [(_io.CLOSED, connection.number, 0, (0, "closed"))]
    transport.dispatch()
    assert not transport._receivers


def test_a_connection_passes_everything_on(native: ScriptedLoop, transport: NativeTransport) -> None:
    connection = connected(transport, ("10.0.0.1", 9092), Notes(), 1000)
    connection.submit(7, 8, [b"a", b"b"], expect_response=False)
    connection.hold(True)
    connection.set_max_frame(99)
    connection.close()
    number = connection.number
    assert native.calls[1:] == [
        ("submit", number, 7, 8, [b"a", b"b"], False, False),
        ("hold", number, True),
        ("set_max_frame", number, 99),
        ("close", number),
    ]


def test_posts_reach_their_listener_until_it_stops_listening(native: ScriptedLoop, transport: NativeTransport) -> None:
    heard: list[str] = []
    first = transport.listen(lambda: heard.append("first"))
    transport.listen(lambda: heard.append("second"))
    posts = [(_io.POSTED, 0, cookie, None) for cookie in (*reversed(native.cookies), 12345)]
    native.completed = list(posts)
    transport.dispatch()
    assert heard == ["second", "first"]
    transport.unlisten(first)
    transport.unlisten(first)
    native.completed = list(posts)
    transport.dispatch()
    assert heard == ["second", "first", "second"]


def test_one_clients_defect_does_not_take_the_events_of_others(
    native: ScriptedLoop, transport: NativeTransport, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Notes):
        def on_connected(self) -> None:
            raise LookupError("a defect")

    healthy = Notes()
    broken = connected(transport, ("10.0.0.1", 9092), Broken(), 1000)
    other = connected(transport, ("10.0.0.1", 9092), healthy, 1000)
    transport.listen(lambda: 1 / 0)
    native.completed = [
        (_io.CONNECTED, broken.number, 0, None),
        (_io.POSTED, 0, native.cookies[0], None),
        (_io.CONNECTED, other.number, 0, None),
    ]
    transport.dispatch()
    assert healthy.heard == [("connected",)]
    assert "a defect" in caplog.text
    assert "ZeroDivisionError" in caplog.text


@pytest.fixture
def real_native() -> Iterator[_io.Loop]:
    loop = _io.Loop()
    yield loop
    loop.stop()


def test_a_post_from_the_real_loop_arrives(real_native: _io.Loop) -> None:
    heard: list[int] = []
    transport = NativeTransport(real_native)
    notifier = transport.listen(lambda: heard.append(1))
    notifier.notify()
    notifier.notify()
    transport.dispatch()
    assert heard == [1]
