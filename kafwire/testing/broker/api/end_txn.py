"""EndTxn (26): a transaction is committed or aborted. See KIP-98; from version 5 on its answer has the next epoch (KIP-890)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.producer.sequencer import Identity
from kafwire.testing.broker.request import Answer, Request
from kafwire.testing.broker.transactions import Transactions

if TYPE_CHECKING:
    from kafwire.testing.broker.state import ClusterState

WITH_EPOCH = 5


def handle(state: ClusterState, request: Request) -> Answer:
    """Decide; markers follow."""
    message = request.message
    transactions: Transactions = state.part(Transactions)
    identity = Identity(-1, -1)
    code = transactions.refuses(request, message.transactional_id)
    if not code:
        code, identity = transactions.end(
            message.transactional_id,
            Identity(message.producer_id, message.producer_epoch),
            commit=message.committed,
            version=2 if request.version >= WITH_EPOCH else 1,
        )
    return protocol.EndTxnResponse(error_code=code, producer_id=identity.producer_id, producer_epoch=identity.epoch)
