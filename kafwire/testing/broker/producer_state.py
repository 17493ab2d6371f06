"""What a partition's leader remembers of producers: their last batches, and their transactions that are open.

Five batches of each producer are remembered; after a clean stop one (a snapshot has no more), after a crash up to five
of those that are read again from the log, and none of a producer that has written nothing for
`producer.id.expiration.ms`. See KIP-98, KIP-360, KIP-890.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kafwire.errors import ErrorCode
from kafwire.testing.broker.batch_header import BatchHeader

REMEMBERED = 5
_WRAP = 1 << 31


class Appended(NamedTuple):
    """A batch of a producer that is in the log."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int  # the broker's time when it was appended


@dataclass(slots=True)
class ProducerEntry:
    """One producer in one partition."""

    epoch: int = -1
    batches: deque[Appended] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    coordinator_epoch: int = -1
    first_offset: int | None = None  # of its open transaction
    used_ms: int = 0  # when it last wrote, by the records' own timestamps as Kafka has it
    lowest: int | None = None  # the lowest sequence that it may begin a transaction with, see `verify`

    @property
    def last_sequence(self) -> int:
        """The number of its last record, -1: there is none."""
        return self.batches[-1].last_sequence if self.batches else -1


class Aborted(NamedTuple):
    """An aborted transaction."""

    producer_id: int
    first_offset: int
    last_offset: int  # of its marker


class ProducerStates:
    """All producers of one partition."""

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.aborted: list[Aborted] = []

    @property
    def first_open_offset(self) -> int | None:
        """Where the earliest open transaction begins."""
        found = [entry.first_offset for entry in self.entries.values() if entry.first_offset is not None]
        return min(found, default=None)

    def known_epoch(self, producer_id: int) -> int:
        """The epoch of a producer, -1 of one that is not known."""
        entry = self.entries.get(producer_id)
        return -1 if entry is None else entry.epoch

    def duplicate(self, header: BatchHeader) -> Appended | None:
        """The batch in the log that this one repeats."""
        entry = self.entries.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            return None
        wanted = header.base_sequence, header.last_sequence
        return next((each for each in entry.batches if each[:2] == wanted), None)

    def refuses(self, header: BatchHeader) -> int:
        """The error code for a batch whose numbers do not follow; 0: they do."""
        entry = self.entries.get(header.producer_id)
        known = -1 if entry is None else entry.epoch
        if header.producer_epoch < known:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if entry is not None and entry.lowest is not None and header.base_sequence > entry.lowest:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if header.producer_epoch > known:
            # A producer that it does not know may begin with any number.
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if header.base_sequence and known >= 0 else 0
        if entry is None:
            return 0
        last = entry.last_sequence
        expected = 0 if last < 0 else (last + 1) % _WRAP
        if header.base_sequence != expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if not header.is_transactional and entry.first_offset is not None:
            return ErrorCode.INVALID_TXN_STATE
        return 0

    def verify(self, header: BatchHeader, *, from_zero: bool) -> None:
        """Note that a transaction is begun with this batch, so that none begins behind one that was refused.

        `from_zero`: version 2 of transactions, in which a new epoch begins with 0 only.
        """
        entry = self.entries.setdefault(header.producer_id, ProducerEntry())
        lowest = header.base_sequence if entry.lowest is None else min(header.base_sequence, entry.lowest)
        entry.lowest = 0 if from_zero else lowest

    def add(self, header: BatchHeader, now_ms: int) -> None:
        """A batch of a producer was appended."""
        entry = self.entries.setdefault(header.producer_id, ProducerEntry())
        if entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.batches.clear()
        if header.is_control:
            raise AssertionError("markers end transactions, see `end`")
        appended = Appended(header.base_sequence, header.last_sequence, header.base_offset, header.last_offset, now_ms)
        entry.batches.append(appended)
        entry.used_ms = max(header.max_timestamp, 0) or now_ms
        if header.is_transactional:
            entry.lowest = None
            if entry.first_offset is None:
                entry.first_offset = header.base_offset

    def end(self, header: BatchHeader, now_ms: int, *, commit: bool, coordinator_epoch: int = 0) -> None:
        """The marker of a producer's transaction was appended: it gives the producer an epoch."""
        entry = self.entries.setdefault(header.producer_id, ProducerEntry())
        if entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.batches.clear()
        entry.coordinator_epoch = max(entry.coordinator_epoch, coordinator_epoch)
        entry.lowest = None
        entry.used_ms = now_ms
        if entry.first_offset is not None and not commit:
            self.aborted.append(Aborted(header.producer_id, entry.first_offset, header.last_offset))
        entry.first_offset = None

    def aborted_in(self, first: int, end: int) -> list[Aborted]:
        """The aborted transactions with records in [first, end)."""
        return [each for each in self.aborted if each.first_offset < end and each.last_offset >= first]

    def restart(self, kept: int) -> None:
        """The broker restarts, and remembers only the last `kept` batches of each producer; 0: nobody is known."""
        for producer_id, entry in list(self.entries.items()):
            if not kept and entry.first_offset is None:
                del self.entries[producer_id]
            elif entry.batches:
                entry.batches = deque(list(entry.batches)[-max(kept, 1) :], maxlen=REMEMBERED)
            entry.lowest = None

    def expire(self, before_ms: int) -> None:
        """Forget who has written nothing since, unless its transaction is open."""
        for producer_id, entry in list(self.entries.items()):
            if entry.used_ms < before_ms and entry.first_offset is None:
                del self.entries[producer_id]

    def truncate(self, offset: int) -> None:
        """Forget what was at `offset` and after; what became of older transactions by it is found by `replay`."""
        for producer_id, entry in list(self.entries.items()):
            kept = [batch for batch in entry.batches if batch.last_offset < offset]
            if entry.first_offset is not None and entry.first_offset >= offset:
                entry.first_offset = None
            if entry.batches and not kept and entry.first_offset is None:
                del self.entries[producer_id]
            else:
                entry.batches = deque(kept, maxlen=REMEMBERED)
        self.aborted = [each for each in self.aborted if each.last_offset < offset]

    def replay(self, headers: Iterable[tuple[BatchHeader, bool]], now_ms: int) -> None:
        """Learn all from the log: headers in order, and of markers whether they commit."""
        self.entries.clear()
        self.aborted.clear()
        for header, commits in headers:
            if header.producer_id < 0:
                continue
            if header.is_control:
                self.end(header, now_ms, commit=commits)
            else:
                self.add(header, now_ms)
