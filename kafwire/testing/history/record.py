"""`History`: events of producers and reads of observers, written as they happen. Thread-safe; one process a file."""

from __future__ import annotations

import os
import struct
import threading
import warnings
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence

from kafwire.handles import Closing
from kafwire.testing.history import entries
from kafwire.testing.history.log import HistoryError, LogWriter, Placed
from kafwire.testing.history.report import PROMISES
from kafwire.testing.history.tokens import FOREIGN, SIZE, Dress, dressed_tokens_of, encode, tokens_of
from kafwire.types import TopicPartition

_BUFFERED_ACKS = 4096
_READ_RECORDS = 8192
_REMARKS = 20  # descriptions of altered records for each view, at most
_ISOLATION = {"read_uncommitted": entries.UNCOMMITTED, "read_committed": entries.COMMITTED}
_OUTCOMES = {"commit": entries.COMMIT, "abort": entries.ABORT, "unknown": entries.UNKNOWN}
_LAST = 0xFFFFFFFF


class History(Closing):
    """A history in a file: a new file, or a continued one. A context manager.

    `Writer.invoke` writes records to the file before it returns. Acknowledgements are buffered, up to 4096 of them;
    `flush` and `close` write them too. A SIGKILL loses the buffered ones, so their outcomes are unknown: that weakens
    the judgement, but never falsifies it.

    Args:
        path: the file.

    Raises:
        HistoryError: the file is damaged, or another process writes it.

    Example:
        >>> import tempfile
        >>> from kafwire.testing.history import History, check
        >>> path = f"{tempfile.mkdtemp()}/run.history"
        >>> with History(path) as history:
        ...     writer = history.producer(1, "my producer")
        ...     (sequence, value), = writer.invoke([7])
        ...     writer.ok(sequence, "flights", 0, 0)
        ...     view = history.view("my consumer")
        ...     view.add("flights", 0, [0], [value])
        ...     view.close({("flights", 0): (0, 1)})
        >>> check(path).ok
        True
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._lock = threading.RLock()
        self._partitions: dict[TopicPartition, int] = {}
        self._writers: dict[int, Writer] = {}
        self._views = 0
        self._acks = 0
        self._log = LogWriter(path, self._recall)

    @property
    def path(self) -> os.PathLike[str]:
        """The file."""
        return self._log.path

    def producer(self, number: int, name: str = "", *, promises: Collection[str] = PROMISES) -> Writer:
        """Return the writer of a producer.

        In a continued history, a producer keeps its name and promises, and its sequences and transactions go on.

        Args:
            number: the producer's number, 1 to 65534, unique over all files that are checked together.
            name: its name in reports.
            promises: the faults that the checker reports for it: "lost" (of an acknowledged record), "duplicated",
                "misordered". A producer with acks=1 cannot promise the first.

        Returns:
            The writer.

        Raises:
            HistoryError: the number is out of range, or a promise is unknown.
        """
        with self._lock:
            known = self._writers.get(number)
            if known is not None:
                return known
            if not 0 < number < FOREIGN:
                raise HistoryError(f"producers have numbers from 1 to {FOREIGN - 1}, not {number}")
            wrong = set(promises) - set(PROMISES)
            if wrong:
                raise HistoryError(f"a producer promises some of {', '.join(PROMISES)}, not {', '.join(sorted(wrong))}")
            bits = sum(1 << bit for bit, promise in enumerate(PROMISES) if promise in promises)
            self._write(entries.Producer(number, bits, name))
            writer = self._writers[number] = Writer(self, number, name)
            return writer

    def view(self, observer: str, isolation_level: str = "read_uncommitted", *, live: bool = False) -> View:
        """Return the view of an observer. Call it before the observer looks up the ends of its topics.

        Args:
            observer: the observer's name in reports.
            isolation_level: "read_uncommitted" or "read_committed".
            live: the observer reads while producers and faults go on. The checker compares it with the final logs of
                the other views. Its reads count even if it has no end.

        Returns:
            The view.

        Raises:
            HistoryError: `isolation_level` is neither of them.
        """
        isolation = _ISOLATION.get(isolation_level)
        if isolation is None:
            raise HistoryError(f"isolation_level: read_uncommitted or read_committed, not {isolation_level!r}")
        with self._lock:
            self.flush()
            number = self._views
            self._views += 1
            self._write(entries.Viewing(number, isolation, live, observer))
        return View(self, number)

    def group_offsets(self, group: str, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Write a group's committed offsets as they were seen. The checker judges the last ones.

        Args:
            group: the group's id.
            offsets: the offset of each partition; None for none.
        """
        with self._lock:
            self.flush()
            for where, offset in offsets.items():
                number = self._number(TopicPartition(*where))
                self._write(entries.GroupOffset(number, entries.NO_OFFSET if offset is None else offset, group))

    def flush(self) -> None:
        """Write buffered acknowledgements."""
        with self._lock:
            gathered = [ok for writer in self._writers.values() for ok in writer._take()]
            self._acks = 0
            self._write(*gathered)

    def close(self) -> None:
        """Write buffered acknowledgements, and close the file."""
        with self._lock:
            if self._log.is_open:
                try:
                    self.flush()
                finally:
                    self._log.close()

    def _write(self, *written: entries.Entry) -> None:
        if written:
            self._log.append((entry.KIND, entry.pack()) for entry in written)

    def _number(self, where: TopicPartition) -> int:
        number = self._partitions.get(where)
        if number is None:
            number = len(self._partitions)
            self._write(entries.Partition(number, where.partition, where.topic))
            self._partitions[where] = number
        return number

    def _acknowledged(self, count: int) -> None:
        self._acks += count
        if self._acks >= _BUFFERED_ACKS:
            self.flush()

    def _recall(self, placed: Placed) -> None:
        """Restore the state of producers and partitions from an entry of an earlier process."""
        kind, body = placed.kind, placed.body
        if kind == entries.Invoke.KIND:
            invoke = entries.Invoke.unpack(body)
            self._writers[invoke.producer].next_sequence = invoke.first + invoke.count
        elif kind == entries.Begin.KIND:
            begin = entries.Begin.unpack(body)
            self._writers[begin.producer].next_transaction = begin.transaction + 1
        elif kind == entries.Producer.KIND:
            producer = entries.Producer.unpack(body)
            self._writers[producer.number] = Writer(self, producer.number, producer.name)
        elif kind == entries.Partition.KIND:
            partition = entries.Partition.unpack(body)
            self._partitions[TopicPartition(partition.topic, partition.partition)] = partition.number
        elif kind == entries.Viewing.KIND:
            self._views = entries.Viewing.unpack(body).number + 1


