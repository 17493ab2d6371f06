"""Errors of tasks that a caller may no longer await."""

from __future__ import annotations

import asyncio
from typing import Any


def retrieve(task: asyncio.Future[Any]) -> None:
    """Retrieve the exception of an ended task or future, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()
