"""A partition leader's memory of producers: their last batches, and their open transactions.

The leader remembers five batches of each producer. After a restart it remembers one, as a snapshot has no more
(recovery after a crash writes a snapshot too). It remembers up to five batches that it reads again from the log, where
no snapshot covers the log's end. It remembers none of a producer without a record for `producer.id.expiration.ms`. See
KIP-98, KIP-360, KIP-890.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kafwire.broker.log.batch_header import BatchHeader
from kafwire.errors import ErrorCode

REMEMBERED = 5
_WRAP = 1 << 31


class Appended(NamedTuple):
    """A batch of a producer in the log."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int  # the largest of its records


@dataclass(slots=True)
class ProducerEntry:
    """One producer in one partition."""

    epoch: int = -1
    batches: deque[Appended] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    first_offset: int | None = None  # first offset of its open transaction
    marked: int = -1  # the offset of its last marker
    coordinator_epoch: int = -1  # coordinator epoch of its last marker
    used_ms: int = -1  # the time of its last record, by the records' own timestamps as in Kafka
    lowest: int | None = None  # the lowest sequence with which it may begin a transaction, see `verify`
    verified_epoch: int = -1  # the epoch of `lowest`
    from_zero: bool = False  # True if an unknown producer must begin with 0

    def forget_verified(self) -> None:
        """Forget the verification: a transaction began or ended, or another broker leads."""
        self.lowest, self.verified_epoch, self.from_zero = None, -1, False


class Aborted(NamedTuple):
    """An aborted transaction."""

    producer_id: int
    first_offset: int
    last_offset: int  # offset of its marker


class Marker(NamedTuple):
    """A transaction marker in a partition."""

    commit: bool
    coordinator_epoch: int = 0


