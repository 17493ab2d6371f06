"""Declarations of options, and their checks. The checks do not depend on particular options.

`option` declares one: a field of a configuration class. A check takes a user's value and returns the value to keep, or
raises ValueError or TypeError. `described_by` gives a class the docstring that `help()` shows.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Hashable
from dataclasses import field
from typing import Any, TypeVar

from kafwire.integers import integer
from kafwire.secret import Secret

Check = Callable[[Any], Any]
Class = TypeVar("Class", bound=type)
HIGHEST = 2**31 - 1


class Number:
    """A check for a whole number from `low` to `high`, as a number or as text."""

    def __init__(self, low: int, high: int = HIGHEST) -> None:
        self.low = low
        self.high = high

    def __call__(self, value: Any) -> int:
        """Return the number."""
        number = integer(value)
        if isinstance(value, str | float):
            with contextlib.suppress(ValueError, OverflowError):
                number = int(value)
        if number is None or (isinstance(value, float) and number != value):
            raise ValueError("a whole number is needed")
        if not self.low <= number <= self.high:
            raise ValueError(f"allowed: {self.low} to {self.high}")
        return number

    @property
    def accepts(self) -> str:
        """The range, for documentation."""
        return f"at least {self.low:,}" if self.high == HIGHEST else f"{self.low:,} to {self.high:,}"


class WholeUp(Number):
    """A check for a whole number as in `Number`, or a fraction, which is rounded away from zero."""

    def __call__(self, value: Any) -> int:
        """Return the number."""
        given = value
        if isinstance(value, str | float) and not isinstance(value, bool):
            with contextlib.suppress(ValueError, OverflowError):
                fraction = float(value)
                given = math.ceil(fraction) if fraction >= 0 else math.floor(fraction)
        return super().__call__(given)


class OneOf:
    """A check for one of some words."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed

    def __call__(self, value: Any) -> str:
        """Return the word."""
        if value not in self.allowed:
            raise ValueError(f"allowed: {', '.join(self.allowed)}")
        return str(value)

    @property
    def accepts(self) -> str:
        """The words, for documentation."""
        return ", ".join(f'"{word}"' for word in self.allowed)


class OrDefault:
    """A check for values of `check`, or None, which means `default` in other clients."""

    def __init__(self, default: Any, check: Check) -> None:
        self.default = default
        self.check = check

    def __call__(self, value: Any) -> Any:
        """Return the checked value, or the default."""
        return self.default if value is None else self.check(value)

    @property
    def accepts(self) -> str:
        """The values of `check` and None, for documentation."""
        accepted = getattr(self.check, "accepts", "")
        return f"{accepted}, or None" if accepted else ""


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
    return OrDefault(None, check)


def silence(value: Any) -> int | None:
    """Check milliseconds from 0, or None, infinity or -1 for no limit, as in other clients."""
    return None if value is None or value in (-1, "-1", math.inf) else WholeUp(0)(value)


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


def option(
    default: Any,
    check: Check,
    doc: str,
    *,
    names: str = "Java librdkafka",
    accepts: str = "",
    typed: str = "",
    unit: str = "",
    default_text: str = "",
    hidden: bool = False,
    shown: Callable[[Any], str] = repr,
) -> Any:
    """Declare an option: a field of a configuration class, with all that errors, `help()`, types and docs say of it.

    `doc` is plain text, with the meaning of None. `names` are the clients that have the option: a word `client`, or
    `client=name` for another name. `accepts` and `typed`, the accepted values and their type, replace what follows from
    `check` and from the type of the field; `unit` what follows from the option's name, and `default_text` the default's
    text. Errors show values of the option by `shown`, and none if it is `hidden`.
    """
    metadata = {
        "check": check,
        "doc": doc,
        "names": names,
        "accepts": accepts,
        "typed": typed,
        "unit": unit,
        "default_text": default_text,
        "hidden": hidden,
        "shown": shown,
    }
    return field(default=default, metadata=metadata)


def described_by(kind: type | None = None) -> Callable[[Class], Class]:
    """Return a decorator that appends the options of `kind`, or of the class itself, to the docstring of a class.

    The text is written when it is first read, by `kafwire.config.option_docs`: a program that reads none pays nothing.
    """

    def decorate(cls: Class) -> Class:
        cls.__doc__ = _Docstring(cls, cls if kind is None else kind, cls.__doc__ or "")  # type: ignore[assignment]
        return cls

    return decorate


class _Docstring:
    """The docstring of a class, as a descriptor that replaces itself by the text."""

    def __init__(self, owner: type, kind: type, head: str) -> None:
        self._owner = owner
        self._kind = kind
        self.head = head

    def __get__(self, instance: object, owner: type | None = None) -> str:
        from kafwire.config.option_docs import described  # few programs read a docstring

        text = described(self._owner, self._kind)
        self._owner.__doc__ = text
        return text
