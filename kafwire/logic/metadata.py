"""What a client knows of its cluster: brokers, topics, leaders; and which news of them to believe."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafwire.protocol.metadata import MetadataResponse

NO_TOPIC_ID = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Where a broker listens."""

    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition's leader: broker id (-1: none now) and leader epoch (-1: the broker does not tell)."""

    leader: int
    leader_epoch: int
    error_code: int = 0


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic: its id (zero where the cluster has none) and its partitions by number."""

    name: str
    topic_id: uuid.UUID
    partitions: dict[int, PartitionInfo]


@dataclass(slots=True)
class Metadata:
    """The newest believed view of the cluster."""

    cluster_id: str | None = None
    controller: int = -1
    brokers: dict[int, BrokerAddress] = field(default_factory=dict)
    topics: dict[str, TopicInfo] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)

    def update(self, response: MetadataResponse) -> set[str]:
        """Take in an answer; returns the names of topics that changed.

        A broker that lags may name a leader of an older epoch: such news never replaces newer of the same topic id.
        """
        self.cluster_id = response.cluster_id
        self.controller = response.controller_id
        self.brokers = {b.node_id: BrokerAddress(b.host, b.port, b.rack) for b in response.brokers}
        changed = set()
        for topic in response.topics:
            if topic.name is None:
                continue
            if topic.error_code:
                self.errors[topic.name] = topic.error_code
                continue
            self.errors.pop(topic.name, None)
            known = self.topics.get(topic.name)
            partitions = {
                p.partition_index: PartitionInfo(p.leader_id, p.leader_epoch, p.error_code) for p in topic.partitions
            }
            if known is not None and known.topic_id == topic.topic_id:
                for index, old in known.partitions.items():
                    new = partitions.get(index)
                    if new is None or new.leader_epoch < old.leader_epoch:
                        partitions[index] = old
            fresh = TopicInfo(topic.name, topic.topic_id, partitions)
            if fresh != known:
                self.topics[topic.name] = fresh
                changed.add(topic.name)
        return changed

    def leader(self, topic: str, partition: int) -> int:
        """The broker id to ask for a partition, or -1 when none is known."""
        info = self.topics.get(topic)
        if info is None or partition not in info.partitions:
            return -1
        leader = info.partitions[partition].leader
        return leader if leader in self.brokers else -1
