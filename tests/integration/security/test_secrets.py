"""No secret is shown: each is a canary, which is looked for in all that clients leave behind, well or badly.

Secrets are given as `kafwire.Secret`. Where they are given as plain texts, the frames of constructors have these as
locals, which a crash report that shows locals shows; nothing else does.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import json
import logging
import pickle
import random
import re
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import kafwire
from kafwire.config import ClientConfig, ConsumerConfig, ProducerConfig, ScanConfig
from kafwire.testing import KafkaCluster, Security
from tests.support import seeds
from tests.support.certificates import Authority
from tests.support.deadlines import ended
from tests.support.doc_blocks import ROOT
from tests.support.socket_server import SocketServer
from tests.support.token_server import Response, TokenServer

REAUTH_MS = 1000
CANARY = "canary"
PLACE = str(ROOT / "kafwire")


@dataclass
class Evidence:
    """The texts of clients, by their place."""

    said: list[tuple[str, str]] = field(default_factory=list)
    errors: list[tuple[str, BaseException]] = field(default_factory=list)
    hidden: dict[str, str] = field(default_factory=dict)
    random: random.Random = field(default_factory=lambda: random.Random(seeds.of("secrets")))

    def secret(self, name: str) -> str:
        """A new one, which is to be looked for."""
        self.hidden[name] = f"{CANARY}-{self.random.randbytes(12).hex()}"
        return self.hidden[name]

    def add(self, where: str, *things: object) -> None:
        """Look at things as logs, consoles and pickles show them."""
        for thing in things:
            self.said.append((where, f"{thing!r} {thing!s}"))
            with contextlib.suppress(Exception):  # most are not pickled
                self.said.append((f"{where}, pickled", pickle.dumps(thing).decode("latin-1")))

    def fail(self, where: str, error: BaseException) -> None:
        """Look at an error, as tracebacks and crash reports show it."""
        self.errors.append((where, error))
        self.add(f"error of {where}", error)
        self.said.append((f"traceback of {where}", "".join(traceback.format_exception(error))))
        self.said.append((f"locals of {where}", "\n".join(locals_of(error))))

    def hits(self, kind: str) -> list[str]:
        """Where a secret is found, among what was said at places that begin with `kind`."""
        found = []
        for where, text in self.said:
            if where.startswith(kind):
                found += [
                    f"{name}: {where}" for name, secret in self.hidden.items() if any(f in text for f in forms(secret))
                ]
        return sorted(set(found))

    def count(self, kind: str) -> int:
        return sum(where.startswith(kind) for where, _ in self.said)


def forms(secret: str) -> list[str]:
    """A secret as it may be shown; of base64, the part that is the same after any prefix."""
    data = secret.encode()
    shifted = [base64.b64encode(b"\0" * shift + data)[4:-4].decode() for shift in range(3)]
    return [secret, data.hex(), data.hex(" "), *(text for text in shifted if len(text) > 8)]


def locals_of(error: BaseException | None) -> Iterator[str]:
    """The local variables in a report of kafwire's own frames; those of users are theirs."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        for frame, line in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename.startswith(PLACE):
                for name, value in frame.f_locals.items():
                    shown = "unset"
                    with contextlib.suppress(AttributeError):  # of a client that is half made
                        shown = repr(value)
                    yield f"{frame.f_code.co_filename}:{line} {name}={shown}"
        error = error.__cause__ or error.__context__


