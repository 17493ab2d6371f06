"""The transaction coordinators of the simulated world, and the transactional part of its leaders and group
coordinators.

`transaction_version` is the finalised feature's level. Markers are written `marker_delay_s` after a decision.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from typing import Any

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.producer.outcome.sequencer import Identity
from kafwire.protocol import AddPartitionsToTxnRequest, EndTxnRequest, ProduceRequest, TxnOffsetCommitRequest
from kafwire.protocol.versions import TRANSACTION_V2
from kafwire.records import RecordBatch, decode_batches, encode_batch
from kafwire.testing.simulation.groups import Group, GroupApi, Kept
from kafwire.testing.simulation.log import Call, Log, Response, Stored
from kafwire.testing.simulation.transaction_coordinator import Coordinator, State

Offsets = dict[tuple[str, int], tuple[Kept, int]]  # each offset with its number in the order of all commits

LONGEST_TRANSACTION_MS = 900_000
STATES = {
    State.EMPTY: "Empty",
    State.ONGOING: "Ongoing",
    State.PREPARE_COMMIT: "PrepareCommit",
    State.PREPARE_ABORT: "PrepareAbort",
    State.COMPLETE_COMMIT: "CompleteCommit",
    State.COMPLETE_ABORT: "CompleteAbort",
}


class TransactionApi(GroupApi):
    """InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn."""

    def __init__(self, *, topic_ids: bool) -> None:
        super().__init__(topic_ids=topic_ids)
        self.transaction_version = 2
        self.features_epoch = 1
        self.marker_delay_s = 0.001
        self.transactions: defaultdict[str, Coordinator] = defaultdict(lambda: Coordinator(self.before_4))
        self.begun_ms: dict[str, float] = {}  # start times of the open transactions
        self.timeouts_ms: dict[str, int] = {}
        self._producer_ids = itertools.count(1000)

    def features(self) -> dict[str, Any]:
        """Return the feature part of ApiVersions responses."""
        kind = protocol.ApiVersionsResponse.FinalizedFeatureKey
        level = self.transaction_version
        finalized = [kind(name="transaction.version", max_version_level=level, min_version_level=level)]
        return {"finalized_features_epoch": self.features_epoch, "finalized_features": finalized if level else []}

    def _not_coordinator(self, call: Call, key: str) -> int:
        if self.coordinator(key) != call.node:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if key in self.loading else 0

    def _on_InitProducerId(self, call: Call) -> Response:
        message = call.message
        response = protocol.InitProducerIdResponse
        if message.transactional_id is None:
            return response(producer_id=next(self._producer_ids), producer_epoch=0)
        code = self._not_coordinator(call, message.transactional_id)
        identity = Identity(-1, -1)
        if not code and not 0 < message.transaction_timeout_ms <= LONGEST_TRANSACTION_MS:
            code = ErrorCode.INVALID_TRANSACTION_TIMEOUT
        if not code and (message.producer_id < 0) != (message.producer_epoch < 0):
            code = ErrorCode.INVALID_REQUEST
        if not code:
            self.timeouts_ms[message.transactional_id] = message.transaction_timeout_ms
            current = Identity(message.producer_id, message.producer_epoch)
            code, identity = self.transactions[message.transactional_id].initialize(
                current, new_id=next(self._producer_ids)
            )
            self._decide(message.transactional_id)
        return response(error_code=code, producer_id=identity.producer_id, producer_epoch=identity.epoch)

    def _on_AddPartitionsToTxn(self, call: Call) -> Response:
        assert call.version < AddPartitionsToTxnRequest.FOR_BROKERS, "later versions are for brokers"
        message, response = call.message, protocol.AddPartitionsToTxnResponse
        transactional_id = message.v3_and_below_transactional_id
        who = Identity(message.v3_and_below_producer_id, message.v3_and_below_producer_epoch)
        asked = {(t.name, p): self._unknown(t.name, p) for t in message.v3_and_below_topics for p in t.partitions}
        code = self._not_coordinator(call, transactional_id)
        if not code and not any(asked.values()):
            code = self._add(call, transactional_id, who, set(asked), set())
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

    def _add(
        self, call: Call, transactional_id: str, who: Identity, places: set[tuple[str, int]], groups: set[str]
    ) -> int:
        transaction = self.transactions[transactional_id]
        was_open = transaction.state is State.ONGOING
        code = transaction.add(who, places, groups)
        if not code and not was_open:
            self.begun_ms[transactional_id] = call.at_ms
        return code

    def _unknown(self, name: str, partition: int) -> int:
        topic = self.topics.get(name)
        return 0 if topic is not None and partition < len(topic.partitions) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _on_AddOffsetsToTxn(self, call: Call) -> Response:
        message = call.message
        who = Identity(message.producer_id, message.producer_epoch)
        code = self._not_coordinator(call, message.transactional_id)
        code = code or self._add(call, message.transactional_id, who, set(), {message.group_id})
        return protocol.AddOffsetsToTxnResponse(error_code=code)

    def _on_TxnOffsetCommit(self, call: Call) -> Response:
        message, response = call.message, protocol.TxnOffsetCommitResponse
        who = Identity(message.producer_id, message.producer_epoch)
        transaction = self.transactions[message.transactional_id]
        code = self._not_coordinator(call, message.group_id)
        if not code and self.before_4:  # the group is created first, for a refused member too
            self.groups.setdefault(message.group_id, Group())
        if not code and call.version >= TxnOffsetCommitRequest.ADDS_GROUP:
            code = self._add(call, message.transactional_id, who, set(), {message.group_id})
        elif not code:
            code = transaction.refuses(who)
            if not code and not transaction.groups:  # all groups' offsets are in one partition here
                code = (
                    ErrorCode.TRANSACTION_ABORTABLE
                    if call.version == TxnOffsetCommitRequest.ABORTABLE
                    else ErrorCode.INVALID_TXN_STATE
                )
        code = ErrorCode.INVALID_PRODUCER_EPOCH if code == ErrorCode.PRODUCER_FENCED else code
        member = message.member_id, message.generation_id_or_member_epoch
        refusal = self.refuses_member(message.group_id, *member, is_transactional=True)
        if (
            refusal == ErrorCode.ILLEGAL_GENERATION
            and call.version >= TxnOffsetCommitRequest.BY_TOPIC_ID
            and message.group_id not in self.groups
        ):
            refusal = ErrorCode.GROUP_ID_NOT_FOUND
        code = code or refusal
        topics = []
        for topic in message.topics:
            name, unknown = self._name(topic.name, topic.topic_id)
            parts = []
            for asked in topic.partitions:
                index = asked.partition_index
                own = code or unknown or self._unknown(name, index) or self.offset_errors.get((name, index), 0)
                parts.append(response.TxnOffsetCommitResponsePartition(partition_index=index, error_code=own))
                if not own:
                    kept = Kept(asked.committed_offset, asked.committed_leader_epoch, asked.committed_metadata)
                    self.groups.setdefault(message.group_id, Group())
                    pending = self.pending_offsets[message.group_id].setdefault(message.producer_id, {})
                    pending[name, index] = kept, next(self.commits)
            topics.append(
                response.TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=parts)
            )
        return response(topics=topics)

    def _on_EndTxn(self, call: Call) -> Response:
        message = call.message
        code = self._not_coordinator(call, message.transactional_id)
        identity = Identity(-1, -1)
        if not code:
            who = Identity(message.producer_id, message.producer_epoch)
            code, identity = self.transactions[message.transactional_id].end(
                who, commit=message.committed, version=TRANSACTION_V2 if call.version >= EndTxnRequest.NEW_EPOCH else 1
            )
            self._decide(message.transactional_id)
        return protocol.EndTxnResponse(error_code=code, producer_id=identity.producer_id, producer_epoch=identity.epoch)

    def _on_DescribeTransactions(self, call: Call) -> Response:
        response = protocol.DescribeTransactionsResponse
        states = []
        for transactional_id in call.message.transactional_ids:
            found = response.TransactionState(transactional_id=transactional_id)
            states.append(found)
            found.error_code = self._not_coordinator(call, transactional_id)
            known = self.transactions.get(transactional_id)
            if found.error_code or known is None or known.producer_id < 0:
                found.error_code = found.error_code or ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
                continue
            found.transaction_state = STATES[known.state]
            found.producer_id, found.producer_epoch = known.producer_id, known.epoch
            for topic in sorted({name for name, _ in known.partitions}):
                indexes = sorted(index for name, index in known.partitions if name == topic)
                found.topics.append(response.TopicData(topic=topic, partitions=indexes))
        return response(transaction_states=states)

    def expire_transactions(self) -> None:
        """Abort the transactions that have been open for too long, as their coordinators do."""
        now_ms = self.loop.time() * 1000
        for transactional_id, transaction in list(self.transactions.items()):
            until = self.begun_ms.get(transactional_id, now_ms) + self.timeouts_ms.get(transactional_id, 0)
            if transaction.state is State.ONGOING and now_ms >= until:
                self.expire_transaction(transactional_id)

    def expire_transaction(self, transactional_id: str) -> None:
        """Abort a transaction that has been open for too long, as its coordinator does."""
        self.transactions[transactional_id].fence()
        self._decide(transactional_id)

    def _decide(self, transactional_id: str) -> None:
        if self.transactions[transactional_id].preparing:
            asyncio.get_running_loop().call_later(self.marker_delay_s, self._write_markers, transactional_id)

    def _write_markers(self, transactional_id: str) -> None:
        transaction = self.transactions[transactional_id]
        decision = transaction.complete()
        if decision is None:
            return
        committed, partitions, groups = decision
        for name, index in partitions:
            topic = self.topics.get(name)
            if topic is None or index >= len(topic.partitions):
                continue  # the partition was deleted meanwhile, so it gets no marker
            log = topic.partitions[index]
            record: dict[str, object] = {"key": b"\0\0\0" + bytes([committed]), "value": bytes(6)}
            marker = encode_batch(
                [record],
                producer_id=transaction.producer_id,
                producer_epoch=transaction.epoch,
                transactional=True,
                control=True,
            )
            log.end_transaction(transaction.producer_id, transaction.epoch, marker, commit=committed)
        # The partition with the marker has the offsets of all groups.
        for group in list(self.pending_offsets) if groups else ():
            offsets = self.pending_offsets[group].pop(transaction.producer_id, {})
            for where, (kept, order) in offsets.items():
                if committed:
                    self.keep(group, where, kept, order)

    def transaction_refuses(self, call: Call, where: tuple[str, int], log: Log, batch: RecordBatch) -> int:
        """Return the error code for a batch outside an open transaction of its producer (KIP-890), or 0."""
        if not batch.is_transactional:
            return 0
        transaction = self.transactions[call.message.transactional_id]
        who = Identity(batch.producer_id, batch.producer_epoch)
        known, _ = log.remembered(batch.producer_id)
        if batch.producer_id in log.open and known == batch.producer_epoch:
            return 0  # the leader knows the transaction
        if batch.producer_epoch < known:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        # A transaction may not begin with a sequence above one that the leader has refused, and in version 2 only with
        # 0.
        lowest = log.verified.get(batch.producer_id, batch.base_sequence)
        from_zero = call.version >= ProduceRequest.ADDS_PARTITIONS and known != batch.producer_epoch
        log.verified[batch.producer_id] = 0 if from_zero else min(batch.base_sequence, lowest)
        if call.version >= ProduceRequest.ADDS_PARTITIONS:
            code = self._add(call, call.message.transactional_id, who, {where}, set())
        else:
            code = transaction.refuses(who)
            if not code and where not in transaction.partitions:
                code = (
                    ErrorCode.TRANSACTION_ABORTABLE
                    if call.version == ProduceRequest.ABORTABLE
                    else ErrorCode.INVALID_TXN_STATE
                )
        return ErrorCode.INVALID_PRODUCER_EPOCH if code == ErrorCode.PRODUCER_FENCED else code


def committed_values(log: Log) -> list[bytes | None]:
    """Return the values that readers of committed records get; assert that no transaction is open."""
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
    """Return the one batch that is stored here."""
    (batch,) = decode_batches(stored.data)
    return batch
