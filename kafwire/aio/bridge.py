"""The bridge between the user's event loop and the engine's: coroutines that run there, and are awaited here.

The bridge has no decisions and no state of a client. A call crosses as one callback, and so does its result; no thread
waits for it. Any asyncio loop will do, and several loops may share one client. The classes from `AwaitedClosing` on
are the parts that asyncio classes share.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
import warnings
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar

from kafwire.errors import KafkaError
from kafwire.runtime.client import EngineClient
from kafwire.runtime.interfaces import Engine
from kafwire.runtime.retrieval import retrieve

if TYPE_CHECKING:
    from kafwire.runtime.metrics_reporter import Pushing

_P = ParamSpec("_P")
_T = TypeVar("_T")

# Smaller data is decoded or encoded at once, in the loop's own thread: a switch to another thread takes longer.
INLINE_BYTES = 256 << 10
CLOSED = "the client was closed while this call waited"


async def on_engine(engine: Engine, coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Run `coroutine` on the engine; return its result, or raise its error.

    Cancelling the caller cancels the coroutine; `CancelledError` comes only once the coroutine has ended, as if it were
    awaited in place. If it returned a value nevertheless, the value is dropped: a coroutine that takes something for
    its caller must be able to put it back. A cancellation on the engine's side raises `KafkaError`: the client was
    closed. A call in a forked child, or once the interpreter ends, raises `KafkaError` too, as blocking calls do.
    """
    cancelled: asyncio.CancelledError | None = None
    try:
        engine.check_caller()
        crossing = _Crossing(asyncio.get_running_loop(), coroutine)
        engine.expect(crossing)
    except KafkaError:
        coroutine.close()
        raise
    if not engine.start(crossing.begin):  # the engine ended since the check
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
    """One coroutine that runs on the engine for the user's loop. Each method names the loop that it runs on."""

    __slots__ = ("__weakref__", "_coroutine", "_failure", "_loop", "_task", "_waiter", "is_over")

    def __init__(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, _T]) -> None:
        self._loop = loop
        self._coroutine = coroutine
        self._task: asyncio.Task[_T] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._failure: KafkaError | None = None
        self.is_over = False

    def begin(self) -> None:
        """Start the coroutine. On the engine."""
        self._task = asyncio.ensure_future(self._coroutine)
        self._task.add_done_callback(self._on_done)

    def cancel(self) -> None:
        """Cancel the coroutine. On the engine; after `begin`, as callbacks keep their order."""
        if self._task is not None:
            self._task.cancel()

    def fail(self, error: KafkaError) -> None:
        """End the call with an error. On the engine, as its last step."""
        self._failure = error
        if self._task is None:
            self._coroutine.close()
        with contextlib.suppress(RuntimeError):  # the user's loop was closed without waiting for this
            self._loop.call_soon_threadsafe(self._arrive)

    def _on_done(self, task: asyncio.Task[_T]) -> None:
        """Report the end of the coroutine. On the engine."""
        retrieve(task)
        with contextlib.suppress(RuntimeError):  # the user's loop was closed without waiting for this
            self._loop.call_soon_threadsafe(self._arrive)

    def _arrive(self) -> None:
        """Wake the caller. On the user's loop."""
        self.is_over = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """Wait until the coroutine has ended. On the user's loop.

        Each wait has a new future, as a cancelled caller cancels the future that it awaits.
        """
        self._waiter = self._loop.create_future()
        await self._waiter

    def outcome(self) -> _T:
        """Return the result of the ended coroutine, or raise its error. On the user's loop."""
        if self._failure is not None and (self._task is None or not self._task.done()):
            raise self._failure
        assert self._task is not None
        if self._task.cancelled():
            raise KafkaError(CLOSED)
        return self._task.result()


class AwaitedClosing:
    """An async context manager whose end closes it."""

    async def close(self) -> None:
        """Close it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AwaitingClient(EngineClient, AwaitedClosing):
    """A client whose calls are awaited."""

    async def _run(self, work: Callable[_P, Coroutine[Any, Any, _T]], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        self._check()
        return await on_engine(self._engine, work(*args, **kwargs))


class AwaitingPushingClient(AwaitingClient):
    """A client that pushes metrics to the cluster."""

    _pushing: Pushing

    async def client_instance_id(self, timeout: float | None = None) -> uuid.UUID:  # noqa: ASYNC109
        """Return the id of the metrics that this client pushes, as `Producer.client_instance_id` does."""
        return await self._run(self._pushing.instance_id_call(timeout))


class StartedClient(AwaitingPushingClient):
    """A consumer, which `async with` or its first call starts."""

    _begun = False
    _abandon: Callable[[], object]

    async def start(self) -> None:
        """Start the consumer."""

    async def _run(self, work: Callable[_P, Coroutine[Any, Any, _T]], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        await self.start()
        return await on_engine(self._engine, work(*args, **kwargs))

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    def __del__(self) -> None:
        if self._begun and not self._closed and not self._engine.is_over:
            warnings.warn(f"never closed: {self!r}", ResourceWarning, source=self, stacklevel=2)
            self._engine.start(self._abandon)
