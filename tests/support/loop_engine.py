"""An engine for what needs only its threads and its clock: the test's own loop, and a time that the test sets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar, cast

from kafwire.runtime.foreign_loop import outcome_of
from kafwire.runtime.interfaces import Engine
from tests.support.deadlines import PATIENCE_S

T = TypeVar("T")


class _Clock:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def monotonic(self) -> float:
        return self.seconds

    def time_ns(self) -> int:
        return int(self.seconds * 1e9)


class LoopEngine:
    """Runs on the loop that is running. Its threads are daemons, as the real engine's are."""

    def __init__(self, seconds: float = 1_700_000_000.0) -> None:
        self.clock = _Clock(seconds)
        self.started = 0

    def in_thread(self, name: str, function: Callable[..., T], *args: object) -> asyncio.Future[T]:
        """See `Engine`."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self.started += 1

        def end(result: T) -> None:
            if not future.done():
                future.set_result(result)

        def work() -> None:
            result = function(*args)
            if not loop.is_closed():
                loop.call_soon_threadsafe(end, result)

        threading.Thread(target=work, name=name, daemon=True).start()
        return future

    def in_loop(self, function: Callable[[], Awaitable[Any]]) -> asyncio.Future[tuple[Any, BaseException | None]]:
        """See `Engine`."""
        return asyncio.ensure_future(outcome_of(function))

    @property
    def engine(self) -> Engine:
        """Itself, as what it stands for."""
        return cast("Engine", self)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run it to its end, within limits."""

    async def limited() -> T:
        async with asyncio.timeout(PATIENCE_S):
            return await coroutine

    return asyncio.run(limited())
