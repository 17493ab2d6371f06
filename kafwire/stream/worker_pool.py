"""`WorkerPool`: the workers of `for_each`, shared by all partitions of a stream."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Protocol

from kafwire.records._records import Record
from kafwire.stream.cancellation import cancelled_within, is_cancelled
from kafwire.stream.elements import Abandoned, Element
from kafwire.stream.errors import NotNow
from kafwire.stream.invocation import Interrupted, invocation
from kafwire.stream.key_order import KeyOrder
from kafwire.stream.steps import ForEach, name_of
from kafwire.stream.transforms import Section, SectionRun

if TYPE_CHECKING:
    from kafwire.runtime.interfaces import Clock
    from kafwire.stream.failures import Failures
    from kafwire.stream.running_calls import RunningCalls


class WorkedStream(Protocol):
    """The stream of the workers: it knows their running calls, and fails if one of them fails."""

    calls: RunningCalls
    clock: Clock
    failures: Failures

    def guard(self, task: asyncio.Task[None]) -> None:
        """Fail the stream if the task fails."""
        ...


class WorkerPool:
    """Tasks that each call the handler for one element at a time, and write the result.

    An element that waits for its next attempt keeps its lane, so its key or partition waits with it; it occupies no
    worker.
    """

    def __init__(self, stream: WorkedStream, step: ForEach, after: Section) -> None:
        self._stream = stream
        self._step = step
        self._after = after
        self._order: KeyOrder[Element] = KeyOrder()
        self._ready: deque[Element] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._postponed: dict[Element, tuple[asyncio.TimerHandle, bool]] = {}  # with True if its partition is paused
        self._invocation = invocation(step)
        self._tasks: list[asyncio.Task[None]] = []
        self._failing: dict[Element, None] = {}
        self._is_waking = False  # a worker was woken, and has not started yet

    @property
    def name(self) -> str:
        """The step's name."""
        return name_of(self._step)

    @property
    def postponed(self) -> int:
        """How many elements wait for their next attempt."""
        return len(self._postponed)

    def place_of(self, owner: object, offset: int) -> tuple[str, bool] | None:
        """Return the step of an offset of a partition, and whether it only waits; None: no worker had it."""
        running = [each for each in tuple(self._stream.calls.running) if isinstance(each, Element)]
        for elements, waits in (([*running, *tuple(self._failing)], False), (tuple(self._postponed), True)):
            for element in elements:
                if element.owner is owner and element.cover.has(offset):
                    return element.step, waits
        return None

    def start(self) -> None:
        """Start the workers."""
        self._tasks = [asyncio.ensure_future(self._work()) for _ in range(self._step.workers)]
        for task in self._tasks:
            self._stream.guard(task)

    def add(self, element: Element) -> None:
        """Add an element, to be handled when its lane and a worker are free."""
        try:
            element.lane = self._lane_of(element)
            hash(element.lane)
        except Exception as error:  # noqa: BLE001  # the user's function failed: so has the record
            element.lane, element.problem = None, error
        if element.lane is None or self._order.add(element.lane, element):
            self._put(element)

    def _lane_of(self, element: Element) -> Hashable | None:
        """Return the lane of an element; None: it is not ordered."""
        by, where = self._step.by, element.owner.where
        if by is None:
            return None
        if by == "partition":
            return (where,)
        if by == "key":
            key = _key_of(element)
            return None if key is None else (where, key)
        return ("", by(element.value))

    def _put(self, element: Element) -> None:
        self._ready.append(element)
        self._wake_one()

    def _wake_one(self) -> None:
        """Wake a worker, unless one is starting: it wakes the next if there are more elements than it can take.

        So handlers that do not wait run in a few workers, and those that wait run in as many as there are elements.
        """
        while self._idle and not self._is_waking:
            waiter = self._idle.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self._is_waking = True

    async def _work(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        while not task.cancelling():  # a handler may have caught the cancellation
            while not self._ready:
                waiter = loop.create_future()
                self._idle.append(waiter)
                await waiter
                self._is_waking = False
            element = self._ready.popleft()
            if self._ready:
                self._wake_one()
            if element.is_done or element.owner.partition.is_lost:
                element.abandon()
                self._leave(element)
            else:
                await self._attempt(element)
            del element  # its partition may end while this waits for the next

    async def _attempt(self, element: Element) -> None:
        calls = self._stream.calls
        calls.begin(element)
        try:
            await self._handle(element)
        except asyncio.CancelledError:
            # the worker is cancelled, not the handler's own awaitable: the call may continue in a thread
            if is_cancelled():
                raise
            calls.end(element)
            await self._on_failure(element, cancelled_within("the handler" if element.output is None else "the write"))
            return
        except BaseException as problem:  # noqa: BLE001  # whatever a handler raises
            calls.end(element)
            await self._on_problem(element, problem)
            return
        calls.end(element)
        self._leave(element)

    async def _on_problem(self, element: Element, problem: BaseException) -> None:
        if isinstance(problem, Abandoned):
            self._give_up(element)
        elif isinstance(problem, NotNow):
            self._postpone(element, problem.seconds, is_paused=True)
        elif isinstance(problem, Interrupted):
            self._postpone(element, 0.0, is_paused=False)
        elif isinstance(problem, Exception):
            await self._on_failure(element, problem)
        else:
            raise problem

    async def _handle(self, element: Element) -> None:
        """Run the handler, the steps after it, then the sink; finished parts are not repeated."""
        if element.output is None:
            if element.problem is not None:
                raise element.problem
            if element.run is None:
                result = await self._invocation.call(element.value)
                if self._after:
                    element.owner.check()
                values: list[Any] = [] if result is None else [result]
                element.run = SectionRun(self._after, values, [element.origin] * len(values))
                element.attempt = 1
                if self._after:
                    element.since = self._stream.clock.monotonic()
            run: SectionRun = element.run
            if not run.run():
                assert run.error is not None
                raise run.error
            element.output = list(run.values)
            element.attempt = 1
        await element.owner.writer.write(element)

    async def _on_failure(self, element: Element, error: Exception) -> None:
        self._failing[element] = None
        try:
            element.owner.check()
            after_s = await self._stream.failures.handle(
                element.owner, element.origin, error, element.attempt, element.step
            )
        except Abandoned:
            self._give_up(element)
            return
        finally:
            del self._failing[element]
        if after_s is None:
            element.is_failed = True
            element.finish()
            self._leave(element)
            return
        element.attempt += 1
        self._postpone(element, after_s, is_paused=False)

    def _postpone(self, element: Element, seconds: float, *, is_paused: bool) -> None:
        if element.owner.leaves_waiting:
            self._give_up(element)
            return
        element.owner.begin_wait()
        if is_paused:
            element.owner.pause()
        timer = asyncio.get_running_loop().call_later(seconds, self._again, element)
        self._postponed[element] = timer, is_paused

    def _again(self, element: Element) -> None:
        self._end_wait(element)
        if element.problem is None:
            self._put(element)
        else:
            element.problem = None
            self.add(element)

    def _end_wait(self, element: Element) -> None:
        timer, is_paused = self._postponed.pop(element)
        timer.cancel()
        element.owner.end_wait()
        if is_paused:
            element.owner.resume()

    def _leave(self, element: Element) -> None:
        """Free its lane for the next element."""
        if element.lane is not None:
            following = self._order.finish(element.lane)
            if following is not None:
                self._put(following)

    def abandon_postponed(self, owner: object) -> None:
        """Abandon a partition's elements that wait for their next attempt: its next reader processes them."""
        for element in [one for one in self._postponed if one.owner is owner]:
            self._end_wait(element)
            self._give_up(element)

    def _give_up(self, element: Element) -> None:
        """Abandon an element, and the elements waiting in its lane, which must not overtake it.

        An element of a lost partition does not block the lane: elements of other assignments continue.
        """
        element.abandon()
        if element.owner.partition.is_lost:
            self._leave(element)
        elif element.lane is not None:
            for one in self._order.close(element.lane):
                one.abandon()

    async def restart(self) -> None:
        """Drop all elements, and start new workers: a transaction was aborted."""
        await self.cancel()
        await self._invocation.settle()
        self._stream.calls.running.clear()
        for element in list(self._postponed):
            self._end_wait(element)
        self._ready.clear()
        self._idle.clear()
        self._order = KeyOrder()
        self.start()

    async def close(self) -> None:
        """Cancel the running handlers."""
        await self.cancel()
        self._invocation.close()

    async def cancel(self) -> None:
        """Cancel the workers. A call in a thread continues, but its result is ignored."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._is_waking = False


def _key_of(element: Element) -> bytes | None:
    origin = element.origin
    assert isinstance(origin, Record)
    key: bytes | None = origin.key
    return key
