"""What a fetcher does on the engine by itself: in the loop's next turn, or for longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class FetchTasks:
    """The work of one fetcher that nobody waits for."""

    def __init__(self, on_failure: Callable[[BaseException], object]) -> None:
        """`on_failure` is told what a task raises."""
        self._on_failure = on_failure
        self._soon: set[Callable[[], None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    def soon(self, work: Callable[[], None]) -> None:
        """Do it in the loop's next turn, however often that is said in this one."""
        if work not in self._soon and not self._stopped:
            self._soon.add(work)
            asyncio.get_running_loop().call_soon(self._do, work)

    def _do(self, work: Callable[[], None]) -> None:
        self._soon.discard(work)
        if not self._stopped:
            work()

    def begin(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task whose failure the user hears of."""
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)

    async def progress(self) -> None:
        """Return when a task has ended, or in the next turn if there is none."""
        if self._tasks:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(0)

    def stop(self) -> None:
        """End the tasks, and do nothing more in a next turn."""
        self._stopped = True
        for task in self._tasks:
            task.cancel()
