"""The bridge: awaits in the user's event loop what runs on the engine's.

No decision and no state of a client's lives here. A call goes over as one callback and comes back as one; no thread
waits for it. Any asyncio loop will do, and one client may be used from several.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from kafwire.errors import KafkaError
from kafwire.runtime.interfaces import Engine

_T = TypeVar("_T")

# What is smaller is decoded or encoded at once, in the loop's own thread: handing it to another takes longer.
INLINE_BYTES = 256 << 10
CLOSED = "the client was closed while this call waited"


async def on_engine(engine: Engine, coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Run `coroutine` on the engine and return, or raise, what comes of it.

    Whoever cancels the caller cancels the coroutine, and gets `CancelledError` only once the coroutine has come to its
    end, as if it had been awaited in place. If it returned a value all the same, the value is dropped: a coroutine that
    takes something out for its caller must be able to put it back. Cancelled on the engine's side, the call raises
    `KafkaError`: the client was closed. It does so too in a forked child and once the interpreter ends, as blocking
    calls do.
    """
    try:
        engine.check_caller()
    except KafkaError:
        coroutine.close()
        raise
    crossing = _Crossing(asyncio.get_running_loop(), coroutine)
    cancelled: asyncio.CancelledError | None = None
    try:
        engine.expect(crossing)
    except KafkaError:
        coroutine.close()
        raise
    if not engine.start(crossing.begin):  # the engine ended since it was asked
        engine.forget(crossing)
        coroutine.close()
        raise KafkaError(CLOSED)
    try:
        while not crossing.is_over:
            try:
                await crossing.wait()
            except asyncio.CancelledError as error:
                cancelled = error
                engine.start(crossing.cancel)
    finally:
        engine.forget(crossing)
        # A generator's close() ends the wait without a CancelledError.
        if not crossing.is_over:
            engine.start(crossing.cancel)
    if cancelled is not None:
        raise cancelled
    return crossing.outcome()


class _Crossing(Generic[_T]):
    """One coroutine on its way over and back. Each method says whose loop it runs on."""

    __slots__ = ("__weakref__", "_coroutine", "_failure", "_loop", "_task", "_waiter", "is_over")

    def __init__(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, _T]) -> None:
        self._loop = loop
        self._coroutine = coroutine
        self._task: asyncio.Task[_T] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._failure: KafkaError | None = None
        self.is_over = False

    def begin(self) -> None:
        """The engine: start it."""
        self._task = asyncio.ensure_future(self._coroutine)
        self._task.add_done_callback(self._on_done)

    def cancel(self) -> None:
        """The engine: cancel it. Comes after `begin`, as callbacks keep their order."""
        if self._task is not None:
            self._task.cancel()

    def fail(self, error: KafkaError) -> None:
        """The engine, as its last step: it has ended."""
        self._failure = error
        if self._task is None:
            self._coroutine.close()
        with contextlib.suppress(RuntimeError):  # the user's loop was closed without waiting for this
            self._loop.call_soon_threadsafe(self._arrive)

    def _on_done(self, task: asyncio.Task[_T]) -> None:
        """The engine: it has ended."""
        if not task.cancelled():
            task.exception()  # looked at, should nobody be left to whom it matters
        with contextlib.suppress(RuntimeError):  # the user's loop was closed without waiting for this
            self._loop.call_soon_threadsafe(self._arrive)

    def _arrive(self) -> None:
        """The user's loop: it has ended."""
        self.is_over = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """The user's loop: until it has ended. A new future each time, as a cancelled caller cancels what it awaits."""
        self._waiter = self._loop.create_future()
        await self._waiter

    def outcome(self) -> _T:
        """The user's loop, once it is over: what came of it."""
        if self._failure is not None and (self._task is None or not self._task.done()):
            raise self._failure
        assert self._task is not None
        if self._task.cancelled():
            raise KafkaError(CLOSED)
        return self._task.result()
