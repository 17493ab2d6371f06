"""The transaction coordinators of the simulated world, and what its leaders and group coordinators do for transactions.

`transaction_version` is the finalised feature's level. Markers are written `marker_delay_s` after a decision.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from typing import Any

from kafwire import protocol
from kafwire.logic.sequence import Identity
from kafwire.records import RecordBatch, decode_batches, encode_batch
from tests.unit.simulated_groups import COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, GroupApi, Kept
from tests.unit.simulated_log import UNKNOWN_TOPIC, Answer, Call, Log, Stored
from tests.unit.transaction_model import INVALID_TXN_STATE, Coordinator

Offsets = dict[tuple[str, int], Kept]


class TransactionApi(GroupApi):
    """InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn."""

    def __init__(self, *, topic_ids: bool) -> None:
        super().__init__(topic_ids=topic_ids)
        self.transaction_version = 2
        self.features_epoch = 1
        self.marker_delay_s = 0.001
        self.transactions: defaultdict[str, Coordinator] = defaultdict(Coordinator)
        self.pending_offsets: defaultdict[str, Offsets] = defaultdict(dict)  # by group, not decided
        self._producer_ids = itertools.count(1000)
        self._markers: set[asyncio.Task[None]] = set()

    def features(self) -> dict[str, Any]:
        """What ApiVersions says of them."""
        kind = protocol.ApiVersionsResponse.FinalizedFeatureKey
        level = self.transaction_version
        finalized = [kind(name="transaction.version", max_version_level=level, min_version_level=level)]
        return {"finalized_features_epoch": self.features_epoch, "finalized_features": finalized if level else []}

    def _not_coordinator(self, call: Call, key: str) -> int:
        if self.coordinator(key) != call.node:
            return NOT_COORDINATOR
        return COORDINATOR_LOAD_IN_PROGRESS if key in self.loading else 0

    def _on_InitProducerId(self, call: Call) -> Answer:
        message = call.message
        response = protocol.InitProducerIdResponse
        if message.transactional_id is None:
            return response(producer_id=next(self._producer_ids), producer_epoch=0)
        code = self._not_coordinator(call, message.transactional_id)
        identity = Identity(-1, -1)
        if not code:
            current = Identity(message.producer_id, message.producer_epoch)
            code, identity = self.transactions[message.transactional_id].initialize(
                current, new_id=next(self._producer_ids)
            )
            self._decide(message.transactional_id)
        return response(error_code=code, producer_id=identity.producer_id, producer_epoch=identity.epoch)

    def _on_AddPartitionsToTxn(self, call: Call) -> Answer:
        assert call.version <= 3, "later versions are for brokers"
        message, response = call.message, protocol.AddPartitionsToTxnResponse
        transactional_id = message.v3_and_below_transactional_id
        who = Identity(message.v3_and_below_producer_id, message.v3_and_below_producer_epoch)
        asked = {(t.name, p): self._unknown(t.name, p) for t in message.v3_and_below_topics for p in t.partitions}
        code = self._not_coordinator(call, transactional_id)
        if not code and not any(asked.values()):
            code = self.transactions[transactional_id].add(who, set(asked), set())
        codes = {where: code or (own or (55 if any(asked.values()) else 0)) for where, own in asked.items()}
        return response(
            results_by_topic_v3_and_below=[
                response.AddPartitionsToTxnTopicResult(
                    name=topic,
                    results_by_partition=[
                        response.AddPartitionsToTxnPartitionResult(
                            partition_index=index, partition_error_code=codes[topic, index]
                        )
                        for name, index in codes
                        if name == topic
                    ],
                )
                for topic in dict.fromkeys(name for name, _ in codes)
            ]
        )

    def _unknown(self, name: str, partition: int) -> int:
        topic = self.topics.get(name)
        return 0 if topic is not None and partition < len(topic.partitions) else UNKNOWN_TOPIC

    def _on_AddOffsetsToTxn(self, call: Call) -> Answer:
        message = call.message
        who = Identity(message.producer_id, message.producer_epoch)
        code = self._not_coordinator(call, message.transactional_id)
        code = code or self.transactions[message.transactional_id].add(who, set(), {message.group_id})
        return protocol.AddOffsetsToTxnResponse(error_code=code)

    def _on_TxnOffsetCommit(self, call: Call) -> Answer:
        message, response = call.message, protocol.TxnOffsetCommitResponse
        who = Identity(message.producer_id, message.producer_epoch)
        transaction = self.transactions[message.transactional_id]
        code = self._not_coordinator(call, message.group_id)
        if not code and call.version >= 5:
            code = transaction.add(who, set(), {message.group_id})
        elif not code:
            code = transaction.refuses(who) or (0 if message.group_id in transaction.groups else INVALID_TXN_STATE)
        topics = []
        for topic in message.topics:
            parts = []
            for asked in topic.partitions:
                index = asked.partition_index
                own = code or self.offset_errors.get((topic.name, index), 0)
                parts.append(response.TxnOffsetCommitResponsePartition(partition_index=index, error_code=own))
                if not own:
                    kept = Kept(asked.committed_offset, asked.committed_leader_epoch, asked.committed_metadata)
                    self.pending_offsets[message.group_id][topic.name, index] = kept
                    self.unstable.add((message.group_id, topic.name, index))
            topics.append(response.TxnOffsetCommitResponseTopic(name=topic.name, partitions=parts))
        return response(topics=topics)

    def _on_EndTxn(self, call: Call) -> Answer:
        message = call.message
        code = self._not_coordinator(call, message.transactional_id)
        identity = Identity(-1, -1)
        if not code:
            who = Identity(message.producer_id, message.producer_epoch)
            code, identity = self.transactions[message.transactional_id].end(
                who, commit=message.committed, version=2 if call.version >= 5 else 1
            )
            self._decide(message.transactional_id)
        return protocol.EndTxnResponse(error_code=code, producer_id=identity.producer_id, producer_epoch=identity.epoch)

    def expire_transaction(self, transactional_id: str) -> None:
        """The transaction has been open for too long: the coordinator aborts it."""
        self.transactions[transactional_id].fence()
        self._decide(transactional_id)

    def _decide(self, transactional_id: str) -> None:
        if self.transactions[transactional_id].preparing:
            task = asyncio.get_running_loop().create_task(self._write_markers(transactional_id))
            self._markers.add(task)
            task.add_done_callback(self._markers.discard)

    async def _write_markers(self, transactional_id: str) -> None:
        await asyncio.sleep(self.marker_delay_s)
        transaction = self.transactions[transactional_id]
        decision = transaction.complete()
        if decision is None:
            return
        committed, partitions, groups = decision
        for name, index in partitions:
            log = self.topics[name].partitions[index]
            marker: dict[str, object] = {"key": b"\0\0\0" + bytes([committed]), "value": bytes(6)}
            log.append(
                encode_batch(
                    [marker],
                    producer_id=transaction.producer_id,
                    producer_epoch=transaction.epoch,
                    transactional=True,
                    control=True,
                )
            )
            epoch, recent = log.producers.get(transaction.producer_id, (-1, None))
            if recent is not None and transaction.epoch > epoch:
                recent.clear()
                log.producers[transaction.producer_id] = (transaction.epoch, recent)
        for group in groups:
            offsets = self.pending_offsets.pop(group, {})
            self.unstable -= {(group, *where) for where in offsets}
            if committed:
                self.committed[group].update(offsets)

    def transaction_refuses(self, call: Call, where: tuple[str, int], batch: RecordBatch) -> int:
        """The error code for a batch that is not in an open transaction of its producer (KIP-890)."""
        if not batch.is_transactional:
            return 0
        transaction = self.transactions[call.message.transactional_id]
        who = Identity(batch.producer_id, batch.producer_epoch)
        if call.version >= 12:
            return transaction.add(who, {where}, set())
        code = transaction.refuses(who)
        return INVALID_TXN_STATE if not code and where not in transaction.partitions else code


def committed_values(log: Log) -> list[bytes | None]:
    """What readers of committed records see; asserts that nothing is undecided."""
    open_: dict[int, list[Stored]] = defaultdict(list)
    seen: list[tuple[int, bytes | None]] = []
    for stored in log.batches:
        (batch,) = decode_batches(stored.data)
        if batch.is_control:
            if next(iter(batch)).key == b"\0\0\0\1":
                seen += [(s.base, record.value) for s in open_[batch.producer_id] for record in values_of(s)]
            open_.pop(batch.producer_id, None)
        elif batch.is_transactional:
            open_[batch.producer_id].append(stored)
        else:
            seen += [(stored.base, record.value) for record in batch]
    assert not any(open_.values()), "a transaction is not decided"
    return [value for _, value in sorted(seen, key=lambda found: found[0])]


def values_of(stored: Stored) -> Any:
    (batch,) = decode_batches(stored.data)
    return batch