class ProducerStates:
    """All producers of one partition. `node`: the leader, whose memory counts."""

    def __init__(self, node: int = -1) -> None:
        self.node = node
        self.entries: dict[int, ProducerEntry] = {}
        self.aborted: list[Aborted] = []
        # First offset and marker of ended transactions that may not be replicated yet.
        self._ended: list[tuple[int, int]] = []
        # By node and producer: a restarted broker has forgotten batches before this offset.
        self._forgotten: dict[int, dict[int, int]] = {}

    @property
    def first_open_offset(self) -> int | None:
        """The first offset of the earliest open transaction."""
        found = [entry.first_offset for entry in self.entries.values() if entry.first_offset is not None]
        return min(found, default=None)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the first offset of the earliest transaction that is open, or whose marker is not replicated."""
        if self._ended:
            self._ended = [each for each in self._ended if each[1] >= high_watermark]
        ended = min(self._ended, default=(None, 0))[0]
        first = self.first_open_offset
        return first if ended is None else ended if first is None else min(ended, first)

    def is_open(self, producer_id: int) -> bool:
        """True if a producer has an open transaction."""
        entry = self.entries.get(producer_id)
        return entry is not None and entry.first_offset is not None

    def remembered(self, producer_id: int) -> tuple[int, list[Appended]]:
        """Return the leader's state of a producer: its epoch, -1 if unknown, and its last batches."""
        entry = self.entries.get(producer_id)
        if entry is None:
            return -1, []
        cut = self._forgotten.get(self.node, {}).get(producer_id, 0)
        kept = self._kept(producer_id, cut)
        return (-1, []) if cut and not kept and entry.marked < cut else (entry.epoch, kept)

    def duplicate(self, header: BatchHeader) -> Appended | None:
        """Return the batch in the log that this one repeats."""
        epoch, batches = self.remembered(header.producer_id)
        wanted = header.base_sequence, header.last_sequence
        return next((each for each in batches if each[:2] == wanted), None) if epoch == header.producer_epoch else None

    def refuses(self, header: BatchHeader) -> int:
        """Return the error code for a batch out of sequence, or 0."""
        known, batches = self.remembered(header.producer_id)
        entry = self.entries.get(header.producer_id)
        if header.producer_epoch < known:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if entry is not None and entry.lowest is not None:
            restarts = entry.from_zero and not batches and header.base_sequence > 0
            if restarts or header.base_sequence > entry.lowest:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if header.producer_epoch > known:
            # A producer that the leader does not know may start with any number.
            follows = header.base_sequence == 0 or known < 0
        else:
            follows = header.base_sequence == ((batches[-1].last_sequence + 1) % _WRAP if batches else 0)
        if not follows:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if not header.is_transactional and self.is_open(header.producer_id):
            return ErrorCode.INVALID_TXN_STATE
        return 0

    def verify(self, header: BatchHeader, *, from_zero: bool) -> None:
        """Note the lowest sequence of an epoch: a transaction begins with it, so never after a refused batch.

        `from_zero`: version 2 of transactions, in which a new epoch must begin with 0.
        """
        entry = self.entries.setdefault(header.producer_id, ProducerEntry())
        if entry.lowest is None:
            entry.from_zero = from_zero
        if entry.lowest is None or header.producer_epoch > entry.verified_epoch:
            entry.lowest, entry.verified_epoch = header.base_sequence, header.producer_epoch
        elif header.producer_epoch == entry.verified_epoch:
            entry.lowest = min(entry.lowest, header.base_sequence)

    def add(self, header: BatchHeader) -> None:
        """Note an appended batch of a producer."""
        entry = self._entry(header)
        entry.batches.append(
            Appended(
                header.base_sequence,
                header.last_sequence,
                header.base_offset,
                header.last_offset,
                header.max_timestamp,
            )
        )
        if header.is_transactional:
            entry.forget_verified()
            if entry.first_offset is None:
                entry.first_offset = header.base_offset

    def _entry(self, header: BatchHeader) -> ProducerEntry:
        entry = self.entries.get(header.producer_id)
        if entry is None:
            entry = self.entries[header.producer_id] = ProducerEntry()
        if entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.batches.clear()
        entry.used_ms = header.max_timestamp
        return entry

    def end(self, header: BatchHeader, *, commit: bool, coordinator_epoch: int = 0) -> None:
        """Note the marker of a producer's transaction, which sets the producer's epoch."""
        entry = self._entry(header)
        entry.forget_verified()
        entry.marked = header.base_offset
        entry.coordinator_epoch = coordinator_epoch
        if entry.first_offset is not None:
            self._ended.append((entry.first_offset, header.base_offset))
            if not commit:
                self.aborted.append(Aborted(header.producer_id, entry.first_offset, header.last_offset))
        entry.first_offset = None

    def aborted_in(self, first: int, end: int) -> list[Aborted]:
        """Return the aborted transactions with records in [first, end)."""
        return [each for each in self.aborted if each.first_offset < end and each.last_offset >= first]

    def restart(self, node: int, kept: int, end_offset: int) -> None:
        """Restart `node`, which then remembers only the last `kept` batches of each producer.

        Other brokers keep their memory.
        """
        cuts = self._forgotten.setdefault(node, {})
        for producer_id in self.entries:
            known = self._kept(producer_id, cuts.get(producer_id, 0))
            if not kept:
                cuts[producer_id] = end_offset
            elif known:
                cuts[producer_id] = min(batch.base_offset for batch in known[-kept:])

    def lead(self, node: int) -> None:
        """Make another broker the leader: its memory counts, and it has verified no transaction."""
        self.node = node
        for entry in self.entries.values():
            entry.forget_verified()

    def expire(self, before_ms: int) -> bool:
        """Forget producers without records since then, except those in a transaction. Return True if any are left."""
        for producer_id, entry in list(self.entries.items()):
            if entry.used_ms <= before_ms and entry.first_offset is None:
                del self.entries[producer_id]
        return bool(self.entries)

    def truncate(self, offset: int, markers: Callable[[BatchHeader], Marker], headers: Iterable[BatchHeader]) -> None:
        """Forget batches at `offset` and after it; the state of their producers is rebuilt from the log.

        `headers`: the batches that are left. `markers` reads a marker.
        """
        affected = {
            producer_id
            for producer_id, entry in self.entries.items()
            if entry.marked >= offset or (entry.batches and entry.batches[-1].last_offset >= offset)
        }
        self.aborted = [each for each in self.aborted if each.last_offset < offset]
        self._ended = [each for each in self._ended if each[1] < offset]
        remembering = {
            node: {producer_id for producer_id in affected & cuts.keys() if self._kept(producer_id, cuts[producer_id])}
            for node, cuts in self._forgotten.items()
        }
        for producer_id in affected:
            del self.entries[producer_id]
        if affected:
            known = self.aborted, self._ended
            self._learn((header for header in headers if header.producer_id in affected), markers)
            self.aborted, self._ended = known
        for node, cuts in self._forgotten.items():
            cuts.update({producer_id: offset for producer_id, cut in cuts.items() if cut > offset})
            for producer_id in remembering[node]:
                # A broker that remembered removed batches reads earlier ones again: at least the last one.
                entry = self.entries.get(producer_id)
                if entry is not None and entry.batches:
                    cuts[producer_id] = min(cuts[producer_id], entry.batches[-1].base_offset)

    def _kept(self, producer_id: int, cut: int) -> list[Appended]:
        """Return the last batches of a producer that are not before `cut`."""
        return [batch for batch in self.entries[producer_id].batches if batch.base_offset >= cut]

    def replay(self, headers: Iterable[BatchHeader], markers: Callable[[BatchHeader], Marker]) -> None:
        """Rebuild all state from the log: headers in order, and its markers."""
        self.entries.clear()
        self.aborted, self._ended = [], []
        self._learn((header for header in headers if header.producer_id >= 0), markers)

    def _learn(self, headers: Iterable[BatchHeader], markers: Callable[[BatchHeader], Marker]) -> None:
        for header in headers:
            if header.is_control:
                marker = markers(header)
                self.end(header, commit=marker.commit, coordinator_epoch=marker.coordinator_epoch)
            else:
                self.add(header)