class Writer:
    """Writes the events of one producer. `History.producer` makes it.

    The checker judges the order for each key if one thread at a time invokes and sends. An invoked record without an
    outcome may be in the log or not. `next_sequence` and `next_transaction` are the numbers that the next record and
    the next transaction get.

    Example:
        >>> import tempfile
        >>> from kafwire.testing.history import History
        >>> with History(f"{tempfile.mkdtemp()}/run.history") as history:
        ...     writer = history.producer(1, "kafwire")
        ...     [sequence for sequence, value in writer.invoke([7, 8])]
        [0, 1]
    """

    def __init__(self, history: History, number: int, name: str) -> None:
        self.number = number
        self.name = name
        self.next_sequence = 0
        self.next_transaction = 1
        self._history = history
        self._acks: dict[TopicPartition, tuple[array[int], array[int]]] = {}

    def invoke(
        self, keys: Iterable[int], *, transaction: int = 0, size: int = SIZE, dresses: Sequence[Dress] | None = None
    ) -> list[tuple[int, bytes]]:
        """Write that a record for each key is about to be sent.

        The checker judges the order within a partition. Call `fail` for records that are not sent after all, before
        their transaction commits.

        Args:
            keys: for each record a number below 2**32.
            transaction: the transaction's number; 0 for none.
            size: bytes of each value.
            dresses: the other fields of each record; readers then judge these too.

        Returns:
            For each record its sequence and the value to send.

        Raises:
            HistoryError: `size` is too small, or the transaction did not begin.
        """
        if size < SIZE:
            raise HistoryError(f"a value has {SIZE} bytes at least, not {size}")
        chosen = list(keys)
        with self._history._lock:
            self._known(transaction)
            first = self.next_sequence
            if first + len(chosen) > _LAST:
                raise HistoryError(f"producer {self.number} has sent {first} records; there are no more sequences")
            clothes: Sequence[Dress | None] = dresses if dresses is not None else [None] * len(chosen)
            try:
                made = [
                    (sequence, encode(self.number, key, sequence, transaction, size=size, dress=dress))
                    for sequence, (key, dress) in enumerate(zip(chosen, clothes, strict=True), first)
                ]
            except struct.error as error:
                raise HistoryError(f"keys are numbers from 0 to {_LAST}: {error}") from None
            if made:
                self._history._write(entries.Invoke(self.number, first, len(made), transaction))
                self.next_sequence = first + len(made)
        return made

    def ok(self, sequence: int, topic: str, partition: int, offset: int | None) -> None:
        """Write that a record was acknowledged.

        Args:
            sequence: the record's sequence.
            topic: the topic.
            partition: the partition.
            offset: the record's offset; None or -1 if the broker did not return it.
        """
        self.ok_all((sequence,), topic, partition, (offset,))

    def ok_all(self, sequences: Sequence[int], topic: str, partition: int, offsets: Sequence[int | None]) -> None:
        """Write that records of one partition were acknowledged.

        Args:
            sequences: the records' sequences.
            topic: the topic.
            partition: the partition.
            offsets: the offset of each record; None or -1 if the broker did not return it.
        """
        with self._history._lock:
            self._sent(sequences)
            found = self._acks.setdefault(TopicPartition(topic, partition), (array("I"), array("q")))
            for sequence, offset in zip(sequences, offsets, strict=True):
                found[0].append(sequence)
                found[1].append(entries.NO_OFFSET if offset is None else offset)
            self._history._acknowledged(len(sequences))

    def fail(self, sequences: Sequence[int], why: str = "") -> None:
        """Write that records are not in the log and never will be: they were refused, or never sent.

        Args:
            sequences: the records' sequences.
            why: the reason.
        """
        self._outcome(sequences, why, certain=True)

    def unknown(self, sequences: Sequence[int], why: str = "") -> None:
        """Write that records may be in the log or not, and why. No outcome at all means the same.

        Args:
            sequences: the records' sequences.
            why: the reason.
        """
        self._outcome(sequences, why, certain=False)

    def begin(self) -> int:
        """Write that a transaction begins.

        Returns:
            Its number, from 1.
        """
        with self._history._lock:
            number = self.next_transaction
            self._history._write(entries.Begin(self.number, number))
            self.next_transaction += 1
        return number

    def offsets(self, transaction: int, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Write that a transaction commits offsets of a group. A group's offsets only rise.

        Args:
            transaction: the transaction's number.
            group: the group's id.
            offsets: for each partition the offset of the next record to read.
        """
        with self._history._lock:
            self._known(transaction)
            for where, offset in offsets.items():
                number = self._history._number(TopicPartition(*where))
                self._history._write(entries.Offset(self.number, transaction, number, offset, group))

    def end(self, transaction: int, outcome: str, why: str = "") -> None:
        """Write that a transaction ended.

        A transaction without an end counts as "unknown": its records may be visible or not, but only as a whole.

        Args:
            transaction: the transaction's number.
            outcome: "commit" or "abort" if that is certain, else "unknown".
            why: the reason.

        Raises:
            HistoryError: `outcome` is unknown, or the transaction did not begin.
        """
        if outcome not in _OUTCOMES:
            raise HistoryError(f"a transaction ends in one of {', '.join(_OUTCOMES)}, not in {outcome!r}")
        with self._history._lock:
            self._known(transaction)
            self._history.flush()
            self._history._write(entries.End(self.number, transaction, _OUTCOMES[outcome], why))

    def _outcome(self, sequences: Sequence[int], why: str, *, certain: bool) -> None:
        with self._history._lock:
            self._sent(sequences)
            self._history._write(entries.Outcome(self.number, certain, array("I", sequences), why))

    def _sent(self, sequences: Sequence[int]) -> None:
        if not sequences or min(sequences) < 0 or max(sequences) >= self.next_sequence:
            raise HistoryError(
                f"producer {self.number} has invoked the sequences below {self.next_sequence}, not {list(sequences)}"
            )

    def _known(self, transaction: int) -> None:
        if transaction and not 0 < transaction < self.next_transaction:
            raise HistoryError(f"producer {self.number} did not begin a transaction {transaction}")

    def _take(self) -> list[entries.Ok]:
        gathered, self._acks = self._acks, {}
        number = self._history._number
        return [entries.Ok(self.number, number(where), *columns) for where, columns in gathered.items()]


class View:
    """Writes the reads of one observer. `History.view` makes it. Without `close` it does not count.

    Example:
        >>> import tempfile
        >>> from kafwire.testing.history import History
        >>> with History(f"{tempfile.mkdtemp()}/run.history") as history:
        ...     view = history.view("my client")
        ...     view.add("flights", 0, [0], [b"EWR-IAH"])
        ...     view.close({("flights", 0): (0, 1)})
    """

    def __init__(self, history: History, number: int) -> None:
        self._history = history
        self._number = number
        self._gathered: dict[TopicPartition, tuple[list[int], list[bytes]]] = {}
        self._remarks = 0

    def add(
        self,
        topic: str,
        partition: int,
        offsets: Iterable[int],
        values: Iterable[bytes | None],
        dresses: Iterable[Dress] | None = None,
    ) -> None:
        """Write records of one partition, in the order in which the observer got them.

        Args:
            topic: the topic.
            partition: the partition.
            offsets: the records' offsets.
            values: their values.
            dresses: their other fields, if the observer has them; then these are judged too.

        Raises:
            HistoryError: the numbers of values and offsets differ.
        """
        where = TopicPartition(topic, partition)
        read = list(offsets)
        if dresses is None:
            tokens = tokens_of(values)
        else:
            # Make lists once: the arguments may be iterators.
            given, seen = list(values), list(dresses)
            tokens, altered = dressed_tokens_of(given, seen)
            for place in altered:
                self._remark(where, read[place], given[place], seen[place])
        if len(tokens) != SIZE * len(read):
            raise HistoryError(f"{topic}-{partition}: {len(read)} offsets, but {len(tokens) // SIZE} values")
        gathered = self._gathered.setdefault(where, ([], []))
        gathered[0].extend(read)
        gathered[1].append(tokens)
        if len(gathered[0]) >= _READ_RECORDS:
            self._write(where)

    def move(
        self,
        topic: str,
        partition: int,
        offset: int,
        why: str = "",
        *,
        reported: bool = False,
        told: bool | None = None,  # renamed
    ) -> None:
        """Write that a live observer goes on at an offset.

        Call it for each partition before its first record. Without `reported`, an observer must not skip records.

        Args:
            topic: the topic.
            partition: the partition.
            offset: the offset of the next record.
            why: the reason.
            reported: the client reported that the records before are gone; False: the observer chose to move.
            told: the former name of `reported`, which was renamed.
        """
        if told is not None:  # renamed
            warnings.warn("this keyword of move was renamed: write reported=", DeprecationWarning, stacklevel=2)
            reported = told  # renamed
        where = TopicPartition(topic, partition)
        self.flush(where)
        history = self._history
        with history._lock:
            history._write(entries.Moved(self._number, history._number(where), offset, reported, why))

    def flush(self, *only: TopicPartition) -> None:
        """Write buffered records, so that they survive the process.

        Args:
            only: the partitions; by default all.
        """
        for where in only or list(self._gathered):
            if where in self._gathered:
                self._write(where)

    def close(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Write that the observer reached its end.

        Args:
            ranges: for each partition the range of offsets (start, end) in which it has seen all records.
        """
        self.flush()
        history = self._history
        with history._lock:
            seen = [(history._number(TopicPartition(*where)), *ends) for where, ends in ranges.items()]
            history._write(entries.Viewed(self._number, seen))

    def _remark(self, where: TopicPartition, offset: int, value: bytes | None, dress: Dress) -> None:
        self._remarks += 1
        if self._remarks > _REMARKS:
            return
        size = "no value" if value is None else f"a value of {len(value)} bytes"
        history = self._history
        with history._lock:
            number = history._number(where)
            history._write(entries.Remark(self._number, number, offset, f"{size}, {dress}"))

    def _write(self, where: TopicPartition) -> None:
        offsets, tokens = self._gathered.pop(where)
        if not offsets:
            return
        read = entries.Read.of(self._number, 0, _runs(offsets), b"".join(tokens))
        history = self._history
        with history._lock:
            history._write(entries.Read(read.view, history._number(where), read.runs, read.packed))


def _runs(offsets: list[int]) -> list[tuple[int, int]]:
    first = offsets[0]
    if offsets == list(range(first, first + len(offsets))):
        return [(first, len(offsets))]
    runs = []
    start = 0
    for place in range(1, len(offsets) + 1):
        if place == len(offsets) or offsets[place] != offsets[place - 1] + 1:
            runs.append((offsets[start], place - start))
            start = place
    return runs
