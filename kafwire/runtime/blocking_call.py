"""`BlockingCall`: a user's thread waits for a coroutine on the engine, and may be interrupted anywhere."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from kafwire.errors import KafkaError
from kafwire.runtime.patched import wait_lock
from kafwire.runtime.retrieval import retrieve

_T = TypeVar("_T")

ENDED = "this client's engine has ended: make a new client"
# How often a waiting thread checks whether the engine's thread is alive. The engine fails its calls as it ends; this
# covers a thread that was killed from outside.
LOOK_S = 1.0


class BlockingCall(Generic[_T]):
    """One call. `begin` and `cancel` run on the engine, `result` in the waiting thread.

    Ctrl-C can strike between any two instructions of that thread. So the coroutine is made on the engine, where a task
    runs it at once, and the thread waits for a lock that the engine only ever releases: an interrupted thread leaves no
    lock held that the engine would wait for.
    """

    def __init__(self, function: Callable[[], Coroutine[Any, Any, _T]], is_alive: Callable[[], bool]) -> None:
        self._function = function
        self._is_alive = is_alive
        self._failure: KafkaError | None = None
        self._is_over = wait_lock()
        self._task: asyncio.Task[_T] | None = None
        self._is_cancelled = False

    def begin(self) -> None:
        """Start the coroutine, unless the call was cancelled."""
        if not self._is_cancelled:
            self._task = asyncio.ensure_future(self._work())
            self._task.add_done_callback(self._end)

    async def _work(self) -> _T:
        return await self._function()

    def _end(self, task: asyncio.Task[_T]) -> None:
        retrieve(task)
        self._is_over.release()

    def cancel(self) -> None:
        """Cancel the work: the caller stopped waiting."""
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()

    def fail(self, error: KafkaError) -> None:
        """Raise `error` in the waiting caller: the engine has ended. Runs on the engine's thread, as its last step."""
        self._failure = error
        with contextlib.suppress(RuntimeError):  # the work has already ended
            self._is_over.release()

    def result(self) -> _T:
        """Wait for the coroutine; return its result or raise its error. May be called once.

        Raises:
            KafkaError: the work was cancelled on the engine, because the client was closed, or the engine ended.
        """
        while not self._is_over.acquire(timeout=LOOK_S):
            if not self._is_alive():
                raise KafkaError(ENDED)
        if self._failure is not None and (self._task is None or not self._task.done()):
            raise self._failure
        # An error's traceback references this frame: with the task in it, both would need the garbage collector.
        task, self._task = self._task, None
        assert task is not None
        try:
            return task.result()
        except asyncio.CancelledError:
            raise KafkaError("the client was closed while this call waited") from None
        finally:
            del task
