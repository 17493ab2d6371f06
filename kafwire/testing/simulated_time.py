"""`run_in_simulated_time`: an asyncio loop whose time jumps to what is due next, for tests that wait for nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kafwire.testing.simulation.clock import SimulatedClock, SimulatedLoop

_T = TypeVar("_T")


def run_in_simulated_time(main: Callable[[SimulatedClock], Coroutine[Any, Any, _T]]) -> _T:
    """Run a coroutine to its end; whatever it sleeps takes no time.

    Time passes when all tasks wait. What runs in an executor runs at once. There are no sockets: streams on a
    `MemorySource`, and other code of your own, run in it.

    Args:
        main: takes the clock (`clock.monotonic()`, `clock.time_ns()`), and returns the coroutine.

    Returns:
        What the coroutine returns.

    Raises:
        AssertionError: everybody waits, and nothing is due; or an error reached nobody.

    Example:
        >>> import asyncio
        >>> from kafwire.testing import run_in_simulated_time
        >>> async def main(clock):
        ...     started = clock.monotonic()
        ...     await asyncio.sleep(3600)
        ...     return clock.monotonic() - started
        >>> run_in_simulated_time(main)
        3600.0
    """
    loop = SimulatedLoop(lambda: False)
    try:
        task = loop.create_task(main(SimulatedClock(loop)))
        try:
            found = loop.run_until_complete(task)
        finally:
            _end_tasks(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
    assert not loop.problems, f"errors that reached no caller: {loop.problems}"
    return found


def _end_tasks(loop: SimulatedLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks))
