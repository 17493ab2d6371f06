"""InitProducerId (22): a producer's id and epoch; a transactional id's open transaction ends. See KIP-98, KIP-360."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.producer.sequencer import Identity
from kafwire.testing.broker.request import Answer, Request
from kafwire.testing.broker.transactions import Transactions

if TYPE_CHECKING:
    from kafwire.testing.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Answer:
    """Give an id, or the next epoch of the transactional id's."""
    message, response = request.message, protocol.InitProducerIdResponse
    transactions: Transactions = state.part(Transactions)
    if message.transactional_id is None:
        return response(producer_id=transactions.new_producer_id(), producer_epoch=0)
    identity = Identity(-1, -1)
    if not message.transactional_id:
        code: int = ErrorCode.INVALID_REQUEST
    else:
        code = transactions.refuses(request, message.transactional_id)
    if not code and not 0 < message.transaction_timeout_ms <= state.config_int("transaction.max.timeout.ms"):
        code = ErrorCode.INVALID_TRANSACTION_TIMEOUT
    if not code and (message.producer_id < 0) != (message.producer_epoch < 0):
        code = ErrorCode.INVALID_REQUEST
    if not code:
        current = Identity(message.producer_id, message.producer_epoch)
        code, identity = transactions.initialize(message.transactional_id, current, message.transaction_timeout_ms)
    return response(error_code=code, producer_id=identity.producer_id, producer_epoch=identity.epoch)
