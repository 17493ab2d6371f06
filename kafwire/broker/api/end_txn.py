"""EndTxn (26): commits or aborts a transaction. See KIP-98, and KIP-890: version 5 returns the next epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.transactions.transactions import Transactions
from kafwire.errors import ErrorCode
from kafwire.producer.outcome.sequencer import Identity
from kafwire.producer.transactions.state import NO_PRODUCER
from kafwire.protocol import EndTxnRequest
from kafwire.protocol.versions import TRANSACTION_V2

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Decide the transaction; markers follow."""
    message = request.message
    transactions: Transactions = state.part(Transactions)
    identity = NO_PRODUCER
    code = transactions.refuses(request, message.transactional_id)
    if not code:
        code, identity = transactions.end(
            message.transactional_id,
            Identity(message.producer_id, message.producer_epoch),
            commit=message.committed,
            version=TRANSACTION_V2 if request.version >= EndTxnRequest.NEW_EPOCH else 1,
        )
    if code == ErrorCode.PRODUCER_FENCED and request.version < EndTxnRequest.FENCED_ERROR:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return protocol.EndTxnResponse(error_code=code, producer_id=identity.producer_id, producer_epoch=identity.epoch)
