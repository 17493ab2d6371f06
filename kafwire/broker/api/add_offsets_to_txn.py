"""AddOffsetsToTxn (25): adds a group's offsets to a transaction. See KIP-98, KIP-447."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.broker.request import Request, Response
from kafwire.broker.transactions.transactions import Transactions
from kafwire.errors import ErrorCode
from kafwire.producer.outcome.sequencer import Identity
from kafwire.protocol import AddOffsetsToTxnRequest

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Add the partition of `__consumer_offsets` that has the group's offsets."""
    message = request.message
    transactions: Transactions = state.part(Transactions)
    offsets: OffsetStore = state.part(OffsetStore)
    code = transactions.refuses(request, message.transactional_id)
    if not code:
        producer = Identity(message.producer_id, message.producer_epoch)
        code = transactions.add(message.transactional_id, producer, {offsets.place_of(message.group_id)})
    if code == ErrorCode.PRODUCER_FENCED and request.version < AddOffsetsToTxnRequest.FENCED_ERROR:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return protocol.AddOffsetsToTxnResponse(error_code=code)
