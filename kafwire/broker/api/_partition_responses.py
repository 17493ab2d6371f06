"""Error codes for the partitions of a response, in Kafka's order: a topic that a request repeats is in it once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any


class PartitionResponses:
    """Error codes, by topic. A broker adds the partitions that it does not know first, and a coordinator the others."""

    def __init__(self, kind: type[Any]) -> None:
        self._kind = kind
        self._found: dict[tuple[str, uuid.UUID | None], tuple[Any, list[Any]]] = {}

    def add(self, topic: Any, partition: int, code: int) -> None:
        """Add a partition. `topic` is the request's, with a name or an id."""
        self.begin(topic).append(self._kind(partition_index=partition, error_code=code))

    def begin(self, topic: Any) -> list[Any]:
        """Add a topic to the response. Return its partitions."""
        return self._found.setdefault((topic.name, getattr(topic, "topic_id", None)), (topic, []))[1]

    def __iter__(self) -> Iterator[tuple[Any, list[Any]]]:
        """Iterate over the request's topics and their partitions' results."""
        return iter(self._found.values())
