"""DescribeProducers (61): the producers that a partition's replica remembers, the leader or a follower. See KIP-664."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.topics.topics import name_problem
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.log.partition import Partition
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Return the producers of each partition."""
    response = protocol.DescribeProducersResponse
    topics = []
    for asked in request.message.topics:
        parts = []
        for index in asked.partition_indexes:
            part = response.PartitionResponse(partition_index=index)
            parts.append(part)
            partition = state.topics.partition(asked.name, index)
            if problem := name_problem(asked.name):
                part.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
                part.error_message = f"Topic name is invalid: {problem}"
            elif partition is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                part.error_code = code
                if asked.name not in state.topics.by_name:
                    part.error_message = code.message
            elif request.node not in partition.replicas:
                part.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                part.active_producers = _producers(partition)
        topics.append(response.TopicResponse(name=asked.name, partitions=parts))
    return response(topics=topics)


def _producers(partition: Partition) -> list[Any]:
    kind = protocol.DescribeProducersResponse.ProducerState
    found = []
    for producer_id, entry in partition.producers.entries.items():
        epoch, batches = partition.producers.remembered(producer_id)
        if epoch >= 0:
            found.append(
                kind(
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    last_sequence=batches[-1].last_sequence if batches else -1,
                    last_timestamp=entry.used_ms,
                    coordinator_epoch=entry.coordinator_epoch,
                    current_txn_start_offset=-1 if entry.first_offset is None else entry.first_offset,
                )
            )
    return found