class Collector(logging.Handler):
    """Keeps every record of every logger, with its arguments."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(logging.DEBUG)
        self._evidence = evidence

    def emit(self, record: logging.LogRecord) -> None:
        where = f"log of {record.name}"
        self._evidence.said.append((where, f"{record.getMessage()} {record.args!r} {record.__dict__!r}"))
        if record.exc_info and record.exc_info[1] is not None:
            self._evidence.fail(where, record.exc_info[1])


@dataclass
class World:
    cluster: KafkaCluster
    tokens: TokenServer
    evidence: Evidence
    folder: Path


LISTENERS = ("SASL_SSL", "SASL_PLAINTEXT", "SHORT", "SSL_MTLS")
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    evidence = Evidence()
    users = {"alice": evidence.secret("alice's password")}
    listeners = [
        Security("SASL_SSL", MECHANISMS, users=users),
        Security("SASL_PLAINTEXT", users=users),
        Security("SASL_SSL", MECHANISMS, users=users, name="SHORT", connections_max_reauth_ms=REAUTH_MS),
        Security("SSL", client_auth="required"),
    ]
    folder = tmp_path_factory.mktemp("secrets")
    collector = Collector(evidence)
    root = logging.getLogger()
    names = [None, "kafwire", "kafwire.spark", "asyncio", "urllib3", "botocore"]
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.DEBUG)
    root.addHandler(collector)
    try:
        with (
            KafkaCluster(security=listeners, properties={"auto.create.topics.enable": True}) as cluster,
            TokenServer(folder, client_id="the-client", client_secret=evidence.secret("the client's secret")) as tokens,
        ):
            made = World(cluster, tokens, evidence, folder)
            run_all(made)
            yield made
    finally:
        root.removeHandler(collector)
        for name, was in levels.items():
            logging.getLogger(name).setLevel(was)


def secret(evidence: Evidence, name: str) -> kafwire.Secret:
    return kafwire.Secret(evidence.hidden[name])


def sasl(world: World, listener: str, mechanism: str) -> dict[str, Any]:
    made: dict[str, Any] = {
        name.replace(".", "_"): value
        for name, value in world.cluster.client_options("alice", mechanism, listener=listener).items()
    }
    if "sasl_password" in made:
        made["sasl_password"] = kafwire.Secret(made["sasl_password"])
    return made


def token(world: World, **claims: Any) -> str:
    """A token, whose signature is a secret."""
    made = world.cluster.security.token("alice", **claims)
    world.evidence.hidden[f"token {len(world.evidence.hidden)}"] = made.rpartition(".")[2][:40]
    return made


def endpoint(world: World, listener: str, url: str | None = None) -> dict[str, Any]:
    return sasl(world, listener, "OAUTHBEARER") | {
        "sasl_oauthbearer_token_endpoint_url": url or world.tokens.url,
        "sasl_oauthbearer_client_id": "the-client",
        "sasl_oauthbearer_client_secret": secret(world.evidence, "the client's secret"),
        "https_ca_location": str(world.tokens.ca_file),
    }


def feed(world: World, count: int = 60) -> None:
    """Let the endpoint give tokens that the broker accepts."""
    world.tokens.responses.clear()
    for _ in range(count):
        response = {"access_token": token(world), "token_type": "Bearer", "expires_in": 300}
        world.tokens.responses.append(Response(body=json.dumps(response).encode()))


def certificates(world: World) -> dict[str, dict[str, Any]]:
    """Options of a client's certificate, by how it is given."""
    evidence, files = world.evidence, world.cluster.security.certificates
    identity = Authority.of(files).issue(name="alice")
    key_password, store_password = evidence.secret("the key's password"), evidence.secret("the keystore's password")
    evidence.hidden["the private key"] = identity.key_pem().decode().splitlines()[2]
    written = identity.write(world.folder, "client", password=key_password)
    store = world.folder / "client.p12"
    store.write_bytes(identity.pkcs12(store_password))
    both = world.folder / "both.pem"
    both.write_bytes(identity.pem)
    base = {
        "bootstrap_servers": world.cluster.bootstrap_of("SSL_MTLS"),
        "security_protocol": "SSL",
        "ssl_ca_location": str(files.ca_pem),
    }
    chain = {"ssl_certificate_location": str(written.certificate)}
    encrypted = {"ssl_key_location": str(written.key), "ssl_key_password": kafwire.Secret(key_password)}
    return {
        "an encrypted key": base | chain | encrypted,
        "PEM texts": base
        | {
            "ssl_certificate_pem": identity.chain_pem.decode(),
            "ssl_key_pem": kafwire.Secret(identity.key_pem().decode()),
        },
        "a keystore": base
        | {"ssl_keystore_location": str(store), "ssl_keystore_password": kafwire.Secret(store_password)},
        "a PEM keystore": base | {"ssl_keystore_location": str(both)},
    }


