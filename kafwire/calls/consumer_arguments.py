"""Checks of consumer arguments, in the caller's thread: topics, partitions, start offsets, columns, times."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec

from kafwire.cluster.list_offsets import Place
from kafwire.cluster.offset_spec import (
    Bound,
    OffsetSpec,
    ResolvedOffset,
    partition_of,
    place_of,
    resolve_offset,
    resolve_offset_in,
)
from kafwire.config.bootstrap import shown_servers
from kafwire.errors import ConfigError
from kafwire.records._arrow import Layout
from kafwire.timeouts import timeout_of
from kafwire.types import TopicPartition

# The number of partitions that keep their constant columns from batch to batch; a thousand would keep gigabytes.
LASTING_LAYOUTS = 16
_LONGEST_TIMEOUT = 1 << 20  # seconds

_P = ParamSpec("_P")

# One start for all partitions, or a dict by partition; None: no start is given.
Start = ResolvedOffset | dict[TopicPartition, ResolvedOffset] | None


def servers_first(init: Callable[_P, None]) -> Callable[_P, None]:
    """Wrap an `__init__` so that topics given first, as in kafka-python and aiokafka, raise a `ConfigError`.

    The error has the line to write instead.
    """

    @wraps(init)
    def checked(*args: _P.args, **options: _P.kwargs) -> None:
        topics = list(args[2:] if "bootstrap_servers" not in options else args[1:])
        if ("bootstrap_servers" in options and topics) or len(topics) > 1:
            shown = shown_servers(topics if len(topics) > 1 else topics[0])  # it hides passwords
            line = f"{type(args[0]).__name__}(bootstrap_servers, topics={shown})"
            raise ConfigError(f"the servers come first, then one topic or a list of topics: write {line}")
        init(*args, **options)

    return checked


class Selection:
    """The topics or partitions of a consumer, and its start, checked as far as possible without a broker."""

    def __init__(
        self,
        topics: str | Iterable[str] | None,
        assign: Iterable[TopicPartition] | None,
        start: Bound | None,
        pattern: str | None = None,
    ) -> None:
        """Raises `ConfigError`."""
        if sum(each is not None for each in (topics, assign, pattern)) > 1:
            raise ConfigError(
                "topics, pattern and assign exclude each other: all partitions of topics, by their names or by a "
                "pattern, or partitions named one by one"
            )
        self.pattern = None if pattern is None else pattern_of(pattern)
        self.topics = None if topics is None else names_of(topics)
        self.assign = None if assign is None else assignment_of(assign, "assign=list(offsets), start=offsets")
        self.start: Start = None
        if isinstance(start, Mapping):
            self.start = {
                partition_of(where): resolve_offset_in(where, point, "start") for where, point in start.items()
            }
        elif start is not None:
            self.start = resolve_offset(start, "start")


def subscription_of(topics: str | Iterable[str] | None, pattern: str | None) -> tuple[list[str], str | None]:
    """Return checked (topic names, pattern), one of them empty; `ConfigError` for both or neither."""
    if (topics is None) == (pattern is None):
        raise ConfigError("subscribe to topics, by their names or by a pattern: either topics or pattern is needed")
    return ([] if topics is None else names_of(topics)), (None if pattern is None else pattern_of(pattern))


def names_of(topics: str | Iterable[str], *, in_share_group: bool = False) -> list[str]:
    """Return a list of distinct topic names; `ConfigError` for anything but names."""
    names = [topics] if isinstance(topics, str) else list(topics) if isinstance(topics, Iterable) else []
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(f"topics: a name or a list of names is needed, not {topics!r}")
    for name in names:
        if name.startswith("^"):
            hint = f"write pattern={name[1:].removesuffix('$')!r}, which whole names match"
            if in_share_group:
                hint = "a share group subscribes to topics by their names"
            raise ConfigError(f"topics: {name!r} is a pattern: {hint}")
    return list(dict.fromkeys(names))


def pattern_of(pattern: Any) -> str:
    """Return a regular expression that Python compiles; `ConfigError` for anything else."""
    if not isinstance(pattern, str) or not pattern:
        raise ConfigError(f"pattern={pattern!r}: a regular expression is needed, as text, which whole names match")
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"pattern={pattern!r} is no regular expression: {error}") from None
    return pattern


def partitions_of(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return a checked list of partitions; `ConfigError` for anything else."""
    if isinstance(partitions, str | TopicPartition) or not isinstance(partitions, Iterable):
        hint = ": write [partition]" if isinstance(partitions, TopicPartition) else ""
        raise ConfigError(f"a list of TopicPartition(topic, partition) is needed, not {partitions!r}{hint}")
    return [partition_of(where) for where in partitions]


def assignment_of(partitions: Iterable[TopicPartition], line: str) -> list[TopicPartition]:
    """Return a checked list of the partitions to read; a mapping to offsets raises `ConfigError` with the `line`."""
    if isinstance(partitions, Mapping):
        raise ConfigError(f"a list of partitions is needed, not the mapping {partitions!r}: for offsets, write {line}")
    return partitions_of(partitions)


def times_of(timestamps: Mapping[TopicPartition, OffsetSpec]) -> dict[TopicPartition, Place]:
    """Return the checked place of each partition; `ConfigError` for anything but a mapping of partitions to times."""
    if not isinstance(timestamps, Mapping):
        raise ConfigError(f"a mapping of TopicPartition(topic, partition) to a time is needed, not {timestamps!r}")
    return {partition_of(where): place_of(when) for where, when in timestamps.items()}


def layouts(columns: Sequence[str] | None, layout: Mapping[str, Any] | None) -> Callable[..., Layout]:
    """Return a function that makes the layout of a topic and partition; a wrong column raises an error at once."""
    if isinstance(columns, str):
        raise ConfigError(f"columns: a list of names is needed, not {columns!r}")

    def make(topic: str | None = None, partition: int = -1, *, transient: bool = False) -> Layout:
        return Layout(topic, partition, columns=columns, transient=transient, **(layout or {}))

    make()
    return make


def milliseconds(timeout: float | None) -> int:
    """Convert a timeout in seconds to the readers' milliseconds; None becomes -1, no limit."""
    seconds = timeout_of(timeout, highest=_LONGEST_TIMEOUT)
    return -1 if seconds is None else round(seconds * 1000)
