"""TxnOffsetCommit (28): offsets that a transaction commits. See KIP-98, KIP-447, KIP-890 and KIP-1319."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.api._partition_responses import PartitionResponses
from kafwire.broker.api.offset_commit import name_of
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.broker.groups.offsets_topic import Committed
from kafwire.broker.request import Request, Response
from kafwire.broker.transactions.transactions import Transactions
from kafwire.errors import ErrorCode
from kafwire.producer.outcome.sequencer import Identity
from kafwire.protocol import TxnOffsetCommitRequest

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Keep the offsets until the transaction ends."""
    message, response = request.message, protocol.TxnOffsetCommitResponse
    store: OffsetStore = state.part(OffsetStore)
    groups: GroupCoordinator = state.part(GroupCoordinator)
    responses = PartitionResponses(response.TxnOffsetCommitResponsePartition)
    known = []
    for topic in message.topics:
        name, unknown = name_of(state, topic.name, topic.topic_id)
        if unknown:
            responses.begin(topic)
        for asked in topic.partitions:
            if not unknown and state.topics.partition(name, asked.partition_index) is not None:
                known.append((topic, name, asked))
            else:
                responses.add(topic, asked.partition_index, unknown or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    refusal = _refuses(state, request) if known else 0
    refusal = refusal or groups.check_partitions(
        message.group_id,
        message.member_id,
        message.generation_id_or_member_epoch,
        [(name, asked.partition_index) for _, name, asked in known],
    )
    if refusal == ErrorCode.STALE_MEMBER_EPOCH and request.version < TxnOffsetCommitRequest.BY_TOPIC_ID:
        refusal = ErrorCode.ILLEGAL_GENERATION
    longest = state.config_int("offset.metadata.max.bytes")
    for topic, name, asked in known:
        metadata = asked.committed_metadata or ""
        code = refusal or (ErrorCode.OFFSET_METADATA_TOO_LARGE if len(metadata.encode()) > longest else 0)
        responses.add(topic, asked.partition_index, code)
        if not code:
            groups.ensure(message.group_id)
            committed = Committed(asked.committed_offset, asked.committed_leader_epoch, metadata, state.wall_ms)
            place = name, asked.partition_index
            store.add_pending(message.group_id, message.producer_id, message.producer_epoch, place, committed)
    return response(
        topics=[
            response.TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=parts)
            for topic, parts in responses
        ]
    )


def _refuses(state: ClusterState, request: Request) -> int:
    """Return the error code for the whole request: the coordinator's, then the transaction's, then the member's."""
    message = request.message
    groups: GroupCoordinator = state.part(GroupCoordinator)
    if not message.group_id:
        return ErrorCode.INVALID_GROUP_ID
    code = groups.refuses(request, message.group_id)
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and request.version < TxnOffsetCommitRequest.COORDINATOR_LOADING:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if not code and state.before_4:  # the group is created first, for a refused member too
        groups.ensure(message.group_id)
    code = code or _refuses_producer(state, request)
    refusal = groups.check_commit(
        message.group_id,
        message.member_id,
        message.group_instance_id,
        message.generation_id_or_member_epoch,
        is_transactional=True,
    )
    if refusal and request.version >= TxnOffsetCommitRequest.BY_TOPIC_ID and not groups.exists(message.group_id):
        refusal = ErrorCode.GROUP_ID_NOT_FOUND
    return code or refusal


def _refuses_producer(state: ClusterState, request: Request) -> int:
    """Return the error code for a producer whose transaction may not commit offsets, or 0."""
    message = request.message
    transactions: Transactions = state.part(Transactions)
    store: OffsetStore = state.part(OffsetStore)
    if store.has_open(message.group_id, message.producer_id, message.producer_epoch):
        return 0  # a producer that has committed in this partition in its transaction is not checked again
    producer = Identity(message.producer_id, message.producer_epoch)
    place = store.place_of(message.group_id)
    code = transactions.unavailable(message.transactional_id)
    if code:
        return code
    if request.version >= TxnOffsetCommitRequest.ADDS_GROUP:
        code = transactions.add(message.transactional_id, producer, {place})
    else:
        code = transactions.verify(message.transactional_id, producer, place)
        if code == ErrorCode.TRANSACTION_ABORTABLE and request.version < TxnOffsetCommitRequest.ABORTABLE:
            code = ErrorCode.INVALID_TXN_STATE
    return ErrorCode.INVALID_PRODUCER_EPOCH if code == ErrorCode.PRODUCER_FENCED else code
