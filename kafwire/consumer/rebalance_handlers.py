"""A user's handlers of rebalances: the engine asks for calls, and whoever reads, or waits for records, makes them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kafwire.runtime.interfaces import Engine
from kafwire.types import TopicPartition

Handler = Callable[[list[TopicPartition]], Any]


@dataclass(frozen=True, slots=True)
class Handlers:
    """What is called with partitions when they were assigned, are to be revoked, or were lost; None: nothing is."""

    on_assigned: Handler | None = None
    on_revoked: Handler | None = None
    on_lost: Handler | None = None


class PendingCall:
    """One handler that is to be called, and who waits for that."""

    def __init__(self, handler: Handler, partitions: list[TopicPartition], done: Callable[[], object]) -> None:
        self._handler = handler
        self._partitions = partitions
        self._done = done

    def call(self) -> None:
        """Call it; what it raises, its caller raises. Whoever waits goes on in any case."""
        try:
            self._handler(self._partitions)
        finally:
            self._done()

    async def call_awaited(self) -> None:
        """The same; a handler that returns an awaitable is awaited."""
        try:
            result = self._handler(self._partitions)
            if hasattr(result, "__await__"):
                await result
        finally:
            self._done()


class RebalanceHandlers:
    """The handlers of one consumer. `ask` is for the engine, `take` for the user's thread."""

    def __init__(self, engine: Engine, handlers: Handlers, wake: Callable[[], object]) -> None:
        """`wake` has whoever reads look for calls."""
        self.handlers = handlers
        self._engine = engine
        self._wake = wake
        self._pending: deque[PendingCall] = deque()

    @property
    def any(self) -> bool:
        """Whether there is one at all."""
        return self.handlers != Handlers()

    @property
    def are_pending(self) -> bool:
        """Whether one is to be called. May be asked in any thread."""
        return bool(self._pending)

    async def ask(self, handler: Handler | None, partitions: Sequence[TopicPartition], timeout_ms: float) -> bool:
        """Have a handler called, and wait until it was; False when that took too long. It is called all the same."""
        if handler is None or not partitions:
            return True
        called = asyncio.Event()
        self._pending.append(PendingCall(handler, list(partitions), lambda: self._engine.start(called.set)))
        self._wake()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await called.wait()
        except TimeoutError:
            return False
        return True

    def tell(self, handler: Handler | None, partitions: Sequence[TopicPartition]) -> None:
        """Have a handler called; nobody waits."""
        if handler is not None and partitions:
            self._pending.append(PendingCall(handler, list(partitions), lambda: None))
            self._wake()

    def take(self) -> PendingCall | None:
        """The next one to call, in the order of the rebalances."""
        try:
            return self._pending.popleft()
        except IndexError:
            return None
