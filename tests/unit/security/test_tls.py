"""TLS of connections, in the native I/O thread and by Python's module ssl: the bytes carried, and the peers refused."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import logging
import random
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import OpenSSL
import pytest

from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.config import ClientConfig
from kafwire.errors import ConfigError, KafkaConnectionError
from kafwire.memory._buffer import Buffer
from kafwire.runtime.engine import NativeEngine
from kafwire.runtime.interfaces import NOT_AUTHENTICATED, Connection
from kafwire.security import tls as tls_module
from kafwire.security.client_security import ClientSecurity
from kafwire.security.tls import Tls
from tests.support import certificates
from tests.support.certificates import Authority, Identity
from tests.support.deadlines import until
from tests.support.socket_server import SocketServer
from tests.support.tls_server import TlsServer, Trickle, response_frames, server_context

T = TypeVar("T")
PATIENCE_S = 30
LIMIT = 100 << 20
CA = Authority.new()
OWN = CA.issue()
Event = tuple[Any, ...]


class Notes:
    """The reports of a connection, as a queue of the engine's."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[Event] = asyncio.Queue()

    def on_connected(self) -> None:
        self.events.put_nowait(("connected",))

    def on_response(self, token: int, frame: Buffer) -> None:
        self.events.put_nowait(("response", token, bytes(frame)))

    def on_sent(self, token: int) -> None:
        self.events.put_nowait(("sent", token))

    def on_closed(self, number: int, reason: str) -> None:
        self.events.put_nowait(("closed", number, reason))

    async def next(self) -> Event:
        async with asyncio.timeout(PATIENCE_S):
            return await self.events.get()


