"""Checks of options: each takes a user's value, and returns the value to keep, or raises ValueError or TypeError.

`option` makes the field of a configuration class. The checks do not depend on particular options.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Hashable
from dataclasses import field
from typing import Any

from kafwire.integers import integer
from kafwire.secret import Secret

Check = Callable[[Any], Any]


def number(low: int, high: int = 2**31 - 1) -> Check:
    """Return a check for a whole number from `low` to `high`, as a number or as text."""

    def check(value: Any) -> int:
        number = integer(value)
        if isinstance(value, str | float):
            with contextlib.suppress(ValueError, OverflowError):
                number = int(value)
        if number is None or (isinstance(value, float) and number != value):
            raise ValueError("a whole number is needed")
        if not low <= number <= high:
            raise ValueError(f"allowed: {low} to {high}")
        return number

    return check


def whole_up(low: int, high: int = 2**31 - 1) -> Check:
    """Return a check for a whole number as in `number`, or a fraction, which is rounded away from zero."""
    whole = number(low, high)

    def check(value: Any) -> int:
        given = value
        if isinstance(value, str | float) and not isinstance(value, bool):
            with contextlib.suppress(ValueError, OverflowError):
                fraction = float(value)
                given = math.ceil(fraction) if fraction >= 0 else math.floor(fraction)
        return int(whole(given))

    return check


class OneOf:
    """A check for one of some words."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed

    def __call__(self, value: Any) -> str:
        """Return the word."""
        if value not in self.allowed:
            raise ValueError(f"allowed: {', '.join(self.allowed)}")
        return str(value)


def any_text(value: Any) -> str:
    """Check text."""
    if not isinstance(value, str):
        raise TypeError("text is needed")
    return value


def some_text(value: Any) -> str:
    """Check text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError("text that is not empty is needed")
    return value


def flag(value: Any) -> bool:
    """Check True or False, also as text in any case."""
    known = {True: True, False: False, "true": True, "false": False}
    given = value.lower() if isinstance(value, str) else value
    if not isinstance(given, Hashable) or given not in known:
        raise ValueError("allowed: True, False")
    return known[given]


def maybe(check: Check) -> Check:
    """Return a check for None, or for values of `check`."""
    return lambda value: None if value is None else check(value)


def or_default(default: Any, check: Check) -> Check:
    """Return a check for values of `check`, or None, which means `default` in other clients."""
    return lambda value: default if value is None else check(value)


def silence(value: Any) -> int | None:
    """Check milliseconds from 0, or None, infinity or -1 for no limit, as in other clients."""
    return None if value is None or value in (-1, "-1", math.inf) else whole_up(0)(value)


def function(value: Any) -> Any:
    """Check a callable."""
    if not callable(value):
        raise TypeError("a function of one argument is needed")
    return value


def secret(value: Any) -> Secret:
    """Check text that is not empty, and hide it in a `Secret`."""
    try:
        kept = Secret(value)
    except TypeError:
        raise TypeError("text or a Secret is needed") from None
    if not kept:
        raise ValueError("text that is not empty is needed")
    return kept


def path(value: Any) -> str:
    """Check the name of a file. PEM contents are refused, because errors show names."""
    text = some_text(value)
    if "-----BEGIN " in text:
        raise ValueError("this is PEM text, not the name of a file: it belongs to the option whose name ends in pem")
    return text


def public_pem(value: Any) -> str:
    """Check PEM text. A private key in it is refused, because errors show certificates."""
    text = some_text(value)
    if "PRIVATE KEY-----" in text:
        raise ValueError("there is a private key in it, which belongs to ssl_key_pem")
    return text


def option(default: Any, check: Check, *, hidden: bool = False) -> Any:
    """Return a field with its check. `hidden`: errors do not show the value."""
    return field(default=default, metadata={"check": check, "hidden": hidden})
