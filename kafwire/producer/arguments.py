"""What both flavours of a producer say of arguments and of room that are not there."""

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
    """Why a record found no room in `buffer_memory` until its time was over."""
    closed = sender.accumulator.budget.closed
    if closed is not None:
        return KafkaError(closed)
    problem = sender.last_problem
    return KafkaTimeoutError(
        f"no room in buffer_memory ({config.buffer_memory} bytes) within max_block_ms ({config.max_block_ms}): the "
        f"broker is slower than the sender, or unreachable{f'; last: {problem}' if problem else ''}"
    )


def carry(error: BaseException, delivery: object) -> None:
    """Have what ends a `send_batch` say what was buffered before (`KafkaError.delivery`), an interrupt too."""
    with contextlib.suppress(AttributeError, TypeError):
        error.delivery = delivery  # type: ignore[attr-defined]


def check_topic(topic: Any) -> None:
    """Raise `ConfigError` for what cannot be a topic's name."""
    if not isinstance(topic, str) or not topic:
        raise ConfigError(f"a topic's name is needed, not {topic!r}")


def check_partition(partition: Any) -> int | None:
    """Return the number of a partition, or None; `ConfigError` for everything else."""
    number = integer(partition)
    if partition is not None and (number is None or not -HIGHEST <= number <= HIGHEST):
        raise ConfigError(f"partition={partition!r}: a whole number is needed, or None")
    return number


def given_up(lost: Mapping[str, int]) -> KafkaTimeoutError:
    """What a producer says that could not deliver all before it had to close: how many records, by partition."""
    return KafkaTimeoutError(f"the producer was closed with {undelivered(lost)} not acknowledged")


def wrong_argument(topic: Any, headers: Any, timestamp_ms: Any, partition: Any, error: Exception) -> ConfigError:
    """Which argument of `send` is of no use. Looked for afterwards, as a record that is right must not pay for it."""
    if not isinstance(topic, str):
        return ConfigError(f"a topic's name is needed, not {topic!r}")
    if timestamp_ms is not None and natural(timestamp_ms) is None:
        hint = ": seconds are int(seconds * 1000) milliseconds" if isinstance(timestamp_ms, float) else ""
        return ConfigError(
            f"timestamp_ms={timestamp_ms!r}: whole milliseconds since the epoch are needed, from 0 on, or None{hint}"
        )
    try:
        check_partition(partition)
    except ConfigError as wrong:
        return wrong
    if headers is not None and not isinstance(headers, Iterable):
        return ConfigError(f"headers={headers!r}: a list of (key, value) pairs is needed")
    return ConfigError(f"the record cannot be encoded: {error}")
