"""The check of users' timeouts, which are numbers of seconds. Pure."""

from __future__ import annotations

import math
from typing import Any

from kafwire.errors import ConfigError
from kafwire.integers import real

__all__ = ["milliseconds", "timeout_of"]

_LONGEST_WAIT = 1 << 20  # seconds


def timeout_of(timeout: Any, *, highest: float = math.inf) -> float | None:
    """Return a number of seconds from 0 to `highest`, or None for no limit; `ConfigError` for all other values."""
    if timeout is None:
        return None
    seconds = real(timeout)
    if seconds is None or not 0 <= seconds <= highest:
        to = "" if highest == math.inf else f" to {highest}"
        raise ConfigError(f"timeout={timeout!r}: seconds from 0{to} are needed, or None")
    return seconds


def milliseconds(timeout: Any) -> int:
    """Convert a timeout in seconds to the readers' milliseconds; None becomes -1, no limit."""
    seconds = timeout_of(timeout, highest=_LONGEST_WAIT)
    return -1 if seconds is None else round(seconds * 1000)
