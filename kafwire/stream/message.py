"""`Message`: a record that a stream writes to a topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kafwire.records._records import Record


@dataclass(frozen=True, slots=True)
class Message:
    """A record to be written. Steps return it when a value alone is not enough.

    Args:
        value: bytes-like, None for null (a tombstone), or an argument for the producer's `value_serializer`.
        key: bytes-like, None for null, or an argument for the producer's `key_serializer`.
        headers: pairs of a str and bytes, text (sent as UTF-8) or None.
        topic: the topic; None: the sink's.
        partition: the partition; None leaves it to the partitioner.
        timestamp_ms: milliseconds since the epoch; None: now.
        as_bytes: key and value are bytes already: the producer's serializers are not called.

    Example:
        >>> kafwire.stream.Message(b"paid", key=b"order 7").key
        b'order 7'
    """

    __module__ = "kafwire.stream"
    value: Any = None
    key: Any = None
    headers: Sequence[tuple[str, bytes | str | None]] = ()
    topic: str | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    as_bytes: bool = False


def message_of(value: Any) -> Message:
    """Return a message: a `Message` itself, a `Record` with key, headers and time, any other object as the value."""
    if isinstance(value, Message):
        return value
    if isinstance(value, Record):
        return Message(value.value, value.key, value.headers, timestamp_ms=value.timestamp_ms)
    return Message(value)
