"""DescribeTransactions (65): what transactional ids are at. See KIP-664."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.testing.broker.request import Answer, Request
from kafwire.testing.broker.transaction_coordinator import State
from kafwire.testing.broker.transactions import Transactions

if TYPE_CHECKING:
    from kafwire.testing.broker.state import ClusterState

STATE_NAMES = {
    State.EMPTY: "Empty",
    State.ONGOING: "Ongoing",
    State.PREPARE_COMMIT: "PrepareCommit",
    State.PREPARE_ABORT: "PrepareAbort",
    State.COMPLETE_COMMIT: "CompleteCommit",
    State.COMPLETE_ABORT: "CompleteAbort",
}


def handle(state: ClusterState, request: Request) -> Answer:
    """Describe each of the ids."""
    response = protocol.DescribeTransactionsResponse
    return response(transaction_states=[_describe(state, request, each) for each in request.message.transactional_ids])


def _describe(state: ClusterState, request: Request, transactional_id: str) -> Any:
    response = protocol.DescribeTransactionsResponse
    transactions: Transactions = state.part(Transactions)
    found = response.TransactionState(transactional_id=transactional_id)
    found.error_code = transactions.refuses(request, transactional_id)
    known = transactions.by_id.get(transactional_id)
    if found.error_code:
        return found
    if known is None or known.coordinator.producer_id < 0:
        found.error_code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return found
    coordinator = known.coordinator
    found.transaction_state = STATE_NAMES[coordinator.state]
    found.producer_id, found.producer_epoch = coordinator.producer_id, coordinator.epoch
    found.transaction_timeout_ms = known.timeout_ms
    if coordinator.state is State.ONGOING or coordinator.preparing:
        found.transaction_start_time_ms = int(state.wall_offset_ms + known.begun_ms)
    else:
        found.transaction_start_time_ms = -1
    for topic in sorted({name for name, _ in coordinator.partitions}):
        indexes = sorted(index for name, index in coordinator.partitions if name == topic)
        found.topics.append(response.TopicData(topic=topic, partitions=indexes))
    return found
