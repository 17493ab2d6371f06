"""The simulated world's Kafka: ApiVersions, Metadata, Produce, DescribeProducers, and other APIs by inheritance."""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.protocol import ApiVersionsRequest, ProduceRequest
from kafwire.records import RecordBatch, decode_batches
from kafwire.testing.simulation.fetch import FetchApi
from kafwire.testing.simulation.log import (
    DROPPED,
    HANGUP,
    NEVER,
    Call,
    Handler,
    Listening,
    Log,
    Response,
    Stored,
    Topic,
)
from kafwire.testing.simulation.transactions import TransactionApi

__all__ = [
    "DROPPED",
    "HANGUP",
    "NEVER",
    "Call",
    "Handler",
    "Kafka",
    "Listening",
    "Log",
    "Response",
    "Stored",
    "Topic",
    "request_classes",
]

CLUSTER_ID = "simulated"


@functools.cache
def request_classes() -> dict[int, type[Any]]:
    """Return the classes of requests, by API key."""
    classes = [protocol.MESSAGES[name] for name in protocol.MESSAGES if name.endswith("Request")]
    return {cast("Any", cls).api_key: cls for cls in classes}


class Kafka(FetchApi, TransactionApi):
    """A cluster. A test reads and changes it freely."""

    def __init__(self, *, topic_ids: bool) -> None:
        super().__init__(topic_ids=topic_ids)
        # Returns an error code for a batch that the broker refuses, or 0.
        self.refuse: Callable[[RecordBatch], int] = lambda _: 0

    def _on_ApiVersions(self, call: Call) -> Response:
        versions, message = self.nodes[call.node].versions, call.message
        compares = (
            versions.get("ApiVersions", (0, ApiVersionsRequest.NAMES_NODE))[1] >= ApiVersionsRequest.NAMES_NODE
            and message.cluster_id is not None
        )
        if compares and (message.cluster_id, message.node_id) != (CLUSTER_ID, call.node):
            return protocol.ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
        keys = []
        for key, kind in sorted(request_classes().items()):
            name = kind.__name__.removesuffix("Request")
            low, high = versions.get(name, (kind.min_version, kind.max_version))
            keys.append(protocol.ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high))
        return protocol.ApiVersionsResponse(api_keys=keys, **self.features())

    def _on_Metadata(self, call: Call) -> Response:
        response = protocol.MetadataResponse
        asked = call.message.topics
        found: list[Topic | None] = list(self.topics.values())
        if asked is not None:
            known = self.lagging.get(call.node, self.topics)
            found = [self.find(t.name, t.topic_id, known) for t in asked]
        topics = []
        for number, topic in enumerate(found):
            if topic is None:
                name, topic_id = asked[number].name, asked[number].topic_id
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name else ErrorCode.UNKNOWN_TOPIC_ID
                if name and self.auto_create and call.message.allow_auto_topic_creation:
                    asyncio.get_running_loop().call_later(self.creation_takes_s, self._auto_create, name)
                topics.append(response.MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id))
                continue
            partitions = [
                response.MetadataResponsePartition(
                    error_code=ErrorCode.LEADER_NOT_AVAILABLE if log.leader < 0 else 0,
                    partition_index=index,
                    leader_id=log.leader,
                    leader_epoch=log.epoch,
                    replica_nodes=log.replicas,
                    isr_nodes=log.replicas,
                )
                for index, log in enumerate(topic.partitions)
            ]
            topics.append(
                response.MetadataResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
            )
        return response(
            cluster_id=CLUSTER_ID,
            controller_id=min(self.nodes),
            brokers=[
                response.MetadataResponseBroker(node_id=n.number, host=n.host, port=n.port, rack=n.rack)
                for n in self.nodes.values()
                if not n.down
            ],
            topics=topics,
        )

    def _auto_create(self, name: str) -> None:
        if name not in self.topics:
            self.create_topic(name)

    def _on_DescribeConfigs(self, call: Call) -> Response:
        response: Any = protocol.DescribeConfigsResponse
        entry = response.DescribeConfigsResourceResult(
            name="auto.create.topics.enable", value=str(self.auto_create).lower()
        )
        resources = [(each.resource_type, each.resource_name) for each in call.message.resources]
        assert resources == [(4, str(call.node))], "a broker describes only itself"
        return response(
            results=[
                response.DescribeConfigsResult(resource_type=kind, resource_name=name, configs=[entry])
                for kind, name in resources
            ]
        )

    def _on_Produce(self, call: Call) -> Response:
        response = protocol.ProduceResponse
        topics = []
        for asked in call.message.topic_data:
            topic = self.find(asked.name, asked.topic_id)
            parts = []
            for data in asked.partition_data:
                part = response.PartitionProduceResponse(index=data.index, base_offset=-1)
                parts.append(part)
                if topic is None:
                    part.error_code = (
                        ErrorCode.UNKNOWN_TOPIC_ID
                        if call.version >= ProduceRequest.BY_TOPIC_ID
                        else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    )
                    continue
                if data.index >= len(topic.partitions):
                    part.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    continue
                log = topic.partitions[data.index]
                if log.leader != call.node:
                    part.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                    continue
                batch = decode_batches(bytes(data.records))[0]
                part.error_code = self.transaction_refuses(call, (topic.name, data.index), log, batch)
                if not part.error_code:
                    part.error_code, part.base_offset = self._append(log, bytes(data.records))
            topics.append(
                response.TopicProduceResponse(name=asked.name, topic_id=asked.topic_id, partition_responses=parts)
            )
        return response(responses=topics)

    def _on_DescribeProducers(self, call: Call) -> Response:
        response = protocol.DescribeProducersResponse
        topics = []
        for asked in call.message.topics:
            topic = self.topics.get(asked.name)
            parts = []
            for index in asked.partition_indexes:
                part = response.PartitionResponse(partition_index=index)
                parts.append(part)
                if asked.name in self.unreadable:
                    part.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                elif topic is None or index >= len(topic.partitions):
                    part.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif topic.partitions[index].leader != call.node:
                    part.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                else:
                    part.active_producers = _producers(topic.partitions[index])
            topics.append(response.TopicResponse(name=asked.name, partitions=parts))
        return response(topics=topics)

    def forget_producers(self, node: int, kept: int) -> None:
        """Restart `node`, which then remembers `kept` batches of each producer."""
        for topic in self.topics.values():
            for log in topic.partitions:
                log.forget_producers(node, kept)

    def _append(self, log: Log, data: bytes) -> tuple[int, int]:
        """Append a batch as a broker does for an idempotent producer: return (error code, base offset)."""
        batch = decode_batches(data)[0]
        refused = self.refuse(batch)
        if refused:
            return refused, -1
        if batch.producer_id >= 0:
            sequence, epoch = batch.base_sequence, batch.producer_epoch
            known, recent = log.remembered(batch.producer_id)
            if epoch < known:
                return ErrorCode.INVALID_PRODUCER_EPOCH, -1
            for first, count, offset in recent if epoch == known else ():
                if (first, count) == (sequence, len(batch)):
                    return 0, offset
            if sequence > log.verified.get(batch.producer_id, sequence):
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            if epoch > known:
                if sequence and known >= 0:  # a producer that the broker does not know may start with any number
                    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            elif sequence != ((recent[-1][0] + recent[-1][1]) % 2**31 if recent else 0):
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            if batch.is_transactional:
                log.verified.pop(batch.producer_id, None)
                log.open.setdefault(batch.producer_id, log.end)
            elif batch.producer_id in log.open:
                return ErrorCode.INVALID_TXN_STATE, -1
            last_epoch, written = log.producers.get(batch.producer_id, (-1, deque()))
            written = deque(written if last_epoch == epoch else (), maxlen=5)
            written.append((sequence, len(batch), log.end))
            log.producers[batch.producer_id] = (epoch, written)
        base = log.end
        log.append(data)
        return 0, base


def _producers(log: Log) -> list[Any]:
    states = []
    for producer_id in log.producers:
        epoch, recent = log.remembered(producer_id)
        if epoch >= 0:
            last = (recent[-1][0] + recent[-1][1] - 1) % 2**31 if recent else -1
            states.append(
                protocol.DescribeProducersResponse.ProducerState(
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    last_sequence=last,
                    current_txn_start_offset=log.open.get(producer_id, -1),
                )
            )
    return states
