"""Checks of a pipeline's arguments: whole numbers, seconds, topics, error classes."""

from __future__ import annotations

from numbers import Integral, Real


def is_count(value: object) -> bool:
    """True for a whole number of 1 or more."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def is_seconds(value: object) -> bool:
    """True for a number of 0 or more, or infinity."""
    return isinstance(value, Real) and not isinstance(value, bool) and float(value) >= 0  # False for NaN


def is_ratio(value: object) -> bool:
    """True for a number above 0 and up to 1."""
    return isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) <= 1


def is_topic(value: object) -> bool:
    """True for a non-empty str: the broker checks a topic name's other rules."""
    return isinstance(value, str) and bool(value)


def are_errors(kinds: tuple[object, ...]) -> bool:
    """True for one or more exception classes."""
    return bool(kinds) and all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds)