def exercise(world: World, what: str, made: Any, *, topic: str = "canaries") -> None:
    """Every kind of client, its records and figures, with what it raises."""
    evidence = world.evidence
    quick: Any = {"default_api_timeout_ms": 3000}
    for config in (ClientConfig, ProducerConfig, ConsumerConfig, ScanConfig):
        with contextlib.suppress(kafwire.errors.ConfigError):
            evidence.add(f"config of {what}", config.build(made))

    def ask() -> None:
        with kafwire.Client(**made, **quick) as client:
            evidence.add(f"object of {what}", client, vars_of(client), client.metadata())

    def send() -> None:
        with kafwire.Producer(**made, max_block_ms=3000, delivery_timeout_ms=3000, request_timeout_ms=2000) as producer:
            delivery = producer.send(topic, b"x")
            evidence.add(f"object of {what}", producer, vars_of(producer), delivery, delivery.result(timeout=30))
            evidence.add(f"metrics of {what}", producer.metrics())

    def poll() -> None:
        with kafwire.Consumer(**made, **quick, start="earliest") as consumer:
            consumer.assign([kafwire.TopicPartition(topic, 0)])
            evidence.add(f"object of {what}", consumer, vars_of(consumer), consumer.poll(timeout=5))
            evidence.add(f"metrics of {what}", consumer.metrics())

    async def send_async() -> None:
        async with kafwire.AsyncProducer(
            **made, max_block_ms=3000, delivery_timeout_ms=3000, request_timeout_ms=2000
        ) as producer:
            evidence.add(f"object of {what}", producer, await (await producer.send(topic, b"x")))

    def scan() -> None:
        others = {name: value for name, value in made.items() if name != "bootstrap_servers"}
        with kafwire.scan(made["bootstrap_servers"], topic, **others, **quick) as found:
            evidence.add(f"object of {what}", found, list(found.batches()))

    every = (ask, send, poll, scan, lambda: asyncio.run(send_async()))
    for act in every if "success" in what or "password" in what else (ask, send):
        try:
            act()
        except (kafwire.KafkaError, TimeoutError) as error:
            evidence.fail(what, error)
        except Exception as error:
            evidence.fail(f"surprise {what}", error)


def vars_of(thing: object, depth: int = 4) -> str:
    """The attributes of an object and of what they refer to, as a debugger shows them; not through a `Secret`."""
    lines, level, seen = [], [thing], {id(thing)}
    for _ in range(depth):
        following: list[object] = []
        for each in level:
            inner = getattr(each, "__dict__", {}) if not isinstance(each, type) else {}
            names = [
                *inner,
                *(n for c in type(each).__mro__ for n in getattr(c, "__slots__", ()) if isinstance(n, str)),
            ]
            if isinstance(each, kafwire.Secret) or not type(each).__module__.startswith("kafwire"):
                continue
            for name in names:
                with contextlib.suppress(Exception):
                    value = getattr(each, name)
                    lines.append(f"{type(each).__name__}.{name} = {value!r}")
                    if id(value) not in seen:
                        seen.add(id(value))
                        following.append(value)
        level = following
    return "\n".join(lines)


