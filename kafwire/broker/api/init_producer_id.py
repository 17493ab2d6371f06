"""InitProducerId (22): a producer's id and epoch; ends the transactional id's open transaction. See KIP-98, KIP-360."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.transactions.transactions import Transactions
from kafwire.errors import ErrorCode
from kafwire.producer.outcome.sequencer import Identity
from kafwire.producer.transactions.state import NO_PRODUCER
from kafwire.protocol import InitProducerIdRequest

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Return a new id, or the next epoch of the transactional id's producer."""
    message, response = request.message, protocol.InitProducerIdResponse
    transactions: Transactions = state.part(Transactions)
    identity = NO_PRODUCER
    code: int = 0
    if (message.producer_id == -1) != (message.producer_epoch == -1):
        code = ErrorCode.INVALID_REQUEST
    elif message.transactional_id is None:
        identity = Identity(transactions.new_producer_id(), 0)
    elif not message.transactional_id:
        code = ErrorCode.INVALID_REQUEST
    elif not 0 < message.transaction_timeout_ms <= state.config_int("transaction.max.timeout.ms"):
        code = ErrorCode.INVALID_TRANSACTION_TIMEOUT
    else:
        code = transactions.refuses(request, message.transactional_id)
        if not code:
            current = Identity(message.producer_id, message.producer_epoch)
            code, identity = transactions.initialize(message.transactional_id, current, message.transaction_timeout_ms)
    if code == ErrorCode.PRODUCER_FENCED and request.version < InitProducerIdRequest.FENCED_ERROR:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return response(error_code=code, producer_id=identity.producer_id, producer_epoch=identity.epoch)
