"""The errors of leaders for batches that they do not store, word for word as Kafka 4.3.1 has them."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.records import encode_batch
from tests.support.broker.driver import BrokerDriver

NOW_MS = 1_700_000_000_000


def produce(records: bytes, version: int = 9, *, acks: int = -1, **configs: str) -> Any:
    driver = BrokerDriver()
    options = {key.replace("_", "."): value for key, value in configs.items()}
    driver.state.topics.create("t", configs=options)
    request = protocol.ProduceRequest
    data = request.PartitionProduceData(index=0, records=records)
    topic = request.TopicProduceData(name="t", partition_data=[data])
    response = driver.ask(request(acks=acks, timeout_ms=1000, topic_data=[topic]), version)
    return response.responses[0].partition_responses[0]


def record(key: bytes | None = b"k", at_ms: int = NOW_MS) -> Any:
    return {"key": key, "value": b"v", "timestamp_ms": at_ms}


def test_records_without_keys_for_a_compacted_topic() -> None:
    part = produce(encode_batch([record(), record(None), record(None)]), cleanup_policy="compact")
    text = "Compacted topic cannot accept message without key in topic partition t-0"
    assert (part.error_code, part.base_offset, part.log_start_offset) == (ErrorCode.INVALID_RECORD, -1, 0)
    assert [(each.batch_index, each.batch_index_error_message) for each in part.record_errors] == [(1, text), (2, text)]
    assert part.error_message.startswith("One or more records have been rejected due to 2 record errors in total")


def test_timestamps_that_are_out_of_range() -> None:
    records = [record(at_ms=5), record(), record(at_ms=NOW_MS + 10_000)]
    part = produce(encode_batch(records), message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="1000")
    assert part.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in part.record_errors] == [0, 2]
    assert part.record_errors[0].batch_index_error_message == (
        "Timestamp 5 of message with offset 0 is out of range. The timestamp should be within "
        f"[{NOW_MS - 1000}, {NOW_MS + 1000}]"
    )


def test_more_replicas_in_sync_than_there_are_replicas_are_not_asked_for() -> None:
    assert not produce(encode_batch([record()]), min_insync_replicas="2").error_code


def test_the_broker_gives_the_time() -> None:
    part = produce(encode_batch([record(at_ms=5)]), message_timestamp_type="LogAppendTime")
    assert (part.error_code, part.log_append_time_ms, part.base_offset) == (0, NOW_MS, 0)


@pytest.mark.parametrize(
    ("records", "code", "start"),
    [
        (encode_batch([record()])[:-3], ErrorCode.INVALID_RECORD, -1),
        (encode_batch([record()])[:30], ErrorCode.INVALID_RECORD, -1),
        (encode_batch([record()]) * 2, ErrorCode.INVALID_RECORD, -1),
        (encode_batch([record()])[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE, -1),
        (encode_batch([{"value": b"x" * 500}]), ErrorCode.MESSAGE_TOO_LARGE, -1),
        (encode_batch([record()], producer_id=5, producer_epoch=0), ErrorCode.INVALID_RECORD, 0),
        (encode_batch([record()], control=True), ErrorCode.INVALID_RECORD, 0),
    ],
)
def test_batches_that_are_not_stored(records: Any, code: Any, start: Any) -> None:
    part = produce(records, max_message_bytes="300")
    assert (part.error_code, part.log_start_offset) == (code, start)
    assert not part.record_errors
