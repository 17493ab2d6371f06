"""What a broker says of a batch, and of single records in it (KIP-467), as the errors that their deliveries carry."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from kafwire import protocol
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.error_codes import ErrorCode
from kafwire.errors import AuthorizationError, BrokerError, KafkaError, RecordTooLargeError, broker_error
from kafwire.producer._batch import ProducerBatch
from kafwire.producer._queues import PartitionQueue
from kafwire.records import decode_batches

SHOWN_KEY = 40

PartitionAnswer = protocol.ProduceResponse.PartitionProduceResponse


def error_of(
    part: PartitionAnswer,
    queue: PartitionQueue,
    batch: ProducerBatch,
    connection: BrokerConnection,
    *,
    transactional_id: str | None = None,
) -> BrokerError | None:
    """What the broker says of the whole batch; None: it took it."""
    if not part.error_code:
        return None
    where = f"{queue.name} on {connection.where}"
    if part.error_code == ErrorCode.MESSAGE_TOO_LARGE and batch.count == 1:
        return RecordTooLargeError(
            f"{_record_in(batch, 0)} to {where} is larger than the broker takes ({batch.size} bytes as sent): raise "
            "max.message.bytes of the topic, or send less"
        )
    detail = f": {part.error_message}" if part.error_message else ""
    records = "; ".join(f"record {e.batch_index}: {e.batch_index_error_message}" for e in part.record_errors[:3])
    context = f"{batch.count} record(s) to {where}{detail}{f' ({records})' if records else ''}"
    return broker_error(part.error_code, context, api="Produce", topic=queue.topic, transactional_id=transactional_id)


def refused_records(
    part: PartitionAnswer, queue: PartitionQueue, batch: ProducerBatch, connection: BrokerConnection
) -> dict[int, KafkaError]:
    """The errors of the records that the broker names, by their index in the batch."""
    refused: dict[int, KafkaError] = {}
    for named in part.record_errors:
        if 0 <= named.batch_index < batch.count:
            said = named.batch_index_error_message or part.error_message or "the broker does not say why"
            text = f"{_record_in(batch, named.batch_index)} to {queue.name} on {connection.where}: {said}"
            refused[named.batch_index] = broker_error(part.error_code, text, api="Produce", topic=queue.topic)
    return refused


def doubtful(error: KafkaError) -> KafkaError:
    """The same for what an earlier attempt may have put into the log."""
    text = "an attempt was not answered, so they may or may not be in the log"
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
        error = copy.copy(error)  # other batches may have failed by it, and not be in doubt
    error.in_doubt = True
    return error


def parts_without(count: int, refused: Mapping[int, KafkaError]) -> list[int]:
    """Where the parts of a batch of `count` records begin, if each refused record is one of its own."""
    return sorted({0, *refused, *(index + 1 for index in refused if index + 1 < count)})


def _record_in(batch: ProducerBatch, index: int) -> str:
    """A record as its sender knows it."""
    (decoded,) = decode_batches(bytes(batch.payload()))
    record = list(decoded)[index]
    key = record.key
    shown = repr(key if key is None or len(key) <= SHOWN_KEY else key[:SHOWN_KEY] + b"...")
    return f"the record with key {shown} and timestamp {record.timestamp_ms}"
