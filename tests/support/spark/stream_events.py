"""Events of a topic between two runs of a stream, or within one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kafwire
from kafwire import protocol

COUNT = 10  # records of each partition before the event
SHORT = 2  # records of a topic that was created again


class Topics:
    """The topics of a cluster with one broker."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._client = kafwire.Client(bootstrap)

    def create(self, topic: str, count: int = COUNT) -> None:
        """A topic with two partitions."""
        self._client.create_topic(topic, partitions=2)
        for partition in range(2):
            self.send(topic, partition, count)

    def send(self, topic: str, partition: int, count: int = COUNT) -> None:
        """Append records."""
        with kafwire.Producer(self._bootstrap) as producer:
            for number in range(count):
                producer.send(topic, b"%d" % number, partition=partition)

    def append(self, topic: str) -> None:
        """Append to both partitions."""
        for partition in range(2):
            self.send(topic, partition)

    def grow(self, topic: str) -> None:
        """Add a third partition with records."""
        request: Any = protocol.CreatePartitionsRequest
        topics = [request.CreatePartitionsTopic(name=topic, count=3, assignments=None)]
        self._client.call(request(topics=topics, timeout_ms=10_000))
        self.send(topic, 2)

    def grow_and_drop(self, topic: str) -> None:
        """Add a third partition whose first records are gone."""
        self.grow(topic)
        self._drop(topic, 2, 3)

    def append_and_drop(self, topic: str) -> None:
        """Append records, and delete the first of them."""
        self.append(topic)
        self._drop(topic, 0, COUNT + 5)

    def delete(self, topic: str) -> None:
        """Delete the topic."""
        self._client.delete_topic(topic)

    def recreate(self, topic: str) -> None:
        """Delete the topic and create it again, with fewer records."""
        self.delete(topic)
        self.create(topic, SHORT)

    def recreate_longer(self, topic: str) -> None:
        """Delete the topic and create it again, with more records."""
        self.delete(topic)
        self.create(topic, 2 * COUNT)

    def _drop(self, topic: str, partition: int, before: int) -> None:
        request: Any = protocol.DeleteRecordsRequest
        place = request.DeleteRecordsPartition(partition_index=partition, offset=before)
        asked = [request.DeleteRecordsTopic(name=topic, partitions=[place])]
        response = self._client.call(request(topics=asked, timeout_ms=10_000), broker=1)
        assert response.topics[0].partitions[0].error_code == 0


Event = Callable[[Topics, str], None]
# Between two runs of one checkpoint.
BETWEEN: dict[str, Event] = {
    "append": Topics.append,
    "partition added": Topics.grow,
    "partition added, not from 0": Topics.grow_and_drop,
    "records deleted": Topics.append_and_drop,
    "topic deleted": Topics.delete,
    "topic recreated": Topics.recreate,
    "topic recreated, longer": Topics.recreate_longer,
}
# In the first batch of a run by AvailableNow, whose ends are pinned.
WITHIN: dict[str, Event] = {
    "append": Topics.append,
    "partition added": Topics.grow,
    "topic deleted": Topics.delete,
    "topic recreated": Topics.recreate,
}
