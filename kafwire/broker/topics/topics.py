"""The topics of a cluster, and the placement of their replicas."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from kafwire.broker.log.log import MemoryLog, PartitionLog
from kafwire.broker.log.partition import Partition

NO_TOPIC_ID: Final = uuid.UUID(int=0)
LONGEST_NAME: Final = 249
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_NAME = re.compile(r"[a-zA-Z0-9._-]*")


def name_problem(name: str) -> str | None:
    """Return the reason why a topic may not have this name; None if it may."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > LONGEST_NAME:
        return f"the length of '{name}' is longer than the max allowed length {LONGEST_NAME}"
    if not _NAME.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


@dataclass(slots=True, eq=False)
class Topic:
    """A topic. `configs` are the options that were set for it; `configs.py` has the defaults."""

    name: str
    topic_id: uuid.UUID
    partitions: list[Partition] = field(default_factory=list)
    configs: dict[str, str] = field(default_factory=dict)
    is_internal: bool = False


class Topics:
    """All topics, by name and by id. `make_log` returns the log of a partition, by topic and index."""

    def __init__(self, nodes: Callable[[], Sequence[int]], make_id: Callable[[], uuid.UUID]) -> None:
        self.by_name: dict[str, Topic] = {}
        self.by_id: dict[uuid.UUID, Topic] = {}
        self.make_log: Callable[[Topic, int], PartitionLog] = lambda topic, index: MemoryLog()  # noqa: ARG005
        self.on_change: Callable[[str], object] = lambda name: None  # noqa: ARG005 - saves a topic
        self.make_id = make_id
        self.partition_class = Partition
        self.deletion_watchers: list[Callable[[Topic], object]] = []  # called with each deleted topic
        self.watchers: list[Callable[[Partition], object]] = []  # called with each new partition
        self._nodes = nodes
        self._placed = 0

    def __iter__(self) -> Iterator[Topic]:
        return iter(self.by_name.values())

    def __len__(self) -> int:
        return len(self.by_name)

    def find(self, name: str | None, topic_id: uuid.UUID = NO_TOPIC_ID) -> Topic | None:
        """Return a topic by its name, or by its id if the name is empty."""
        return self.by_name.get(name) if name else self.by_id.get(topic_id)

    def partition(self, name: str, index: int) -> Partition | None:
        """Return a partition; None if it does not exist."""
        topic = self.by_name.get(name)
        return topic.partitions[index] if topic is not None and 0 <= index < len(topic.partitions) else None

    def colliding(self, name: str) -> str | None:
        """Return a topic whose name collides in metrics, where a period becomes an underscore."""
        alike = name.replace(".", "_")
        return next((each for each in self.by_name if each.replace(".", "_") == alike), None) if "_" in alike else None

    def create(
        self,
        name: str,
        partitions: int = 1,
        replicas: int = 1,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        configs: dict[str, str] | None = None,
        topic_id: uuid.UUID | None = None,
    ) -> Topic:
        """Create a topic; its leaders are placed in turn. The caller has checked the request. `assignments`: the
        replicas.
        """
        is_internal = name in INTERNAL_TOPICS
        topic = Topic(name, topic_id or self.make_id(), configs=dict(configs or {}), is_internal=is_internal)
        self.by_name[name] = self.by_id[topic.topic_id] = topic
        self.add_partitions(topic, partitions, replicas, assignments=assignments)
        return topic

    def add_partitions(
        self, topic: Topic, count: int, replicas: int = 1, *, assignments: Sequence[Sequence[int]] | None = None
    ) -> None:
        """Add `count` partitions."""
        nodes = self._nodes()
        for number in range(count):
            if assignments is not None:
                placed = list(assignments[number])
            else:
                placed = [nodes[(self._placed + i) % len(nodes)] for i in range(min(replicas, len(nodes)))]
                self._placed += 1
            index = len(topic.partitions)
            partition = self.partition_class(topic, index, placed, placed[0], self.make_log(topic, index))
            topic.partitions.append(partition)
            for watcher in self.watchers:
                watcher(partition)
        self.on_change(topic.name)

    def delete(self, topic: Topic) -> None:
        """Delete a topic, and wake the requests that wait for its records."""
        del self.by_name[topic.name]
        del self.by_id[topic.topic_id]
        self.on_change(topic.name)
        for partition in topic.partitions:
            partition.error = 0
            partition.leader = -1
            partition.notify(-1)
            partition.log.delete()
        for watcher in self.deletion_watchers:
            watcher(topic)
