"""AddOffsetsToTxn (25): a group's offsets into a transaction. See KIP-98, KIP-447."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.producer.sequencer import Identity
from kafwire.testing.broker.request import Answer, Request
from kafwire.testing.broker.transactions import Transactions

if TYPE_CHECKING:
    from kafwire.testing.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Answer:
    """Add the group."""
    message = request.message
    transactions: Transactions = state.part(Transactions)
    code = transactions.refuses(request, message.transactional_id)
    if not code:
        who = Identity(message.producer_id, message.producer_epoch)
        code = transactions.add(message.transactional_id, who, set(), {message.group_id})
    return protocol.AddOffsetsToTxnResponse(error_code=code)
