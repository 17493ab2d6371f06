"""Rules about transactions.

- before version 2 a partition is added before the producer writes to it (KIP-98)
- no transaction ends while batches of it are in flight, which a broker could store after its end
- after a request without a response, the next transaction has another epoch, so that the broker refuses late requests
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafwire.broker.log.batch_header import BatchHeader
from kafwire.errors import ErrorCode
from kafwire.protocol import ProduceRequest
from kafwire.testing.simulation.conduct.sent import Notes, Place, Sent

# Requests of a transaction, which coordinators may execute late.
REQUESTS = {"AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"}


class Transactions:
    """The transactions of all producers."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._added: dict[int, set[Place]] = {}  # to the transaction, by producer id
        self._without_response: dict[int, int] = {}  # by producer id, the epoch of a request without a response
        self._ended: dict[int, int] = {}  # by producer id, the epoch of an ended transaction that had such a request

    def sends(self, sent: Sent, in_flight: Iterable[Place]) -> None:
        """Judge a request of a transaction; batches to `in_flight` are in flight."""
        self._goes_on(sent, *producer_of(sent))
        if sent.name == "EndTxn":
            self._added.pop(sent.message.producer_id, None)
            for place in in_flight:
                self._notes.wrong(sent, f"batches of producer {sent.message.producer_id} to {place} are in flight")

    def produces(self, sent: Sent, place: Place, header: BatchHeader) -> None:
        """Judge a batch of a transaction."""
        self._goes_on(sent, header.producer_id, header.producer_epoch)
        needs_adding = sent.version < ProduceRequest.ADDS_PARTITIONS
        if needs_adding and place not in self._added.get(header.producer_id, ()):
            self._notes.wrong(sent, f"{place} was not added to the transaction of producer {header.producer_id}")

    def on_response(self, sent: Sent, response: Any) -> None:
        """Note the response to a request of a transaction."""
        producer_id, epoch = producer_of(sent)
        if sent.name == "AddPartitionsToTxn":
            for topic in response.results_by_topic_v3_and_below:
                for its in topic.results_by_partition:
                    if its.partition_error_code == ErrorCode.NONE:
                        self._added.setdefault(producer_id, set()).add((topic.name, its.partition_index))
        elif sent.name == "EndTxn" and not response.error_code and self._without_response.pop(producer_id, -1) == epoch:
            self._ended[producer_id] = epoch

    def lost(self, sent: Sent) -> None:
        """Note a request of a transaction without a response."""
        producer_id, epoch = producer_of(sent)
        self._without_response[producer_id] = epoch

    def _goes_on(self, sent: Sent, producer_id: int, epoch: int) -> None:
        if self._ended.get(producer_id) == epoch:
            self._notes.wrong(
                sent, f"epoch {epoch} of producer {producer_id} goes on, but a lost request may still arrive"
            )


def producer_of(sent: Sent) -> tuple[int, int]:
    """Return the producer id and epoch of a request of a transaction."""
    message = sent.message
    if sent.name == "AddPartitionsToTxn":
        return message.v3_and_below_producer_id, message.v3_and_below_producer_epoch
    return message.producer_id, message.producer_epoch
