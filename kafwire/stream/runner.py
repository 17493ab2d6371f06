"""`StreamRun`: one run of a pipeline, from a source to a sink, on the running asyncio loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Hashable
from dataclasses import asdict, dataclass
from typing import Literal

from kafwire.errors import AuthorizationError, CommitFailedError, ConfigError, KafkaError, KafkaTimeoutError
from kafwire.records._records import Batch, Record
from kafwire.runtime.interfaces import Clock, Random
from kafwire.runtime.log import stream_log as log
from kafwire.stream.cancellation import is_cancelled
from kafwire.stream.commit_schedule import CommitSchedule
from kafwire.stream.elements import Element
from kafwire.stream.errors import StreamError
from kafwire.stream.failure_policy import FailurePolicy
from kafwire.stream.failures import Failures
from kafwire.stream.interfaces import AnySink, Source, SourcePartition, TransactionalSink
from kafwire.stream.key_order import KeyOrder
from kafwire.stream.limits import Limits
from kafwire.stream.partition_hooks import HookCalls, PartitionHooks
from kafwire.stream.partition_run import PartitionRun
from kafwire.stream.running_calls import RunningCalls
from kafwire.stream.steps import Plan
from kafwire.stream.stop_request import StopRequest
from kafwire.stream.summary import Counters, StreamSummary
from kafwire.stream.transactions import TransactionCycle
from kafwire.stream.transforms import section
from kafwire.stream.worker_pool import WorkerPool

# Limits after `stop_timeout_s`: last commit, hooks, closing the source. Kubernetes allows 30 s for everything.
COMMIT_S, HOOKS_S, LEAVE_S = 4.0, 2.0, 2.0
CANCELLED_WITHIN = "the stream ended because a step, the source or the sink cancelled a part of it"
Guarantee = Literal["at_least_once", "at_most_once", "exactly_once"]


@dataclass(frozen=True, slots=True)
class Settings:
    """A pipeline's settings for a run."""

    plan: Plan
    failures: FailurePolicy
    commit_every: int | None
    commit_within: float | None
    limits: Limits
    guarantee: Guarantee
    hooks: PartitionHooks


