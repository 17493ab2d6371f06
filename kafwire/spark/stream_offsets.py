"""Offsets of a stream in the shape of Spark's own Kafka source: `{"topic": {"0": 23, "1": 5}}`.

Pure. Spark compares offsets as JSON text, so topics and partitions have a fixed order: an offset that did not move has
the same text. A checkpoint holds this text, and Spark's own source reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire.errors import ConfigError
from kafwire.spark.offsets import parse_topics
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

Offsets = dict[TopicPartition, int]
Json = dict[str, dict[str, int]]


def to_json(offsets: Mapping[TopicPartition, int]) -> Json:
    """`offsets` by topic, then by partition number, both in order."""
    shape: Json = {}
    for place in sorted(offsets):
        shape.setdefault(place.topic, {})[str(place.partition)] = offsets[place]
    return shape


def from_json(shape: Mapping[str, Any] | None) -> Offsets:
    """The offsets of a checkpoint; `ConfigError` if another kind of source wrote it."""
    if shape is None:
        return {}
    try:
        return parse_topics(shape, 0)
    except ValueError:
        raise ConfigError(
            f"the checkpoint holds the offset {shape!r}, which is not one of a Kafka source: give this query "
            "another checkpointLocation"
        ) from None


def names(places: Mapping[TopicPartition, object] | set[TopicPartition]) -> str:
    """`places` for a message: the first few by name, and how many more."""
    return listed(sorted(places))


def listed(places: list[TopicPartition], shown: int = 10) -> str:
    """The first `shown` of `places` by name, and how many more."""
    text = ", ".join(f"{place.topic}-{place.partition}" for place in places[:shown])
    return text if len(places) <= shown else f"{text} and {len(places) - shown} more"
