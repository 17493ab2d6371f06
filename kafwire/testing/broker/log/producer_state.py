"""What a partition's leader remembers of producers: their last batches, and their transactions that are open.

Five batches of each producer are remembered; by a broker that restarts one, as a snapshot has no more (and whoever
recovers a log after a crash writes a snapshot, too); up to five of what is read again from the log, where no snapshot
covers its end; and none of a producer that has written nothing for `producer.id.expiration.ms`. See KIP-98, KIP-360,
KIP-890.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kafwire.errors import ErrorCode
from kafwire.testing.broker.log.batch_header import BatchHeader

REMEMBERED = 5
_WRAP = 1 << 31


class Appended(NamedTuple):
    """A batch of a producer that is in the log."""

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
    first_offset: int | None = None  # of its open transaction
    marked: int = -1  # the offset of its last marker
    coordinator_epoch: int = -1  # of its last marker
    used_ms: int = -1  # when it last wrote, by the records' own timestamps as Kafka has it
    lowest: int | None = None  # the lowest sequence that it may begin a transaction with, see `verify`
    verified_epoch: int = -1  # whose that is
    from_zero: bool = False  # whether it has to begin with 0, where nothing is known of it

    def forget_verified(self) -> None:
        """A transaction has begun, or ended, or another broker leads."""
        self.lowest, self.verified_epoch, self.from_zero = None, -1, False


class Aborted(NamedTuple):
    """An aborted transaction."""

    producer_id: int
    first_offset: int
    last_offset: int  # of its marker


class Marker(NamedTuple):
    """What ends a transaction in a partition."""

    commit: bool
    coordinator_epoch: int = 0


class ProducerStates:
    """All producers of one partition. `node`: the broker that leads it, whose memory counts."""

    def __init__(self, node: int = -1) -> None:
        self.node = node
        self.entries: dict[int, ProducerEntry] = {}
        self.aborted: list[Aborted] = []
        self._ended: list[tuple[int, int]] = []  # first offset and marker of what ended, and may not be replicated yet
        # By node and producer: what lies before this offset a broker has forgotten by a restart.
        self._forgotten: dict[int, dict[int, int]] = {}

    @property
    def first_open_offset(self) -> int | None:
        """Where the earliest open transaction begins."""
        found = [entry.first_offset for entry in self.entries.values() if entry.first_offset is not None]
        return min(found, default=None)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Where the earliest transaction begins that is open, or whose marker is not replicated."""
        if self._ended:
            self._ended = [each for each in self._ended if each[1] >= high_watermark]
        ended = min(self._ended, default=(None, 0))[0]
        first = self.first_open_offset
        return first if ended is None else ended if first is None else min(ended, first)

    def is_open(self, producer_id: int) -> bool:
        """Whether a transaction of a producer is open."""
        entry = self.entries.get(producer_id)
        return entry is not None and entry.first_offset is not None

    def remembered(self, producer_id: int) -> tuple[int, list[Appended]]:
        """What the leader knows of a producer: its epoch, -1 if it knows nothing, and its last batches."""
        entry = self.entries.get(producer_id)
        if entry is None:
            return -1, []
        cut = self._forgotten.get(self.node, {}).get(producer_id, 0)
        kept = self._kept(producer_id, cut)
        return (-1, []) if cut and not kept and entry.marked < cut else (entry.epoch, kept)

    def duplicate(self, header: BatchHeader) -> Appended | None:
        """The batch in the log that this one repeats."""
        epoch, batches = self.remembered(header.producer_id)
        wanted = header.base_sequence, header.last_sequence
        return next((each for each in batches if each[:2] == wanted), None) if epoch == header.producer_epoch else None

    def refuses(self, header: BatchHeader) -> int:
        """The error code for a batch whose numbers do not follow; 0: they do."""
        known, batches = self.remembered(header.producer_id)
        entry = self.entries.get(header.producer_id)
        if header.producer_epoch < known:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if entry is not None and entry.lowest is not None:
            begins_anew = entry.from_zero and not batches and header.base_sequence > 0
            if begins_anew or header.base_sequence > entry.lowest:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if header.producer_epoch > known:
            # A producer that it does not know may begin with any number.
            follows = header.base_sequence == 0 or known < 0
        else:
            follows = header.base_sequence == ((batches[-1].last_sequence + 1) % _WRAP if batches else 0)
        if not follows:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if not header.is_transactional and self.is_open(header.producer_id):
            return ErrorCode.INVALID_TXN_STATE
        return 0

    def verify(self, header: BatchHeader, *, from_zero: bool) -> None:
        """Note that a transaction is begun with this batch, so that none begins behind one that was refused.

        `from_zero`: version 2 of transactions, in which a new epoch begins with 0 only.
        """
        entry = self.entries.setdefault(header.producer_id, ProducerEntry())
        if entry.lowest is None:
            entry.from_zero = from_zero
        if entry.lowest is None or header.producer_epoch > entry.verified_epoch:
            entry.lowest, entry.verified_epoch = header.base_sequence, header.producer_epoch
        elif header.producer_epoch == entry.verified_epoch:
            entry.lowest = min(entry.lowest, header.base_sequence)

    def add(self, header: BatchHeader) -> None:
        """A batch of a producer was appended."""
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
        """The marker of a producer's transaction is appended: it gives the producer an epoch."""
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
        """The aborted transactions with records in [first, end)."""
        return [each for each in self.aborted if each.first_offset < end and each.last_offset >= first]

    def restart(self, node: int, kept: int, end_offset: int) -> None:
        """`node` restarts, and remembers only the last `kept` batches of each producer.

        Other brokers remember what they did.
        """
        cuts = self._forgotten.setdefault(node, {})
        for producer_id in self.entries:
            known = self._kept(producer_id, cuts.get(producer_id, 0))
            if not kept:
                cuts[producer_id] = end_offset
            elif known:
                cuts[producer_id] = min(batch.base_offset for batch in known[-kept:])

    def lead(self, node: int) -> None:
        """Another broker leads: what counts is what it remembers, and it has verified nothing."""
        self.node = node
        for entry in self.entries.values():
            entry.forget_verified()

    def expire(self, before_ms: int) -> bool:
        """Forget who has written nothing since, unless its transaction is open. Returns whether anybody is left."""
        for producer_id, entry in list(self.entries.items()):
            if entry.used_ms <= before_ms and entry.first_offset is None:
                del self.entries[producer_id]
        return bool(self.entries)

    def truncate(self, offset: int, markers: Callable[[BatchHeader], Marker], headers: Iterable[BatchHeader]) -> None:
        """Forget what was at `offset` and after: of producers that wrote there, all is learnt anew from the log.

        `headers`: those that are left. `markers` reads a marker.
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
                # Who remembered what is gone reads again what was before: the last batch at least.
                entry = self.entries.get(producer_id)
                if entry is not None and entry.batches:
                    cuts[producer_id] = min(cuts[producer_id], entry.batches[-1].base_offset)

    def _kept(self, producer_id: int, cut: int) -> list[Appended]:
        """The last batches of a producer that are not before `cut`."""
        return [batch for batch in self.entries[producer_id].batches if batch.base_offset >= cut]

    def replay(self, headers: Iterable[BatchHeader], markers: Callable[[BatchHeader], Marker]) -> None:
        """Learn all from the log: headers in order, and what its markers say."""
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
