"""`TransactionCycle`: exactly-once, by transactions that hold results and offsets (KIP-98, KIP-447).

A transaction begins with records. When it is due, all partitions park: they read nothing, and their unfinished values
go on to the sink. With nothing in flight, each partition's committable offset is right after the transaction's records;
these offsets are committed with it.

A transaction that cannot be committed is aborted. Its batches are still here, and go through the pipeline again, except
those of partitions that are no longer this member's.

The commit gets the member first, and then checks that each partition is owned: `consumer/ownership.py` says why.
Between these two and the request there is no `await`. A call repeated after a time-out names the same member and
offsets: a newer member would commit offsets that the coordinator must refuse.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from kafwire.cluster.backoff import delay_ms
from kafwire.error_codes import ErrorCode
from kafwire.errors import (
    BrokerError,
    CommitFailedError,
    KafkaError,
    TransactionAbortableError,
    TransactionAbortedError,
    TransactionTimeoutError,
)
from kafwire.runtime.log import stream_log as log
from kafwire.stream.interfaces import TransactionalSink

if TYPE_CHECKING:
    from kafwire.runtime.interfaces import Clock
    from kafwire.stream.commit_schedule import CommitSchedule
    from kafwire.stream.failures import Failures
    from kafwire.stream.interfaces import Source
    from kafwire.stream.partition_hooks import HookCalls
    from kafwire.stream.partition_run import PartitionRun
    from kafwire.stream.summary import Counters
    from kafwire.stream.worker_pool import WorkerPool


MOST_ABORTS = 5  # in a row; refusals by the group do not count
BACKOFF_MS, MAX_BACKOFF_MS = 100.0, 10_000.0
# The member learns from its next heartbeat why the group refused it. A revocation waits for no longer back-off.
MAX_GROUP_BACKOFF_MS = 1_000.0
GROUP_REFUSALS = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)


class PartitionGone(KafkaError):
    """The transaction holds records of a partition that is no longer this member's, or is about to be given up."""


class TransactionalStream(Protocol):
    """The stream whose results and offsets are committed in transactions."""

    clock: Clock
    source: Source
    schedule: CommitSchedule
    counters: Counters
    failures: Failures
    hooks: HookCalls
    partitions: list[PartitionRun]
    pool: WorkerPool | None
    is_stopping: bool

    def start_partition(self, run: PartitionRun) -> None:
        """Read a partition, from its start or after an aborted transaction."""
        ...

    async def stop_partitions(self) -> None:
        """Cancel the partition tasks; pending batches of the sources are kept."""
        ...

    async def forget(self, run: PartitionRun) -> None:
        """Give a partition up."""
        ...

    def force(self) -> None:
        """Cancel all running work."""
        ...


