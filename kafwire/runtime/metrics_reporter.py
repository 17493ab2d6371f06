"""Calls a user's metrics hook periodically with a snapshot, in a thread, while the snapshot's object lives."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from kafwire.runtime.interfaces import Engine
from kafwire.runtime.log import log


class Reporter:
    """Calls a hook every `interval_ms`, until it is stopped; a snapshot for a busy hook is skipped, never queued.

    Runs on the engine.
    """

    def __init__(self, engine: Engine, hook: Callable[[dict[str, Any]], object], interval_ms: int) -> None:
        self._engine = engine
        self._hook = hook
        self._interval_ms = interval_ms
        self._task: asyncio.Task[None] | None = None
        self._is_busy = False
        self._stopped = False

    def start(self, snapshot: Callable[[], dict[str, Any]]) -> None:
        """Start; the first report comes after one interval.

        `snapshot` is a method, of which only a weak reference is kept.
        """
        if not self._stopped:
            self._task = asyncio.ensure_future(self._repeat(weakref.WeakMethod(snapshot)))

    def stop(self) -> None:
        """Stop reporting, without waiting for a busy hook."""
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
                log.exception("kafwire: the snapshot for the metrics hook failed")
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