def run_all(world: World) -> None:
    evidence, cluster = world.evidence, world.cluster
    with kafwire.Client(**sasl(world, "SASL_SSL", "PLAIN")) as client:
        client.create_topic("canaries", partitions=1)
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        made = sasl(world, "SASL_SSL", mechanism)
        exercise(world, f"{mechanism}, success", made)
        wrong = made | {"sasl_password": kafwire.Secret(evidence.secret("a wrong password"))}
        exercise(world, f"{mechanism}, wrong password", wrong)
    oauth = sasl(world, "SASL_SSL", "OAUTHBEARER")
    exercise(world, "tokens, success", oauth | {"sasl_oauthbearer_token_provider": lambda: token(world)})
    exercise(world, "tokens, refused", oauth | {"sasl_oauthbearer_token_provider": lambda: token(world, aud="others")})
    exercise(world, "tokens, expired", oauth | {"sasl_oauthbearer_token_provider": lambda: token(world, exp=1)})
    feed(world)
    exercise(world, "endpoint, success", endpoint(world, "SASL_SSL"))
    world.tokens.responses.clear()
    wrong_secret = evidence.secret("a wrong secret of the client")
    refused = {"sasl_oauthbearer_client_secret": kafwire.Secret(wrong_secret)}
    exercise(world, "endpoint, refused", endpoint(world, "SASL_SSL") | refused)
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"https://localhost:{free.getsockname()[1]}/"
    exercise(world, "endpoint, down", endpoint(world, "SASL_SSL", url))
    ways = certificates(world)
    for way, made in ways.items():
        exercise(world, f"{way}, success", made)
    wrong_password = kafwire.Secret(evidence.secret("a wrong password of a key"))
    for way, option in (("an encrypted key", "ssl_key_password"), ("a keystore", "ssl_keystore_password")):
        exercise(world, f"{way}, wrong password", ways[way] | {option: wrong_password})
    other = Authority.of(cluster.security.certificates).issue(name="bob")
    evidence.hidden["another private key"] = other.key_pem().decode().splitlines()[2]
    foreign = {"ssl_key_pem": kafwire.Secret(other.key_pem().decode())}
    exercise(world, "PEM texts, another key", ways["PEM texts"] | foreign)
    broken = {"ssl_key_pem": kafwire.Secret(evidence.secret("a broken key"))}
    exercise(world, "PEM texts, a broken key", ways["PEM texts"] | broken)
    authenticate_again(world)
    record_a_conversation(world)
    evidence.add("tool cluster", cluster, cluster.security, cluster.describe(), cluster.security.listeners)
    evidence.said.append(("tool log of nodes", cluster.logs()))


def authenticate_again(world: World) -> None:
    """Clients over three lifetimes of their sessions, and then without their broker."""
    feed(world)
    made = [sasl(world, "SHORT", "PLAIN"), sasl(world, "SHORT", "SCRAM-SHA-256"), endpoint(world, "SHORT")]
    with contextlib.ExitStack() as stack:
        producers = [
            stack.enter_context(
                kafwire.Producer(**each, delivery_timeout_ms=3000, request_timeout_ms=2000, max_block_ms=2000)
            )
            for each in made
        ]
        until_s = time.monotonic() + 3 * REAUTH_MS / 1000
        while time.monotonic() < until_s:
            for producer in producers:
                producer.send("canaries", b"x").result(timeout=30)
        node = world.cluster.node(1)
        node.kill()
        for number, producer in enumerate(producers):
            what = f"{number}, broker killed"
            try:
                producer.send("canaries", b"x").result(timeout=30)
            except (kafwire.KafkaError, TimeoutError) as error:
                world.evidence.fail(what, error)
            world.evidence.add(f"metrics of {what}", producer.metrics())
        node.start()


