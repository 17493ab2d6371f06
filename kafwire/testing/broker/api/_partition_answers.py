"""Error codes for each partition of an answer, in Kafka's order: a topic that is asked for twice is in it once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any


class PartitionAnswers:
    """Error codes, by topic. A broker adds the partitions that it does not know first, and a coordinator the others."""

    def __init__(self, kind: type[Any]) -> None:
        self._kind = kind
        self._found: dict[tuple[str, uuid.UUID | None], tuple[Any, list[Any]]] = {}

    def add(self, topic: Any, partition: int, code: int) -> None:
        """One more. `topic` is the request's, with a name or an id."""
        self.begin(topic).append(self._kind(partition_index=partition, error_code=code))

    def begin(self, topic: Any) -> list[Any]:
        """Have a topic in the answer. Returns its partitions."""
        return self._found.setdefault((topic.name, getattr(topic, "topic_id", None)), (topic, []))[1]

    def __iter__(self) -> Iterator[tuple[Any, list[Any]]]:
        """The request's topics, and the answers for their partitions."""
        return iter(self._found.values())
