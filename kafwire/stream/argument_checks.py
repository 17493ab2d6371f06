"""Checks of what a pipeline is given: whole numbers, seconds, topics, kinds of errors."""

from __future__ import annotations

from numbers import Integral, Real


def is_count(value: object) -> bool:
    """Whether it is a whole number from 1 on."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def is_seconds(value: object) -> bool:
    """Whether it is a number from 0 on; infinity is one."""
    return isinstance(value, Real) and not isinstance(value, bool) and float(value) >= 0  # NaN is not


def is_ratio(value: object) -> bool:
    """Whether it is a number above 0 and up to 1."""
    return isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) <= 1


def is_topic(value: object) -> bool:
    """Whether it is text that is not empty: Kafka says what else a topic's name may not have."""
    return isinstance(value, str) and bool(value)


def are_errors(kinds: tuple[object, ...]) -> bool:
    """Whether these are classes of exceptions, at least one."""
    return bool(kinds) and all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds)
