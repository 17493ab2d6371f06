"""Conversion of numbers that users give: ints, floats, and equivalents such as numpy's numbers. Pure."""

from __future__ import annotations

import operator
from numbers import Real
from typing import Any

HIGHEST = (1 << 63) - 1


def integer(value: Any) -> int | None:
    """Return the int of an int or its equivalent; None for a bool, a float, text and all other values."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def natural(value: Any) -> int | None:
    """Return the int of `value` if it is from 0 to `HIGHEST`, else None."""
    number = integer(value)
    return number if number is not None and 0 <= number <= HIGHEST else None


def count(value: Any) -> int | None:
    """Return the int of `value` if it is 1 or more, else None."""
    number = integer(value)
    return number if number is not None and number >= 1 else None


def real(value: Any) -> float | None:
    """Return the float of a number; None for a bool, text, NaN, an int too large and all others."""
    if isinstance(value, bool) or not isinstance(value, Real):
        value = integer(value)
    try:
        return None if value is None or value != value else float(value)  # noqa: PLR0124  # NaN is not equal to itself
    except OverflowError:
        return None


class PollOnly(int):
    """A limit of `poll` alone, as `max.poll.records` is in the Java client."""
