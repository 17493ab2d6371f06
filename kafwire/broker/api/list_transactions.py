"""ListTransactions (66): the transactional ids that a broker coordinates. See KIP-664, KIP-994."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.regular_expressions import Pattern, PatternError, matching
from kafwire.broker.request import Request, Response
from kafwire.broker.transactions.transaction_coordinator import State
from kafwire.broker.transactions.transactions import Transactions
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Return the transactional ids that match the filters."""
    message, response = request.message, protocol.ListTransactionsResponse
    transactions: Transactions = state.part(Transactions)
    names = {each.value for each in State}
    pattern = getattr(message, "transactional_id_pattern", None)
    wanted = None
    if pattern:
        try:
            wanted = matching([Pattern(pattern)], [*transactions.by_id])[pattern]
        except PatternError:
            return response(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    found = []
    for transactional_id, its in transactions.by_id.items():
        coordinator = its.coordinator
        if transactions.refuses(request, transactional_id):
            continue
        if message.state_filters and coordinator.state.value not in message.state_filters:
            continue
        if message.producer_id_filters and coordinator.producer_id not in message.producer_id_filters:
            continue
        running_ms = float("inf") if its.begun_ms is None else state.now_ms - its.begun_ms
        if message.duration_filter >= 0 and running_ms <= message.duration_filter:
            continue
        if wanted is not None and transactional_id not in wanted:
            continue
        found.append(
            response.TransactionState(
                transactional_id=transactional_id,
                producer_id=coordinator.producer_id,
                transaction_state=coordinator.state.value,
            )
        )
    return response(
        unknown_state_filters=[name for name in message.state_filters if name not in names],
        transaction_states=found,
    )
