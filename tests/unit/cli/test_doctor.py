"""`kafwire doctor` and brokers that are ill in one way each; `topics create` and `topics delete` beside it."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import pytest
from click.testing import CliRunner

from kafwire import Client
from kafwire.broker.profiles import PROFILES
from kafwire.cli import main
from kafwire.cli.diagnosis import Finding, examine, judge_advertised, judge_versions, there_and_back
from kafwire.cli.doctor import lines
from kafwire.errors import broker_error
from kafwire.protocol import MESSAGES, MetadataResponse
from kafwire.protocol.versions import NEEDED, lacking, release
from kafwire.testing import EmbeddedKafka
from tests.support.broker.scripted_broker import ScriptedBroker, black_hole, closed_port, no_response
from tests.support.socket_server import SocketServer


@contextmanager
def server(talk: Callable[[socket.socket], object]) -> Iterator[int]:
    """A port where each connection is handed to `talk`."""

    def respond(connection: socket.socket) -> None:
        if connection.recv(1000):  # a connection that only checks the port says nothing
            talk(connection)

    with SocketServer(respond) as listening:
        yield listening.port


def last(findings: Iterator[Finding]) -> Finding:
    """The one that ends the examination; those before it are well."""
    *well, found = findings
    assert all(finding.ok for finding in well), well
    assert not found.ok
    assert found.change
    return found


def test_a_name_that_does_not_resolve(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_such_name(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_such_name)
    found = last(examine("kafka.invalid", 9092, 10.0))
    assert (found.step, "'kafka.invalid' does not resolve" in found.seen) == ("name", True)


def test_a_name_server_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(20))
    try:
        found = last(examine("kafka.invalid", 9092, 0.2))
    finally:
        over.set()
    assert "no response within 0.2 s" in found.seen


def test_no_server_listens() -> None:
    host, _, port = closed_port().rpartition(":")
    found = last(examine(host, int(port), 10.0))
    assert found.step == "connection"
    assert "connection refused" in found.seen


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "an HTTP server responded"),
        (bytes.fromhex("15030300020250"), "the server speaks TLS"),
        (b"", "the peer closed the connection"),
    ],
)
def test_another_kind_of_server_listens(said: bytes, words: str) -> None:
    with server(lambda connection: connection.sendall(said)) as port:
        found = last(examine("127.0.0.1", port, 1.0))
    assert found.step == "protocol"
    assert words in found.seen


def test_a_server_listens_and_says_nothing() -> None:
    with black_hole() as address:
        found = last(examine("127.0.0.1", int(address.rpartition(":")[2]), 0.5))
    assert found.step == "protocol"
    assert "no response" in found.seen


def test_a_broker_that_may_only_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise broker_error(29, "creating topic", api="CreateTopics", topic="kafwire-doctor-1")

    monkeypatch.setattr(Client, "create_topic", refuse)
    with ScriptedBroker() as broker:
        (found,) = there_and_back(broker.bootstrap, {"default_api_timeout_ms": 1000})
    assert found.step == "topic"
    assert "TOPIC_AUTHORIZATION_FAILED" in found.seen
    assert "kafka-acls.sh --add --operation Create --topic kafwire-doctor- --resource-pattern" in found.change


def test_an_examination_that_stops_early_leaves_no_topic_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """`kafwire doctor | head -6`, or Ctrl-C between two steps."""
    made: list[str] = []
    monkeypatch.setattr(Client, "create_topic", lambda _, name, **__: made.append(name))
    monkeypatch.setattr(Client, "delete_topic", lambda _, name: made.remove(name))
    with ScriptedBroker() as broker:
        findings = there_and_back(broker.bootstrap, {"default_api_timeout_ms": 1000})
        assert next(findings).step == "topic"
        assert len(made) == 1
        findings.close()
    assert made == []


def test_a_broker_that_acknowledges_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that is on its way is not waited for as long as a producer's user would."""
    with ScriptedBroker() as broker:
        monkeypatch.setattr(Client, "create_topic", lambda _, name, **__: broker.topics.update({name: 1}))
        monkeypatch.setattr(Client, "delete_topic", lambda *_: None)
        broker.script("Produce", *[no_response] * 20)
        began = time.monotonic()
        topic, record, _ = there_and_back(broker.bootstrap, {"default_api_timeout_ms": 1000})
    assert time.monotonic() - began < 20
    assert topic.ok
    assert not record.ok


def test_advertised_addresses_are_tried_one_by_one() -> None:
    kind: Any = MetadataResponse.MetadataResponseBroker
    host, _, port = closed_port().rpartition(":")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        brokers = [
            kind(node_id=1, host="127.0.0.1", port=listener.getsockname()[1]),
            kind(node_id=2, host=host, port=int(port)),
            kind(node_id=3, host="a..b", port=9092),
        ]
        findings = judge_advertised("near:9092", brokers, 2.0)
    assert [finding.ok for finding in findings] == [True, False, False]
    for finding, address in zip(findings[1:], (f"{host}:{port}", "a..b:9092"), strict=True):
        assert f"near:9092 responds, but the cluster directs clients to {address}" in finding.change
        assert "advertised.listeners" in finding.change


