"""Which listeners an embedded broker opens."""

import contextlib
import socket
import ssl
import threading

import pytest

import kafwire
from kafwire import protocol
from kafwire.testing import EmbeddedKafka
from tests.support.broker.secured_brokers import frame


def test_security_closes_the_plain_listener() -> None:
    with EmbeddedKafka(security="SASL_PLAINTEXT") as kafka:
        assert [*kafka.state.nodes[1].addresses] == ["SASL_PLAINTEXT"]
        with kafwire.Client.from_config({"bootstrap.servers": kafka.bootstrap, **kafka.client_options()}) as client:
            assert [f"{each.host}:{each.port}" for each in client.metadata([]).brokers] == [kafka.bootstrap]
        with pytest.raises(ValueError, match="or plain=True"):
            _ = kafka.direct


def test_plain_opens_the_plain_listener_beside_a_secured_one() -> None:
    with EmbeddedKafka(security="SASL_PLAINTEXT", plain=True) as kafka, kafwire.Client(kafka.direct) as client:
        assert [*kafka.state.nodes[1].addresses] == ["PLAINTEXT", "SASL_PLAINTEXT"]
        assert [f"{each.host}:{each.port}" for each in client.metadata([]).brokers] == [kafka.direct]
        assert kafka.bootstrap != kafka.direct


def test_without_security_the_listener_is_plain() -> None:
    with EmbeddedKafka() as kafka:
        assert [*kafka.state.nodes[1].addresses] == ["PLAINTEXT"]
        assert kafka.bootstrap == kafka.direct


def test_a_call_to_a_broker_that_ends_meanwhile_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = EmbeddedKafka().start()
    kafka.close()
    monkeypatch.setattr(threading.Thread, "is_alive", lambda _: True)  # the call looked before the thread's end
    with pytest.raises(RuntimeError, match="the broker is closed"):
        kafka.ask(lambda _: None)


def test_a_broker_has_a_listener() -> None:
    with pytest.raises(ValueError, match="leaves no listener"):
        EmbeddedKafka(plain=False)


NO_TLS_ALERT = b"\x15\x03\x03\x00\x02\x02\x50"  # fatal, internal_error: Kafka 4.4.0 sends it


@pytest.mark.parametrize(
    "sent",
    [
        frame(protocol.ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3),
        frame(protocol.MetadataRequest(topics=None), 4),
        b"GET / HTTP/1.0\r\n\r\n",
        b"\xff" * 64,
    ],
)
def test_a_client_without_tls_gets_an_alert_and_an_orderly_end(sent: bytes) -> None:
    with EmbeddedKafka(security="SSL") as kafka:
        host, port = kafka.bootstrap.split(":")
        for pieces in ([sent], [sent[:3], sent[3:]]):
            with socket.create_connection((host, int(port)), timeout=10) as client:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for piece in pieces:
                    client.sendall(piece)
                with client.makefile("rb") as stream:
                    assert stream.read() == NO_TLS_ALERT
        assert not kafka.problems


@pytest.mark.parametrize("size", [1, 3, 4])
def test_the_first_record_of_tls_may_arrive_in_pieces(size: int) -> None:
    with EmbeddedKafka(security="SSL") as kafka:
        host, port = kafka.bootstrap.split(":")
        context = ssl.create_default_context(cafile=str(kafka.security.certificates.ca_pem))
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with socket.create_connection((host, int(port)), timeout=10) as client:
            with pytest.raises(ssl.SSLWantReadError):
                tls.do_handshake()
            client.sendall(outgoing.read(size))
            for _ in range(3):  # the server accepts, watches and reads in one turn each
                kafka.ask(lambda _: None)
            client.sendall(outgoing.read())
            while tls.version() is None:
                incoming.write(client.recv(1 << 16))
                with contextlib.suppress(ssl.SSLWantReadError):
                    tls.do_handshake()
            assert tls.version() == "TLSv1.3"


def test_certificates_are_for_the_advertised_host() -> None:
    with EmbeddedKafka(security="SSL", advertised="kafka.test:9092") as kafka:
        assert kafka.bootstrap == "kafka.test:9092"
        certificates = kafka.security.certificates
        context = ssl.create_default_context(cafile=str(certificates.ca_pem))
        port = next(iter(kafka._server._listeners.values()))[0].getsockname()[1]
        for name in ("kafka.test", "localhost", "127.0.0.1", "::1"):
            with (
                socket.create_connection(("127.0.0.1", port), timeout=10) as raw,
                context.wrap_socket(raw, server_hostname=name) as connection,
            ):
                assert connection.version() == "TLSv1.3"


def test_a_port_by_each_listener_s_name() -> None:
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("127.0.0.1", 0))
        plain, secured = (each.getsockname()[1] for each in (first, second))
    ports = {"PLAINTEXT": plain, "SASL_PLAINTEXT": secured}
    with EmbeddedKafka(security="SASL_PLAINTEXT", plain=True, port=ports) as kafka:
        assert (kafka.direct, kafka.bootstrap) == (f"127.0.0.1:{plain}", f"127.0.0.1:{secured}")
