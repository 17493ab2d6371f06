"""Whether a task was cancelled, or something that it awaited."""

from __future__ import annotations

import asyncio


def is_cancelled() -> bool:
    """Whether the running task was: then a `CancelledError` is to be passed on."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def cancelled_within(what: str) -> Exception:
    """The error of a call that raised `CancelledError` though nobody has cancelled its task."""
    return RuntimeError(f"{what} was cancelled: something that it awaited was")
