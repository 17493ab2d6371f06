"""The records in a log, with and without those of open transactions."""

from __future__ import annotations

from kafwire.broker.log.batch_header import read_header
from kafwire.broker.log.partition import Partition
from kafwire.broker.log.stored_records import stored_records
from kafwire.broker.state import ClusterState
from kafwire.records import encode_batch


def write(partition: Partition, value: bytes, producer_id: int, sequence: int) -> None:
    data = encode_batch(
        [{"value": value, "key": b"k", "headers": [("h", b"1")]}],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
        base_offset=partition.log.end_offset,
    )
    partition.producers.add(read_header(data))
    partition.append(data)


def test_records_have_their_places() -> None:
    state = ClusterState()
    partition = state.topics.create("flights", 2).partitions[1]
    partition.append(encode_batch([{"value": b"a", "timestamp_ms": 5}, {"value": None, "key": b"k"}]))
    first, second = stored_records(partition)
    assert (first.topic, first.partition, first.offset, first.value, first.timestamp_ms) == ("flights", 1, 0, b"a", 5)
    assert (second.offset, second.key, second.value) == (1, b"k", None)
    partition.delete_before(1)
    assert [record.offset for record in stored_records(partition)] == [1]


def test_aborted_and_open_transactions_are_left_out() -> None:
    partition = ClusterState().topics.create("flights").partitions[0]
    write(partition, b"committed", 1, 0)
    write(partition, b"aborted", 2, 0)
    partition.write_marker(1, 0, 0, commit=True)
    partition.write_marker(2, 0, 0, commit=False)
    write(partition, b"committed again", 2, 1)
    partition.write_marker(2, 0, 0, commit=True)
    write(partition, b"open", 1, 1)
    partition.append(encode_batch([b"plain"]))
    values = [record.value for record in stored_records(partition)]
    assert values == [b"committed", b"aborted", b"committed again", b"open", b"plain"]
    values = [record.value for record in stored_records(partition, committed=True)]
    assert values == [b"committed", b"committed again", b"plain"]
