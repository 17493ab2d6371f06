"""Distinguishes the cancellation of a task from the cancellation of an awaitable in it."""

from __future__ import annotations

import asyncio


def is_cancelled() -> bool:
    """True if the running task was cancelled: then a `CancelledError` must be passed on."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def cancelled_within(what: str) -> Exception:
    """Return the error of a call that raised `CancelledError` although its task was not cancelled."""
    return RuntimeError(f"{what} was cancelled: something that it awaited was")
