"""What a client knows of its cluster: brokers, topics, leaders; and which news of them to believe."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import field, replace
from typing import TYPE_CHECKING

from kafwire.error_codes import ErrorCode
from kafwire.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from kafwire.protocol.api.metadata import MetadataResponse

NO_TOPIC_ID = uuid.UUID(int=0)
# Brokers that lag show a topic that was made anew as it was before. Nothing in an answer tells which of two ids is the
# older one, but lag is short: another id is believed once it has been told for so long without the known one between.
ANOTHER_ID_MS = 1_000
# An id that was replaced by another most likely stays so, however long a broker lags.
REPLACED_ID_MS = 60_000
REPLACED_IDS = 4  # so many are remembered of each topic
# A response with one of these does not show the topic, whether it exists or not.
HIDES_TOPIC = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Where a broker listens."""

    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition's leader: broker id (-1: none now) and leader epoch (-1: the broker does not tell).

    `replicas` are the ids of the brokers that hold it, the preferred leader's first.
    """

    leader: int
    leader_epoch: int
    error_code: int = 0
    replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic: its id and its partitions.

    Args:
        name: the topic.
        topic_id: the topic's id; zero if the cluster has none.
        partitions: its partitions by number, each with `leader`, the node id of its leader, and `epoch`, the leader's
            epoch.

    Example:
        >>> info = client.topic(topic)
        >>> info.name == topic, sorted(info.partitions)
        (True, [0])
    """

    name: str
    topic_id: uuid.UUID
    partitions: dict[int, PartitionInfo]


def info_of(topic: MetadataResponse.MetadataResponseTopic) -> TopicInfo:
    """A topic as a response has it, by name."""
    assert topic.name is not None
    partitions = {
        p.partition_index: PartitionInfo(p.leader_id, p.leader_epoch, p.error_code, tuple(p.replica_nodes))
        for p in topic.partitions
    }
    return TopicInfo(topic.name, topic.topic_id, partitions)