class Client:
    """An engine, and connections of it to ports of this machine."""

    def __init__(self) -> None:
        self.engine = NativeEngine()

    def run(self, coroutine: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await coroutine

        return self.engine.run(awaited)

    def connect(self, made: Tls, port: int, host: str = "localhost") -> tuple[Connection, Notes]:
        async def connected() -> tuple[Connection, Notes]:
            notes = Notes()
            source = made.source(host, port)
            address = ("127.0.0.1", port)
            return self.engine.transport.connect(socket.AF_INET, address, notes, LIMIT, source), notes

        return self.run(connected())

    def outcome(self, made: Tls, port: int, host: str = "localhost") -> Event:
        """The first report of a new connection; with TLS 1.3 a server refuses after the client is through."""
        connection, notes = self.connect(made, port, host)
        event = self.run(notes.next())
        if event == ("connected",):
            with contextlib.suppress(BrokenPipeError):  # it was refused a moment ago
                self.submit(connection, 1, b"hello")
            event = self.run(notes.next())
            self.run(closed(connection))
        return event

    def submit(self, connection: Connection, number: int, body: bytes, *, past_hold: bool = False) -> None:
        async def submitted() -> None:
            segments = [struct.pack(">i", number), body]
            connection.submit(number, number, segments, expect_response=True, past_hold=past_hold)

        self.run(submitted())


async def closed(connection: Connection) -> None:
    connection.close()


async def given_up(connection: BrokerConnection) -> None:
    connection.close()


@pytest.fixture
def client() -> Iterator[Client]:
    made = Client()
    yield made
    made.engine.stop()


@pytest.fixture(params=["native", "python"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setenv(tls_module.VARIABLE, "python")
    return str(request.param)


def made(**options: Any) -> Tls:
    given = {"security_protocol": "SSL", "bootstrap_servers": "h:1", "ssl_ca_pem": CA.pem.decode(), **options}
    return Tls(ClientConfig.build({name: value for name, value in given.items() if value is not None}))


def of_client(identity: Identity) -> dict[str, str]:
    return {"ssl_certificate_pem": identity.chain_pem.decode(), "ssl_key_pem": identity.key_pem().decode()}


def serve(identity: Identity = OWN, clients: Authority | None = None, **attributes: Any) -> TlsServer:
    context = server_context(identity, clients)
    for name, value in attributes.items():
        setattr(context, name, value)
    return TlsServer(context)


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_frames_there_and_back(client: Client, version: ssl.TLSVersion, seed: int) -> None:
    rng = random.Random(seed)
    sizes = [1, 16 << 10, (16 << 10) - 4, 5 << 20, *(rng.randrange(1, 200_000) for _ in range(30))]
    with serve(minimum_version=version, maximum_version=version) as server:
        connection, notes = client.connect(made(), server.port)
        assert client.run(notes.next()) == ("connected",)
        bodies = [rng.randbytes(size) for size in sizes]
        for number, body in enumerate(bodies):
            client.submit(connection, number, body)
        for number, body in enumerate(bodies):
            assert client.run(notes.next()) == ("response", number, struct.pack(">i", number) + body)
        client.run(closed(connection))


@pytest.mark.usefixtures("kind")
def test_records_split_byte_by_byte(client: Client) -> None:
    with serve() as server, Trickle(server.port) as slow:
        connection, notes = client.connect(made(), slow.port)
        assert client.run(notes.next()) == ("connected",)
        for number in range(3):
            client.submit(connection, number, b"x" * 3000)
            assert client.run(notes.next())[:2] == ("response", number)
        client.run(closed(connection))


REFUSED: dict[str, tuple[Callable[[Authority], Identity], str]] = {
    "expired": (certificates.expired, "certificate has expired"),
    "not yet valid": (certificates.not_yet_valid, "certificate is not yet valid"),
    "wrong host": (certificates.wrong_host, "(?i)hostname mismatch"),
    "self-signed": (lambda _: certificates.self_signed(), "self.signed certificate"),
    "unknown CA": (lambda _: certificates.of_unknown_ca(), "unable to get local issuer certificate"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_certificate_that_is_not_accepted(client: Client, kind: str, case: str) -> None:
    make, reason = REFUSED[case]
    identity = make(CA)
    with serve(identity) as server:
        what, number, said = client.outcome(made(), server.port)
    assert (what, number) == ("closed", NOT_AUTHENTICATED)
    assert re.search(reason, said), said
    if kind == "native":
        name = "elsewhere.test" if case == "wrong host" else "localhost"
        issuer = identity.certificate.issuer.rfc4514_string()
        assert f"subject CN={name}; issuer {issuer}; valid from" in said
        assert f"{identity.certificate.not_valid_after_utc:%Y} GMT" in said


@pytest.mark.usefixtures("kind")
def test_a_certificate_is_for_addresses_too(client: Client) -> None:
    with serve(CA.issue("localhost")) as server:
        what, number, said = client.outcome(made(), server.port, "127.0.0.1")
        assert (what, number) == ("closed", NOT_AUTHENTICATED)
        assert "IP address mismatch" in said
    with serve(CA.issue("127.0.0.1", name="a broker")) as server:
        assert client.outcome(made(), server.port, "127.0.0.1")[0] == "response"
        assert client.outcome(made(), server.port, "localhost")[:2] == ("closed", NOT_AUTHENTICATED)


@pytest.mark.usefixtures("kind")
def test_a_chain_with_a_certificate_between(client: Client) -> None:
    with serve(CA.intermediate().issue()) as server:
        assert client.outcome(made(), server.port)[0] == "response"


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("shows_chain", [True, False])
def test_any_trusted_certificate_is_an_anchor(client: Client, shows_chain: bool) -> None:
    """The certificate between, or the broker's own, without a root; another one of the same root is not trusted."""
    between, other = CA.intermediate(), CA.intermediate("another between")
    identity = between.issue()
    shown = identity if shows_chain else Identity(identity.certificate, identity.key)
    own = Identity(identity.certificate, identity.key).chain_pem
    with serve(shown) as server:
        for text in (between.pem, own):
            assert client.outcome(made(ssl_ca_pem=text.decode()), server.port)[0] == "response"
        for text in (other.pem, other.issue().chain_pem):
            outcome = client.outcome(made(ssl_ca_pem=text.decode()), server.port)
            assert outcome[:2] == ("closed", NOT_AUTHENTICATED)
    with serve(certificates.wrong_host(between)) as server:
        assert client.outcome(made(ssl_ca_pem=between.pem.decode()), server.port)[:2] == ("closed", NOT_AUTHENTICATED)


UNREADABLE = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
NO_BASE64 = b"-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n"
NO_END = b"-----BEGIN CERTIFICATE-----\nAAAA\n"


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("bad", [UNREADABLE, NO_BASE64, NO_END])
def test_an_unreadable_certificate_hides_none_behind_it(
    client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture, bad: bytes
) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(b"# roots\n" + Authority.new("another").pem + bad + CA.pem)
    with serve() as server:
        assert client.outcome(made(ssl_ca_pem=None, ssl_ca_location=str(bundle)), server.port)[0] == "response"
    line = 2 + Authority.new("another").pem.count(b"\n")
    said = f"option ssl_ca_location='{bundle}': certificate 2 of 3 (line {line}) cannot be read ("
    assert [message.startswith(said) for message in caplog.messages if "cannot be read" in message] == [True]
    bundle.write_bytes(bad)
    with pytest.raises(ConfigError, match="ssl_ca_location or ssl_ca_pem: there is no certificate in it"):
        made(ssl_ca_pem=None, ssl_ca_location=str(bundle))


@pytest.mark.usefixtures("kind")
def test_an_unreadable_certificate_of_a_chain(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    identity = CA.intermediate().issue(name="client")
    own, between = (Identity(each, identity.key).chain_pem for each in (identity.certificate, *identity.between))
    options = {"ssl_key_pem": identity.key_pem().decode()}
    with serve(clients=CA) as server:
        chain = (own + UNREADABLE + between).decode()
        assert client.outcome(made(**options, ssl_certificate_pem=chain), server.port)[0] == "response"
    assert "option ssl_certificate_pem: certificate 2 of 3 (line" in caplog.text
    with pytest.raises(ConfigError, match="ssl_certificate_location or ssl_certificate_pem: "):
        made(**options, ssl_certificate_pem=(UNREADABLE + own + between).decode())


@pytest.mark.usefixtures("kind")
def test_an_unreadable_revocation_list(client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "crl.pem"
    file.write_bytes(UNREADABLE.replace(b"CERTIFICATE", b"X509 CRL") + CA.crl(OWN))
    with serve(OWN) as server:
        assert "certificate revoked" in client.outcome(made(ssl_crl_location=str(file)), server.port)[2]
    assert f"option ssl_crl_location='{file}': revocation list 1 of 2 (line 1) cannot be read" in caplog.text
    file.write_bytes(UNREADABLE.replace(b"CERTIFICATE", b"X509 CRL"))
    with pytest.raises(ConfigError, match="ssl_crl_location: there is no revocation list in it"):
        made(ssl_crl_location=str(file))


@pytest.mark.usefixtures("kind")
def test_a_certificate_without_names_is_matched_by_its_common_name(client: Client) -> None:
    with serve(certificates.without_names(CA)) as server:
        assert client.outcome(made(), server.port)[0] == "response"
        assert client.outcome(made(), server.port, "127.0.0.1")[:2] == ("closed", NOT_AUTHENTICATED)
    with serve(certificates.without_names(CA, "elsewhere.test")) as server:
        assert client.outcome(made(), server.port)[:2] == ("closed", NOT_AUTHENTICATED)


def test_a_certificate_without_names_is_reported_once(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    nameless = certificates.without_names(CA)
    tls_module.reported.discard("CN=localhost")
    with serve(nameless) as server, serve(OWN) as other:
        for port in (other.port, server.port, server.port):
            options = {"bootstrap_servers": f"localhost:{port}", "security_protocol": "SSL"}
            config = ClientConfig.build({**options, "ssl_ca_pem": CA.pem.decode()})
            connection = BrokerConnection(
                client.engine, config, "localhost", port, "control", -1, security=ClientSecurity(config)
            )

            async def connect(each: BrokerConnection = connection) -> None:
                family, address = (await each._resolve())[0]
                await each._connect(family, address)

            client.run(connect())
            client.run(given_up(connection))

    def said() -> list[str]:
        return [message for message in caplog.messages if "has no subjectAltName" in message]

    until(said, "the line is logged")
    assert len(said()) == 1
    assert "the certificate CN=localhost of a broker" in said()[0]


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("given", [None, "probe"])
def test_the_system_s_trust_store(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None
) -> None:
    """The user names no CA, or uses librdkafka's word for that; OpenSSL finds the store as usual."""
    with serve() as server:
        what, number, said = client.outcome(made(ssl_ca_pem=None, ssl_ca_location=given), server.port)
        assert (what, number) == ("closed", NOT_AUTHENTICATED)
        assert "unable to get local issuer certificate" in said
        monkeypatch.setenv("SSL_CERT_FILE", str(CA.write(tmp_path / "ca.pem")))
        assert client.outcome(made(ssl_ca_pem=None, ssl_ca_location=given), server.port)[0] == "response"
        with serve(certificates.of_unknown_ca()) as other:
            assert client.outcome(made(ssl_ca_pem=None), other.port)[:2] == ("closed", NOT_AUTHENTICATED)


@pytest.mark.usefixtures("kind")
def test_a_client_that_does_not_verify_logs_a_warning(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with serve(certificates.of_unknown_ca()) as server:
        assert client.outcome(made(enable_ssl_certificate_verification=False), server.port)[0] == "response"
    assert any("anybody between this client and the brokers" in message for message in caplog.messages)
    caplog.clear()
    with serve(certificates.wrong_host(CA)) as server:
        unnamed = made(ssl_endpoint_identification_algorithm="none")
        assert client.outcome(unnamed, server.port)[0] == "response"
    assert any("can pose as a broker" in message for message in caplog.messages)
    with serve(certificates.of_unknown_ca()) as server:
        assert client.outcome(unnamed, server.port)[:2] == ("closed", NOT_AUTHENTICATED)


@pytest.mark.usefixtures("kind")
def test_a_revoked_certificate(client: Client, tmp_path: Path) -> None:
    (tmp_path / "crl.pem").write_bytes(CA.crl(OWN))
    wary = made(ssl_crl_location=str(tmp_path / "crl.pem"))
    with serve(OWN) as server:
        what, number, said = client.outcome(wary, server.port)
    assert (what, number) == ("closed", NOT_AUTHENTICATED)
    assert "certificate revoked" in said
    with serve(CA.issue()) as server:
        assert client.outcome(wary, server.port)[0] == "response"


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_server_wants_a_certificate(client: Client, version: ssl.TLSVersion) -> None:
    own = CA.issue(name="client")
    with serve(clients=CA, minimum_version=version, maximum_version=version) as server:
        for options in ({}, of_client(certificates.of_unknown_ca())):
            what, number, said = client.outcome(made(**options), server.port)
            assert what == "closed"
            # A server that closes at once resets the connection, and the alert may be lost with it.
            assert number in (NOT_AUTHENTICATED, errno.ECONNRESET, errno.EPIPE), said
        assert client.outcome(made(**of_client(own)), server.port)[0] == "response"
        assert server.serials == [own.certificate.serial_number]


@pytest.mark.usefixtures("kind")
def test_no_version_in_common(client: Client) -> None:
    with serve(maximum_version=ssl.TLSVersion.TLSv1_2) as server:
        what, number, said = client.outcome(made(ssl_enabled_protocols="TLSv1.3"), server.port)
        assert (what, number) == ("closed", NOT_AUTHENTICATED), said
        assert "protocol_version" in said
        assert client.outcome(made(ssl_enabled_protocols="TLSv1.2"), server.port)[0] == "response"


@pytest.mark.usefixtures("kind")
def test_ciphers_of_the_user(client: Client) -> None:
    seen: list[Any] = []

    def note(connection: ssl.SSLSocket) -> None:
        seen.append(connection.cipher())
        response_frames(connection)

    with TlsServer(server_context(OWN), note) as server:
        chosen = made(ssl_cipher_suites="ECDHE-ECDSA-AES256-GCM-SHA384", ssl_enabled_protocols="TLSv1.2")
        assert client.outcome(chosen, server.port)[0] == "response"
    assert seen[0][0] == "ECDHE-ECDSA-AES256-GCM-SHA384"
    with pytest.raises(ConfigError, match="ssl_cipher_suites: OpenSSL has none of these"):
        made(ssl_cipher_suites="ROT13")


def test_suites_of_tls_1_3(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def note(connection: ssl.SSLSocket) -> None:
        seen.append(connection.cipher())
        response_frames(connection)

    with TlsServer(server_context(OWN), note) as server:
        assert client.outcome(made(ssl_cipher_suites="TLS_CHACHA20_POLY1305_SHA256"), server.port)[0] == "response"
    assert seen[0][0] == "TLS_CHACHA20_POLY1305_SHA256"
    monkeypatch.setenv(tls_module.VARIABLE, "python")
    with pytest.raises(ConfigError, match="cannot choose those of TLS 1.3"):
        made(ssl_cipher_suites="TLS_CHACHA20_POLY1305_SHA256")


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("inside", [False, True])
def test_a_server_that_ends_without_saying_so(client: Client, inside: bool) -> None:
    def cut(connection: ssl.SSLSocket) -> None:
        connection.recv(65536)
        if inside:
            connection.sendall(struct.pack(">ii", 1000, 1) + b"x" * 100)
        connection.shutdown(socket.SHUT_RDWR)  # of the socket: TLS does not end

    with TlsServer(server_context(OWN), cut) as server:
        what, number, said = client.outcome(made(), server.port)
    assert (what, number) == ("closed", errno.EPIPE)
    assert ("in the middle of a frame" in said) == inside, said


@pytest.mark.usefixtures("kind")
def test_a_server_that_closes_in_the_handshake(client: Client) -> None:
    def leave(connection: socket.socket) -> None:
        connection.recv(65536)

    with SocketServer(leave) as server:
        what, number, said = client.outcome(made(), server.port)
    assert (what, number) == ("closed", errno.EPIPE)
    assert "closed the connection during the TLS handshake" in said


def begun(hello: bytes) -> bytes:
    """A server's reply to the client's first message: a ServerHello, and the messages that follow at once."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = server_context(OWN).wrap_bio(incoming, outgoing, server_side=True)
    incoming.write(hello)
    with contextlib.suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("part", ["nothing", "a header", "half of it", "all but one byte"])
def test_a_server_that_hangs_in_the_handshake(client: Client, version: str, part: str) -> None:
    """The handshake fails within the time limit of connecting, and the socket is closed."""
    said: list[bytes] = []
    left = threading.Event()

    def hang(raw: socket.socket) -> None:
        response = begun(raw.recv(65536))
        sizes = {"nothing": 0, "a header": 5, "half of it": 5 + 40, "all but one byte": len(response) - 1}
        raw.sendall(response[: sizes[part]])
        said.append(response)
        while raw.recv(65536):
            pass
        left.set()

    with SocketServer(hang) as server:
        config = ClientConfig.build(
            {
                "bootstrap_servers": server.address,
                "security_protocol": "SSL",
                "ssl_ca_pem": CA.pem.decode(),
                "ssl_enabled_protocols": version,
                "socket_connection_setup_timeout_ms": 300,
                "request_timeout_ms": 60_000,
            }
        )
        connection = BrokerConnection(
            client.engine, config, "127.0.0.1", server.port, "control", -1, security=ClientSecurity(config)
        )
        began = time.monotonic()
        with pytest.raises(KafkaConnectionError, match=r"no response within 0\.3 s \(TCP or TLS handshake\)"):
            client.run(connection.open())
        assert 0.3 <= time.monotonic() - began < 10  # long before a request has to get its response
        assert not connection.is_ready
        assert left.wait(PATIENCE_S)
        client.run(given_up(connection))
    assert len(said[0]) > 100, "there was something to send a part of"


@pytest.mark.usefixtures("kind")
def test_a_server_that_speaks_no_tls(client: Client) -> None:
    def greet(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        connection.recv(65536)

    with SocketServer(greet) as server:
        what, number, said = client.outcome(made(), server.port)
    assert (what, number) == ("closed", errno.EPROTONOSUPPORT)
    assert "no TLS is spoken there" in said


@pytest.mark.usefixtures("kind")
def test_bytes_that_are_no_record(client: Client) -> None:
    """After the handshake: whatever OpenSSL makes of them ends the connection, and nothing else."""

    def lie(raw: socket.socket) -> None:
        raw.sendall(in_memory(raw, server_context(OWN)))
        raw.sendall(b"\x17\x03\x03\x00\x40" + b"\xaa" * 64)
        raw.recv(65536)

    with SocketServer(lie) as server:
        what, number, said = client.outcome(made(), server.port)
    assert what == "closed"
    assert number == errno.EPROTO, said


def in_memory(raw: socket.socket, context: ssl.SSLContext) -> bytes:
    """Do a server's handshake over a socket; return the bytes that the server has still to send."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context.wrap_bio(incoming, outgoing, server_side=True)
    while True:
        try:
            session.do_handshake()
        except ssl.SSLWantReadError:
            raw.sendall(outgoing.read())
            incoming.write(raw.recv(65536))
        else:
            return outgoing.read()


def small_records(context: ssl.SSLContext) -> ssl.SSLContext:
    """Cut the messages of a server into records of 512 bytes, which Python's module ssl has no call for."""
    control = ctypes.CDLL("libssl.so.3").SSL_CTX_ctrl
    control.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_void_p]
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__).value
    assert control(pointer, 52, 512, None) == 1  # SSL_CTRL_SET_MAX_SEND_FRAGMENT
    return context


def test_a_connection_s_tls_error_stays_its_own(client: Client) -> None:
    """SSL_shutdown fails inside a session ticket; the error in the thread's queue is not another connection's."""
    stopped = threading.Event()

    def stop_in_a_ticket(raw: socket.socket) -> None:
        tickets = in_memory(raw, small_records(server_context(OWN, CA)))
        size = 5 + int.from_bytes(tickets[3:5], "big")
        assert size < len(tickets)
        raw.sendall(tickets[:size])
        stopped.set()
        raw.recv(65536)

    with serve() as server, SocketServer(stop_in_a_ticket) as hostile:
        healthy, notes = client.connect(made(), server.port)
        assert client.run(notes.next()) == ("connected",)
        other, others = client.connect(made(**of_client(CA.issue(name="client"))), hostile.port)
        assert client.run(others.next()) == ("connected",)
        assert stopped.wait(PATIENCE_S)
        for number in range(20):  # (the ticket is read meanwhile)
            client.submit(healthy, number, b"hello")
            assert client.run(notes.next())[:2] == ("response", number)
        client.run(closed(other))
        assert client.run(others.next())[:2] == ("closed", 0)
        for number in range(20, 23):
            client.submit(healthy, number, b"hello")
            assert client.run(notes.next())[:2] == ("response", number)
        client.run(closed(healthy))


@pytest.mark.usefixtures("kind")
def test_without_verification_no_error_is_the_certificate_s(client: Client) -> None:
    def lie(raw: socket.socket) -> None:
        raw.sendall(in_memory(raw, server_context(certificates.of_unknown_ca())))
        raw.sendall(b"\x17\x03\x03\x00\x40" + b"\xaa" * 64)
        raw.recv(65536)

    with SocketServer(lie) as server:
        trusting = made(enable_ssl_certificate_verification=False)
        what, number, said = client.outcome(trusting, server.port)
    assert (what, number) == ("closed", errno.EPROTO), said
    assert "certificate" not in said


@pytest.mark.parametrize(("value", "allowed"), [(None, False), ("kernel", True)])
def test_the_kernel_encrypts_only_if_it_is_asked_to(
    monkeypatch: pytest.MonkeyPatch, value: str | None, allowed: bool
) -> None:
    if value is not None:
        monkeypatch.setenv(tls_module.VARIABLE, value)
    assert made()._context.allows_kernel is allowed


@pytest.mark.usefixtures("kind")
def test_a_server_that_wants_to_renegotiate(client: Client) -> None:
    """Which TLS 1.2 had, and attackers used: this client goes on as before, or the server gives up."""
    asked = threading.Event()

    def renegotiate(raw: socket.socket) -> None:
        context = OpenSSL.SSL.Context(OpenSSL.SSL.TLS_SERVER_METHOD)
        context.set_max_proto_version(OpenSSL.SSL.TLS1_2_VERSION)
        context.use_certificate(OWN.certificate)
        context.use_privatekey(OWN.key)
        raw.settimeout(None)
        connection = OpenSSL.SSL.Connection(context, raw)
        connection.set_accept_state()
        with contextlib.suppress(OpenSSL.SSL.Error):
            connection.do_handshake()
            frame = connection.recv(65536)
            assert connection.renegotiate()
            asked.set()
            connection.do_handshake()  # says HelloRequest
            connection.sendall(frame)
            connection.recv(65536)

    with SocketServer(renegotiate) as server:
        event = client.outcome(made(ssl_enabled_protocols="TLSv1.2"), server.port)
    assert asked.is_set()
    assert event[0] == "response" or event[1] in (errno.EPIPE, NOT_AUTHENTICATED), event


def test_a_session_is_resumed(client: Client) -> None:
    trusting = made()
    before = trusting.statistics()
    with serve() as server:
        for _ in range(3):
            assert client.outcome(trusting, server.port)[0] == "response"
        assert server.resumed == [False, True, True]
    after = trusting.statistics()
    assert {name: after[name] - before[name] for name in ("handshakes", "resumed")} == {"handshakes": 3, "resumed": 2}


def test_clients_with_the_same_options_share_sessions(client: Client) -> None:
    first, second, other = made(), made(), made(ssl_enabled_protocols="TLSv1.3")
    with serve() as server:
        for trusting in (first, second, other):
            assert client.outcome(trusting, server.port)[0] == "response"
        assert server.resumed == [False, True, False]
    assert first.statistics() == second.statistics() != other.statistics()


@pytest.mark.usefixtures("kind")
def test_renewed_files_are_taken_by_new_connections(
    client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = CA.issue(name="client"), CA.issue(name="client")
    files = first.write(tmp_path, "client")
    (tmp_path / "ca.pem").write_bytes(CA.pem)
    renewing = made(
        ssl_ca_pem=None,
        ssl_ca_location=str(tmp_path / "ca.pem"),
        ssl_certificate_location=str(files.certificate),
        ssl_key_location=str(files.key),
    )
    with serve(clients=CA) as server, caplog.at_level(logging.INFO, "kafwire"):
        assert client.outcome(renewing, server.port)[0] == "response"
        files.certificate.write_bytes(second.chain_pem)  # half of it: the key comes later
        assert client.outcome(renewing, server.port)[0] == "response"
        assert "are ignored until they change again" in caplog.text
        files.key.write_bytes(second.key_pem())
        assert client.outcome(renewing, server.port)[0] == "response"
        assert "new connections use them" in caplog.text
        assert server.serials == [each.certificate.serial_number for each in (first, first, second)]


def test_a_context_of_the_users_own(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    context = ssl.create_default_context(cadata=CA.pem.decode())
    own = made(ssl_ca_pem=None, ssl_context=context)
    with serve() as server:
        assert client.outcome(own, server.port)[0] == "response"
    with serve(certificates.of_unknown_ca()) as server:
        assert client.outcome(own, server.port)[:2] == ("closed", NOT_AUTHENTICATED)
    del caplog  # that TLS runs by Python's module is said once in a process
    with pytest.raises(ConfigError, match="ssl_context is instead of ssl_ca_pem"):
        made(ssl_context=context)


def test_why_tls_is_python_s_is_said_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(tls_module, "reported", set[str]())
    monkeypatch.setenv(tls_module.VARIABLE, "python")
    made()
    made()
    assert [message for message in caplog.messages if "under the GIL, which is slower" in message] == [
        "TLS uses Python's module ssl, under the GIL, which is slower: the environment variable KAFWIRE_TLS is 'python'"
    ]
    assert tls_module.described().startswith("Python's module ssl")
    monkeypatch.delenv(tls_module.VARIABLE)
    assert "in the I/O thread" in tls_module.described()


@pytest.mark.usefixtures("kind")
def test_requests_that_are_held(client: Client) -> None:
    async def hold(connection: Connection, holding: bool) -> None:
        connection.hold(holding)

    with serve() as server:
        connection, notes = client.connect(made(), server.port)
        assert client.run(notes.next()) == ("connected",)
        client.submit(connection, 1, b"before")
        client.run(hold(connection, True))
        client.submit(connection, 2, b"held")
        client.submit(connection, 3, b"past", past_hold=True)
        assert [client.run(notes.next())[1] for _ in range(2)] == [1, 3]
        assert notes.events.empty()
        client.submit(connection, 4, b"held, too")
        client.run(hold(connection, False))
        assert [client.run(notes.next())[1] for _ in range(2)] == [2, 4]
        client.run(closed(connection))


@pytest.mark.usefixtures("kind")
def test_many_connections_at_once(client: Client, seed: int) -> None:
    rng = random.Random(seed)
    with serve() as server:
        trusting = made()
        links = [client.connect(trusting, server.port) for _ in range(20)]
        for _, notes in links:
            assert client.run(notes.next()) == ("connected",)
        for number in range(10):
            for connection, _ in links:
                client.submit(connection, number, rng.randbytes(rng.randrange(1, 50_000)))
        for _, notes in links:
            assert [client.run(notes.next())[1] for _ in range(10)] == list(range(10))
        for connection, notes in links:
            client.run(closed(connection))
            assert client.run(notes.next())[0] == "closed"
