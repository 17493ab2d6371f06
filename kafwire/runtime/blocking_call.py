"""`BlockingCall`: a thread of the user's waits for what the engine does for it, and may be interrupted anywhere."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from kafwire.errors import KafkaError
from kafwire.runtime.patched import wait_lock

_T = TypeVar("_T")

ENDED = "the engine of this client has ended: make a new client"
# How often a thread that waits looks whether the engine's thread is alive. The engine fails its calls as it ends; this
# is for a thread that was ended from outside.
LOOK_S = 1.0


class BlockingCall(Generic[_T]):
    """One call. `begin` and `cancel` are run on the engine, `result` in the thread that waits.

    Ctrl-C can strike between any two instructions of that thread. So the coroutine is made on the engine, where it is
    taken up at once, and the thread waits for a lock that the engine only ever releases: an interrupted thread leaves
    nothing locked behind that the engine would wait for.
    """

    def __init__(self, function: Callable[[], Coroutine[Any, Any, _T]], is_alive: Callable[[], bool]) -> None:
        self._function = function
        self._is_alive = is_alive
        self._failure: KafkaError | None = None
        self._is_over = wait_lock()
        self._task: asyncio.Task[_T] | None = None
        self._is_cancelled = False

    def begin(self) -> None:
        """Start the work, unless its caller has gone."""
        if not self._is_cancelled:
            self._task = asyncio.ensure_future(self._work())
            self._task.add_done_callback(self._end)

    async def _work(self) -> _T:
        return await self._function()

    def _end(self, task: asyncio.Task[_T]) -> None:
        if not task.cancelled():
            task.exception()  # an interrupted caller asks for it no more
        self._is_over.release()

    def cancel(self) -> None:
        """Nobody waits any more."""
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()

    def fail(self, error: KafkaError) -> None:
        """Raise `error` where the caller waits: the engine has ended. On the engine's thread, as its last step."""
        self._failure = error
        with contextlib.suppress(RuntimeError):  # the work ended before
            self._is_over.release()

    def result(self) -> _T:
        """Wait for what the work returns or raises; once.

        Raises:
            KafkaError: the work was cancelled on the engine, as the client was closed, or the engine ended.
        """
        while not self._is_over.acquire(timeout=LOOK_S):
            if not self._is_alive():
                raise KafkaError(ENDED)
        if self._failure is not None and (self._task is None or not self._task.done()):
            raise self._failure
        # An error's traceback holds this frame: with the task in it, both would be left to the collector of cycles.
        task, self._task = self._task, None
        assert task is not None
        try:
            return task.result()
        except asyncio.CancelledError:
            raise KafkaError("the client was closed while this call waited") from None
        finally:
            del task
