"""A transactional producer of the embedded broker's state, request by request, for tests that look at each response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafwire import protocol
from kafwire.records import encode_batch
from tests.support.broker.driver import BrokerDriver

Place = tuple[str, int]


@dataclass
class TransactionalClient:
    """Its driver, its transactional id, and the producer id and epoch from the coordinator."""

    driver: BrokerDriver
    transactional_id: str | None = "x"
    producer_id: int = -1
    epoch: int = -1
    timeout_ms: int = 60_000

    def init(self, *, current: tuple[int, int] = (-1, -1), version: int = 5) -> int:
        """InitProducerId. Returns an error code; without one it has the id and epoch of the response."""
        request = protocol.InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=current[0],
            producer_epoch=current[1],
        )
        response = self.driver.ask(request, version)
        if not response.error_code:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        return int(response.error_code)

    def add(self, *places: Place, epoch: int | None = None, version: int = 3) -> dict[Place, int]:
        """AddPartitionsToTxn, in a version of clients: the error codes."""
        request = protocol.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id or "",
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch if epoch is None else epoch,
        )
        request.v3_and_below_topics = [
            request.AddPartitionsToTxnTopic(name=name, partitions=[index]) for name, index in places
        ]
        response = self.driver.ask(request, version)
        return {
            (topic.name, part.partition_index): part.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for part in topic.results_by_partition
        }

    def produce(self, sequence: int, *, to: Place = ("t", 0), version: int = 12, count: int = 1) -> tuple[int, int]:
        """A batch: the error code, and where it is. Version 12 has the leader add the partition."""
        is_transactional = self.transactional_id is not None
        data = encode_batch(
            [(None, b"v", self.driver.state.wall_ms)] * count,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=is_transactional,
        )
        request = protocol.ProduceRequest(acks=1, timeout_ms=1000, transactional_id=self.transactional_id)
        part = request.PartitionProduceData(index=to[1], records=data)
        request.topic_data = [request.TopicProduceData(name=to[0], partition_data=[part])]
        partition = self.driver.state.topics.partition(*to)
        node = partition.leader if partition is not None else 1
        response = self.driver.ask(request, version, node=node).responses[0].partition_responses[0]
        return response.error_code, response.base_offset

    def end(self, *, commit: bool = True, version: int = 5) -> int:
        """EndTxn. Returns an error code; from version 5 on it has then the id and epoch of the response."""
        request = protocol.EndTxnRequest(
            transactional_id=self.transactional_id or "",
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        response = self.driver.ask(request, version)
        if not response.error_code and version >= 5:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        return int(response.error_code)

    def commit_offset(
        self,
        offset: int,
        *,
        group: str = "g",
        to: Place = ("t", 0),
        version: int = 5,
        member: tuple[str, int] = ("", -1),
    ) -> int:
        """TxnOffsetCommit of one partition. `member`: the id of the group's member, and its generation."""
        request = protocol.TxnOffsetCommitRequest(
            transactional_id=self.transactional_id or "",
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            member_id=member[0],
            generation_id_or_member_epoch=member[1],
        )
        part = request.TxnOffsetCommitRequestPartition(partition_index=to[1], committed_offset=offset)
        request.topics = [request.TxnOffsetCommitRequestTopic(name=to[0], partitions=[part])]
        return int(self.driver.ask(request, version).topics[0].partitions[0].error_code)

    def describe(self) -> Any:
        """DescribeTransactions, of its id."""
        request = protocol.DescribeTransactionsRequest(transactional_ids=[self.transactional_id or ""])
        return self.driver.ask(request, 0).transaction_states[0]

    @property
    def state(self) -> str:
        """The state of its transaction, by Kafka's name."""
        return str(self.describe().transaction_state)
