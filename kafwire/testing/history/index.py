"""One pass over a history's files: the outcome of each record and transaction, and the places of entries with offsets.

The index holds a byte for each record, some numbers for each transaction, and the place of each entry with offsets.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from kafwire.testing.history import entries
from kafwire.testing.history.log import HistoryError, LogReader, Placed
from kafwire.testing.history.report import PROMISES
from kafwire.types import TopicPartition

# The bits of a record's flags.
ACKED, FAILED, SEEN, UNREAD, REPORTED = 1, 2, 4, 8, 16

OPEN = 0
_OPERATIONS = {entries.Invoke.KIND, entries.Ok.KIND, entries.Outcome.KIND, entries.Begin.KIND, entries.End.KIND}
_FILE_SHIFT = 48
_POSITION = (1 << _FILE_SHIFT) - 1


class ProducerState:
    """A producer's records and transactions. Columns of transactions are indexed by their number, from 1."""

    def __init__(self, number: int, name: str, promises: frozenset[str]) -> None:
        self.number = number
        self.name = name or f"p{number}"
        self.promises = promises
        self.flags = bytearray()
        self._starts = array("Q")  # runs of sequences that were sent in the same transaction
        self._owners = array("I")
        self.outcome = bytearray(1)
        self.sent = array("Q", [0])
        self.failed = array("Q", [0])
        self.shown = array("Q", [0])  # records that read_committed saw
        self.withheld = array("Q", [0])  # records that it did not see, where it read
        self.unread = array("Q", [0])  # records where it did not read
        self.lost = array("Q", [0])

    def invoke(self, first: int, count: int, transaction: int) -> None:
        """Note records that are about to be sent."""
        if first != len(self.flags) or transaction >= len(self.outcome):
            raise HistoryError(
                f"producer {self.number} invokes {count} records from {first} in transaction {transaction}, after "
                f"{len(self.flags)} records and {len(self.outcome) - 1} transactions"
            )
        self.flags.extend(bytes(count))
        self.sent[transaction] += count
        if not self._owners or self._owners[-1] != transaction:
            self._starts.append(first)
            self._owners.append(transaction)

    def begin(self, transaction: int) -> None:
        """Note a new transaction."""
        if transaction != len(self.outcome):
            raise HistoryError(
                f"producer {self.number} begins transaction {transaction}, where {len(self.outcome)} is next"
            )
        self.outcome.append(OPEN)
        for column in (self.sent, self.failed, self.shown, self.withheld, self.unread, self.lost):
            column.append(0)

    def transaction_of(self, sequence: int) -> int:
        """Return the number of a record's transaction, 0 for none."""
        return self._owners[bisect_right(self._starts, sequence) - 1]


class Spans:
    """Places of entries with offsets: lowest and highest offset, place in the files, time."""

    def __init__(self) -> None:
        self.low = array("q")
        self.high = array("q")
        self.place = array("Q")
        self.time_us = array("Q")

    def add(self, low: int, high: int, place: int, time_us: int) -> None:
        """Add an entry."""
        self.low.append(low)
        self.high.append(high)
        self.place.append(place)
        self.time_us.append(time_us)


class ViewState:
    """One view of an observer. `ranges` are the offsets that it covers; `returns` are reads of earlier offsets again.

    A live view may go back to earlier offsets. `excused` (first, end) are offsets that its client reported as gone.
    """

    def __init__(self, name: str, isolation: int, began_us: int, *, live: bool = False) -> None:
        self.name = name
        self.isolation = isolation
        self.began_us = began_us
        self.live = live
        self.complete = False
        self.records = 0
        self.excused: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
        self.ranges: dict[TopicPartition, tuple[int, int]] = {}
        self.spans: dict[TopicPartition, Spans] = defaultdict(Spans)
        self.returns: list[tuple[TopicPartition, int, int, int]] = []  # partition, offset, the one before, place
        self._last: dict[TopicPartition, int] = {}

    def read(self, where: TopicPartition, runs: Sequence[tuple[int, int]], place: int, time_us: int) -> None:
        """Note records that the observer read."""
        for first, count in runs:
            last = self._last.get(where, -1)
            if first <= last:
                self.returns.append((where, first, last, place))
            self._last[where] = first + count - 1
            self.records += count
        low = min(first for first, _ in runs)
        high = max(first + count for first, count in runs) - 1
        self.spans[where].add(low, high, place, time_us)

    def move(self, where: TopicPartition, offset: int, *, reported: bool) -> None:
        """Note that the observer goes on at another offset."""
        start, end = self.ranges.get(where, (offset, offset))
        self.ranges[where] = (min(start, offset), max(end, offset))
        before = self._last.get(where, offset - 1) + 1
        if reported and before < offset:
            self.excused[where].append((before, offset))
        self._last[where] = offset - 1

    def end(self, ranges: Iterable[tuple[TopicPartition, int, int]]) -> None:
        """Note the end of the view. Reads outside its ranges extend them."""
        self.complete = True
        self.ranges = {where: (start, end) for where, start, end in ranges}
        for where, spans in self.spans.items():
            low, high = min(spans.low), max(spans.high) + 1
            start, end = self.ranges.get(where, (low, high))
            self.ranges[where] = (min(start, low), max(end, high))


