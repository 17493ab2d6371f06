"""OTLP: metrics as OpenTelemetry's protobuf message `MetricsData` (v1), written and read by hand. Pure.

Only single numbers are here, gauges and sums: all that KIP-714 needs. The field numbers are those of
opentelemetry/proto/metrics/v1/metrics.proto; unknown fields are skipped, as protobuf requires.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from kafwire.errors import ProtocolError

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_API = "MetricsData"


class Kind(IntEnum):
    """The kind of a point: a gauge, or a sum with its aggregation temporality."""

    GAUGE = 0
    DELTA = 1
    CUMULATIVE = 2


class Point(NamedTuple):
    """One number of one metric. An int is encoded as one; times are in nanoseconds since 1970; 0: none."""

    name: str
    value: float
    kind: Kind = Kind.GAUGE
    attributes: Mapping[str, str] = {}
    start_ns: int = 0
    time_ns: int = 0


# --- writing


def encode(points: Iterable[Point], resource: Mapping[str, str], scope: tuple[str, str] = ("", "")) -> bytes:
    """Return the message of some points.

    Args:
        points: the points. Those of one name and kind become one Metric message.
        resource: the attributes of the client.
        scope: name and version of the library that makes the metrics.
    """
    groups: dict[tuple[str, Kind], list[Point]] = {}
    for point in points:
        groups.setdefault((point.name, point.kind), []).append(point)
    if not groups:
        return b""
    metrics = [_field(2, _metric(group)) for group in groups.values()]
    named = b"".join(_field(number, text.encode()) for number, text in enumerate(scope, 1) if text)
    scope_metrics = (_field(1, named) if named else b"") + b"".join(metrics)
    attributes = b"".join(_field(1, _attribute(key, value)) for key, value in resource.items())
    return _field(1, _field(1, attributes) + _field(2, scope_metrics))


def _metric(points: list[Point]) -> bytes:
    first = points[0]
    data = b"".join(_field(1, _data_point(point)) for point in points)
    if first.kind is Kind.GAUGE:
        return _field(1, first.name.encode()) + _field(5, data)
    is_monotonic = b"\x18\x01"
    return _field(1, first.name.encode()) + _field(7, data + b"\x10" + bytes([first.kind]) + is_monotonic)


def _data_point(point: Point) -> bytes:
    start = b"\x11" + struct.pack("<Q", point.start_ns) if point.start_ns else b""
    value = point.value
    number = b"\x31" + struct.pack("<q", value) if isinstance(value, int) else b"\x21" + struct.pack("<d", value)
    attributes = b"".join(_field(7, _attribute(key, text)) for key, text in point.attributes.items())
    return start + b"\x19" + struct.pack("<Q", point.time_ns) + number + attributes


def _attribute(key: str, value: str) -> bytes:
    return _field(1, key.encode()) + _field(2, _field(1, value.encode()))


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes([value])
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# --- reading


class Metrics(NamedTuple):
    """A decoded message: the attributes of its clients, and its points."""

    resource: dict[str, str]
    points: list[Point]


def decode(data: bytes) -> Metrics:
    """Read the gauges and sums of a message; other metrics are left out.

    Raises:
        ProtocolError: the bytes are no such message.
    """
    found = Metrics({}, [])
    try:
        for resource_metrics in _messages(data, 1):
            for resource in _messages(resource_metrics, 1):
                found.resource.update(_attributes(resource, 1))
            for scope_metrics in _messages(resource_metrics, 2):
                for metric in _messages(scope_metrics, 2):
                    found.points.extend(_points(metric))
    except UnicodeDecodeError:
        raise ProtocolError("a text is not UTF-8", api=_API) from None
    return found


def _points(metric: bytes) -> Iterator[Point]:
    name = b"".join(_messages(metric, 1)).decode()
    for gauge in _messages(metric, 5):
        for point in _messages(gauge, 1):
            yield _point(name, Kind.GAUGE, point)
    for total in _messages(metric, 7):
        temporality = _number(total, 2)
        if temporality not in (Kind.DELTA, Kind.CUMULATIVE):
            raise ProtocolError(f"the sum {name!r} has no aggregation temporality", api=_API)
        for point in _messages(total, 1):
            yield _point(name, Kind(temporality), point)


def _point(name: str, kind: Kind, data: bytes) -> Point:
    value: float = 0.0
    times = {2: 0, 3: 0}
    for number, wire, content in _fields(data):
        if wire == _FIXED64 and number == 4:
            (value,) = struct.unpack("<d", content)
        elif wire == _FIXED64 and number == 6:
            (value,) = struct.unpack("<q", content)
        elif wire == _FIXED64 and number in times:
            (times[number],) = struct.unpack("<Q", content)
    return Point(name, value, kind, _attributes(data, 7), times[2], times[3])


def _attributes(data: bytes, number: int) -> dict[str, str]:
    found = {}
    for pair in _messages(data, number):
        key = b"".join(_messages(pair, 1)).decode()
        for value in _messages(pair, 2):
            found[key] = b"".join(_messages(value, 1)).decode()
    return found


def _messages(data: bytes, number: int) -> Iterator[bytes]:
    """Yield the texts, bytes or messages of a field."""
    return (content for field, wire, content in _fields(data) if field == number and wire == _BYTES)


def _number(data: bytes, number: int) -> int:
    """Return the varint of a field, the last one; 0: it is absent."""
    found = 0
    for field, wire, content in _fields(data):
        if field == number and wire == _VARINT:
            found = _read_varint(content, 0)[0]
    return found


def _fields(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, wire type and content of each field."""
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        wire = tag & 7
        begin = position
        if wire == _VARINT:
            position = _read_varint(data, position)[1]
        elif wire == _BYTES:
            length, begin = _read_varint(data, position)
            position = begin + length
        elif wire in (_FIXED64, _FIXED32):
            position += 8 if wire == _FIXED64 else 4
        else:
            raise ProtocolError(f"there is no wire type {wire}", api=_API, offset=begin)
        if position > len(data):
            raise ProtocolError("a field ends after its message", api=_API, offset=begin)
        yield tag >> 3, wire, data[begin:position]


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise ProtocolError("a number is cut off, or too long", api=_API, offset=position)
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position