@dataclass(slots=True)
class Metadata:
    """The newest believed view of the cluster."""

    cluster_id: str | None = None
    controller: int = -1
    brokers: dict[int, BrokerAddress] = field(default_factory=dict)
    topics: dict[str, TopicInfo] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    names: dict[uuid.UUID, str] = field(default_factory=dict)  # of topics, by their ids
    # Topics of which another id is told than the one believed: that id, and since when. Without ids, fewer partitions
    # say that a topic is another one: the id is zero, and their number stands beside it.
    doubts: dict[str, tuple[tuple[uuid.UUID, int], float]] = field(default_factory=dict)
    replaced: dict[str, list[uuid.UUID]] = field(default_factory=dict)  # ids believed before, the latest first
    lacked_ms: dict[str, float] = field(default_factory=dict)  # the last response without a topic came at this time

    def is_of(self, response: MetadataResponse) -> bool:
        """Whether an answer tells of the cluster that is known, as far as either says which it is."""
        return self.cluster_id is None or response.cluster_id in {None, self.cluster_id}

    def update(self, response: MetadataResponse, now_ms: float) -> set[str]:
        """Take in an answer; returns the names of topics that changed, those that were forgotten among them.

        A broker that lags may name a leader of an older epoch: such news never replaces newer of the same topic id. Nor
        is another id believed at once (see `ANOTHER_ID_MS`), nor, where topics have none, that partitions are gone. Of
        another cluster's topics nothing was known: what was known of this one's is forgotten.
        """
        changed: set[str] = set()
        if not self.is_of(response):
            changed.update(self.topics)
            for state in (self.topics, self.errors, self.names, self.doubts, self.replaced, self.lacked_ms):
                state.clear()
        if response.cluster_id is not None:
            self.cluster_id = response.cluster_id
        self.controller = response.controller_id
        self.brokers = {b.node_id: BrokerAddress(b.host, b.port, b.rack) for b in response.brokers}
        for topic in response.topics:
            if topic.name is None:
                continue
            if topic.error_code:
                self.errors[topic.name] = topic.error_code
                if topic.error_code in HIDES_TOPIC:
                    self.lacked_ms[topic.name] = now_ms
                self.doubts.pop(topic.name, None)
                continue
            self.errors.pop(topic.name, None)
            known = self.topics.get(topic.name)
            has_fewer = known is not None and len(topic.partitions) < len(known.partitions)
            shrunk = has_fewer and topic.topic_id == NO_TOPIC_ID
            if known is not None and not self._believes(known, topic.topic_id, now_ms, len(topic.partitions) * shrunk):
                continue
            fresh = info_of(topic)
            partitions = fresh.partitions
            if known is not None and known.topic_id == topic.topic_id and not shrunk:
                for index, old in known.partitions.items():
                    new = partitions.get(index)
                    if new is None or new.leader_epoch < old.leader_epoch:
                        partitions[index] = old
            if fresh != known:
                if known is not None:
                    self.names.pop(known.topic_id, None)
                if topic.topic_id != NO_TOPIC_ID:
                    self.names[topic.topic_id] = topic.name
                self.topics[topic.name] = fresh
                changed.add(topic.name)
        return changed

    def _believes(self, known: TopicInfo, topic_id: uuid.UUID, now_ms: float, shrunk_to: int) -> bool:
        """Whether the topic of a name is believed to have that id from now on; the one replaced is remembered.

        `shrunk_to`: the partitions of one without an id, if they are fewer than those known, else 0.
        """
        name = known.name
        if topic_id == known.topic_id and not shrunk_to:
            self.doubts.pop(name, None)
            return True
        told = topic_id, shrunk_to
        doubted, since_ms = self.doubts.get(name, (None, now_ms))
        if doubted != told:
            self.doubts[name] = told, now_ms
            return False
        if now_ms - since_ms < self._doubted_ms(name, topic_id):
            return False
        del self.doubts[name]
        if topic_id != known.topic_id:
            replaced = self.replaced.get(name, [])
            self.replaced[name] = [known.topic_id, *(one for one in replaced if one != topic_id)][:REPLACED_IDS]
        return True

    def _doubted_ms(self, name: str, topic_id: uuid.UUID) -> int:
        return REPLACED_ID_MS if topic_id in self.replaced.get(name, ()) else ANOTHER_ID_MS

    def doubted_until_ms(self) -> float | None:
        """When the next doubt about a topic's id ends, if brokers still tell the same then; None without doubts."""
        ends = (since_ms + self._doubted_ms(name, told[0]) for name, (told, since_ms) in self.doubts.items())
        return min(ends, default=None)

    def update_leader(
        self,
        topic: str | uuid.UUID,
        partition: int,
        leader: int,
        leader_epoch: int,
        endpoints: Iterable[tuple[int, str, int, str | None]] = (),
    ) -> bool:
        """Take in the leader that an answer to Fetch or Produce names (KIP-951); returns whether it is news.

        `topic` is a name or an id; `endpoints` are the (node id, host, port, rack) that came with the hint. News is a
        newer epoch of a partition that is known, led by a broker whose address is known or comes along. Whoever tells
        of that epoch has heard where its leader listens, so that address is believed as well.
        """
        name = self.names.get(topic) if isinstance(topic, uuid.UUID) else topic
        info = self.topics.get(name) if name is not None else None
        known = info.partitions.get(partition) if info is not None else None
        if info is None or known is None or leader < 0 or leader_epoch <= known.leader_epoch:
            return False
        for node, host, port, rack in endpoints:
            if node == leader:
                self.brokers[node] = BrokerAddress(host, port, rack)
            else:
                self.brokers.setdefault(node, BrokerAddress(host, port, rack))
        if leader not in self.brokers:
            return False
        moved = replace(known, leader=leader, leader_epoch=leader_epoch, error_code=0)
        self.topics[info.name] = replace(info, partitions={**info.partitions, partition: moved})
        return True

    def forget(self, topics: Iterable[str]) -> None:
        """Drop what is known of topics, as nobody asks for them any more."""
        for name in topics:
            info = self.topics.pop(name, None)
            for state in (self.errors, self.doubts, self.replaced, self.lacked_ms):
                state.pop(name, None)
            if info is not None:
                self.names.pop(info.topic_id, None)

    def leader(self, topic: str, partition: int) -> int:
        """The broker id to ask for a partition, or -1 when none is known."""
        info = self.topics.get(topic)
        if info is None or partition not in info.partitions:
            return -1
        leader = info.partitions[partition].leader
        return leader if leader in self.brokers else -1

    def leader_epoch(self, topic: str, partition: int) -> int:
        """The newest leader epoch known of a partition, or -1."""
        info = self.topics.get(topic)
        known = info.partitions.get(partition) if info is not None else None
        return -1 if known is None else known.leader_epoch