def key_of(name: str) -> int:
    request: Any = MESSAGES[f"{name}Request"]
    return int(request.api_key)


def test_lacking_apis_are_named_with_the_needed_versions() -> None:
    offered = {key_of(name): (0, 99) for apis in NEEDED.values() for name in apis}
    assert lacking(offered) == []
    assert judge_versions(offered).ok
    found = judge_versions({**offered, 1: (0, 3)})
    assert not found.ok
    assert "reading needs Fetch (api key 1) in version 4 or newer; the broker has 0 to 3" in found.seen


@pytest.mark.parametrize("name", PROFILES)
def test_apis_that_only_some_uses_need_may_be_missing(name: str) -> None:
    with EmbeddedKafka(server=name) as kafka:
        host, _, port = kafka.bootstrap.rpartition(":")
        found = list(examine(host, int(port), 30.0))
    assert [each for each in found if not each.ok] == []
    (versions,) = (each.seen for each in found if each.step == "versions")
    assert ("for these uses alone: transactions needs AddPartitionsToTxn" in versions) == (name == "event-hubs")
    assert ("a follower's log needs OffsetForLeaderEpoch" in versions) == (name in ("event-hubs", "warpstream"))


def test_a_release_is_recognised_by_its_features() -> None:
    assert release({1: (0, 1)}, {"metadata.version": 21}) == "Kafka 3.9 (1 APIs)"
    assert "newer than 4" in release({}, {"metadata.version": 99})
    assert "does not report" in release({}, {})


def test_the_printed_lines() -> None:
    assert list(lines(Finding("name", True, "x is y"))) == ["ok     name        x is y"]
    assert list(lines(Finding("name", False, "x", "do z"))) == ["WRONG  name        x", "                   -> do z"]


def test_the_exit_code_of_a_failed_step() -> None:
    result = CliRunner().invoke(main, ["doctor", closed_port(), "-J"])
    assert result.exit_code == 1
    assert [json.loads(line)["ok"] for line in result.stdout.splitlines()] == [True, False]
    assert logging.getLogger("kafwire").level == logging.NOTSET, "it is quiet for no longer than it needs"
    for wrong in ("a:1,b:2", "SSL://a:1", ":1"):
        assert CliRunner().invoke(main, ["doctor", wrong]).exit_code == 2


# -- topics, made and unmade


class FakeClient:
    did: list[Any]

    def __init__(self, **_: Any) -> None: ...
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...
    def create_topic(self, name: str, **options: Any) -> None:
        self.did.append(("create", name, options))

    def topic(self, _name: str) -> Any:
        return type("Topic", (), {"partitions": {0: None, 1: None}})

    def delete_topic(self, name: str) -> None:
        self.did.append(("delete", name))


@pytest.fixture
def did(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setattr(FakeClient, "did", [], raising=False)
    monkeypatch.setattr("kafwire.Client", FakeClient)
    return FakeClient.did


def test_topics_are_created_with_the_given_options(did: list[Any]) -> None:
    run = CliRunner().invoke
    arguments = ["--partitions", "2", "--replication-factor", "3", "--config", "a.b=c=d", "--config", "e="]
    result = run(main, ["topics", "create", "t", "-b", "x", *arguments])
    assert (result.exit_code, result.stdout) == (0, "created t: 2 partition(s)\n")
    assert run(main, ["topics", "create", "u", "v", "-b", "x"]).exit_code == 0
    assert did[0] == ("create", "t", {"partitions": 2, "replication_factor": 3, "config": {"a.b": "c=d", "e": ""}})
    assert did[1:] == [
        ("create", name, {"partitions": -1, "replication_factor": -1, "config": {}}) for name in ("u", "v")
    ]
    for wrong in (["create"], ["create", "t", "--config", "x"], ["create", "t", "--partitions", "0"], ["create", ""]):
        assert run(main, ["topics", *wrong, "-b", "x"]).exit_code == 2


def test_topics_are_deleted_after_a_yes(did: list[Any]) -> None:
    run = CliRunner().invoke
    assert run(main, ["topics", "delete", "t", "-b", "x"], input="n\n").exit_code == 1
    unconfirmed = run(main, ["topics", "delete", "t", "-b", "x"], input="")
    assert unconfirmed.exit_code == 2
    assert "add --yes" in unconfirmed.output
    assert did == []
    assert run(main, ["topics", "delete", "t", "-b", "x"], input="y\n").exit_code == 0
    assert run(main, ["topics", "delete", "u", "v", "-y", "-b", "x"]).stdout == "deleted u\ndeleted v\n"
    assert did == [("delete", "t"), ("delete", "u"), ("delete", "v")]


def test_every_command_that_connects_gives_up_in_time() -> None:
    for arguments in (["topics"], ["consume", "t"], ["consume", "t", "-e"], ["produce", "-t", "t"]):
        result = CliRunner().invoke(main, [*arguments, "-b", closed_port(), "--timeout", "0.3"], input="x\n")
        assert result.exit_code == 1, arguments
        assert "within 0.3 s" in result.output
        assert "refused" in result.output
