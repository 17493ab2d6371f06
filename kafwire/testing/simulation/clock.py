"""A clock that jumps to the next due time, the event loop that owns it, and a waiter that runs this loop."""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple, Unpack

from kafwire.runtime.interfaces import Clock, Waiter

T = TypeVar("T")
_Ts = TypeVarTuple("_Ts")

START_S = 1_000.0
WALL_S = 1_700_000_000
LONGEST_S = 100_000.0
LONGEST_BLOCK_S = 1.0
MOST_CANCELLED = 100  # timers
MOST_ROUNDS = 50_000  # without time passing


class Stuck(AssertionError):
    """Nothing is due and no data can arrive, so a call that still waits would wait for ever."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """An asyncio loop whose time passes only when nothing is left to run; `poll` brings in data from outside."""

    _ready: deque[asyncio.Handle]
    _stopping: bool

    def __init__(self, poll: Callable[[], bool]) -> None:
        super().__init__()
        self._now = START_S
        self._poll = poll
        self._steps = False
        self.blocked_s = 0.0  # seconds that the call in an executor would have waited
        self.broken: Exception | None = None  # the error that keeps a broker from going on
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timers_made = 0
        self._cancelled = 0  # number of cancelled timers among these
        self._rounds = 0  # since time last passed
        self.problems: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _, context: self.problems.append(context))

    def time(self) -> float:
        """See `asyncio.AbstractEventLoop`."""
        return self._now

    def call_at(
        self, when: float, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See `asyncio.AbstractEventLoop`. Callbacks that are due at the same time run in the order of their calls."""
        if self.is_closed():
            raise RuntimeError("the loop is closed")
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._timers_made += 1
        heapq.heappush(self._timers, (when, self._timers_made, timer))
        return timer

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """See `asyncio.AbstractEventLoop`."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Keep cancelled timers until they are due, unless they are many."""
        if handle.when() <= self._now:
            return
        self._cancelled += 1
        if self._cancelled > MOST_CANCELLED and self._cancelled > len(self._timers) / 2:
            self._timers[:] = [each for each in self._timers if not each[2]._cancelled]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def _run_once(self) -> None:
        """Run one round: all ready callbacks, or the next due ones, after moving the time to them."""
        ready, timers = self._ready, self._timers
        is_over = self._stopping
        self._rounds += 1
        if self._rounds > MOST_ROUNDS:
            raise Stuck(f"{MOST_ROUNDS} rounds of the loop, and the simulated time stands still")
        if self._steps:
            self._steps = False
            self.stop()
        if not self._poll() and not ready and not is_over:
            while timers and timers[0][2]._cancelled:
                heapq.heappop(timers)
                self._cancelled -= 1
            if not timers:
                raise Stuck("no timer is set, so no event can come")
            if timers[0][0] > self._now:
                self._now = timers[0][0]
                self._rounds = 0
            if self._now > START_S + LONGEST_S:
                raise Stuck(f"{LONGEST_S:g} s of simulated time have passed")
        while timers and timers[0][0] <= self._now:
            timer = heapq.heappop(timers)[2]
            if not timer._cancelled:
                ready.append(timer)
            else:
                self._cancelled -= 1
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def step(self, until: float | None) -> None:
        """Run the next due callbacks, at `until` at the latest, and no more."""
        timer = None if until is None else self.call_at(until, lambda: None)
        self._steps = True
        self.run_forever()
        if timer is not None:
            timer.cancel()
        if self.broken is not None:
            raise self.broken

    def _write_to_self(self) -> None:
        """Do nothing: the loop never sleeps, so nothing has to wake it."""

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Call `func` at once, as there are no threads here. If it would have blocked, its outcome comes that much
        later.
        """
        del executor
        future = self.create_future()
        self.blocked_s = 0.0
        try:
            result, problem = func(*args), None
        except Exception as error:  # noqa: BLE001
            result, problem = None, error

        def end() -> None:
            if future.done():
                return
            if problem is None:
                future.set_result(result)
            else:
                future.set_exception(problem)

        if self.blocked_s:
            self.call_later(self.blocked_s, end)
        else:
            end()
        return future


class SimulatedClock(Clock):
    """The loop's time. `wall_s`: the wall clock's time when the loop's time was 0."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self.wall_s: float = WALL_S

    def monotonic(self) -> float:
        """See `Clock`."""
        return self._loop.time()

    def time_ns(self) -> int:
        """See `Clock`."""
        return int((self.wall_s + self._loop.time()) * 1e9)


class SimulatedWaiter(Waiter):
    """Runs the world while a call waits."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._thread = threading.get_ident()

    def wait(self, attempt: Callable[[float | None], T], timeout_s: float | None) -> T:
        """See `Waiter`."""
        loop = self._loop
        if threading.get_ident() != self._thread:  # a real thread; the world goes on without it
            return attempt(timeout_s)
        if loop.is_running():  # a call that stands for another thread: it cannot run the loop from within
            found = attempt(0.0)
            loop.blocked_s += 0.0 if found is not None else LONGEST_BLOCK_S if timeout_s is None else timeout_s
            return found
        until = None if timeout_s is None else loop.time() + timeout_s
        while (found := attempt(0.0)) is None and (until is None or loop.time() < until):
            loop.step(until)
        return found
