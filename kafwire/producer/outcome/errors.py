"""Converts a broker's errors for a batch, and for single records in it (KIP-467), to the errors of deliveries."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from kafwire import protocol
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.error_codes import ErrorCode
from kafwire.errors import AuthorizationError, BrokerError, KafkaError, RecordTooLargeError, broker_error
from kafwire.producer.buffer._batch import ProducerBatch
from kafwire.producer.buffer._queues import PartitionQueue
from kafwire.records import decode_batches

SHOWN_KEY = 40

PartitionResponse = protocol.ProduceResponse.PartitionProduceResponse


def error_of(
    part: PartitionResponse,
    queue: PartitionQueue,
    batch: ProducerBatch,
    connection: BrokerConnection,
    *,
    transactional_id: str | None = None,
) -> BrokerError | None:
    """Return the error for the whole batch; None if it was appended."""
    if not part.error_code:
        return None
    where = f"{queue.name} on {connection.where}"
    if part.error_code == ErrorCode.MESSAGE_TOO_LARGE and batch.count == 1:
        return RecordTooLargeError(
            f"{_record_in(batch, 0)} to {where} is larger than the broker accepts ({batch.size} bytes as sent): raise "
            "the topic's max.message.bytes, or send smaller records"
        )
    detail = f": {part.error_message}" if part.error_message else ""
    records = "; ".join(f"record {e.batch_index}: {e.batch_index_error_message}" for e in part.record_errors[:3])
    context = f"{batch.count} record(s) to {where}{detail}{f' ({records})' if records else ''}"
    return broker_error(part.error_code, context, api="Produce", topic=queue.topic, transactional_id=transactional_id)


def refused_records(
    part: PartitionResponse, queue: PartitionQueue, batch: ProducerBatch, connection: BrokerConnection
) -> dict[int, KafkaError]:
    """Return the errors of the records that the response names, by index in the batch."""
    refused: dict[int, KafkaError] = {}
    for named in part.record_errors:
        if 0 <= named.batch_index < batch.count:
            said = named.batch_index_error_message or part.error_message or "the broker gave no reason"
            text = f"{_record_in(batch, named.batch_index)} to {queue.name} on {connection.where}: {said}"
            refused[named.batch_index] = broker_error(part.error_code, text, api="Produce", topic=queue.topic)
    return refused


def doubtful(error: KafkaError) -> KafkaError:
    """Return the error with a note that an earlier attempt may have appended the batch (`in_doubt`)."""
    text = "an attempt got no response, so they may or may not be in the log"
    if isinstance(error, AuthorizationError):
        error = AuthorizationError(
            error.code,
            error.name,
            f"{error.message}; {text}",
            operation=error.operation,
            resource_type=error.resource_type,
            resource_name=error.resource_name,
        )
    elif isinstance(error, BrokerError):
        error = broker_error(error.code, f"{error.message}; {text}")
    else:
        error = copy.copy(error)  # a copy: other batches may share this error and not be in doubt
    error.in_doubt = True
    return error


def parts_without(count: int, refused: Mapping[int, KafkaError]) -> list[int]:
    """Return the start of each part of a batch of `count` records, with every refused record in a part of its own."""
    return sorted({0, *refused, *(index + 1 for index in refused if index + 1 < count)})


def _record_in(batch: ProducerBatch, index: int) -> str:
    """Describe a record by its key and timestamp."""
    (decoded,) = decode_batches(bytes(batch.payload()))
    record = list(decoded)[index]
    key = record.key
    shown = repr(key if key is None or len(key) <= SHOWN_KEY else key[:SHOWN_KEY] + b"...")
    return f"the record with key {shown} and timestamp {record.timestamp_ms}"
