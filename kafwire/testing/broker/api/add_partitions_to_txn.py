"""AddPartitionsToTxn (24): partitions into a transaction. See KIP-98; versions 4 and later are for brokers (KIP-890)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.producer.sequencer import Identity
from kafwire.testing.broker.request import Answer, Request
from kafwire.testing.broker.transactions import Transactions

if TYPE_CHECKING:
    from kafwire.testing.broker.state import ClusterState

# Brokers speak the later ones to each other, and these brokers are one process.
VERSIONS = (0, 3)


def handle(state: ClusterState, request: Request) -> Answer:
    """Add all of the partitions, or none."""
    message, response = request.message, protocol.AddPartitionsToTxnResponse
    transactions: Transactions = state.part(Transactions)
    transactional_id = message.v3_and_below_transactional_id
    who = Identity(message.v3_and_below_producer_id, message.v3_and_below_producer_epoch)
    unknown = {
        (topic.name, index): state.topics.partition(topic.name, index) is None
        for topic in message.v3_and_below_topics
        for index in topic.partitions
    }
    code = transactions.refuses(request, transactional_id)
    if not code and not any(unknown.values()):
        code = transactions.add(transactional_id, who, set(unknown), set())
    own = {True: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False: ErrorCode.OPERATION_NOT_ATTEMPTED}
    none = any(unknown.values())
    codes = {place: code or (own[is_unknown] if none else 0) for place, is_unknown in unknown.items()}
    return response(
        results_by_topic_v3_and_below=[
            response.AddPartitionsToTxnTopicResult(
                name=topic,
                results_by_partition=[
                    response.AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=codes[topic, index]
                    )
                    for name, index in codes
                    if name == topic
                ],
            )
            for topic in dict.fromkeys(name for name, _ in codes)
        ]
    )
