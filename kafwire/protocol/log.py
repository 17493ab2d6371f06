"""Splits a log segment, or the records of a Fetch or Produce, into batches, one at a time. Pure: no I/O.

    log = LogReader()
    while data := file.read(65536):
        log.feed(data)
        for entry in log.batches(): ...
    log.leftover                    # bytes of an incomplete batch at the end

Memory holds one batch, and the bytes fed since `batches` was last exhausted.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafwire.errors import ProtocolError
from kafwire.records import RecordBatch, decode_batches
from kafwire.records.batches import LENGTH_AT, MAX_DECOMPRESSED, OVERHEAD

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["LogBatch", "LogReader", "split_batches"]

MAX_BATCH_BYTES = 100 << 20

_SMALLEST = 14  # the least number of bytes after the length of a magic 0 message


@dataclass(frozen=True, slots=True)
class LogBatch:
    """One batch; `position` is that of its first byte in the log, `size` the number of its bytes there."""

    position: int
    size: int
    batch: RecordBatch


class LogReader:
    """Bytes in, batches out; checksums are verified, records decoded. Not thread-safe."""

    def __init__(self, *, max_batch_bytes: int = MAX_BATCH_BYTES, max_decompressed: int = MAX_DECOMPRESSED) -> None:
        """Start at position 0.

        A batch of more than `max_batch_bytes`, or that decompresses to more than `max_decompressed`, is an error.
        """
        self.position = 0
        self._buffer = bytearray()
        self._max_batch_bytes = max_batch_bytes
        self._max_decompressed = max_decompressed

    @property
    def leftover(self) -> int:
        """The number of bytes since `position` that are not part of a batch yet."""
        return len(self._buffer)

    def feed(self, data: "BytesLike") -> None:
        """Add bytes."""
        self._buffer += memoryview(data).cast("B")

    def batches(self) -> Iterator[LogBatch]:
        """Iterate over the complete batches.

        Raises `ProtocolError`, with the position in the log as `offset`, for bytes that are not a batch. The reader
        stays in front of them.
        """
        while (size := self._next_size()) is not None:
            data = bytes(memoryview(self._buffer)[:size])
            batch = _decode(data, self.position, self._max_decompressed)
            entry = LogBatch(self.position, size, batch)
            del self._buffer[:size], data
            self.position += size
            yield entry

    def _next_size(self) -> int | None:
        if len(self._buffer) < OVERHEAD:
            return None
        length = int.from_bytes(self._buffer[LENGTH_AT:OVERHEAD], "big", signed=True)
        _check_length(length, self.position, self._max_batch_bytes)
        return OVERHEAD + length if len(self._buffer) >= OVERHEAD + length else None


def split_batches(data: "BytesLike", *, max_decompressed: int = MAX_DECOMPRESSED) -> Iterator[LogBatch | int]:
    """Iterate over the batches in `data`, each decoded on demand.

    A last element that is a number counts the bytes of an incomplete batch at the end: brokers truncate there. Raises
    `ProtocolError`, with the position as `offset`, for bytes that are not a batch.
    """
    view = memoryview(data).cast("B")
    position = 0
    while position < len(view):
        rest = len(view) - position
        if rest < OVERHEAD:
            yield rest
            return
        length = int.from_bytes(view[position + LENGTH_AT : position + OVERHEAD], "big", signed=True)
        _check_length(length, position, None)
        size = OVERHEAD + length
        if rest < size:
            yield rest
            return
        yield LogBatch(position, size, _decode(view[position : position + size], position, max_decompressed))
        position += size


def _check_length(length: int, position: int, limit: int | None) -> None:
    if length == 0:
        raise ProtocolError(
            "a batch of length 0: space of the file that was allocated and not written, or lost in a crash",
            offset=position,
        )
    if length < _SMALLEST:
        raise ProtocolError(f"a batch of length {length}: this is not a log, or it is damaged", offset=position)
    if limit is not None and length > limit:
        raise ProtocolError(
            f"a batch of length {length}, the limit is {limit}: this is not a log, or it is damaged", offset=position
        )


def _decode(data: "BytesLike", position: int, max_decompressed: int) -> RecordBatch:
    try:
        found = decode_batches(data, max_decompressed=max_decompressed)
    except ProtocolError as error:
        # the text has a position too, but relative to the batch
        message = re.sub(r" \(byte \d+\)", "", error.message)
        raise ProtocolError(message, offset=position + (error.offset or 0)) from None
    if len(found) != 1:
        raise ProtocolError(
            "the batch does not end where its length says: this is not a log, or it is damaged", offset=position
        )
    return found[0]
