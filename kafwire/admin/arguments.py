"""Checks of the arguments that administrative calls share. Each raises `ConfigError`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kafwire.errors import ConfigError
from kafwire.integers import integer, natural
from kafwire.timeouts import timeout_of
from kafwire.types import TopicPartition

__all__ = [
    "chosen_of",
    "flag_of",
    "names_of",
    "node_of",
    "nodes_of",
    "one_of",
    "partition_of",
    "partitions_of",
    "text_of",
    "timeout_ms_of",
    "value_of",
]

HIGHEST = 0x7FFF_FFFF  # of Kafka's numbers of nodes and partitions


def text_of(what: str, value: Any) -> str:
    """Return a text that is not empty, such as a topic's name."""
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{what}: {value!r} is not a text with at least one character")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{what}: {value!r}: a text with a lone surrogate cannot be sent") from None
    return value


def value_of(what: str, value: Any, kinds: str = "a text or a number") -> str:
    """Return the text of an option's value. The value may be a password, so the error does not have it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise ConfigError(f"{what}: a {type(value).__name__} is not {kinds}")


def flag_of(what: str, value: Any) -> bool:
    """Return a boolean; other values are refused, as a text would count as true."""
    if not isinstance(value, bool):
        raise ConfigError(f"{what}={value!r}: write True or False")
    return value


def node_of(what: str, value: Any) -> int:
    """Return the id of a broker or controller."""
    number = integer(value)
    if number is None or not 0 <= number <= HIGHEST:
        raise ConfigError(f"{what}={value!r}: it must be a node's id, a whole number from 0 on")
    return number


def nodes_of(what: str, values: Any, example: str) -> list[int]:
    """Return a list of node ids."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ConfigError(f"{what}={values!r}: write a list of node ids: {example}")
    return [node_of(what, value) for value in values]


def names_of(what: str, names: Any, example: str) -> list[str]:
    """Return a list of names without repetitions; a single text is refused, as its characters are not names."""
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise ConfigError(f"{what}={names!r}: write a list of names: {example}")
    return list(dict.fromkeys(text_of(what, name) for name in names))


def chosen_of(what: str, names: Any, known: Sequence[str]) -> list[str]:
    """Return the chosen ones of known names; None: none are chosen."""
    chosen = [] if names is None else names_of(what, names, f"{what}=[{known[0]!r}]")
    for name in chosen:
        if name not in known:
            raise ConfigError(f"{what}: {name!r} is not one of {', '.join(known)}")
    return chosen


def one_of(what: str, value: Any, known: Iterable[str]) -> str:
    """Return one of the known names."""
    names = tuple(known)
    if value not in names:
        raise ConfigError(f"{what}={value!r}: it must be one of {', '.join(names)}")
    return str(value)


def partition_of(value: Any) -> TopicPartition:
    """Return a partition, given as one or as a tuple (topic, partition)."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str) and value[0]:
        number = natural(value[1])
        if number is not None and number <= HIGHEST:
            return TopicPartition(text_of("topic", value[0]), number)
    raise ConfigError(f"{value!r} is not a partition: write TopicPartition(topic, 0), or the tuple (topic, 0)")


def partitions_of(what: str, values: Any) -> list[TopicPartition]:
    """Return a list of partitions without repetitions."""
    if isinstance(values, str | bytes | TopicPartition) or not isinstance(values, Iterable):
        raise ConfigError(f"{what}={values!r}: write a list of partitions: [TopicPartition(topic, 0)]")
    return list(dict.fromkeys(map(partition_of, values)))


def timeout_ms_of(timeout: Any) -> float | None:
    """Convert a limit in seconds to milliseconds; None: `default_api_timeout_ms`."""
    seconds = timeout_of(timeout)
    return None if seconds is None else seconds * 1000
