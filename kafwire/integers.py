"""Whole numbers as users give them: ints, and what stands for an int by `__index__`, as numpy's integers do. Pure."""

from __future__ import annotations

import operator
from typing import Any

HIGHEST = (1 << 63) - 1


def integer(value: Any) -> int | None:
    """Return the int that `value` stands for; None for a bool, a float, text and everything else."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def natural(value: Any) -> int | None:
    """Return the int from 0 to `HIGHEST` that `value` stands for, or None."""
    number = integer(value)
    return number if number is not None and 0 <= number <= HIGHEST else None
