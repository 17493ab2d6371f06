"""`run_in_simulated_time`: an asyncio loop whose time jumps to the next timer, so that tests never wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kafwire.testing.simulation.clock import SimulatedClock, SimulatedLoop

_T = TypeVar("_T")


def run_in_simulated_time(main: Callable[[SimulatedClock], Coroutine[Any, Any, _T]]) -> _T:
    """Run a coroutine to its end; its sleeps take no real time.

    Time passes when all tasks wait. A function for an executor runs at once. The loop has no sockets: streams on a
    `MemorySource` run in it, and your own code.

    Args:
        main: a function that takes the clock (`clock.monotonic()`, `clock.time_ns()`), and returns the coroutine.

    Returns:
        The coroutine's result.

    Raises:
        AssertionError: all tasks wait and no timer is due; or an error reached no caller.

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