def record_a_conversation(world: World) -> None:
    """Both directions of connections without TLS, as `kafwire decode` takes them."""
    at = world.cluster.bootstrap_of("SASL_PLAINTEXT")
    port = int(at.rpartition(":")[2])
    for mechanism in ("PLAIN", "SCRAM-SHA-512"):
        sides: dict[str, list[bytes]] = {"client": [], "server": []}

        def relay(client: socket.socket, sides: dict[str, list[bytes]] = sides) -> None:
            with socket.create_connection(("127.0.0.1", port)) as server:

                def pass_on(source: socket.socket, target: socket.socket, kept: list[bytes]) -> None:
                    with contextlib.suppress(OSError):
                        while data := source.recv(65536):
                            kept.append(data)
                            target.sendall(data)
                    for each in (source, target):
                        with contextlib.suppress(OSError):
                            each.shutdown(socket.SHUT_RDWR)

                back = threading.Thread(target=pass_on, args=(server, client, sides["server"]), name="relay")
                back.start()
                pass_on(client, server, sides["client"])
                ended(back)

        made = sasl(world, "SASL_PLAINTEXT", mechanism)
        with SocketServer(relay) as server, kafwire.Client(**made | {"bootstrap_servers": server.address}) as client:
            client.call(kafwire.protocol.ApiVersionsRequest())
        files = []
        for name, pieces in sides.items():
            files.append(str(world.folder / f"{mechanism}-{name}"))
            Path(files[-1]).write_bytes(b"".join(pieces))
        for arguments in ([], ["--show-secrets"]):
            command = [sys.executable, "-m", "kafwire", "decode", "--connection", *files, *arguments]
            ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
            assert ran.returncode == 0, ran.stderr
            where = "decode" if not arguments else f"shown {mechanism}"
            world.evidence.said.append((where, ran.stdout + ran.stderr))


SURFACES = {
    "log of": 12,  # how often a client logs depends on how fast its brokers are
    "config of": 40,
    "object of": 100,
    "metrics of": 20,
    "error of": 40,
    "traceback of": 40,
    "locals of": 40,
    "decode": 2,
    "tool": 4,
}


@pytest.mark.parametrize("surface", SURFACES)
def test_no_secret_is_shown(world: World, surface: str) -> None:
    assert world.evidence.count(surface) >= SURFACES[surface], "there is little to look at"
    assert world.evidence.hits(surface) == []


def test_each_step_had_its_intended_effect(world: World) -> None:
    """Each success succeeded, each failure failed, and nothing raised an error from outside of kafwire."""
    failed = {where for where, _ in world.evidence.errors}
    assert not [where for where in failed if where.endswith(", success")]
    assert not [(where, error) for where, error in world.evidence.errors if where.startswith("surprise")]
    for what in (
        "PLAIN, wrong password",
        "tokens, refused",
        "endpoint, down",
        "a keystore, wrong password",
        "0, broker killed",
    ):
        assert what in failed


def test_the_canaries_would_be_found(world: World) -> None:
    """They are there where they are asked for."""
    assert world.evidence.hits("shown PLAIN") == ["alice's password: shown PLAIN"]


CRASH = """
import faulthandler, os, sys
import kafwire
faulthandler.enable()
with kafwire.Producer.from_config(dict(line.split("=", 1) for line in sys.stdin.read().splitlines())) as producer:
    producer.send("canaries", b"x").result(timeout=30)
    with open("/proc/self/cmdline") as command, open("/proc/self/environ") as environment:
        print(command.read(), environment.read(), flush=True)
    {crash}
"""


@pytest.mark.parametrize("crash", ["faulthandler._sigabrt()", "raise ValueError(producer)", "os.kill(os.getpid(), 11)"])
def test_a_crash_shows_nothing(world: World, crash: str) -> None:
    options = world.cluster.client_options("alice", "PLAIN", listener="SASL_SSL")
    given = "\n".join(f"{name}={value}" for name, value in options.items())
    command = [sys.executable, "-X", "dev", "-c", CRASH.format(crash=crash)]
    ran = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode != 0
    assert re.search(r"Fatal Python error|ValueError", ran.stderr), ran.stderr
    assert not [form for form in forms(world.evidence.hidden["alice's password"]) if form in ran.stdout + ran.stderr]


def test_processes_that_are_started_show_nothing(world: World) -> None:
    """Brokers: every user of the machine sees their command lines, and this user their environment."""
    pid = world.cluster.node(1).pid
    visible = b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ")).decode("latin-1")
    assert "kafka.Kafka" in visible
    assert not [
        name for name, secret in world.evidence.hidden.items() if any(form in visible for form in forms(secret))
    ]
    gc.collect()
