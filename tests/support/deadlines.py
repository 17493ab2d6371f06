"""Waiting in tests that live in real time: for something that is seen to come true, and never without a deadline."""

import asyncio
import threading
import time
from collections.abc import Callable

PATIENCE_S = 60.0  # for what takes milliseconds, on a machine that is busy with other things
_LOOK_S = 0.005


def until(condition: Callable[[], object], what: str = "", seconds: float = PATIENCE_S) -> None:
    """Return as soon as `condition` holds; fail if it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what or condition}"
        time.sleep(_LOOK_S)


def ended(*threads: threading.Thread, seconds: float = PATIENCE_S) -> None:
    """Return when all of the threads have ended; fail if one has not within `seconds`."""
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))
        assert not thread.is_alive(), f"{thread.name} has not ended within {seconds:g} s"


def happened(event: threading.Event, what: str = "", seconds: float = PATIENCE_S) -> None:
    """Return when the event is set; fail if it is not within `seconds`."""
    assert event.wait(seconds), f"not within {seconds:g} s: {what or event}"


async def comes(event: asyncio.Event, what: str = "", seconds: float = PATIENCE_S) -> None:
    """Return when the event is set; fail if it is not within `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        raise AssertionError(f"not within {seconds:g} s: {what or event}") from None
