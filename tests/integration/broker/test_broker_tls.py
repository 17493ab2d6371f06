"""The embedded broker's TLS on the wire: records, handshakes that hang, bytes that are no TLS, slow readers."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Iterator

import pytest

import kafwire
from kafwire import protocol
from kafwire.protocol.framing import decode_response
from kafwire.testing import EmbeddedKafka, Security
from kafwire.testing.cluster.scram_users import exchange
from tests.support.broker.secured_brokers import LISTENERS, address, encrypted, frame
from tests.support.deadlines import until


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedKafka]:
    """One node with all kinds of listeners."""
    with EmbeddedKafka(security=LISTENERS) as running:
        yield running


@pytest.mark.parametrize(("version", "taken"), [(ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, False)])
def test_versions_of_tls(version: ssl.TLSVersion, taken: bool) -> None:
    with EmbeddedKafka(security=Security("SSL", properties={"ssl.enabled.protocols": "TLSv1.2"})) as kafka:
        context = ssl.create_default_context(cafile=kafka.security.certificates.ca_pem)
        context.minimum_version = context.maximum_version = version
        with socket.create_connection(address(kafka, "SSL"), timeout=10) as raw:
            if taken:
                with context.wrap_socket(raw, server_hostname="127.0.0.1") as connection:
                    assert connection.version() == "TLSv1.2"
            else:
                with pytest.raises(ssl.SSLError):
                    context.wrap_socket(raw, server_hostname="127.0.0.1")


# --- TLS on the wire


def test_requests_that_came_in_one_record_all_get_responses(secured: EmbeddedKafka) -> None:
    """More than are read ahead: the rest is inside of TLS, and no selector reports it."""
    asked = b"".join(frame(protocol.ApiVersionsRequest(), 0, number) for number in range(50))
    with encrypted(secured) as connection:
        connection.sendall(asked)
        with connection.makefile("rb") as stream:
            for number in range(50):
                (size,) = struct.unpack(">i", stream.read(4))
                response = stream.read(size)
                assert struct.unpack_from(">i", response) == (number,)


def test_requests_in_one_record_after_one_that_waits_get_responses(secured: EmbeddedKafka, topic_name: str) -> None:
    secured.create_topic(topic_name)
    request = protocol.FetchRequest
    topic = request.FetchTopic(
        topic=topic_name, partitions=[request.FetchPartition(partition=0, partition_max_bytes=99)]
    )
    waiting = request(max_wait_ms=200, min_bytes=1, max_bytes=99, topics=[topic])
    with encrypted(secured) as connection:
        later = [frame(protocol.ApiVersionsRequest(), 0, number) for number in range(2, 12)]
        # The end of a frame is read by itself, and what follows it in its record only when there is room again.
        connection.sendall(frame(waiting, 12) + later[0] + later[1][:6])
        time.sleep(0.05)
        connection.sendall(later[1][6:] + b"".join(later[2:]))
        with connection.makefile("rb") as stream:
            numbers = []
            for _ in range(11):
                (size,) = struct.unpack(">i", stream.read(4))
                numbers.append(struct.unpack_from(">i", stream.read(size))[0])
    assert numbers == list(range(1, 12))


def test_a_client_that_hangs_in_its_handshake_is_closed_and_hinders_no_other() -> None:
    with EmbeddedKafka(security=Security("SSL")) as kafka:
        kafka.ask(lambda _: setattr(kafka._server, "handshake_ms", 1_500))
        hanging = [socket.create_connection(address(kafka, "SSL"), timeout=10) for _ in range(20)]
        hanging[0].sendall(b"\x16\x03\x01\x02")  # the beginning of a ClientHello
        began = time.monotonic()
        with encrypted(kafka) as connection:
            response = exchange(connection, protocol.ApiVersionsRequest(), 0)
            assert response.api_keys
            assert time.monotonic() - began < 1.5  # the others hang still
            for each in hanging:
                assert each.recv(1) == b""
                each.close()
            assert time.monotonic() - began < 8
            assert exchange(connection, protocol.ApiVersionsRequest(), 0).api_keys
        until(lambda: not kafka.ask(lambda _: kafka._server._peers), "no connection left")


@pytest.mark.parametrize(
    "data", [b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" * 99]
)
def test_bytes_that_are_no_tls_end_their_connection_alone(secured: EmbeddedKafka, data: bytes) -> None:
    with encrypted(secured) as other, socket.create_connection(address(secured, "SSL"), timeout=10) as raw:
        raw.sendall(data)
        while True:
            try:
                if not raw.recv(100):
                    break
            except ConnectionResetError:
                break
        assert exchange(other, protocol.ApiVersionsRequest(), 0).api_keys


def test_large_responses_go_through_tls_to_a_slow_reader(secured: EmbeddedKafka, topic_name: str) -> None:
    secured.create_topic(topic_name, max_message_bytes=1 << 26)
    values = [bytes([number]) * (1 << 20) for number in range(24)]
    secured.append(topic_name, values)
    request = protocol.FetchRequest
    part = request.FetchPartition(partition=0, partition_max_bytes=1 << 26)
    asked = request(
        max_wait_ms=0, min_bytes=0, max_bytes=1 << 26, topics=[request.FetchTopic(topic=topic_name, partitions=[part])]
    )
    with encrypted(secured) as connection:
        connection.sendall(frame(asked, 12))
        time.sleep(0.2)
        with connection.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            response = decode_response(request, stream.read(size), 12)[1]
    records = response.responses[0].partitions[0].records
    assert records is not None
    (batch,) = kafwire.records.decode_batches(records)
    assert [record.value for record in batch] == values
