"""Real brokers, as scenarios see them."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import kafwire
from kafwire import protocol
from kafwire.broker.ports import Ports
from kafwire.errors import ErrorCode
from kafwire.testing.cluster import KafkaCluster, KafkaNode
from tests.scenarios.script import Restart
from tests.support import deadlines as waiting

MADE_TOGETHER = 25
CONSUMER, DEBUGGING = -1, -2
OF_LEADERS = {"Produce", "Fetch", "ListOffsets", "DescribeProducers"}
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")


class OwnCluster(KafkaCluster):
    """Two nodes that are restarted quickly: the first is controller and coordinates, the second leads.

    Transactions that take too long are soon seen.
    """

    def __init__(self, version: str) -> None:
        properties: dict[str, object] = {
            "broker.session.timeout.ms": 2000,
            "broker.heartbeat.interval.ms": 200,
            "default.replication.factor": 1,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
        }
        super().__init__(2, version, properties)

    def _make_node(self, node_id: int, ports: Ports) -> KafkaNode:
        """A quorum of two would have to elect a leader after each restart."""
        node = super()._make_node(node_id, ports)
        node.properties["controller.quorum.voters"] = node.properties["controller.quorum.voters"].split(",")[0]
        if node_id > 1:
            node.properties["process.roles"] = "broker"
            node.properties["listeners"] = node.properties["listeners"].split(",")[0]
        node.write_configuration()
        return node


class RealKafka:
    """A cluster of one node, which coordinates and leads all; or of two: the first coordinates, the second leads."""

    def __init__(self, cluster: KafkaCluster, client: kafwire.Client) -> None:
        self.version = cluster.version
        self.cluster = cluster
        self.client = client
        self.coordinator = 1
        self.leader = len(cluster.nodes)
        self._unused: defaultdict[int, list[tuple[str, uuid.UUID]]] = defaultdict(list)  # topics, by their partitions
        self._used: list[tuple[str, int]] = []
        if self.leader != self.coordinator:
            self._create(list(INTERNAL_TOPICS), 1, self.coordinator, {"cleanup.policy": "compact"})
        self.wait_ready()

    def call(self, request: Any, version: int) -> Any:
        name = type(request).__name__.removesuffix("Request")
        broker = self.leader if name in OF_LEADERS else self.coordinator
        return self.client.call(request, broker=broker, version=version)

    def create_topic(self, partitions: int) -> tuple[str, uuid.UUID]:
        """One of those that were made together: by itself each takes as long as all of them."""
        if not self._unused[partitions]:
            names = [f"scenario-{uuid.uuid4().hex[:12]}" for _ in range(MADE_TOGETHER)]
            ids = self._create(names, partitions, self.leader, {})
            self._unused[partitions] = list(zip(names, ids, strict=True))
            self._wait_for_leader(names, partitions)
        taken = self._unused[partitions].pop()
        self._used.append((taken[0], partitions))
        return taken

    def _create(self, names: list[str], partitions: int, leader: int, config: dict[str, str]) -> list[uuid.UUID]:
        request = protocol.CreateTopicsRequest(timeout_ms=20_000)
        for name in names:
            topic = request.CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
            topic.assignments = [
                request.CreatableReplicaAssignment(partition_index=index, broker_ids=[leader])
                for index in range(partitions)
            ]
            topic.configs = [request.CreatableTopicConfig(name=key, value=value) for key, value in config.items()]
            request.topics.append(topic)
        made = {topic.name: topic for topic in self.client.call(request).topics}
        assert {topic.error_code for topic in made.values()} <= {0, ErrorCode.TOPIC_ALREADY_EXISTS}, made
        return [made[name].topic_id for name in names]

    def _wait_for_leader(self, names: list[str], partitions: int) -> None:
        """Wait until the leader serves all records of the topics, and the coordinator knows them."""
        wanted: Any = protocol.MetadataRequest
        metadata = wanted(topics=[wanted.MetadataRequestTopic(name=name) for name in names])

        def leads() -> bool:
            ends = [self._ends(names, partitions, replica) for replica in (CONSUMER, DEBUGGING)]
            known = self.client.call(metadata, broker=self.coordinator).topics
            return None not in ends[0] and ends[0] == ends[1] and not any(topic.error_code for topic in known)

        waiting.until(leads, f"node {self.leader} leads")

    def _ends(self, names: list[str], partitions: int, replica: int) -> list[int | None]:
        """The ends of all partitions, for consumers or of the logs; None where there is no leader."""
        request = protocol.ListOffsetsRequest(replica_id=replica)
        asked = [request.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
        request.topics = [request.ListOffsetsTopic(name=name, partitions=asked) for name in names]
        response = self.client.call(request, broker=self.leader, version=7)
        return [None if part.error_code else part.offset for topic in response.topics for part in topic.partitions]

    def wait_ready(self) -> None:
        """Wait until the coordinators respond, and there are producer ids."""
        init = protocol.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        groups = protocol.OffsetFetchRequest()
        groups.groups = [groups.OffsetFetchRequestGroup(group_id="readiness", topics=None)]
        states = protocol.DescribeTransactionsRequest(transactional_ids=["readiness"])
        finds = [protocol.FindCoordinatorRequest(key_type=kind, coordinator_keys=["readiness"]) for kind in (0, 1)]

        def found(request: Any) -> bool:
            return not self.client.call(request, broker=self.coordinator, version=4).coordinators[0].error_code

        def are_ready() -> bool:
            found = self.client.call(states, broker=self.coordinator).transaction_states[0]
            return (
                found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
                and not self.client.call(init, broker=self.coordinator).error_code
                and not self.client.call(groups, broker=self.coordinator, version=9).groups[0].error_code
            )

        waiting.until(lambda: all(map(found, finds)), "there are coordinators")
        waiting.until(are_ready, "the coordinators respond")

    def wait_until(self, condition: Callable[[], bool]) -> None:
        waiting.until(condition)

    @contextmanager
    def hold_markers(self) -> Iterator[None]:
        """The node that leads is stopped for so long."""
        assert self.leader != self.coordinator
        node = self.cluster.node(self.leader)
        node.pause()
        try:
            yield
        finally:
            node.resume()

    def restart(self, how: Restart) -> None:
        """Restart the node that leads."""
        node = self.cluster.node(self.leader)
        if how is Restart.CLEAN:
            node.stop()
        else:
            node.kill()
        node.start()
        self.wait_ready()
        for partitions in {count for _, count in self._used}:
            self._wait_for_leader([name for name, count in self._used if count == partitions], partitions)