class Index:
    """All files of a history as one."""

    def __init__(self, paths: Sequence[str | os.PathLike[str]]) -> None:
        self.producers: dict[int, ProducerState] = {}
        self.acks: dict[TopicPartition, Spans] = defaultdict(Spans)
        self.views: list[ViewState] = []
        self.live: list[ViewState] = []
        # Observers' descriptions of records, by partition and offset; the last of several.
        self.remarks: dict[tuple[TopicPartition, int], str] = {}
        # Offsets of groups: the transactions that committed them, and the last one observed.
        self.taken: dict[tuple[str, TopicPartition], list[tuple[int, int, int]]] = defaultdict(list)
        self.observed: dict[tuple[str, TopicPartition], tuple[int, int]] = {}
        self.began_us = 0
        self.last_operation_us = 0
        self._readers: list[LogReader] = []
        try:
            for number, path in enumerate(paths):
                self._readers.append(LogReader(path))
                _File(self, number).read(self._readers[-1])
        except BaseException:
            self.close()
            raise
        self.live = [view for view in self.views if view.live]
        self.views = [view for view in self.views if view.complete and not view.live]
        for view in self.live:
            if not view.complete:  # the observer was killed: its reads until then count
                view.end((where, *ends) for where, ends in view.ranges.items())

    @property
    def partitions(self) -> list[TopicPartition]:
        """All partitions with acknowledged or read records."""
        read = {where for view in (*self.views, *self.live) for where in view.ranges}
        return sorted(read | set(self.acks))

    @property
    def settled(self) -> bool:
        """True if a read_uncommitted view saw all partitions, whole, after the last operation of a producer."""
        partitions = self.partitions
        starts = {
            where: min((view.ranges[where][0] for view in self.views if where in view.ranges), default=0)
            for where in partitions
        }
        return any(
            view.isolation == entries.UNCOMMITTED
            and view.began_us >= self.last_operation_us
            and all(where in view.ranges and view.ranges[where][0] <= starts[where] for where in partitions)
            for view in self.views
        )

    def body(self, place: int) -> bytes:
        """Return the body of an entry at a place in `Spans`."""
        return self._readers[place >> _FILE_SHIFT].at(place & _POSITION).body

    def files(self) -> Iterator[LogReader]:
        """Return the files, for another pass."""
        return iter(self._readers)

    def close(self) -> None:
        """Close the files."""
        for reader in self._readers:
            reader.close()


