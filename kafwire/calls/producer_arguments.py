"""Checks of producer arguments: topics, partitions, headers, times."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from kafwire.config.checks import HIGHEST
from kafwire.errors import ConfigError
from kafwire.integers import integer, natural

Header = tuple[str, bytes | str | None]


def carry(error: BaseException, delivery: object) -> None:
    """Attach the deliveries buffered so far to an exception that ends a `send_batch` (`KafkaError.delivery`)."""
    with contextlib.suppress(AttributeError, TypeError):
        error.delivery = delivery  # type: ignore[attr-defined]


def check_topic(topic: Any) -> None:
    """Raise `ConfigError` for a value that cannot be a topic's name."""
    if not isinstance(topic, str) or not topic:
        raise ConfigError(f"the topic must be a non-empty str, not {topic!r}")


def check_partition(partition: Any) -> int | None:
    """Return the number of a partition, or None; raise `ConfigError` for any other value.

    A negative number passes: the error of the accumulator names the topic's partitions.
    """
    number = integer(partition)
    if partition is not None and (number is None or not -HIGHEST <= number <= HIGHEST):
        needed = "a whole number or None" if number is None else "from 0 to 2**31 - 1"
        raise ConfigError(f"partition={partition!r}: it must be {needed}")
    return number


def wrong_argument(topic: Any, headers: Any, timestamp_ms: Any, partition: Any, error: Exception) -> ConfigError:
    """Return the error for the wrong argument of `send`. Only called after a failure: a valid record costs no check."""
    if not isinstance(topic, str):
        return ConfigError(f"the topic must be a non-empty str, not {topic!r}")
    if timestamp_ms is not None and natural(timestamp_ms) is None:
        hint = ": seconds are int(seconds * 1000) milliseconds" if isinstance(timestamp_ms, float) else ""
        return ConfigError(
            f"timestamp_ms={timestamp_ms!r}: it must be whole milliseconds since the epoch, 0 or more, or None{hint}"
        )
    try:
        check_partition(partition)
    except ConfigError as wrong:
        return wrong
    if headers is not None and not isinstance(headers, Iterable):
        return ConfigError(f"headers={headers!r}: it must be a list of (key, value) pairs")
    return ConfigError(f"the record cannot be encoded: {error}")
