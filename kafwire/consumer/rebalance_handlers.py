"""A user's handlers of rebalances: the engine asks for calls, and whoever reads, or waits for records, makes them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from kafwire.lazy_dataclass import dataclass
from kafwire.runtime.interfaces import Engine
from kafwire.types import TopicPartition

Handler = Callable[[list[TopicPartition]], Any]


@dataclass(frozen=True, slots=True)
class Handlers:
    """What is called with partitions when they were assigned, are to be revoked, or were lost; None: nothing is."""

    on_assigned: Handler | None = None
    on_revoked: Handler | None = None
    on_lost: Handler | None = None


class Reported:
    """The partitions that handlers were called with as assigned, and whether a handler runs now."""

    def __init__(self) -> None:
        self.partitions: set[TopicPartition] = set()
        self.calls = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """A handler runs."""
        self.calls += 1
        try:
            yield
        finally:
            self.calls -= 1


class PendingCall:
    """One handler that is to be called, and who waits for that. For who reads, in his thread or task."""

    def __init__(
        self,
        handler: Handler | None,
        partitions: Iterable[TopicPartition],
        reported: Reported,
        *,
        assigns: bool,
        done: Callable[[], object] = lambda: None,
    ) -> None:
        """A handler hears of the end of reported partitions only, and once."""
        self.assigns = assigns
        self._handler = handler
        self._partitions = list(partitions)
        self._reported = reported
        self._done = done

    def call(self) -> None:
        """Call it; what it raises, its caller raises. Whoever waits goes on in any case."""
        try:
            with self._reported.running():
                self._begin()
        finally:
            self._done()

    async def call_awaited(self) -> None:
        """The same; a handler that returns an awaitable is awaited."""
        try:
            with self._reported.running():
                result = self._begin()
                if hasattr(result, "__await__"):
                    await result
        finally:
            self._done()

    def _begin(self) -> Any:
        # Before the call: a handler may close the consumer, or unsubscribe, which tells of what is left.
        if self.assigns:
            self._reported.partitions.update(self._partitions)
            partitions = self._partitions
        else:
            partitions = [where for where in self._partitions if where in self._reported.partitions]
            self._reported.partitions.difference_update(partitions)
        return self._handler(partitions) if self._handler is not None and partitions else None


class RebalanceHandlers:
    """The handlers of one consumer. `take` and `ends` are for who reads, the rest is for the engine."""

    def __init__(self, engine: Engine, handlers: Handlers, wake: Callable[[], object]) -> None:
        """`wake` has whoever reads look for calls."""
        self.handlers = handlers
        self._engine = engine
        self._wake = wake
        self._pending: deque[PendingCall] = deque()
        self._reported = Reported()

    @property
    def any(self) -> bool:
        """Whether there is one at all."""
        return self.handlers != Handlers()

    @property
    def are_running(self) -> bool:
        """Whether one runs. May be asked in any thread."""
        return self._reported.calls > 0

    @property
    def are_pending(self) -> bool:
        """Whether one is to be called. May be asked in any thread."""
        return bool(self._pending)

    def assigned(self, partitions: Sequence[TopicPartition], done: Callable[[], object]) -> None:
        """Have `on_assigned` called; `done` is called on the engine when it was, or at once without one."""
        handler = self.handlers.on_assigned
        if handler is None:
            done()
            if self.any:  # those to come know that these were assigned
                self._pending.append(PendingCall(None, partitions, self._reported, assigns=True))
        elif partitions:
            after = partial(self._engine.start, done)
            self._pending.append(PendingCall(handler, partitions, self._reported, assigns=True, done=after))
            self._wake()

    async def revoked(self, partitions: Sequence[TopicPartition], timeout_ms: float) -> bool:
        """Have `on_revoked` called, and wait until it was; False when that took too long. It is called all the same."""
        handler = self.handlers.on_revoked
        if handler is None or not partitions:
            return True
        called = asyncio.Event()
        done = partial(self._engine.start, called.set)
        self._pending.append(PendingCall(handler, partitions, self._reported, assigns=False, done=done))
        self._wake()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await called.wait()
        except TimeoutError:
            return False
        return True

    def lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Have `on_lost` called; nobody waits."""
        handler = self.handlers.on_lost
        if handler is not None and partitions:
            self._pending.append(PendingCall(handler, partitions, self._reported, assigns=False))
            self._wake()

    def take(self) -> PendingCall | None:
        """The next one to call, in the order of the rebalances."""
        try:
            return self._pending.popleft()
        except IndexError:
            return None

    def ends(self, held: Iterable[TopicPartition]) -> Iterator[PendingCall]:
        """What is to be called when the member leaves: what is due, but for assignments; then all held are revoked."""
        while (call := self.take()) is not None:
            if self.handlers.on_assigned is None or not call.assigns:
                yield call
        if self.handlers.on_revoked is not None:
            yield PendingCall(self.handlers.on_revoked, held, self._reported, assigns=False)
