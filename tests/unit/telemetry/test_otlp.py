"""`telemetry.otlp`: OpenTelemetry's MetricsData in protobuf."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.errors import ProtocolError
from kafwire.telemetry.otlp import Kind, Point, decode, encode

TEXTS = st.text(max_size=200)
POINTS = st.builds(
    Point,
    name=TEXTS,
    value=st.one_of(st.floats(allow_nan=False), st.integers(-(2**63), 2**63 - 1)),
    kind=st.sampled_from(Kind),
    attributes=st.dictionaries(TEXTS, TEXTS, max_size=3),
    start_ns=st.integers(0, 2**64 - 1),
    time_ns=st.integers(0, 2**64 - 1),
)


@given(st.lists(POINTS, max_size=5), st.dictionaries(TEXTS, TEXTS, max_size=3))
def test_points_return(points: list[Point], resource: dict[str, str]) -> None:
    found = decode(encode(points, resource, ("kafwire", "1.0")))
    metrics = dict.fromkeys((point.name, point.kind) for point in points)
    assert found.points == [point for key in metrics for point in points if (point.name, point.kind) == key]
    assert found.resource == (resource if points else {})


def test_the_bytes_of_a_gauge_and_a_sum() -> None:
    """By hand, from opentelemetry/proto/metrics/v1/metrics.proto."""
    data = encode([Point("g", 1.5, time_ns=2), Point("s", 3, Kind.DELTA, {"k": "v"}, 1, 2)], {"r": "x"}, ("n", "1"))
    gauge_point = b"\x19" + struct.pack("<Q", 2) + b"\x21" + struct.pack("<d", 1.5)
    gauge = b"\x0a\x01g\x2a" + bytes([len(gauge_point) + 2]) + b"\x0a" + bytes([len(gauge_point)]) + gauge_point
    attribute = b"\x3a\x08\x0a\x01k\x12\x03\x0a\x01v"
    sum_point = (
        b"\x11" + struct.pack("<Q", 1) + b"\x19" + struct.pack("<Q", 2) + b"\x31" + struct.pack("<q", 3) + attribute
    )
    sum_data = b"\x0a" + bytes([len(sum_point)]) + sum_point + b"\x10\x01\x18\x01"
    total = b"\x0a\x01s\x3a" + bytes([len(sum_data)]) + sum_data
    scope = b"\x0a\x06\x0a\x01n\x12\x011"
    metrics = scope + b"\x12" + bytes([len(gauge)]) + gauge + b"\x12" + bytes([len(total)]) + total
    resource = b"\x0a\x0a\x0a\x08\x0a\x01r\x12\x03\x0a\x01x"
    whole = resource + b"\x12" + bytes([len(metrics)]) + metrics
    assert data == b"\x0a" + bytes([len(whole)]) + whole


def test_unknown_fields_are_skipped() -> None:
    data = encode([Point("g", 1.0)], {})
    for unknown in (b"\x78\x05", b"\x7a\x02ab", b"\x79" + bytes(8), b"\x7d" + bytes(4)):
        assert decode(unknown + data + unknown).points == [Point("g", 1.0)]


@given(st.binary(max_size=200))
def test_any_bytes_give_points_or_a_protocol_error(data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        decode(data)


def test_a_message_that_is_cut_off() -> None:
    data = encode([Point("gauge", 1.0, attributes={"k": "v"}, time_ns=5)], {"r": "x"})
    for size in range(1, len(data)):
        with pytest.raises(ProtocolError):
            decode(data[:size])


def test_a_number_of_too_many_bytes() -> None:
    with pytest.raises(ProtocolError, match="too long"):
        decode(b"\x80" * 12 + b"\x01\x00")


def test_a_sum_needs_a_temporality() -> None:
    data = encode([Point("s", 1, Kind.DELTA)], {}).replace(b"\x10\x01\x18\x01", b"\x10\x00\x18\x01")
    with pytest.raises(ProtocolError, match="temporality"):
        decode(data)
