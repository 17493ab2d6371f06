"""AddPartitionsToTxn (24): adds partitions to a transaction. See KIP-98; from version 4 on for brokers (KIP-890)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.security.acls import Operation, ResourceType
from kafwire.broker.transactions.transaction_coordinator import Place
from kafwire.broker.transactions.transactions import Transactions
from kafwire.errors import ErrorCode
from kafwire.producer.outcome.sequencer import Identity
from kafwire.protocol import AddPartitionsToTxnRequest

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Add all of a transaction's partitions, or none."""
    message, response = request.message, protocol.AddPartitionsToTxnResponse
    if request.version < AddPartitionsToTxnRequest.FOR_BROKERS:
        producer = Identity(message.v3_and_below_producer_id, message.v3_and_below_producer_epoch)
        codes = _add(state, request, message.v3_and_below_transactional_id, producer, message.v3_and_below_topics)
        return response(results_by_topic_v3_and_below=_results(message.v3_and_below_topics, codes))
    results = []
    for asked in message.transactions:
        producer = Identity(asked.producer_id, asked.producer_epoch)
        codes = _add(state, request, asked.transactional_id, producer, asked.topics, verify_only=asked.verify_only)
        results.append(
            response.AddPartitionsToTxnResult(
                transactional_id=asked.transactional_id,
                topic_results=_results([] if asked.verify_only else asked.topics, codes),
            )
        )
    return response(results_by_transaction=results)


def _add(
    state: ClusterState,
    request: Request,
    transactional_id: str,
    producer: Identity,
    topics: Sequence[Any],
    *,
    verify_only: bool = False,
) -> dict[Place, int]:
    """Return an error code for each partition."""
    transactions: Transactions = state.part(Transactions)
    places = [(topic.name, index) for topic in topics for index in topic.partitions]
    failed = {place: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for place in places if state.topics.partition(*place) is None}
    if request.version < AddPartitionsToTxnRequest.FOR_BROKERS:  # later versions are for brokers
        denied = [p for p in places if not state.allows(request, Operation.WRITE, ResourceType.TOPIC, p[0])]
        failed |= dict.fromkeys(denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if failed:
        return failed | {place: ErrorCode.OPERATION_NOT_ATTEMPTED for place in places if place not in failed}
    code = transactions.refuses(request, transactional_id)
    if verify_only and not code:
        return {place: transactions.verify(transactional_id, producer, place) for place in places}
    code = code or transactions.add(transactional_id, producer, set(places))
    if code == ErrorCode.PRODUCER_FENCED and request.version < AddPartitionsToTxnRequest.FENCED_ERROR:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return dict.fromkeys(places, code)


def _results(topics: Sequence[Any], codes: Mapping[Place, int]) -> list[Any]:
    response = protocol.AddPartitionsToTxnResponse
    # A topic without partitions is in the response, but not where partitions have errors of their own.
    is_refused = not {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED}.isdisjoint(
        codes.values()
    )
    names = [each.name for each in topics] if topics and not is_refused else [name for name, _ in codes]
    return [
        response.AddPartitionsToTxnTopicResult(
            name=topic,
            results_by_partition=[
                response.AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                for (name, index), code in codes.items()
                if name == topic
            ],
        )
        for topic in dict.fromkeys(names)
    ]