class TransactionCycle:
    """Begins, commits and aborts a stream's transactions."""

    def __init__(self, stream: TransactionalStream, sink: TransactionalSink) -> None:
        self.sink = sink
        self.is_closing = False
        self.opened_at: float | None = None
        self._stream = stream
        self._is_open = False
        self._beginning: asyncio.Task[None] | None = None
        self._wants_commit = False
        self._is_over = False
        self._aborts = 0  # aborts in a row; too many end the stream
        self._refusals = 0  # refusals by the group in a row
        self._problem: BaseException | None = None  # why the open transaction must be aborted
        self._waker: asyncio.Future[None] | None = None
        self._ended: list[asyncio.Future[None]] = []  # waiters for the end of the open transaction

    async def on_records(self, count: int) -> None:
        """Open a transaction if needed, before a partition processes records."""
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
        """Commit when due, and abort failures, until a stop leaves records out that cannot be committed."""
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
        self._stream.force()  # records in flight could not be committed either

    def give_up(self) -> None:
        """Release all waiters: the open transaction is aborted, or its outcome is unknown."""
        self._is_over = True
        self._release()

    def _is_torn(self) -> bool:
        """True if the stream stops and has left a record out, while the transaction has results of later records."""
        stream = self._stream
        return stream.is_stopping and any(run.is_torn and not run.partition.is_lost for run in stream.partitions)

    def _release(self) -> None:
        """Release the waiters for the end of a transaction."""
        for waiter in self._ended:
            if not waiter.done():
                waiter.set_result(None)

    def wake(self) -> None:
        """Make the cycle check again."""
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
            self._problem = self._gone()
            if self._problem is None:
                await self._sleep(None)
        if self._problem is None and not self._is_torn():
            await self._commit()
        self.is_closing = False
        self._wants_commit = False
        for run in stream.partitions:
            run.wake()

    def _gone(self) -> PartitionGone | None:
        """Return why the transaction cannot be committed: a partition is lost, or leaves a record out; or None."""
        runs = self._stream.partitions
        for run in runs:
            name = f"{run.where.topic}-{run.where.partition}"
            if run.partition.is_lost and run.taken:
                return PartitionGone(f"{name} was lost, or revoked late, within the transaction")
            if run.is_torn and run.is_ending and not self._stream.is_stopping:
                return PartitionGone(f"{name} is revoked while one of its records waits for its next attempt")
        leaving = next((run for run in runs if run.is_ending and run.taken), None)
        waiting = next((run for run in runs if run.has_waiting), None)
        if leaving is None or waiting is None:
            return None
        return PartitionGone(
            f"{leaving.where.topic}-{leaving.where.partition} is revoked while a record of {waiting.where.topic}-"
            f"{waiting.where.partition} waits for its next attempt"
        )

    async def _commit(self) -> None:
        stream = self._stream
        member = stream.source.group_metadata()  # before the partitions are checked
        self._problem = self._gone()
        if self._problem is not None:
            return
        offsets = {}
        for run in stream.partitions:
            if not run.partition.is_lost and run.offsets is not None and run.offsets.committable > run.committed:
                offsets[run.where] = run.offsets.committable
        try:
            while True:
                try:
                    await self.sink.commit(offsets, member)
                    break
                except TransactionTimeoutError:
                    log.warning("kafwire: committing a stream's transaction takes long; it continues")
        except (TransactionAbortableError, TransactionAbortedError) as error:
            self._problem = error
            return
        self._is_open, self.opened_at = False, None
        self._aborts = self._refusals = 0
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
        """True if an error fails only the transaction, which is then aborted."""
        if self._aborts > MOST_ABORTS or not isinstance(error, TransactionAbortableError | TransactionAbortedError):
            return False
        if self._problem is None:
            self._problem = error
        self.wake()
        return True  # once the cycle is over, the transaction is aborted anyway

    async def _abort(self) -> None:
        """Abort, and process the batches of partitions that are still this member's again."""
        stream, problem = self._stream, self._problem
        assert problem is not None
        wait_s = self._count(problem)
        log.warning(
            "kafwire: a stream's transaction is aborted, and its records will be processed again: %s",
            problem,
            error=problem,
        )
        self.is_closing = True  # partitions assigned meanwhile park
        stopped = list(stream.partitions)
        await stream.stop_partitions()
        if stream.pool is not None:
            await stream.pool.cancel()
        await self._abort_sink()  # before waiting for a call in a thread: the transaction has a time-out
        if stream.pool is not None:
            await stream.pool.restart()
        if stream.failures.window is not None:
            stream.failures.window.forget()
        self._is_open, self._beginning, self.opened_at = False, None, None
        stream.counters.aborts += 1
        stream.schedule.on_commit()
        leaves = isinstance(problem, PartitionGone) or wait_s * 1000 > MAX_GROUP_BACKOFF_MS
        await self._back_off(stopped, wait_s, leaves=leaves)
        self._problem = None
        self.is_closing = False
        for run in stream.partitions:
            run.wake()
        if stream.is_stopping:
            return
        for run in stopped:
            await stream.hooks.aborted(run)
            run.rewind()
            stream.start_partition(run)

    def _count(self, problem: BaseException) -> float:
        """Return the seconds until the records are processed again. Raises the problem if it ends the stream.

        A lost partition is no failure, and a refusal by the group ends with the next heartbeat: a stream survives any
        number of these. Other aborts end it when there are too many without a commit in between.
        """
        if isinstance(problem, PartitionGone):
            return 0.0
        if _is_of_group(problem):
            self._refusals += 1
            return delay_ms(self._refusals, BACKOFF_MS, MAX_GROUP_BACKOFF_MS, 0.5) / 1000
        self._aborts += 1
        if self._aborts > MOST_ABORTS:
            raise problem
        return delay_ms(self._aborts, BACKOFF_MS, MAX_BACKOFF_MS, 0.5) / 1000

    async def _back_off(self, stopped: list[PartitionRun], seconds: float, *, leaves: bool) -> None:
        """Wait; give up at once each partition that must not be processed again here, and keep the others in `stopped`.

        `leaves`: a revoked one is not processed again either, as that would delay the revocation.
        """
        until = asyncio.get_running_loop().time() + seconds
        while True:
            gone = [
                one
                for one in stopped
                if one.partition.is_lost or (one.is_ending and (leaves or one.is_abandoned or one.is_torn))
            ]
            for run in gone:
                stopped.remove(run)
                await self._stream.forget(run)
            if gone:
                continue  # others may be lost meanwhile
            if self._stream.is_stopping or asyncio.get_running_loop().time() >= until:
                return
            await self._sleep(until)

    async def _abort_sink(self) -> None:
        while True:
            try:
                await self.sink.abort()
                return
            except TransactionTimeoutError:
                log.warning("kafwire: aborting a stream's transaction takes long; it continues")

    async def close(self) -> None:
        """Abort the open transaction: the stream ends."""
        if self._is_open:
            self._is_open = False
            self._stream.counters.aborts += 1
            await self.sink.abort()


def _is_of_group(error: BaseException | None) -> bool:
    """True if the group refused the member's offsets: not a failure of the transaction, the records or the sink."""
    while error is not None:
        if isinstance(error, CommitFailedError) or (isinstance(error, BrokerError) and error.code in GROUP_REFUSALS):
            return True
        error = error.__cause__
    return False
