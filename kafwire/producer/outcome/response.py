"""Reads the response to a produce request: the part of each batch, and its code as the error of the deliveries.

`outcomes.py` decides what happens to the batch.
"""

from __future__ import annotations

from kafwire import protocol
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.error_codes import ErrorCode
from kafwire.errors import BrokerError, KafkaError, RecordTooLargeError, broker_error
from kafwire.memory._buffer import Buffer
from kafwire.producer.buffer._batch import ProducerBatch
from kafwire.producer.buffer._queues import PartitionQueue
from kafwire.producer.buffer.backlog import Where
from kafwire.records import decode_batches

SHOWN_KEY = 40

PartitionResponse = protocol.ProduceResponse.PartitionProduceResponse


def read_response(
    version: int, names: dict[bytes, str], frame: Buffer
) -> tuple[protocol.ProduceResponse, dict[Where, PartitionResponse]]:
    """Decode a response, and find the part of each partition. `names`: topics by their bytes in the request."""
    _, response = protocol.decode_response(protocol.ProduceRequest, frame, version)
    parts: dict[Where, PartitionResponse] = {}
    for topic in response.responses:
        key = topic.topic_id.bytes if version >= protocol.ProduceRequest.BY_TOPIC_ID else topic.name.encode()
        name = names.get(key, "")
        for part in topic.partition_responses:
            parts[name, part.index] = part
    return response, parts


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
    """Return the errors of the records that the response names, by index in the batch (KIP-467)."""
    refused: dict[int, KafkaError] = {}
    for named in part.record_errors:
        if 0 <= named.batch_index < batch.count:
            said = named.batch_index_error_message or part.error_message or "the broker gave no reason"
            text = f"{_record_in(batch, named.batch_index)} to {queue.name} on {connection.where}: {said}"
            refused[named.batch_index] = broker_error(part.error_code, text, api="Produce", topic=queue.topic)
    return refused


def _record_in(batch: ProducerBatch, index: int) -> str:
    """Describe a record by its key and timestamp."""
    (decoded,) = decode_batches(bytes(batch.payload()))
    record = list(decoded)[index]
    key = record.key
    shown = repr(key if key is None or len(key) <= SHOWN_KEY else key[:SHOWN_KEY] + b"...")
    return f"the record with key {shown} and timestamp {record.timestamp_ms}"
