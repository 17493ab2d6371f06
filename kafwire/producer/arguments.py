"""Errors for wrong arguments and for a lack of room, shared by the blocking and the asyncio producer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from kafwire.config import ProducerConfig
from kafwire.errors import ConfigError, KafkaError, KafkaTimeoutError
from kafwire.integers import HIGHEST, integer, natural
from kafwire.producer.flush import undelivered
from kafwire.producer.sender import CLOSED, Sender

__all__ = ["CLOSED", "Header", "carry", "check_partition", "check_topic", "given_up", "no_room", "wrong_argument"]

Header = tuple[str, bytes | str | None]


def no_room(sender: Sender, config: ProducerConfig) -> KafkaError:
    """Return the error for a record that found no room in `buffer_memory` in time."""
    closed = sender.accumulator.budget.closed
    if closed is not None:
        return KafkaError(closed)
    problem = sender.last_problem
    return KafkaTimeoutError(
        f"no room in buffer_memory ({config.buffer_memory} bytes) within max_block_ms ({config.max_block_ms}): the "
        f"broker is slower than the sender, or unreachable{f'; last: {problem}' if problem else ''}"
    )


def carry(error: BaseException, delivery: object) -> None:
    """Attach the deliveries buffered so far to an exception that ends a `send_batch` (`KafkaError.delivery`)."""
    with contextlib.suppress(AttributeError, TypeError):
        error.delivery = delivery  # type: ignore[attr-defined]


def check_topic(topic: Any) -> None:
    """Raise `ConfigError` for a value that cannot be a topic's name."""
    if not isinstance(topic, str) or not topic:
        raise ConfigError(f"the topic must be a non-empty str, not {topic!r}")


def check_partition(partition: Any) -> int | None:
    """Return the number of a partition, or None; raise `ConfigError` for any other value."""
    number = integer(partition)
    if partition is not None and (number is None or not -HIGHEST <= number <= HIGHEST):
        needed = "a whole number or None" if number is None else "from 0 to 2**31 - 1"
        raise ConfigError(f"partition={partition!r}: it must be {needed}")
    return number


def given_up(lost: Mapping[str, int]) -> KafkaTimeoutError:
    """Return the error of a producer that had to close before it delivered all, with the records lost by partition."""
    return KafkaTimeoutError(f"the producer was closed with {undelivered(lost)} not acknowledged")


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
