"""Searches a partition's log for batches, by the producer id, epoch and sequence in batch headers.

A missing batch is certainly absent only if offsets follow each other without a gap over the whole span. Compaction
makes gaps, and may have removed the batch; a batch of an old format does not name its producer.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

from kafwire._codec import crc32c_of
from kafwire.errors import ProtocolError
from kafwire.lazy_dataclass import dataclass
from kafwire.producer.outcome.sequencer import SEQUENCE_LIMIT
from kafwire.records.batches import CRC_FROM, OVERHEAD

# Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and largest timestamp, producer id,
# producer epoch, base sequence, records.
HEADER = struct.Struct(">qiibIhiqqqhii")
START = struct.Struct(">qiib")
LOG_APPEND = 0x08

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Numbers:
    """The producer and sequence of a batch."""

    producer_id: int
    epoch: int
    sequence: int
    count: int


@dataclass(frozen=True, slots=True)
class FoundBatch:
    """Where a batch was found: its offset (-1: inside a larger batch), and its append time if the topic uses that."""

    offset: int
    log_append_ms: int = -1


class LogSearch(Generic[K]):
    """Searches for batches from the offset `position` on."""

    def __init__(self, wanted: Mapping[K, Numbers], position: int) -> None:
        self._wanted = dict(wanted)
        self._senders = {(numbers.producer_id, numbers.epoch) for numbers in wanted.values()}
        self.position = position
        self.found: dict[K, FoundBatch] = {}
        self.is_whole = True

    @property
    def is_over(self) -> bool:
        """True if all batches were found."""
        return len(self.found) == len(self._wanted)

    def feed(self, records: bytes) -> bool:
        """Search record batches of a fetch response, from `position` on; return True if `position` advanced.

        The first may begin before `position`, the last may be incomplete. Raises `ProtocolError` for corrupt data.
        """
        at, began = 0, self.position
        view = memoryview(records)
        while at + START.size <= len(view):
            base, length, _, magic = START.unpack_from(view, at)
            end = at + OVERHEAD + length
            if (length < HEADER.size - OVERHEAD and magic >= 2) or length <= 0:
                raise ProtocolError("a batch is shorter than its header", api="FetchResponse", offset=at)
            if end > len(view):
                break
            self._look(view[at:end], base, magic)
            at = end
        return self.position > began

    def _look(self, batch: memoryview, base: int, magic: int) -> None:
        last = base
        if magic >= 2:
            _, _, _, _, crc, attributes, delta, _, max_timestamp, producer_id, epoch, sequence, _ = HEADER.unpack_from(
                batch
            )
            if crc32c_of(batch[CRC_FROM:]) != crc:
                raise ProtocolError(f"the checksum of the batch at offset {base} is wrong", api="FetchResponse")
            last = base + delta
            if last >= self.position and (producer_id, epoch) in self._senders:
                appended = max_timestamp if attributes & LOG_APPEND else -1
                self._match(Numbers(producer_id, epoch, sequence, delta + 1), FoundBatch(base, appended))
        if last >= self.position:
            self.is_whole = self.is_whole and magic >= 2 and base <= self.position
            self.position = last + 1

    def _match(self, stored: Numbers, place: FoundBatch) -> None:
        for key, numbers in self._wanted.items():
            if (numbers.producer_id, numbers.epoch) != (stored.producer_id, stored.epoch):
                continue
            if numbers == stored:
                self.found[key] = place
            elif (numbers.sequence - stored.sequence) % SEQUENCE_LIMIT + numbers.count <= stored.count:
                self.found.setdefault(key, FoundBatch(-1, place.log_append_ms))
