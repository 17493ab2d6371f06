"""`History`: what producers did and observers saw, written down as it happens. Thread-safe; one process to a file."""

from __future__ import annotations

import os
import struct
import threading
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from kafwire.testing.history import entries
from kafwire.testing.history.log import HistoryError, LogWriter, Placed
from kafwire.testing.history.report import PROMISES
from kafwire.testing.history.tokens import FOREIGN, SIZE, Dress, dressed_tokens_of, encode, tokens_of
from kafwire.types import TopicPartition

_BUFFERED_ACKS = 4096
_READ_RECORDS = 8192
_REMARKS = 20  # of a view; so many records that are not what was sent are described
_ISOLATION = {"read_uncommitted": entries.UNCOMMITTED, "read_committed": entries.COMMITTED}
_OUTCOMES = {"commit": entries.COMMIT, "abort": entries.ABORT, "unknown": entries.UNKNOWN}
_LAST = 0xFFFFFFFF


class History:
    """A history in the file `path`, made anew or gone on with.

    What is about to be sent is in the file before `Writer.invoke` returns. Acknowledgements are gathered, up to 4096 of
    them, and written by `flush` and `close` too: those that a SIGKILL takes along leave outcomes that nobody knows,
    which weakens the judgement and never falsifies it. Raises `HistoryError` for a damaged file, one that another
    process writes, and for what cannot have happened. A context manager.
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
        """Who writes down what producer `number` (1 to 65534, one for each over all files checked together) does.

        `promises` says what the checker may demand of it: "lost" that nothing acknowledged is, "duplicated" and
        "misordered" likewise; a producer with acks=1 does not promise the first. In a history that is gone on with, a
        producer keeps its name and promises, and its sequences and transactions go on where they were.
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
        """Who writes down what an observer reads; to be asked for before it learns where its topics end.

        A `live` one reads while producers and faults go on. It is judged by what the others see in the end, and says
        nothing of the logs itself; what it has read counts even if it never comes to its end.
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
        """A group's committed offsets as they were seen, None for none. The last ones seen are judged."""
        with self._lock:
            self.flush()
            for where, offset in offsets.items():
                number = self._number(TopicPartition(*where))
                self._write(entries.GroupOffset(number, entries.NO_OFFSET if offset is None else offset, group))

    def flush(self) -> None:
        """Write what was gathered."""
        with self._lock:
            gathered = [ok for writer in self._writers.values() for ok in writer._take()]
            self._acks = 0
            self._write(*gathered)

    def close(self) -> None:
        """Write what was gathered, and close the file."""
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
        """Learn from an entry of an earlier process where to go on."""
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Writer:
    """Writes down what one producer does. It is in order for each key only if one thread at a time invokes and sends.

    A record that was invoked and has no outcome may be in the log or not. `next_sequence` and `next_transaction` are
    the numbers that the next record and the next transaction get.
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
        """Say that a record for each key (uint32) is about to be sent; returns (sequence, value of `size` bytes).

        `dresses` say what else each record is sent with; whoever reads it then judges that too. Order is promised
        within a partition. What is then not sent at all has to `fail`, at the latest before its transaction commits.
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
        """A record was acknowledged at this offset; None or -1 where the broker does not say."""
        self.ok_all((sequence,), topic, partition, (offset,))

    def ok_all(self, sequences: Sequence[int], topic: str, partition: int, offsets: Sequence[int | None]) -> None:
        """Records were acknowledged in one partition, each at its offset."""
        with self._history._lock:
            self._sent(sequences)
            found = self._acks.setdefault(TopicPartition(topic, partition), (array("I"), array("q")))
            for sequence, offset in zip(sequences, offsets, strict=True):
                found[0].append(sequence)
                found[1].append(entries.NO_OFFSET if offset is None else offset)
            self._history._acknowledged(len(sequences))

    def fail(self, sequences: Sequence[int], why: str = "") -> None:
        """Records are not in the log and never will be: they were refused, or never sent."""
        self._outcome(sequences, why, certain=True)

    def unknown(self, sequences: Sequence[int], why: str = "") -> None:
        """Nobody knows whether records are in the log, and why. The same as saying nothing, but for the reason."""
        self._outcome(sequences, why, certain=False)

    def begin(self) -> int:
        """A transaction begins; returns its number, from 1."""
        with self._history._lock:
            number = self.next_transaction
            self._history._write(entries.Begin(self.number, number))
            self.next_transaction += 1
        return number

    def offsets(self, transaction: int, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """A transaction takes these offsets of a group along: the next ones to be read. A group's offsets only rise."""
        with self._history._lock:
            self._known(transaction)
            for where, offset in offsets.items():
                number = self._history._number(TopicPartition(*where))
                self._history._write(entries.Offset(self.number, transaction, number, offset, group))

    def end(self, transaction: int, outcome: str, why: str = "") -> None:
        """A transaction ended: "commit" and "abort" for certain, or "unknown".

        The same as "unknown" is a transaction without an end: it may be there or not, but wholly.
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
    """Writes down what one observer reads. What it does not end with `close` does not count."""

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
        """Records of one partition, in the order in which the observer was given them.

        `dresses` are what they had besides their values, if the observer looked; then that is judged too.
        """
        where = TopicPartition(topic, partition)
        read = list(offsets)
        if dresses is None:
            tokens = tokens_of(values)
        else:
            # Once: they may be iterators.
            given, seen = list(values), list(dresses)
            tokens, altered = dressed_tokens_of(given, seen)
            for place in altered:
                self._remark(where, read[place], given[place], seen[place])
        if len(tokens) != SIZE * len(read):
            raise HistoryError(f"{topic}-{partition}: {len(read)} offsets, {len(tokens) // SIZE} values")
        gathered = self._gathered.setdefault(where, ([], []))
        gathered[0].extend(read)
        gathered[1].append(tokens)
        if len(gathered[0]) >= _READ_RECORDS:
            self._write(where)

    def move(self, topic: str, partition: int, offset: int, why: str = "", *, told: bool = False) -> None:
        """A live observer reads on at `offset`, as it chose to, or as it was `told` that what lies before is gone.

        To be said of each partition before its first record. Without being told it must not pass over anything.
        """
        where = TopicPartition(topic, partition)
        self.flush(where)
        history = self._history
        with history._lock:
            history._write(entries.Moved(self._number, history._number(where), offset, told, why))

    def flush(self, *only: TopicPartition) -> None:
        """Write what was gathered, of these partitions or all: more than that is not lost with the process."""
        for where in only or list(self._gathered):
            if where in self._gathered:
                self._write(where)

    def close(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """The observer came to its end: in these ranges of offsets (start, end) it has seen all there is."""
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
