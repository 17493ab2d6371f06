"""TxnOffsetCommit (28): offsets that a transaction commits. See KIP-98, KIP-447; from version 5 on KIP-890."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.producer.sequencer import Identity
from kafwire.testing.broker.group_coordinator import GroupCoordinator
from kafwire.testing.broker.offsets import Committed, OffsetStore
from kafwire.testing.broker.request import Answer, Request
from kafwire.testing.broker.transactions import Transactions

if TYPE_CHECKING:
    from kafwire.testing.broker.state import ClusterState

BY_COORDINATOR = 5  # from here on the group's coordinator adds the group to the transaction itself
ABORTABLE = 4


def handle(state: ClusterState, request: Request) -> Answer:
    """Keep the offsets until the transaction ends."""
    message, response = request.message, protocol.TxnOffsetCommitResponse
    groups: GroupCoordinator = state.part(GroupCoordinator)
    store: OffsetStore = state.part(OffsetStore)
    code = groups.refuses(request, message.group_id) or _refuses_producer(state, request)
    refusal = groups.check_commit(
        message.group_id,
        message.member_id,
        message.group_instance_id,
        message.generation_id,
        is_transactional=True,
    )
    if not refusal and state.before_4:  # there is a group then, even if it has nothing
        groups.ensure(message.group_id)
    code = code or refusal
    longest = state.config_int("offset.metadata.max.bytes")
    topics = []
    for topic in message.topics:
        parts = []
        for asked in topic.partitions:
            own = code
            if not own and state.topics.partition(topic.name, asked.partition_index) is None:
                own = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if not own and len((asked.committed_metadata or "").encode()) > longest:
                own = ErrorCode.OFFSET_METADATA_TOO_LARGE
            parts.append(
                response.TxnOffsetCommitResponsePartition(partition_index=asked.partition_index, error_code=own)
            )
            if not own:
                groups.ensure(message.group_id)
                committed = Committed(
                    asked.committed_offset, asked.committed_leader_epoch, asked.committed_metadata, state.wall_ms
                )
                place = topic.name, asked.partition_index
                store.add_pending(message.group_id, message.producer_id, place, committed)
        topics.append(response.TxnOffsetCommitResponseTopic(name=topic.name, partitions=parts))
    return response(topics=topics)


def _refuses_producer(state: ClusterState, request: Request) -> int:
    """The error code of a producer whose transaction may not commit offsets."""
    message = request.message
    transactions: Transactions = state.part(Transactions)
    who = Identity(message.producer_id, message.producer_epoch)
    if request.version >= BY_COORDINATOR:
        code = transactions.add(message.transactional_id, who, set(), {message.group_id})
    else:
        coordinator = transactions.of(message.transactional_id).coordinator
        code = coordinator.refuses(who)
        if not code and not coordinator.groups:  # all groups' offsets are in one partition here
            abortable = request.version == ABORTABLE
            code = ErrorCode.TRANSACTION_ABORTABLE if abortable else ErrorCode.INVALID_TXN_STATE
    return ErrorCode.INVALID_PRODUCER_EPOCH if code == ErrorCode.PRODUCER_FENCED else code
