"""The soak's questions to the cluster, past the proxies: its leaders, whether it is whole, how far it can be read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import kafwire
from kafwire.errors import KafkaError
from kafwire.protocol.api.describe_quorum import DescribeQuorumRequest
from kafwire.testing.cluster import KafkaCluster
from kafwire.types import TopicPartition
from tests.soak.matrix import Topic
from tests.soak.script import Strike

TRANSACTION_STATE, CONSUMER_OFFSETS = "__transaction_state", "__consumer_offsets"
PROPERTIES = {
    "min.insync.replicas": 2,
    # A killed node has to recover no more than a segment of each log.
    "log.segment.bytes": 16 << 20,
    "num.recovery.threads.per.data.dir": 2,
    # A follower that is a while behind has fallen out, and a paused one gives up its partitions.
    "replica.lag.time.max.ms": 10_000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 2_000,
    "log.cleaner.enable": "false",
}
_METADATA = "__cluster_metadata"
_WHOLE_S = 300.0
_POLL_S = 0.3


class Unwell(RuntimeError):
    """The cluster did not become whole again; that is not the client's fault."""


class Watch:
    """Asks the nodes directly."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster = cluster
        self._client = kafwire.Client(
            cluster.direct, request_timeout_ms=2_000, default_api_timeout_ms=10_000, client_id="soak-watch"
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def create(self, topics: Iterable[Topic]) -> None:
        """Create topics, with a replica on every node."""
        for topic in topics:
            self._client.create_topic(
                topic.name, partitions=topic.partitions, replication_factor=len(self.cluster.nodes)
            )

    def node_of(self, strike: Strike, topics: tuple[Topic, ...]) -> int:
        """The number of the node that a strike is for, as the cluster is now."""
        nodes = len(self.cluster.nodes)
        if strike.target == "node":
            return 1 + (strike.number - 1) % nodes
        if strike.target == "leader":
            places = [TopicPartition(topic.name, place) for topic in topics for place in range(topic.partitions)]
            where = places[strike.number % len(places)]
        elif strike.target == "controller":
            return self.controller() or 1 + strike.number % nodes
        else:
            where = TopicPartition(TRANSACTION_STATE if strike.target == "transactions" else CONSUMER_OFFSETS, 0)
        for part in self._partitions(where.topic):
            if part.partition_index == where.partition and part.leader_id > 0:
                return int(part.leader_id)
        return 1 + strike.number % nodes

    def controller(self) -> int | None:
        """The active controller; None while there is none."""
        ask = DescribeQuorumRequest
        parts = [ask.PartitionData(partition_index=0)]
        try:
            response = self._client.call(ask(topics=[ask.TopicData(topic_name=_METADATA, partitions=parts)]))
        except KafkaError:
            return None
        leaders = [part.leader_id for topic in response.topics for part in topic.partitions]
        return leaders[0] if leaders and leaders[0] > 0 else None

    def wait_whole(self, topics: Iterable[Topic], wait: Callable[[float], None]) -> None:
        """Return when all nodes run and every partition has all its replicas in sync."""
        names = [topic.name for topic in topics]
        deadline = time.monotonic() + _WHOLE_S
        while (lacking := self._lacking(names)) is not None:
            if time.monotonic() > deadline:
                message = f"the cluster is not whole again after {_WHOLE_S:g} s: {lacking}"
                raise Unwell(message)
            wait(_POLL_S)

    def ends(self, topics: Iterable[Topic], isolation_level: str) -> dict[TopicPartition, int]:
        """Where each partition ends for readers of this isolation level."""
        places = [TopicPartition(topic.name, place) for topic in topics for place in range(topic.partitions)]
        return self._client.offsets(places, "latest", isolation_level=isolation_level)

    def wait_readable(self, topics: tuple[Topic, ...], wait: Callable[[float], None], limit_s: float) -> float:
        """Wait until read_committed may read all that is in the logs now; returns the seconds, at most `limit_s`."""
        began = time.monotonic()
        goal: dict[TopicPartition, int] = {}
        while True:
            try:
                goal = goal or self.ends(topics, "read_uncommitted")
                stable = self.ends(topics, "read_committed")
                if all(stable[where] >= end for where, end in goal.items()):
                    break
            except KafkaError:
                pass
            if time.monotonic() - began > limit_s:
                break
            wait(_POLL_S)
        return time.monotonic() - began

    def _lacking(self, names: list[str]) -> str | None:
        down = [node.id for node in self.cluster.nodes if node.pid is None]
        if down:
            return f"nodes {down} are down"
        try:
            found = self._client.metadata(None)
        except KafkaError as error:
            return str(error)
        known = {topic.name: topic for topic in found.topics}
        wanted = [*names, *(name for name in (TRANSACTION_STATE, CONSUMER_OFFSETS) if name in known)]
        for name in wanted:
            if name not in known:
                return f"{name} is not known"
            for part in known[name].partitions:
                if part.leader_id < 0 or len(part.isr_nodes) < len(part.replica_nodes):
                    return f"{name}-{part.partition_index} is led by {part.leader_id}, in sync are {part.isr_nodes}"
        return None

    def _partitions(self, name: str) -> list[kafwire.PartitionMetadata]:
        try:
            found = self._client.metadata([name])
        except KafkaError:
            return []
        return list(found.topics[0].partitions)
