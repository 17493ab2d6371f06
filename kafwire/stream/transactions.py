"""`TransactionCycle`: exactly once, by transactions that hold results and offsets (KIP-98, KIP-447).

A transaction begins with records. When it is due, all partitions park: they read nothing, and what they have in hand
goes on to the sink. With nothing in flight, each partition's committable offset is just behind what the transaction
holds; these offsets are committed with it.

A transaction that cannot be committed is aborted. Its batches are still here, and go through the pipeline again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from kafwire.cluster.backoff import delay_ms
from kafwire.errors import KafkaError, TransactionAbortableError, TransactionAbortedError, TransactionTimeoutError
from kafwire.stream.interfaces import TransactionalSink
from kafwire.stream.partition_run import Abandoned

if TYPE_CHECKING:
    from kafwire.stream.runner import StreamRun

log = logging.getLogger("kafwire")

MOST_ABORTS = 5  # in a row
BACKOFF_MS, MAX_BACKOFF_MS = 100.0, 10_000.0


class TransactionCycle:
    """Begins, commits and aborts a stream's transactions."""

    def __init__(self, stream: StreamRun, sink: TransactionalSink) -> None:
        self.sink = sink
        self.is_closing = False
        self.opened_at: float | None = None
        self._stream = stream
        self._is_open = False
        self._beginning: asyncio.Task[None] | None = None
        self._wants_commit = False
        self._is_over = False
        self._aborts = 0  # in a row
        self._problem: BaseException | None = None  # why the open transaction is to be aborted
        self._waker: asyncio.Future[None] | None = None
        self._ended: list[asyncio.Future[None]] = []  # who waits for the open transaction's commit

    async def on_records(self, count: int) -> None:
        """A partition is about to process records, in the open transaction or a new one."""
        if not self._is_open:
            if self._beginning is None:
                self._beginning = asyncio.ensure_future(self._begin())
            await asyncio.shield(self._beginning)
        schedule = self._stream.schedule
        before = schedule.due_at
        schedule.on_completed(count, asyncio.get_running_loop().time())
        if schedule.due_at != before:
            self.wake()

    async def _begin(self) -> None:
        await self.sink.begin()
        self._is_open, self._beginning = True, None
        self.opened_at = self._stream.clock.monotonic()

    async def run(self) -> None:
        """Commit when it is due, and abort what has failed, until a stop leaves something that cannot be committed."""
        loop = asyncio.get_running_loop()
        while not self._is_torn():
            if self._problem is not None:
                await self._abort()
            elif self._is_open and (self._wants_commit or self._stream.schedule.is_due(loop.time())):
                await self._end()
            else:
                if not self._is_open:
                    self._release()
                await self._sleep(self._stream.schedule.due_at if self._is_open else None)
        self._stream.force()  # what is in flight could not be committed either

    def give_up(self) -> None:
        """Nothing is waited for any more: what the open transaction comes to is not known, or it is aborted."""
        self._is_over = True
        self._release()

    def _is_torn(self) -> bool:
        """Whether the stream stops and has left a record out, while results of records behind it are in here."""
        stream = self._stream
        return stream.is_stopping and any(run.is_torn and not run.partition.is_lost for run in stream.partitions)

    def _release(self) -> None:
        """There is no open transaction whose end anybody could wait for."""
        for waiter in self._ended:
            if not waiter.done():
                waiter.set_result(None)

    def wake(self) -> None:
        """Look again."""
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)

    async def _sleep(self, until: float | None) -> None:
        loop = asyncio.get_running_loop()
        self._waker = loop.create_future()
        timer = None if until is None else loop.call_at(until, self.wake)
        try:
            await self._waker
        finally:
            if timer is not None:
                timer.cancel()

    async def commit_now(self) -> None:
        """End the open transaction: wait until it is committed, or aborted and its batches processed again."""
        if self._is_over or (not self._is_open and self._problem is None):
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended.append(waiter)
        self._wants_commit = True
        self.wake()
        try:
            await waiter
        finally:
            self._ended.remove(waiter)

    async def _end(self) -> None:
        """Park all partitions, and commit."""
        stream = self._stream
        self.is_closing = True
        for run in stream.partitions:
            run.wake()
        while self._problem is None and not all(
            (run.is_parked or run.has_ended) and not run.in_flight for run in stream.partitions
        ):
            if any(run.partition.is_lost and run.taken for run in stream.partitions):
                break
            await self._sleep(None)
        lost = [run for run in stream.partitions if run.partition.is_lost and run.taken]
        if lost:
            self._problem = KafkaError(f"{lost[0].where.topic}-{lost[0].where.partition} was lost within a transaction")
        if self._problem is None and not self._is_torn():
            await self._commit()
        self.is_closing = False
        self._wants_commit = False
        for run in stream.partitions:
            run.wake()

    async def _commit(self) -> None:
        stream = self._stream
        offsets = {}
        for run in stream.partitions:
            if run.offsets is not None and run.offsets.committable > run.committed:
                offsets[run.where] = run.offsets.committable
        try:
            while True:
                try:
                    await self.sink.commit(offsets, stream.source.group_metadata())
                    break
                except TransactionTimeoutError:
                    log.warning("kafwire: committing a stream's transaction takes long; it goes on")
        except (TransactionAbortableError, TransactionAbortedError) as error:
            self._problem = error
            return
        self._is_open, self.opened_at = False, None
        self._aborts = 0
        stream.schedule.on_commit()
        stream.counters.commits += 1
        for run in stream.partitions:
            if run.where in offsets:
                run.partition.complete(run.committed, offsets[run.where])
                run.committed = offsets[run.where]
            if run.offsets is not None:
                reached = run.offsets.committable
                run.taken = [batch for batch in run.taken if batch.next_offset > reached]

    def takes(self, error: BaseException) -> bool:
        """Whether an error is one of the transaction's, which can be aborted: then it is."""
        if self._aborts > MOST_ABORTS or not isinstance(error, TransactionAbortableError | TransactionAbortedError):
            return False
        if self._problem is None:
            self._problem = error
        self.wake()
        return True  # once it is over, the transaction is aborted anyway

    async def _abort(self) -> None:
        """Abort, and have all that was taken processed again."""
        stream, problem = self._stream, self._problem
        assert problem is not None
        self._aborts += 1
        if self._aborts > MOST_ABORTS:
            raise problem
        log.warning("kafwire: a stream's transaction is aborted, and its records are processed again: %s", problem)
        self.is_closing = True  # partitions that come meanwhile park
        stopped = list(stream.partitions)
        await stream.stop_partitions()
        if stream.pool is not None:
            await stream.pool.restart()
        await self._abort_sink()
        if stream.failures.window is not None:
            stream.failures.window.forget()
        self._is_open, self._beginning, self.opened_at = False, None, None
        stream.counters.aborts += 1
        stream.schedule.on_commit()
        with contextlib.suppress(Abandoned):
            await stream.sleep(delay_ms(self._aborts, BACKOFF_MS, MAX_BACKOFF_MS, 0.5) / 1000)
        self._problem = None
        self.is_closing = False
        for run in stream.partitions:
            run.wake()
        if stream.is_stopping:
            return
        for run in stopped:
            if run.partition.is_lost:
                await stream.hooks.revoked(run)
                await run.close()
                stream.partitions.remove(run)
            else:
                await stream.hooks.aborted(run)
                run.rewind()
                stream.start_partition(run)

    async def _abort_sink(self) -> None:
        while True:
            try:
                await self.sink.abort()
                return
            except TransactionTimeoutError:
                log.warning("kafwire: aborting a stream's transaction takes long; it goes on")

    async def close(self) -> None:
        """The stream ends: what is open is aborted."""
        if self._is_open:
            self._is_open = False
            self._stream.counters.aborts += 1
            await self.sink.abort()
