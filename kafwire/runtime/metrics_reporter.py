"""A user's metrics hook: called again and again with a snapshot, in a thread, as long as what it tells of lives."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from kafwire.runtime.interfaces import Engine
from kafwire.runtime.log import log


class Reporter:
    """Calls a hook every `interval_ms`, until it is stopped; a hook that is still busy is passed over, never queued.

    Lives on the engine.
    """

    def __init__(self, engine: Engine, hook: Callable[[dict[str, Any]], object], interval_ms: int) -> None:
        self._engine = engine
        self._hook = hook
        self._interval_ms = interval_ms
        self._task: asyncio.Task[None] | None = None
        self._is_busy = False
        self._stopped = False

    def start(self, snapshot: Callable[[], dict[str, Any]]) -> None:
        """Begin; the first report comes after one interval. `snapshot` is a method whose object is not kept alive."""
        if not self._stopped:
            self._task = asyncio.ensure_future(self._repeat(weakref.WeakMethod(snapshot)))

    def stop(self) -> None:
        """Report no more; a hook that is busy is not waited for."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()

    async def _repeat(self, snapshot: weakref.WeakMethod[Callable[[], dict[str, Any]]]) -> None:
        while True:
            await asyncio.sleep(self._interval_ms / 1000)
            if self._is_busy:
                continue
            take = snapshot()
            if take is None:
                return
            try:
                found = take()
            except Exception:
                log.exception("kafwire: no snapshot could be taken for the metrics hook")
                continue
            finally:
                del take
            self._is_busy = True
            if not self._engine.reports.submit(partial(self._call, found)):
                self._is_busy = False

    def _call(self, found: dict[str, Any]) -> None:
        try:
            self._hook(found)
        except Exception:
            log.exception("kafwire: the metrics hook failed")
        finally:
            self._is_busy = False
