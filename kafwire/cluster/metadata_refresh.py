"""The timing of metadata requests: one at a time for all callers, with one shared backoff, and by age."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from kafwire.cluster.backoff import delay_ms
from kafwire.config import ClientConfig
from kafwire.errors import KafkaError
from kafwire.runtime.interfaces import Engine
from kafwire.runtime.log import cluster_log as log
from kafwire.runtime.retrieval import retrieve


class Refresher:
    """Refreshes metadata for any caller. Requests are `retry_backoff_ms` apart, or further while they bring no change.

    Runs on the engine.
    """

    def __init__(self, engine: Engine, config: ClientConfig, ask: Callable[[], Awaitable[bool]]) -> None:
        """`ask` sends one request, and returns True if the response changed the metadata."""
        self._engine = engine
        self._config = config
        self._ask = ask
        self._task: asyncio.Task[None] | None = None
        self._is_asking = False
        self._hastened = asyncio.Event()
        self._in_vain = 0
        self._ended_ms = self._not_before_ms = self._refreshed_ms = -1.0e12
        self._timer: asyncio.Task[None] | None = None

    async def refresh(self, *, at_once: bool = False) -> None:
        """Wait for the next response; `at_once`: without backoff, and to a request sent after this call."""
        if at_once and self._task is not None and self._is_asking:
            await asyncio.wait([self._task])
        await asyncio.shield(self.begin(at_once=at_once))

    def hasten(self) -> None:
        """End the growth of the backoff: there is a new reason to refresh."""
        self._in_vain = 0
        self._hasten(self._ended_ms + self._config.retry_backoff_ms)

    def _hasten(self, not_before_ms: float) -> None:
        self._not_before_ms = min(self._not_before_ms, not_before_ms)
        self._hastened.set()

    def begin(self, *, at_once: bool = False) -> asyncio.Task[None]:
        """Schedule a request for the end of the backoff, or `at_once`, unless one is pending."""
        if at_once:
            self._hasten(-1.0e12)
        if self._task is None or self._task.done():  # a finished task delivers no response to new callers
            self._task = asyncio.ensure_future(self._run())
            self._task.add_done_callback(retrieve)
        return self._task

    @property
    def age_ms(self) -> float:
        """The time since the last response."""
        return self._engine.now_ms() - self._refreshed_ms

    def begin_timer(self) -> None:
        """From now on, refresh metadata that are `metadata_max_age_ms` old."""
        if self._timer is None:
            self._timer = asyncio.ensure_future(self._refresh_by_age())

    def end_timer(self) -> None:
        """Refresh no more metadata by their age."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _refresh_by_age(self) -> None:
        while True:
            wait = self._config.metadata_max_age_ms - self.age_ms
            if wait > 0:  # another caller may refresh meanwhile
                await asyncio.sleep(wait / 1000)
                continue
            try:
                await self.refresh()
            except KafkaError as error:
                log.debug("kafwire: metadata could not be refreshed: %s", error, error=error)

    def stop(self) -> None:
        """End the timer, and the waits for the backoff: no more requests are sent."""
        self.end_timer()
        self._hasten(-1.0e12)

    async def _run(self) -> None:
        while (wait := self._not_before_ms - self._engine.now_ms()) > 0:
            self._hastened.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait / 1000):
                    await self._hastened.wait()
        self._is_asking = True
        is_news = False
        try:
            is_news = await self._ask()
            self._refreshed_ms = self._engine.now_ms()
        finally:
            self._is_asking = False
            self._in_vain = 0 if is_news else self._in_vain + 1
            base, limit = self._config.retry_backoff_ms, self._config.retry_backoff_max_ms
            wait = min(delay_ms(self._in_vain + 1, base, limit, self._engine.random.random()), limit)
            self._ended_ms = self._engine.now_ms()
            self._not_before_ms = self._ended_ms + wait