class _File:
    """Reads one file into an index. Numbers of partitions and views belong to the file."""

    def __init__(self, index: Index, number: int) -> None:
        self._index = index
        self._place = number << _FILE_SHIFT
        self._partitions: list[TopicPartition] = []
        self._views: list[ViewState] = []
        self._now = 0
        self._handlers = {
            entries.Partition.KIND: self._on_partition,
            entries.Producer.KIND: self._on_producer,
            entries.Invoke.KIND: self._on_invoke,
            entries.Ok.KIND: self._on_ok,
            entries.Outcome.KIND: self._on_outcome,
            entries.Begin.KIND: self._on_begin,
            entries.Offset.KIND: self._on_offset,
            entries.End.KIND: self._on_end,
            entries.Viewing.KIND: self._on_viewing,
            entries.Read.KIND: self._on_read,
            entries.Viewed.KIND: self._on_viewed,
            entries.GroupOffset.KIND: self._on_group_offset,
            entries.Moved.KIND: self._on_moved,
            entries.Remark.KIND: self._on_remark,
        }

    def read(self, reader: LogReader) -> None:
        index = self._index
        for placed in reader.entries():
            # A clock that was set back does not change the order of the file.
            self._now = max(self._now, placed.time_us)
            index.began_us = min(index.began_us or self._now, self._now)
            handler = self._handlers.get(placed.kind)
            if handler is None:
                raise HistoryError(f"{reader.path}: an entry of unknown kind {placed.kind} at byte {placed.position}")
            if placed.kind in _OPERATIONS:
                index.last_operation_us = max(index.last_operation_us, self._now)
            try:
                handler(placed)
            except HistoryError as error:
                raise HistoryError(f"{reader.path}, byte {placed.position}: {error}") from None

    def _producer(self, number: int) -> ProducerState:
        state = self._index.producers.get(number)
        if state is None:
            raise HistoryError(f"there is no producer {number}")
        return state

    def _transaction(self, number: int, transaction: int) -> ProducerState:
        state = self._producer(number)
        if not 0 < transaction < len(state.outcome):
            raise HistoryError(f"producer {number} has no transaction {transaction}")
        return state

    def _on_partition(self, placed: Placed) -> None:
        entry = entries.Partition.unpack(placed.body)
        if entry.number != len(self._partitions):
            raise HistoryError(f"partition number {entry.number}, where {len(self._partitions)} is next")
        self._partitions.append(TopicPartition(entry.topic, entry.partition))

    def _on_producer(self, placed: Placed) -> None:
        entry = entries.Producer.unpack(placed.body)
        if entry.number in self._index.producers:
            raise HistoryError(f"a second producer {entry.number}: each has a number of its own, over all files")
        promises = frozenset(promise for bit, promise in enumerate(PROMISES) if entry.promises >> bit & 1)
        self._index.producers[entry.number] = ProducerState(entry.number, entry.name, promises)

    def _on_invoke(self, placed: Placed) -> None:
        entry = entries.Invoke.unpack(placed.body)
        self._producer(entry.producer).invoke(entry.first, entry.count, entry.transaction)

    def _on_ok(self, placed: Placed) -> None:
        entry = entries.Ok.unpack(placed.body)
        flags = self._producer(entry.producer).flags
        _check(entry.producer, entry.sequences, len(flags))
        for sequence in entry.sequences:
            flags[sequence] |= ACKED
        known = [offset for offset in entry.offsets if offset != entries.NO_OFFSET]
        if known:
            spans = self._index.acks[self._partitions[entry.partition]]
            spans.add(min(known), max(known), self._place | placed.position, self._now)

    def _on_outcome(self, placed: Placed) -> None:
        entry = entries.Outcome.unpack(placed.body)
        state = self._producer(entry.producer)
        _check(entry.producer, entry.sequences, len(state.flags))
        for sequence in entry.sequences if entry.certain else ():
            if not state.flags[sequence] & FAILED:
                state.flags[sequence] |= FAILED
                state.failed[state.transaction_of(sequence)] += 1

    def _on_begin(self, placed: Placed) -> None:
        entry = entries.Begin.unpack(placed.body)
        self._producer(entry.producer).begin(entry.transaction)

    def _on_offset(self, placed: Placed) -> None:
        entry = entries.Offset.unpack(placed.body)
        self._transaction(entry.producer, entry.transaction)
        taken = self._index.taken[entry.group, self._partitions[entry.partition]]
        taken.append((entry.producer, entry.transaction, entry.offset))

    def _on_end(self, placed: Placed) -> None:
        entry = entries.End.unpack(placed.body)
        state = self._transaction(entry.producer, entry.transaction)
        before = state.outcome[entry.transaction]
        # An unknown outcome may become known later; a known one stays.
        if before in (entries.COMMIT, entries.ABORT) and entry.outcome != before:
            raise HistoryError(f"transaction {entry.transaction} of producer {entry.producer} ends twice, differently")
        state.outcome[entry.transaction] = entry.outcome

    def _on_viewing(self, placed: Placed) -> None:
        entry = entries.Viewing.unpack(placed.body)
        if entry.number != len(self._views):
            raise HistoryError(f"view number {entry.number}, where {len(self._views)} is next")
        self._views.append(ViewState(entries.label(entry), entry.isolation, self._now, live=entry.live))
        self._index.views.append(self._views[-1])

    def _on_read(self, placed: Placed) -> None:
        entry = entries.Read.unpack(placed.body)
        where = self._partitions[entry.partition]
        self._views[entry.view].read(where, entry.runs, self._place | placed.position, self._now)

    def _on_viewed(self, placed: Placed) -> None:
        entry = entries.Viewed.unpack(placed.body)
        self._views[entry.view].end((self._partitions[number], start, end) for number, start, end in entry.ranges)

    def _on_moved(self, placed: Placed) -> None:
        entry = entries.Moved.unpack(placed.body)
        self._views[entry.view].move(self._partitions[entry.partition], entry.offset, reported=entry.reported)

    def _on_remark(self, placed: Placed) -> None:
        entry = entries.Remark.unpack(placed.body)
        self._index.remarks[self._partitions[entry.partition], entry.offset] = entry.text

    def _on_group_offset(self, placed: Placed) -> None:
        entry = entries.GroupOffset.unpack(placed.body)
        where = (entry.group, self._partitions[entry.partition])
        self._index.observed[where] = max(self._index.observed.get(where, (0, 0)), (self._now, entry.offset))


def _check(producer: int, sequences: array[int], invoked: int) -> None:
    if sequences and max(sequences) >= invoked:
        raise HistoryError(f"producer {producer} has an outcome for {max(sequences)}, and invoked {invoked} records")
