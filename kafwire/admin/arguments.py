"""Checks of the arguments that administrative calls share. Each raises `ConfigError`. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafwire.errors import ConfigError
from kafwire.timeouts import timeout_of

__all__ = ["names_of", "text_of", "timeout_ms_of"]


def text_of(what: str, value: Any) -> str:
    """Return a text that is not empty, such as a topic's name."""
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{what}: {value!r} is not a text with at least one character")
    return value


def names_of(what: str, names: Any, example: str) -> list[str]:
    """Return a list of names without repetitions; a single text is refused, as its characters are not names."""
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise ConfigError(f"{what}={names!r}: write a list of names: {example}")
    return list(dict.fromkeys(text_of(what, name) for name in names))


def timeout_ms_of(timeout: Any) -> float | None:
    """Convert a limit in seconds to milliseconds; None: `default_api_timeout_ms`."""
    seconds = timeout_of(timeout)
    return None if seconds is None else seconds * 1000
