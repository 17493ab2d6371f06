"""A client's view of its cluster: brokers, topics, leaders; and the rules for conflicting reports of brokers."""

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
# Lagging brokers show a recreated topic in its old state. A response does not show which of two ids is older, but lag
# is short: another id is believed once brokers have reported it for so long without the known one in between.
ANOTHER_ID_MS = 1_000
# A replaced id most likely stays replaced, even if a broker lags for long.
REPLACED_ID_MS = 60_000
REPLACED_IDS = 4  # how many replaced ids are remembered per topic
# Partitions have the numbers from 0. A broker that learns of a topic may lack some of them for a moment.
MOST_GAPS = 1_000
# A response with one of these does not show the topic, even if it exists.
HIDES_TOPIC = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """The address of a broker."""

    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition's leader: broker id (-1: none now) and leader epoch (-1: the broker does not report it).

    `replicas` are the ids of the brokers that have a replica, the preferred leader's first.
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
    """Convert a topic of a response."""
    assert topic.name is not None
    partitions = {
        p.partition_index: PartitionInfo(p.leader_id, p.leader_epoch, p.error_code, tuple(p.replica_nodes))
        for p in topic.partitions
    }
    return TopicInfo(topic.name, topic.topic_id, partitions)


def damage_of(response: MetadataResponse) -> str | None:
    """Return the fault of a response whose partition numbers cannot be right; None: it has none.

    The client counts partitions by their numbers. One damaged byte would make millions of them.
    """
    for topic in response.topics:
        numbers = [partition.partition_index for partition in topic.partitions]
        if numbers and (min(numbers) < 0 or max(numbers) >= len(numbers) + MOST_GAPS):
            wrong = min(numbers) if min(numbers) < 0 else max(numbers)
            return f"partition {wrong} of topic {topic.name!r}, which has {len(numbers)} partition(s)"
    return None


@dataclass(slots=True)
class Metadata:
    """The newest believed view of the cluster."""

    cluster_id: str | None = None
    controller: int = -1
    brokers: dict[int, BrokerAddress] = field(default_factory=dict)
    topics: dict[str, TopicInfo] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    names: dict[uuid.UUID, str] = field(default_factory=dict)  # topic names by topic id
    # Topics for which brokers report another id than the believed one: that id, and since when. Without ids, fewer
    # partitions show that a topic was recreated: the id is zero, and the number of partitions follows it.
    doubts: dict[str, tuple[tuple[uuid.UUID, int], float]] = field(default_factory=dict)
    replaced: dict[str, list[uuid.UUID]] = field(default_factory=dict)  # replaced ids, the latest first
    lacked_ms: dict[str, float] = field(default_factory=dict)  # when the last response without the topic came

    def is_of(self, response: MetadataResponse) -> bool:
        """True unless a response is known to be of another cluster."""
        return self.cluster_id is None or response.cluster_id in {None, self.cluster_id}

    def update(self, response: MetadataResponse, now_ms: float) -> set[str]:
        """Apply a response; return the names of topics that changed, including forgotten ones.

        A lagging broker may name a leader of an older epoch: it never replaces a newer one of the same topic id.
        Another id is not believed at once either (see `ANOTHER_ID_MS`), nor, without ids, fewer partitions. A response
        of another cluster clears all topics first.
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
        """True if a topic is believed to have that id from now on; a replaced id is remembered.

        `shrunk_to`: the number of partitions of a topic without an id, if lower than the known number, else 0.
        """
        name = known.name
        if topic_id == known.topic_id and not shrunk_to:
            self.doubts.pop(name, None)
            return True
        doubt = topic_id, shrunk_to
        doubted, since_ms = self.doubts.get(name, (None, now_ms))
        if doubted != doubt:
            self.doubts[name] = doubt, now_ms
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
        """When the next doubt about a topic's id ends, if brokers report the same until then; None without doubts."""
        ends = (since_ms + self._doubted_ms(name, doubt[0]) for name, (doubt, since_ms) in self.doubts.items())
        return min(ends, default=None)

    def update_leader(
        self,
        topic: str | uuid.UUID,
        partition: int,
        leader: int,
        leader_epoch: int,
        endpoints: Iterable[tuple[int, str, int, str | None]] = (),
    ) -> bool:
        """Apply the leader that a Fetch or Produce response names (KIP-951); return True if that changed the metadata.

        `topic` is a name or an id; `endpoints` are the (node id, host, port, rack) in the hint. A change: a newer epoch
        of a known partition, with a leader whose address is known or included. A broker that knows this epoch also
        knows the leader's address, so that is used as well.
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
        """Drop the metadata of topics that are no longer needed."""
        for name in topics:
            info = self.topics.pop(name, None)
            for state in (self.errors, self.doubts, self.replaced, self.lacked_ms):
                state.pop(name, None)
            if info is not None:
                self.names.pop(info.topic_id, None)

    def leader(self, topic: str, partition: int) -> int:
        """Return the broker id to ask for a partition, -1 if none is known."""
        info = self.topics.get(topic)
        if info is None or partition not in info.partitions:
            return -1
        leader = info.partitions[partition].leader
        return leader if leader in self.brokers else -1

    def leader_epoch(self, topic: str, partition: int) -> int:
        """Return the newest known leader epoch of a partition, or -1."""
        info = self.topics.get(topic)
        known = info.partitions.get(partition) if info is not None else None
        return -1 if known is None else known.leader_epoch