class StreamRun:
    """Runs a pipeline once. A failure anywhere ends the whole run.

    Partitions, workers and commits are tasks. They report events to this object, and it wakes them.
    """

    def __init__(
        self,
        settings: Settings,
        source: Source,
        sink: AnySink | None,
        letters: AnySink | None,
        clock: Clock,
        random: Random,
    ) -> None:
        self.plan = settings.plan
        self.limits = settings.limits
        self.before = section(self.plan.before)
        self.between = section(self.plan.between)
        self.source = source
        self.clock = clock
        self.sink = sink
        self.counters = Counters()
        self.failures = Failures(
            settings.failures,
            letters,
            clock,
            random,
            self.counters,
            in_transactions=settings.guarantee == "exactly_once",
            is_committed=settings.guarantee == "at_most_once",
        )
        self.retry_topics = {one.topic for one in settings.failures.retry_topics}
        self.hooks = HookCalls(settings.hooks)
        # With retries, a failed delivery is written again. With exactly-once it aborts the transaction instead.
        repeats = settings.failures.attempts > 1 and settings.guarantee != "exactly_once"
        self.orders_writes = repeats and (self.plan.for_each is None or self.plan.for_each.by is not None)
        self.writes: KeyOrder[Element] = KeyOrder()
        self.calls = RunningCalls(clock)
        watch_calls = getattr(source, "watch_calls", None)
        if watch_calls is not None:
            watch_calls(self.calls.oldest)
        self.is_stopping = False
        self.partitions: list[PartitionRun] = []
        self.schedule = CommitSchedule(settings.commit_every, settings.commit_within)
        for_each = self.plan.for_each
        self.pool = None if for_each is None else WorkerPool(self, for_each, section(self.plan.after))
        self._is_at_most_once = settings.guarantee == "at_most_once"
        self._cycle: TransactionCycle | None = None
        if settings.guarantee == "exactly_once":
            self._cycle = TransactionCycle(self, _transactional(sink, letters))
        self._tasks: dict[PartitionRun, asyncio.Task[None]] = {}
        self._waker: asyncio.Future[None] | None = None
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._assigning: asyncio.Task[None] | None = None
        self._committing: asyncio.Task[None] | None = None
        self._forcing: asyncio.TimerHandle | None = None
        self._stop_at: float | None = None  # the loop time at which running calls are cancelled
        self._is_forced = self._is_committed = self._is_late = False

    async def run(self, stop: StopRequest) -> StreamSummary:
        """Run until the source ends, `stop` is requested, or a part fails; the source is closed in any case."""
        try:
            if self._cycle is not None:
                await self._cycle.sink.start()
        except BaseException:
            await self.source.close()
            raise
        if self.pool is not None:
            self.pool.start()
        self._assigning = asyncio.ensure_future(self._assign())
        committing = asyncio.ensure_future(self._commit_loop() if self._cycle is None else self._cycle.run())
        self._committing = committing
        main = asyncio.ensure_future(self._main())
        for task in (self._assigning, committing, main):
            self.guard(task)
        try:
            with stop._calling(self.stop):
                await asyncio.wait({main, self._failed}, return_when=asyncio.FIRST_COMPLETED)
            if not self._failed.done():
                committing.cancel()
                await asyncio.wait({committing})
                await self._last_commit()
                self._is_committed = True
        finally:
            await self._close(self._assigning, committing, main)
        return StreamSummary(**asdict(self.counters))

    async def _close(self, *tasks: asyncio.Task[None]) -> None:
        """Cancel all tasks, commit completed offsets, leave, and raise the error of the stream."""
        error = self._failed.exception() if self._failed.done() else None
        self.is_stopping = True  # also for tasks that ignore their cancellation
        if self._forcing is not None:
            self._forcing.cancel()
        every = [*tasks, *self._tasks.values()]
        for task in every:
            task.cancel()
        await asyncio.gather(*every, *(run.close() for run in self.partitions), return_exceptions=True)
        if self.pool is not None:
            await self.pool.close()
        try:
            if self._cycle is None:
                error = await self._end_hooks(error)
            await self._end_commits()
            if self._cycle is not None:
                error = await self._end_hooks(error)
        finally:
            await self._leave()
        if error is not None:
            raise error

    async def _leave(self) -> None:
        try:
            async with asyncio.timeout_at(self._end_of(LEAVE_S)) as patience:
                await self.source.close()
        except TimeoutError:
            if not patience.expired():
                raise
            log.warning("kafwire: the source of a stream did not close within %g s", LEAVE_S)

    def _end_of(self, step_s: float) -> float:
        """Return the loop time limit of a step of the stream's end: the rest of the stop time, and `step_s` more."""
        now = asyncio.get_running_loop().time()
        if self._stop_at is None:  # it ends without a stop request
            self._stop_at = now + self.limits.stop_timeout_s
        return max(self._stop_at, now) + step_s

    async def _in_time(self, step: Awaitable[object], what: str) -> None:
        """Await the last commit or abort. Raises `KafkaTimeoutError` when the stream's end cannot wait longer."""
        try:
            async with asyncio.timeout_at(self._end_of(0.0 if self._is_late else COMMIT_S)) as patience:
                await step
        except TimeoutError as error:
            if not patience.expired():
                raise
            self._is_late = True
            limit_s = self.limits.stop_timeout_s + COMMIT_S
            text = f"the last {what} of a stream had no response within {limit_s:g} s (stop_timeout_s + {COMMIT_S:g})"
            raise KafkaTimeoutError(text) from error

    async def _end_commits(self) -> None:
        """Commit completed offsets, or abort the open transaction."""
        try:
            if self._cycle is not None:
                await self._in_time(self._cycle.close(), "abort")
            elif not self._is_committed or self.schedule.has_completed:
                await self._in_time(self.source.commit(), "commit")
        except KafkaError as problem:
            log.warning(
                "kafwire: a failed stream could not commit its offsets, or abort its transaction: %s",
                problem,
                error=problem,
            )

    async def _end_hooks(self, error: BaseException | None) -> BaseException | None:
        """Call the hooks of the remaining partitions; return the error that ends the stream: `error`, or else a hook's.

        Open transactions are already aborted.
        """
        until = self._end_of(HOOKS_S)
        for run in list(self.partitions):
            try:
                async with asyncio.timeout_at(until):
                    await self.hooks.aborted(run)
                    await self.hooks.revoked(run)
            except Exception as problem:  # noqa: BLE001  # whatever a user's function raises
                log.warning(
                    "kafwire: a hook failed as the stream ended, for %s-%d",
                    *run.where,
                    exc_info=problem,
                    error=problem,
                    topic=run.where.topic,
                    partition=run.where.partition,
                )
                error = error or problem
        await self.hooks.close()
        return error

    async def _main(self) -> None:
        """Wait until all partitions are assigned and have ended."""
        assert self._assigning is not None
        await asyncio.wait({self._assigning})
        await self._end_transaction()
        while running := [task for task in self._tasks.values() if not task.done()]:
            await asyncio.wait(running)
            await self._end_transaction()

    async def _end_transaction(self) -> None:
        """End the transaction; after an abort its batches are processed again, even those of ended partitions."""
        if self._cycle is not None and not self._is_forced:
            await self._cycle.commit_now()

    async def _last_commit(self) -> None:
        if self._cycle is None and self.schedule.has_completed:
            self.schedule.on_commit()
            try:
                await self._in_time(self.source.commit(), "commit")
            except CommitFailedError as error:
                log.warning("kafwire: a stream lost partitions while it stopped: %s", error, error=error)
            else:
                self.counters.commits += 1

    # --- partitions -------------------------------------------------------------------------------------------------

    async def _assign(self) -> None:
        async for partition in self.source.partitions():
            if self.is_stopping:
                return
            self._add(partition)

    def _add(self, partition: SourcePartition) -> None:
        run = PartitionRun(self, partition)
        self.partitions.append(run)
        self.start_partition(run)

    def start_partition(self, run: PartitionRun) -> None:
        """Read a partition, from its start or after an aborted transaction."""
        self._tasks[run] = asyncio.ensure_future(self._run_partition(run))
        self.guard(self._tasks[run])

    async def stop_partitions(self) -> None:
        """Cancel the partition tasks; pending batches of the sources are kept."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_partition(self, run: PartitionRun) -> None:
        run.is_parked = True  # its hook may wait for the end of a transaction
        begins = await self.hooks.assigned(run)
        run.is_parked = False
        if begins:
            await run.run()
        run.has_ended = True
        await run.settle()
        if self._cycle is None:
            await self.hooks.revoked(run)  # before its last commit, which confirms the hook's state
        if self._cycle is not None:
            if run.taken and not self.is_stopping:
                await self._cycle.commit_now()
                run.taken = []  # except records left out
        elif not run.partition.is_lost and (not self.is_stopping or run.has_no_more()):
            await self._commit_ended(run)
        if self._cycle is None or not run.taken:
            await self.forget(run)

    async def forget(self, run: PartitionRun) -> None:
        """Give a partition up."""
        await self.hooks.aborted(run)
        await self.hooks.revoked(run)
        await run.close()
        self.partitions.remove(run)
        self._tasks.pop(run, None)

    async def _commit_ended(self, run: PartitionRun) -> None:
        """Commit a partition before it is given up: the last commit does not cover a revoked one."""
        try:
            await run.partition.commit()
        except (AuthorizationError, ConfigError):
            raise
        except KafkaError as error:
            log.warning(
                "kafwire: a stream could not commit %s-%d as the partition ended; without a later commit, its records "
                "are processed again: %s",
                *run.where,
                error,
                error=error,
                topic=run.where.topic,
                partition=run.where.partition,
            )

    async def on_batch(self, run: PartitionRun, batch: Batch) -> bool:
        """Prepare a batch of a partition; False: it must not be processed."""
        if self._cycle is not None:
            run.taken.append(batch)
        elif self._is_at_most_once:
            run.partition.complete(batch.base_offset, batch.next_offset)
            try:
                await run.partition.commit()
            except KafkaError:
                if not run.partition.is_lost:
                    raise
            if run.partition.is_lost:
                return False  # it is not committed, and another member processes it
            self.counters.commits += 1
        return True

    async def on_records(self, count: int) -> None:
        """Count records of a batch that are about to be processed."""
        self.counters.records += count
        if self._cycle is not None:
            await self._cycle.on_records(count)

    def on_completed(self, run: PartitionRun, first_offset: int, next_offset: int, committable: int) -> None:
        """Note completed offsets of a partition, and how many more are committable."""
        if self.failures.window is not None:
            self.failures.window.on_processed(next_offset - first_offset, asyncio.get_running_loop().time())
        if self._cycle is not None or self._is_at_most_once:
            return
        run.partition.complete(first_offset, next_offset)
        before = self.schedule.due_at
        # Offsets after a gap count again when the gap is filled: they can be committed only then.
        completed = max(next_offset - first_offset, committable)
        self.schedule.on_completed(completed, asyncio.get_running_loop().time())
        if self.schedule.due_at != before:
            self.wake()

    def write_lane_of(self, element: Element) -> Hashable | None:
        """Return the lane that orders an element's writes; None: no order.

        A value that is written again must not come after later ones of its key.
        """
        step = self.plan.for_each
        if not self.orders_writes:
            return None
        where, origin = element.owner.where, element.origin
        if step is not None and step.by != "partition":
            lane: Hashable | None = element.lane
            return lane
        if not isinstance(origin, Record):
            return (where,)
        return None if origin.key is None else (where, origin.key)

    def on_parked(self) -> None:
        """Wake the transaction: a partition has nothing in flight, has parked, or has ended."""
        if self._cycle is not None:
            self._cycle.wake()

    def transaction_s(self) -> float | None:
        """Return how many seconds a transaction has been open; None: none is."""
        opened_at = None if self._cycle is None else self._cycle.opened_at
        return None if opened_at is None else self.clock.monotonic() - opened_at

    @property
    def is_exactly_once(self) -> bool:
        """True if results and offsets are committed in transactions."""
        return self._cycle is not None

    @property
    def is_closing_transaction(self) -> bool:
        """True if partitions must park."""
        return self._cycle is not None and self._cycle.is_closing

    # --- commits ----------------------------------------------------------------------------------------------------

    async def _commit_loop(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self.schedule.is_due(loop.time()):
                self._waker = loop.create_future()
                due_at = self.schedule.due_at
                timer = None if due_at is None else loop.call_at(due_at, self.wake)
                await self._waker
                if timer is not None:
                    timer.cancel()
                continue
            completed = self.schedule.on_commit()
            try:
                await self.source.commit()
                self.counters.commits += 1
            except asyncio.CancelledError:
                self.schedule.on_refused(completed, loop.time())
                if is_cancelled():  # the stream ends, and makes its last commit
                    raise
                log.warning("kafwire: a stream's commit was cancelled, but the stream was not; the commit is retried")
            except (AuthorizationError, ConfigError):
                raise
            except KafkaError as error:
                self.schedule.on_refused(completed, loop.time())
                log.warning(
                    "kafwire: a stream could not commit, and will retry with its next commit: %s", error, error=error
                )

    def wake(self) -> None:
        """Make the commit loop check its schedule again."""
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)

    # --- the end ----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop reading; finish, commit, leave. Calls that take longer than `stop_timeout_s` are cancelled.

        The commit, the hooks and closing the source take at most `COMMIT_S`, `HOOKS_S` and `LEAVE_S` more.
        """
        if self.is_stopping:
            return
        self.is_stopping = True
        self.hooks.stop()
        if self._assigning is not None:
            self._assigning.cancel()
        for run in self.partitions:
            run.look()
        if self._cycle is not None:
            self._cycle.wake()
        loop = asyncio.get_running_loop()
        self._stop_at = loop.time() + self.limits.stop_timeout_s
        self._forcing = loop.call_at(self._stop_at, self.force)

    def force(self) -> None:
        """Cancel all running work."""
        self._is_forced = True
        if self._cycle is not None:
            self._cycle.give_up()
        for task in self._tasks.values():
            task.cancel()

    @property
    def may_leave(self) -> bool:
        """True if waiting records may be left to the next reader; with at-most-once they are already committed."""
        return not self._is_at_most_once

    @property
    def leaves_waiting(self) -> bool:
        """True if the stream stops, and leaves waiting records to the next run."""
        return self.is_stopping and self.may_leave

    def guard(self, task: asyncio.Task[None]) -> None:
        """Fail the stream if the task fails."""
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        error = _error_of(task)
        if error is None or self._failed.done():
            return
        # If the cycle itself failed, nothing would abort the transaction.
        if self._cycle is None or task is self._committing or not self._cycle.takes(error):
            self._failed.set_exception(error)


def _error_of(task: asyncio.Task[None]) -> BaseException | None:
    if task.cancelled():
        return None if task.cancelling() else StreamError(CANCELLED_WITHIN)
    return task.exception()


def _transactional(sink: AnySink | None, letters: AnySink | None) -> TransactionalSink:
    chosen = sink or letters
    if not isinstance(chosen, TransactionalSink):
        raise ConfigError(
            f'guarantee="exactly_once" writes results and offsets in one transaction: {chosen!r} supports none; '
            "give a TopicSink whose producer has a transactional_id"
        )
    if letters is not None and letters is not chosen:
        raise ConfigError('guarantee="exactly_once" writes failed records with the sink: remove letters=')
    return chosen
