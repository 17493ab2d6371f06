"""What reads for a `Consumer`, in the thread that asks: batches, several at once, and records one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from kafwire.consumer.arguments import milliseconds
from kafwire.consumer.core import POLL_BATCHES, POLL_BYTES, ConsumerCore, nothing_assigned
from kafwire.consumer.offsets.hand import Hand, UnreadRemainder, rests_of
from kafwire.consumer.silence import Silence
from kafwire.errors import KafkaError
from kafwire.runtime.interfaces import Engine
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from kafwire.records import Batch, Record


class BatchReader:
    """The reader of all partitions that nobody claimed, and the batch whose records are handed out one by one."""

    def __init__(self, core: ConsumerCore, engine: Engine, check: Callable[[], object]) -> None:
        """`check` raises when the consumer cannot be read any more. An iterator of records keeps it alive."""
        self._core = core
        self._engine = engine
        self._check = check
        self._reader = core.reader()
        self.hand = core.commits.ledger.join(Hand(core.fetcher, _Batches(self)))
        core.assignment.on_drop(self.hand.forget)
        self._asked = self._returning = False
        self._raised: KafkaError | None = None  # by a poll, last

    def next(self, timeout: float | None) -> Batch | None:
        """The next batch; None when none came in time, or the consumer was closed."""
        timeout_ms = milliseconds(timeout)
        silence = self._core.silence(timeout_ms)
        batch = self._more(self._next(timeout_ms), timeout_ms, silence)
        if batch is not None:
            self.hand.give(batch)
        return batch

    def _more(self, batch: Batch | None, timeout_ms: int, silence: Silence, limit: int = -1) -> Batch | None:
        """The batch that was read, or else one that comes before the silence is over."""
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
        """The user asks for more: the rows in hand are processed."""
        self.hand.ask()
        self.hand.read_by(self.hand.caller())
        self._reader.settle()
        self._core.settled()

    def poll(self, timeout: float, limit: int) -> list[Batch]:
        """The batches that are there, once the first is: about `POLL_BYTES`, and `limit` records (0: any) at most."""
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
            pass  # it comes again: what was found is not lost for it
        except BaseException:
            for rest in rests_of(found):
                self._return(rest)
            raise
        for batch in found:
            self.hand.give(batch)
        return found

    def _first(self, timeout_ms: int, limit: int) -> Batch | None:
        """The first batch of a poll. An error that was raised before is raised again when nothing else came in time."""
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
        """All records one by one, the rest of the batch in progress first."""
        self._check()
        self._reader.need_offsets()
        return self.hand.records

    def next_for_records(self) -> Batch | None:
        """The batch whose records come next; the one before it is processed. None: `consumer_timeout_ms` is over."""
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
        """The next batch of `limit` records at most: 0 is any number, -1 as the consumer's option says."""
        core = self._core
        if core.membership is not None:
            core.membership.reads(self, begun=True)
        try:
            return self._reader.read(timeout_ms, limit)
        except KafkaError as error:
            core.denied.tell(error)
            raise
        finally:
            if core.membership is not None:
                core.membership.reads(self, begun=False)

    def ask(self, timeout_ms: int = -1) -> None:
        """Let the engine fetch, if it does not yet. Raises `KafkaError` when there is nothing to read."""
        self._check()
        core = self._core
        if not core.fetcher.cursors and not core.is_member:
            raise nothing_assigned()
        if core.needs_attention:
            self._engine.run(core.rejoin_if_told, None if timeout_ms < 0 else timeout_ms)
            core.attend()
        if not self._asked:
            self._engine.run(self._core.assignment.ask)
            self._asked = True
        if self._core.denied.were_told:
            self._engine.run(self._core.denied.try_those_told)

    def put_back(self, only: Iterable[TopicPartition] | None = None) -> None:
        """A batch whose records were handed out in part, one by one: the rest is fetched again."""
        rest = self.hand.put_back(only)
        if rest is not None:
            self._return(rest)
        if self._returning:
            self._engine.run(self._core.positions.settled)
            self._returning = False

    def _return(self, rest: UnreadRemainder) -> None:
        """Not waited for by who is interrupted: the next one to read does."""
        self._returning = True
        self._engine.start(self._core.positions.put_back, rest)


class _Batches:
    """What the records one by one are taken from. An error is no end: whoever comes again goes on."""

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        batch = self._reader.next_for_records()
        if batch is None:
            raise StopIteration
        return batch
