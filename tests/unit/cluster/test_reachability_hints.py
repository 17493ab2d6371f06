"""Hints of attempts to connect: each with a case in which its condition holds, and cases in which it does not."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from kafwire import protocol
from kafwire.cluster.broker_connection import _Events
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.reachability_hints import (
    NO_NAME_SERVER,
    NO_SUCH_NAME,
    UNRESOLVED,
    Problem,
    Step,
    asks_for_login,
    furthest,
    misadvertised,
)
from kafwire.config import ClientConfig
from kafwire.errors import KafkaConnectionError
from kafwire.testing.simulation.calls import NEVER, Call
from tests.support.simulated.world import World


def frame(first: bytes) -> str:
    return f"bad frame: size prefix {int.from_bytes(first, 'big', signed=True)} exceeds the limit of 8388608 bytes"


def hint(step: Step, number: int, text: str = "", *, tls: bool = False) -> str:
    return Problem(text, step, number, tls).hint


SET_TLS, NO_TLS = "set security_protocol=SSL", "is it a TLS listener? If not"
NO_BROKER = "is it the port of a Kafka broker?"
FRAME_OF_TLS = frame(b"\x15\x03\x03\x00")


@pytest.mark.parametrize(
    ("words", "holds", "fails"),
    [
        (
            "check the host name",
            [(Step.RESOLVE, NO_SUCH_NAME)],
            [(Step.RESOLVE, NO_NAME_SERVER), (Step.RESOLVE, UNRESOLVED), (Step.CONNECT, errno.ECONNREFUSED)],
        ),
        (
            "does the name server of this machine respond",
            [(Step.RESOLVE, NO_NAME_SERVER)],
            [(Step.RESOLVE, NO_SUCH_NAME), (Step.RESOLVE, UNRESOLVED)],
        ),
        (
            "is it running",
            [(Step.CONNECT, errno.ECONNREFUSED), (Step.CONNECT, errno.ECONNREFUSED, "", True)],
            [
                (Step.CONNECT, errno.ETIMEDOUT), (Step.CONNECT, errno.EMFILE), (Step.GREET, errno.ECONNRESET),
                (Step.GREET, errno.EMSGSIZE, frame(b"\x05\xa0\x00\x00")), (Step.GREET, 0),
            ],
        ),
        (
            "have a route to it",
            [(Step.CONNECT, errno.EHOSTUNREACH), (Step.CONNECT, errno.ENETUNREACH)],
            [(Step.CONNECT, errno.ECONNREFUSED), (Step.CONNECT, errno.EMFILE)],
        ),
        (
            "does a firewall drop the packets",
            [(Step.CONNECT, errno.ETIMEDOUT), (Step.CONNECT, errno.ETIMEDOUT, "", True)],
            [(Step.CONNECT, errno.ECONNREFUSED), (Step.GREET, errno.ETIMEDOUT), (Step.LOG_IN, errno.ETIMEDOUT)],
        ),
        (
            "and is it a TLS listener?",
            [(Step.CONNECT, errno.ETIMEDOUT, "", True)],
            [(Step.CONNECT, errno.ETIMEDOUT), (Step.GREET, errno.ETIMEDOUT, "", True)],
        ),
        (
            NO_TLS,
            [
                (Step.HANDSHAKE, errno.EPROTONOSUPPORT, "", True),
                (Step.HANDSHAKE, errno.EPIPE, "the peer closed the connection during the TLS handshake", True),
            ],
            [
                (Step.HANDSHAKE, errno.EPROTO, "TLS failed: no shared cipher", True), (Step.GREET, errno.EPIPE),
                (Step.HANDSHAKE, errno.EMFILE, "poll failed", True),
            ],
        ),
        (
            SET_TLS,
            [(Step.GREET, errno.EMSGSIZE, FRAME_OF_TLS), (Step.GREET, errno.EMSGSIZE, frame(b"\x16\x03\x01\x02"))],
            [
                (Step.GREET, errno.EMSGSIZE, FRAME_OF_TLS, True), (Step.GREET, errno.EMSGSIZE, frame(b"HTTP")),
                (Step.LOG_IN, errno.EMSGSIZE, FRAME_OF_TLS), (Step.GREET, errno.EPIPE, "", True),
                (Step.GREET, errno.ETIMEDOUT),
            ],
        ),
        (
            NO_BROKER,
            [
                (Step.GREET, errno.EMSGSIZE, frame(b"HTTP")), (Step.GREET, errno.EMSGSIZE, frame(b"SSH-")),
                (Step.GREET, errno.EMSGSIZE, frame(b"220 ")), (Step.GREET, errno.EMSGSIZE, frame(b"-ERR")),
                (Step.GREET, errno.EPROTO, "bad frame: size prefix -1, but a response has at least 4 bytes"),
                (Step.GREET, errno.EPROTO, "bad response: correlation id 7, but no request is pending"),
                (Step.GREET, errno.EBADMSG, "it sent a response that cannot be decoded"),
                (Step.GREET, errno.EPIPE, "the peer closed the connection", True),
            ],
            [
                (Step.GREET, errno.EMSGSIZE, FRAME_OF_TLS),
                (Step.GREET, errno.EPROTO, "TLS failed: bad record mac", True),
                (Step.GREET, 0), (Step.GREET, errno.ENOMEM, "no memory for a frame of 8 bytes"),
            ],
        ),
        (
            "A TLS listener closes like this",
            [(Step.GREET, errno.EPIPE, "the peer closed the connection"), (Step.GREET, errno.ECONNRESET)],
            [
                (Step.GREET, errno.EPIPE, "", True), (Step.LOG_IN, errno.EPIPE), (Step.CONNECT, errno.ECONNREFUSED),
                (Step.GREET, 0),
            ],
        ),
        (
            "the listener for this security_protocol",
            [(Step.GREET, errno.ETIMEDOUT)],
            [(Step.CONNECT, errno.ETIMEDOUT), (Step.LOG_IN, errno.ETIMEDOUT), (Step.GREET, errno.EPIPE)],
        ),
        (
            "the broker does not continue with SASL: its log may say why",
            [(Step.LOG_IN, errno.ETIMEDOUT), (Step.LOG_IN, errno.EPIPE), (Step.LOG_IN, errno.ECONNRESET)],
            [(Step.LOG_IN, errno.EMSGSIZE), (Step.LOG_IN, 0), (Step.GREET, errno.ETIMEDOUT)],
        ),
    ],
)  # fmt: skip
def test_a_hint_stands_behind_its_condition_alone(words: str, holds: list[Any], fails: list[Any]) -> None:
    for step, number, *more in holds:
        assert words in hint(step, number, *more[:1], tls=bool(more[1:])), (words, step, number, more)
    for step, number, *more in fails:
        assert words not in hint(step, number, *more[:1], tls=bool(more[1:])), (words, step, number, more)


@pytest.mark.parametrize("step", list(Step))
def test_an_error_of_this_process_has_no_hint(step: Step) -> None:
    assert hint(step, UNRESOLVED if step is Step.RESOLVE else errno.EMFILE, "socket failed: Too many open files") == ""


@pytest.mark.parametrize(
    ("begin", "words"),
    [
        (b"HTTP", "HTTP server"),
        (b"\x15\x03\x03\x00", "TLS"),
        (b"\x16\x03\x01\x02", "TLS"),
        (b"SSH-", "SSH"),
        (b"220 ", "mail or FTP"),
        (b"\xff\xff\xff\xfe", "size prefix"),
    ],
)
def test_strangers_are_named_by_their_first_bytes(begin: bytes, words: str) -> None:
    assert words in Problem(frame(begin), Step.GREET, errno.EMSGSIZE).cause


def test_bytes_of_a_broker_that_has_greeted_are_not_named() -> None:
    assert "size prefix" in Problem(frame(b"HTTP"), Step.LOG_IN, errno.EMSGSIZE).cause


def test_the_address_that_came_furthest_decides() -> None:
    refused = Problem("connect failed: Connection refused", Step.CONNECT, errno.ECONNREFUSED, address="::1: ")
    stranger = Problem(frame(b"HTTP"), Step.GREET, errno.EMSGSIZE, address="127.0.0.1: ")
    assert furthest([refused, stranger]) is stranger
    assert furthest([stranger, refused]) is stranger
    assert furthest([refused]).hint.startswith("is it running")


def test_one_of_several_servers_responded() -> None:
    assert misadvertised(["a:1"], "b:2").startswith("a:1 responded and advertises")
    assert misadvertised(["a:1", "c:3"], "b:2").startswith("one of a:1,c:3 responded and advertises")


# -- the same in a cluster


def metadata() -> protocol.MetadataRequest:
    return protocol.MetadataRequest(topics=[])


def make_cluster(world: World, **options: Any) -> Cluster:
    return Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap, **options}))


def closed_by(world: World, number: int, reason: str) -> Callable[[Call], Any]:
    """A handler that ends the connection of the request."""

    def close(call: Call) -> Any:
        world.connections[call.connection].break_off(number, reason)
        return NEVER

    return close


PEER_CLOSES = (errno.EPIPE, "the peer closed the connection")
FRAME_REFUSED = (errno.EMSGSIZE, "bad frame: size prefix 31457429 exceeds the limit of 10485760 bytes")


@pytest.mark.parametrize(
    ("end", "has_served", "is_hinted"),
    [(PEER_CLOSES, False, True), (PEER_CLOSES, True, False), (FRAME_REFUSED, False, False)],
)
def test_a_login_is_named_where_the_peer_closes_and_never_served(
    end: tuple[int, str], has_served: bool, is_hinted: bool
) -> None:
    with World() as world:
        cluster = make_cluster(world, default_api_timeout_ms=2_000)
        if has_served:
            world.run(cluster.call(metadata()))
        world.on("Metadata", closed_by(world, *end))
        with pytest.raises(KafkaConnectionError, match=end[1]) as caught:
            world.run(cluster.call(metadata()))
    assert (asks_for_login(tls=False) in str(caught.value)) is is_hinted


def test_no_login_is_named_where_another_connection_is_served() -> None:
    with World() as world:
        cluster = make_cluster(world, default_api_timeout_ms=2_000)
        world.run(cluster.call(metadata(), node=1))
        other = cluster.connection(1, "fetch")
        world.run(other.open())
        world.on("Metadata", closed_by(world, *PEER_CLOSES))
        with pytest.raises(KafkaConnectionError) as caught:
            world.run(other.call(metadata()))
    assert "requires SASL" not in str(caught.value)


@pytest.mark.parametrize(("tls", "protocol_name"), [(True, "SASL_SSL"), (False, "SASL_PLAINTEXT")])
def test_the_login_is_that_of_the_same_transport(tls: bool, protocol_name: str) -> None:
    assert f"security_protocol to {protocol_name}," in asks_for_login(tls=tls)


def test_a_thread_that_cannot_be_started_is_not_the_names_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(host: str, port: int) -> Any:
        raise RuntimeError("can't start new thread")

    with World() as world:
        monkeypatch.setattr(world.engine.resolver, "resolve", fail)
        cluster = Cluster(
            world.engine, ClientConfig.build({"bootstrap_servers": "kafka.test", "default_api_timeout_ms": 500})
        )
        with pytest.raises(KafkaConnectionError, match="can't start new thread") as caught:
            world.run(cluster.call(metadata()))
    assert "check the host name" not in str(caught.value)
    assert "is it running" not in str(caught.value)


def test_an_advertised_address_that_responds_with_an_error_is_in_reach() -> None:
    """The address is not wrong: a listener of the wrong kind, or another server, has it."""

    def advertise(call: Call) -> Any:
        response: Any = world.serve(call)
        response.brokers[0].host = "10.0.0.2"
        return response

    with World(brokers=2) as world:
        world.on("Metadata", advertise)
        cluster = Cluster(
            world.engine, ClientConfig.build({"bootstrap_servers": "10.0.0.1:9092", "default_api_timeout_ms": 2_000})
        )
        world.run(cluster.refresh())
        world.on("ApiVersions", lambda _: b"garbage")
        with pytest.raises(KafkaConnectionError, match="cannot be decoded.*is it the port of a Kafka broker") as caught:
            world.run(cluster.connection(1, "fetch").open())
    assert "advertised.listeners" not in str(caught.value)


@pytest.mark.parametrize(("first", "words"), [(b"SSH-", "an SSH server"), (b"220 ", "a mail or FTP server")])
def test_a_server_that_speaks_first_is_named(first: bytes, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bytes come before the greeting leaves: the connection is over then, and the greeting has no socket."""
    on_connected = _Events.on_connected

    def speak(events: _Events) -> None:
        on_connected(events)
        events.on_closed(errno.EMSGSIZE, frame(first))

    monkeypatch.setattr(_Events, "on_connected", speak)
    with World() as world:
        cluster = make_cluster(world, default_api_timeout_ms=500)
        with pytest.raises(KafkaConnectionError, match=f"{words} responded.*{NO_BROKER[:-1]}"):
            world.run(cluster.call(metadata()))
