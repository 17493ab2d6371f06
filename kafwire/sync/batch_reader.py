"""The batch reader of a `Consumer`, in the calling thread: single batches, several at once, records one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from kafwire.consumer.core import POLL_BATCHES, POLL_BYTES, ConsumerCore, nothing_assigned
from kafwire.consumer.delivery.silence import Silence
from kafwire.consumer.offsets.hand import Hand, UnreadRemainder, rests_of
from kafwire.errors import KafkaError
from kafwire.runtime.interfaces import Engine
from kafwire.timeouts import milliseconds
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from kafwire.records import Batch, Record


class BatchReader:
    """The reader of all unclaimed partitions, and of the batch whose records are delivered one by one."""

    def __init__(self, core: ConsumerCore, engine: Engine, check: Callable[[], object]) -> None:
        """`check` raises if the consumer cannot be read any more. It keeps the consumer alive for record iterators."""
        self._core = core
        self._engine = engine
        self._check = check
        self._reader = core.reader()
        self.hand = core.commits.ledger.join(Hand(core.fetcher, _Batches(self)))
        core.assignment.on_drop(self.hand.forget)
        self._asked = self._returning = False
        self._raised: KafkaError | None = None  # the error that a poll raised last

    def next(self, timeout: float | None) -> Batch | None:
        """Return the next batch; None if none came in time, or the consumer was closed."""
        timeout_ms = milliseconds(timeout)
        silence = self._core.silence(timeout_ms)
        batch = self._more(self._next(timeout_ms), timeout_ms, silence)
        if batch is not None:
            self.hand.give(batch)
        return batch

    def _more(self, batch: Batch | None, timeout_ms: int, silence: Silence, limit: int = -1) -> Batch | None:
        """Return `batch`, or else one that comes before `silence` ends."""
        while batch is None and timeout_ms >= 0 and not self._reader.ended:
            left_ms = self._core.silence_left_ms(silence)
            if left_ms <= 0:
                return None
            batch = self._read(left_ms, limit)
        return batch

    def _next(self, timeout_ms: int, limit: int = -1) -> Batch | None:
        self.ask(timeout_ms)
        self.put_back()
        self._settle()
        return self._read(timeout_ms, limit)

    def _settle(self) -> None:
        """Count the rows in hand as processed, as the user reads on."""
        self.hand.ask()
        self.hand.read_by(self.hand.caller())
        self._reader.settle()
        self._core.settled()

    def poll(self, timeout: float, limit: int) -> list[Batch]:
        """Wait for a batch, and return all that arrived: about `POLL_BYTES`, and at most `limit` records (0: any)."""
        found: list[Batch] = []
        size, left = 0, limit
        batch = self._first(milliseconds(timeout), limit)
        try:
            while batch is not None:
                found.append(batch)
                size += batch.nbytes
                left -= len(batch)
                is_full = len(found) >= POLL_BATCHES or size >= POLL_BYTES or (limit and not left)
                batch = None if is_full else self._reader.read(0, left if limit else 0)
        except KafkaError:
            pass  # the next poll raises the error again; this one returns the batches
        except BaseException:
            for rest in rests_of(found):
                self._return(rest)
            raise
        for batch in found:
            self.hand.give(batch)
        return found

    def _first(self, timeout_ms: int, limit: int) -> Batch | None:
        """Return the first batch of a poll. An error that was raised before is raised again only if no batch comes."""
        until_ms = self._core.cluster.engine.now_ms() + timeout_ms
        try:
            return self._next(timeout_ms, limit)
        except KafkaError as error:
            left_ms = max(0, round(until_ms - self._core.cluster.engine.now_ms()))
            if error is not self._raised or not left_ms:
                self._raised = error
                raise
            with self._core.beside(error):
                batch = self._read(left_ms, limit)
            if batch is None:
                raise
            return batch

    def records(self) -> Iterator[Record]:
        """Return an iterator of single records, which begins with the rest of the current batch."""
        self._check()
        self._reader.need_offsets()
        return self.hand.records

    def next_for_records(self) -> Batch | None:
        """Read a batch for single records, and count the last one as processed; None after `consumer_timeout_ms`."""
        limit_ms = self._core.config.consumer_timeout_ms
        timeout_ms = -1 if limit_ms is None else limit_ms
        silence = self._core.silence(timeout_ms)
        self.ask(timeout_ms)
        self._settle()
        batch = self._more(self._read(timeout_ms, 0), timeout_ms, silence, 0)
        if batch is not None:
            self.hand.begin(batch)
        return batch

    def _read(self, timeout_ms: int, limit: int = -1) -> Batch | None:
        """Read a batch of at most `limit` records; 0: no limit, -1: the limit of the consumer's option."""
        core = self._core
        if core.membership is not None:
            core.membership.reads(self, begun=True)
        try:
            return self._reader.read(timeout_ms, limit)
        except KafkaError as error:
            core.denied.note(error)
            raise
        finally:
            if core.membership is not None:
                core.membership.reads(self, begun=False)

    def ask(self, timeout_ms: int = -1) -> None:
        """Make the engine fetch, if it does not yet. Raises `KafkaError` if no partition is assigned."""
        self._check()
        core = self._core
        if not core.fetcher.cursors and not core.is_member:
            raise nothing_assigned()
        if core.needs_attention:
            self._engine.run(core.rejoin_after_error, None if timeout_ms < 0 else timeout_ms)
            core.attend()
        if not self._asked:
            self._engine.run(self._core.assignment.ask)
            self._asked = True
        if self._core.denied.are_due:
            self._engine.run(self._core.denied.try_due)

    def put_back(self, only: Iterable[TopicPartition] | None = None) -> None:
        """Fetch again the rest of a batch whose records were delivered in part, one by one."""
        rest = self.hand.put_back(only)
        if rest is not None:
            self._return(rest)
        if self._returning:
            self._engine.run(self._core.positions.settled)
            self._returning = False

    def _return(self, rest: UnreadRemainder) -> None:
        """Fetch `rest` again, without a wait, as the caller may be interrupted: the next read waits for it."""
        self._returning = True
        self._engine.start(self._core.positions.put_back, rest)


class _Batches:
    """The source of single records: an iterator of batches that continues after an error."""

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        batch = self._reader.next_for_records()
        if batch is None:
            raise StopIteration
        return batch
