"""The user's rebalance handlers: the engine queues the calls, and the thread or task that reads makes them."""

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
    """The callbacks for partitions that were assigned, must be revoked, or were lost; None: no callback."""

    on_assigned: Handler | None = None
    on_revoked: Handler | None = None
    on_lost: Handler | None = None


class Reported:
    """The partitions that were reported as assigned, and the count of running handlers."""

    def __init__(self) -> None:
        self.partitions: set[TopicPartition] = set()
        self.calls = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count a handler as running within the `with` block."""
        self.calls += 1
        try:
            yield
        finally:
            self.calls -= 1


class PendingCall:
    """One due call of a handler, for the thread or task that reads; `done` is called after it."""

    def __init__(
        self,
        handler: Handler | None,
        partitions: Iterable[TopicPartition],
        reported: Reported,
        *,
        assigns: bool,
        done: Callable[[], object] = lambda: None,
    ) -> None:
        """`on_revoked` and `on_lost` are called once, and only for partitions that were reported as assigned."""
        self.assigns = assigns
        self._handler = handler
        self._partitions = list(partitions)
        self._reported = reported
        self._done = done

    def call(self) -> None:
        """Call the handler, and `done` even if it raises; its exceptions propagate."""
        try:
            with self._reported.running():
                self._begin()
        finally:
            self._done()

    async def call_awaited(self) -> None:
        """Call the handler as `call` does, and await an awaitable result."""
        try:
            with self._reported.running():
                result = self._begin()
                if hasattr(result, "__await__"):
                    await result
        finally:
            self._done()

    def _begin(self) -> Any:
        # Before the call: a handler may close the consumer, or unsubscribe, which reports the remaining partitions.
        if self.assigns:
            self._reported.partitions.update(self._partitions)
            partitions = self._partitions
        else:
            partitions = [where for where in self._partitions if where in self._reported.partitions]
            self._reported.partitions.difference_update(partitions)
        return self._handler(partitions) if self._handler is not None and partitions else None


class RebalanceHandlers:
    """The handlers of one consumer. `take` and `ends` are for the reader, all other methods for the engine."""

    def __init__(self, engine: Engine, handlers: Handlers, wake: Callable[[], object]) -> None:
        """`wake` makes the reader look for due calls."""
        self.handlers = handlers
        self._engine = engine
        self._wake = wake
        self._pending: deque[PendingCall] = deque()
        self._reported = Reported()

    @property
    def any(self) -> bool:
        """True if the user has given any handler."""
        return self.handlers != Handlers()

    @property
    def are_running(self) -> bool:
        """True while a handler runs. Any thread."""
        return self._reported.calls > 0

    @property
    def are_pending(self) -> bool:
        """True if a call is due. Any thread."""
        return bool(self._pending)

    def assigned(self, partitions: Sequence[TopicPartition], done: Callable[[], object]) -> None:
        """Queue a call of `on_assigned`; `done` is called on the engine after it, or at once without a handler."""
        handler = self.handlers.on_assigned
        if handler is None:
            done()
            if self.any:  # so that later calls find these partitions reported
                self._pending.append(PendingCall(None, partitions, self._reported, assigns=True))
        elif partitions:
            after = partial(self._engine.start, done)
            self._pending.append(PendingCall(handler, partitions, self._reported, assigns=True, done=after))
            self._wake()

    async def revoked(self, partitions: Sequence[TopicPartition], timeout_ms: float) -> bool:
        """Queue a call of `on_revoked` and wait for its end; return False at the timeout. The call is still made."""
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
        """Queue a call of `on_lost`, without a wait."""
        handler = self.handlers.on_lost
        if handler is not None and partitions:
            self._pending.append(PendingCall(handler, partitions, self._reported, assigns=False))
            self._wake()

    def take(self) -> PendingCall | None:
        """Return the next due call, in the order of the rebalances, or None."""
        try:
            return self._pending.popleft()
        except IndexError:
            return None

    def ends(self, held: Iterable[TopicPartition]) -> Iterator[PendingCall]:
        """Iterate over the calls of a leaving member: due ones but `on_assigned`, then `on_revoked` for `held`."""
        while (call := self.take()) is not None:
            if self.handlers.on_assigned is None or not call.assigns:
                yield call
        if self.handlers.on_revoked is not None:
            yield PendingCall(self.handlers.on_revoked, held, self._reported, assigns=False)
