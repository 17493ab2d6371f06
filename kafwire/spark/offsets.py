"""The JSON of Spark's Kafka source: `{"topic": [0, 1]}` and `{"topic": {"0": 23, "1": -1}}`.

Pure: text in, mappings of `TopicPartition` out, or a `ConfigError` with the expected shape. No pyspark here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kafwire.errors import ConfigError
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

EARLIEST = -2
LATEST = -1

_PARTITIONS_SHAPE = '{"topicA": [0, 1], "topicB": [2]}'
_OFFSETS_SHAPE = '{"topicA": {"0": 23, "1": -1}, "topicB": {"0": -2}} (-2 earliest, -1 latest)'
_TIMESTAMPS_SHAPE = '{"topicA": {"0": 1357016400000}} (milliseconds since 1970)'


def parse_partitions(option: str, text: str) -> tuple[TopicPartition, ...]:
    """`{"topic": [0, 1]}` as partitions, in order and without repetition."""
    chosen = set()
    for topic, partitions in _topics(option, text, _PARTITIONS_SHAPE).items():
        if not isinstance(partitions, list):
            raise _wrong(option, text, _PARTITIONS_SHAPE)
        for partition in partitions:
            if not _whole(partition) or partition < 0:
                raise _wrong(option, text, _PARTITIONS_SHAPE)
            chosen.add((topic, partition))
    return tuple(TopicPartition(topic, partition) for topic, partition in sorted(chosen))


def parse_offsets(option: str, text: str) -> dict[TopicPartition, int]:
    """`{"topic": {"0": 23}}` as offsets; -2 is earliest, -1 latest, anything below is refused."""
    return _numbers(option, text, _OFFSETS_SHAPE, EARLIEST)


def parse_timestamps(option: str, text: str) -> dict[TopicPartition, int]:
    """`{"topic": {"0": 1357016400000}}` as milliseconds since the epoch."""
    return _numbers(option, text, _TIMESTAMPS_SHAPE, 0)


def parse_topics(topics: Mapping[str, Any], lowest: int) -> dict[TopicPartition, int]:
    """A number of at least `lowest` for each partition; `ValueError` for any other shape."""
    found = {}
    for topic, partitions in topics.items():
        if not isinstance(partitions, dict):
            raise ValueError(topic)  # noqa: TRY004 - of text that a user wrote
        for partition, number in partitions.items():
            if not (partition.isascii() and partition.isdigit()) or not _whole(number) or number < lowest:
                raise ValueError(topic)
            found[TopicPartition(topic, int(partition))] = number
    return found


def parse_numbers(option: str, text: str, shape: str) -> dict[str, int]:
    """`{"topic": 1000}` as whole numbers above 0."""
    topics = _topics(option, text, shape)
    if not all(_whole(number) and number > 0 for number in topics.values()):
        raise _wrong(option, text, shape)
    return topics


def parse_texts(option: str, text: str, shape: str) -> dict[str, str]:
    """`{"name": "text"}` as texts that are not empty."""
    found = _topics(option, text, shape)
    if not all(isinstance(each, str) and each.strip() and name.strip() for name, each in found.items()):
        raise _wrong(option, text, shape)
    return {name.strip(): each.strip() for name, each in found.items()}


def _numbers(option: str, text: str, shape: str, lowest: int) -> dict[TopicPartition, int]:
    try:
        return parse_topics(_topics(option, text, shape), lowest)
    except ValueError:
        raise _wrong(option, text, shape) from None


def _topics(option: str, text: str, shape: str) -> dict[str, Any]:
    try:
        topics = json.loads(text)
    except ValueError:
        raise _wrong(option, text, shape) from None
    if not isinstance(topics, dict) or not topics:
        raise _wrong(option, text, shape)
    return topics


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value < 2**63


def _wrong(option: str, text: str, shape: str) -> ConfigError:
    return ConfigError(f"option {option}: expected JSON like {shape}, got {text!r}")
