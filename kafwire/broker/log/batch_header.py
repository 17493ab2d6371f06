"""The fixed part of a record batch: the fields that a broker reads, and the few that it writes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from kafwire._codec import crc32c_of
from kafwire.errors import ProtocolError

# Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and largest timestamp, producer id,
# producer epoch, base sequence, record count: magic 2, KIP-98.
_BATCH = struct.Struct(">qiibIhiqqqhii")
_MESSAGE = struct.Struct(">qiIbb")  # offset, length, CRC, magic, attributes: magic 0 and 1
HEADER_SIZE = _BATCH.size
CRC_FROM = 21  # the checksum covers the bytes from here on
OVERHEAD = 12  # the offset and the length, which counts neither

LOG_APPEND = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40


@dataclass(slots=True)
class BatchHeader:
    """A batch in a log, without its records. `next_offset` is the offset after its last record."""

    base_offset: int
    next_offset: int
    size: int
    magic: int = 2
    attributes: int = 0
    leader_epoch: int = -1
    base_timestamp: int = -1
    max_timestamp: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    count: int = 0
    crc: int = 0

    @property
    def is_control(self) -> bool:
        """True for a transaction marker."""
        return bool(self.attributes & CONTROL) and self.magic >= 2

    @property
    def is_transactional(self) -> bool:
        """True if the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL) and self.magic >= 2

    @property
    def last_offset(self) -> int:
        """The offset of its last record."""
        return self.next_offset - 1

    @property
    def compression(self) -> int:
        """The number of its codec; 0: none."""
        return self.attributes & 0x07

    @property
    def last_sequence(self) -> int:
        """The sequence of its last record; sequences wrap after 2^31 - 1."""
        return (self.base_sequence + self.next_offset - self.base_offset - 1) % (1 << 31)


def read_header(data: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """Return the header of the batch at `position`, or of a message of magic 0 or 1; its body may be cut off.

    Raises `ProtocolError` for any other bytes.
    """
    left = len(data) - position
    if left < OVERHEAD + 6:
        raise ProtocolError(f"a batch takes more than {left} bytes", offset=position)
    magic = data[position + 16]
    if magic < 2:
        offset, length, crc, magic, attributes = _MESSAGE.unpack_from(data, position)
        return BatchHeader(offset, offset + 1, length + OVERHEAD, magic, attributes, crc=crc, count=1)
    if left < HEADER_SIZE or magic > 2:
        raise ProtocolError(f"not a batch of records: magic {magic}, {left} bytes", offset=position)
    (base, length, epoch, magic, crc, attributes, delta, first_ms, largest_ms, pid, pepoch, sequence, count) = (
        _BATCH.unpack_from(data, position)
    )
    if length < HEADER_SIZE - OVERHEAD or delta < 0:
        raise ProtocolError(f"not a batch of records: length {length}, last offset delta {delta}", offset=position)
    return BatchHeader(
        base,
        base + delta + 1,
        length + OVERHEAD,
        magic,
        attributes,
        epoch,
        first_ms,
        largest_ms,
        pid,
        pepoch,
        sequence,
        count,
        crc,
    )


def read_headers(data: bytes | bytearray | memoryview) -> Iterator[BatchHeader]:
    """Yield the headers of consecutive batches; one that is cut off at the end is left out."""
    position = 0
    while position + HEADER_SIZE <= len(data):
        header = read_header(data, position)
        if position + header.size > len(data):
            return
        yield header
        position += header.size


def stamp(data: bytearray, position: int, header: BatchHeader, base_offset: int, leader_epoch: int) -> BatchHeader:
    """Set the offset and leader epoch of a batch; neither is under the checksum. Return its header after that."""
    struct.pack_into(">q", data, position, base_offset)
    if header.magic >= 2:
        struct.pack_into(">i", data, position + 12, leader_epoch)
    header.next_offset += base_offset - header.base_offset
    header.base_offset = base_offset
    header.leader_epoch = leader_epoch
    return header


def stamp_append_time(data: bytearray, position: int, header: BatchHeader, now_ms: int) -> None:
    """Mark a batch with the broker's time (`message.timestamp.type=LogAppendTime`), and recompute its checksum."""
    header.attributes |= LOG_APPEND
    header.max_timestamp = now_ms
    struct.pack_into(">h", data, position + 21, header.attributes)
    struct.pack_into(">q", data, position + 35, now_ms)
    end = position + header.size
    with memoryview(data) as view, view[position + CRC_FROM : end] as covered:
        header.crc = crc32c_of(covered)
    struct.pack_into(">I", data, position + 17, header.crc)


def is_intact(data: bytes | bytearray | memoryview, position: int, header: BatchHeader) -> bool:
    """True if the checksum of a batch of magic 2 is right."""
    with memoryview(data) as view, view[position + CRC_FROM : position + header.size] as covered:
        return crc32c_of(covered) == header.crc
