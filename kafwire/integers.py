"""Numbers as users give them: ints and floats, and what stands for them, as numpy's numbers do. Pure."""

from __future__ import annotations

import operator
from numbers import Real
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


def count(value: Any) -> int | None:
    """Return the int from 1 that `value` stands for, or None."""
    number = integer(value)
    return number if number is not None and number >= 1 else None


def real(value: Any) -> float | None:
    """Return the number that `value` stands for; None for a bool, text, NaN and everything else."""
    if isinstance(value, bool) or not isinstance(value, Real):
        number = integer(value)
        return None if number is None else float(number)
    return float(value) if value == value else None  # noqa: PLR0124  # NaN is not equal to itself


class PollOnly(int):
    """A limit of `poll` alone: `max.poll.records`, as Java's clients mean it."""
