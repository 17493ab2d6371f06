"""Produce (0): appends batches. See KIP-98 (idempotence), KIP-467 (record errors), KIP-516, KIP-890, KIP-951."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.log.appending import append_batch
from kafwire.broker.quotas import PRODUCED, Quotas
from kafwire.broker.request import LATER, Request, Response
from kafwire.broker.topics.placement import has_enough_replicas
from kafwire.errors import ErrorCode
from kafwire.protocol import ProduceRequest

if TYPE_CHECKING:
    from kafwire.broker.log.partition import Partition
    from kafwire.broker.state import ClusterState
    from kafwire.broker.topics.topics import Topic

ADMIN_CLIENT = "__admin_client"  # the only client id that may write to internal topics in Kafka


def handle(state: ClusterState, request: Request) -> Response:
    """Append each partition's batch; with acks=all, respond when the in-sync replicas have it."""
    message, response_type = request.message, protocol.ProduceResponse
    acks = message.acks
    topics, leaders, waiting = [], set(), []
    for asked in message.topic_data:
        topic = state.topics.find(asked.name if request.version < ProduceRequest.BY_TOPIC_ID else None, asked.topic_id)
        parts = []
        for data in asked.partition_data:
            part = response_type.PartitionProduceResponse(index=data.index, base_offset=-1)
            parts.append(part)
            if acks not in (-1, 0, 1):
                part.error_code = ErrorCode.INVALID_REQUIRED_ACKS
                continue
            partition = _partition(request, topic, data.index, part)
            if partition is None:
                continue
            if partition.topic.is_internal and request.client_id != ADMIN_CLIENT:
                part.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
                continue
            end = append_batch(state, request, partition, data.records, part)
            if part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and request.version >= ProduceRequest.NAMES_LEADERS:
                part.current_leader.leader_id = partition.leader
                part.current_leader.leader_epoch = partition.leader_epoch
                leaders.add(partition.leader)
            if acks == -1 and not part.error_code:
                if partition.high_watermark < end:
                    waiting.append(Awaited(partition, part, end, partition.leader_epoch))
                elif not has_enough_replicas(state, partition):
                    part.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        if parts:
            topics.append(
                response_type.TopicProduceResponse(name=asked.name, topic_id=asked.topic_id, partition_responses=parts)
            )
    quotas: Quotas = state.part(Quotas)
    response = response_type(responses=topics, throttle_time_ms=quotas.use(request, PRODUCED, request.size))
    for leader in sorted(leaders - {-1}):
        host, port = state.nodes[leader].address(request.connection.listener)
        response.node_endpoints.append(
            response_type.NodeEndpoint(node_id=leader, host=host, port=port, rack=state.nodes[leader].rack)
        )
    if waiting:
        DelayedProduce(state, request, response, waiting).begin()
        return LATER
    return response


def _partition(request: Request, topic: Topic | None, index: int, part: Any) -> Partition | None:
    """Return the partition; None and an error code in `part` if it does not exist."""
    if topic is None:
        by_id = request.version >= ProduceRequest.BY_TOPIC_ID
        part.error_code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return None
    if not 0 <= index < len(topic.partitions):
        part.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return None
    return topic.partitions[index]


@dataclass(slots=True, eq=False)
class Awaited:
    """A batch that some in-sync replicas do not have yet."""

    partition: Partition
    part: Any  # ProduceResponse.PartitionProduceResponse
    end: int
    epoch: int


@dataclass(slots=True, eq=False)
class DelayedProduce:
    """A request that waits for replicas, until `timeout_ms` have passed."""

    state: ClusterState
    request: Request
    response: Any
    waiting: list[Awaited]
    is_done: bool = field(default=False)

    def begin(self) -> None:
        """Wait for the replicas."""
        for awaited in self.waiting:
            awaited.partition.watchers.add(self._on_change)
        self.state.after(max(self.request.message.timeout_ms, 0), self._on_timeout)

    def _on_change(self, partition: Partition, grown: int) -> None:
        del grown
        for awaited in [each for each in self.waiting if each.partition is partition]:
            if partition.leader_epoch != awaited.epoch:
                self._settle(awaited, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            elif partition.high_watermark >= awaited.end:
                enough = has_enough_replicas(self.state, partition)
                self._settle(awaited, 0 if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        self._finish()

    def _settle(self, awaited: Awaited, code: int) -> None:
        self.waiting.remove(awaited)
        if code:
            awaited.part.error_code = code
            awaited.part.base_offset = -1
        if all(each.partition is not awaited.partition for each in self.waiting):
            awaited.partition.watchers.discard(self._on_change)

    def _on_timeout(self) -> None:
        for awaited in list(self.waiting):
            self._settle(awaited, ErrorCode.REQUEST_TIMED_OUT)
        self._finish()

    def _finish(self) -> None:
        if not self.waiting and not self.is_done:
            self.is_done = True
            self.state.reply(self.request, self.response)
