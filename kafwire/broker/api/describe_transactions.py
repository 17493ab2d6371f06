"""DescribeTransactions (65): the states of transactional ids. See KIP-664."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.transactions.transactions import Transactions
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Return the state of each transactional id."""
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
    if known is None:
        found.error_code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return found
    coordinator = known.coordinator
    found.transaction_state = coordinator.state.value
    found.producer_id, found.producer_epoch = coordinator.producer_id, coordinator.epoch
    found.transaction_timeout_ms = known.timeout_ms
    started_ms = -1 if known.begun_ms is None else int(state.wall_offset_ms + known.begun_ms)
    found.transaction_start_time_ms = started_ms
    for topic in sorted({name for name, _ in coordinator.partitions}):
        indexes = sorted(index for name, index in coordinator.partitions if name == topic)
        found.topics.append(response.TopicData(topic=topic, partitions=indexes))
    return found
