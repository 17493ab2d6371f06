"""Compaction: the last record of each key stays at its offset, tombstones and markers go when it is time."""

from __future__ import annotations

from typing import Any, cast

from kafwire import protocol
from kafwire.broker.log.batch_header import DELETE_HORIZON, read_headers
from kafwire.broker.log.compaction import Active, Compaction, compact
from kafwire.broker.log.partition import Partition
from kafwire.broker.state import ClusterState
from kafwire.broker.topics.topics import Topic
from kafwire.records import decode_batches, encode_batch
from tests.support.broker.driver import ask

DAY_MS = 86_400_000


def state_with_topic(**configs: str) -> tuple[ClusterState, Partition]:
    state = ClusterState()
    options = {"cleanup.policy": "compact"} | {key.replace("_", "."): value for key, value in configs.items()}
    topic: Topic = state.topics.create("t", configs=options)
    return state, topic.partitions[0]


def write(partition: Partition, *pairs: Any, at_ms: int = 1000, **batch: Any) -> None:
    partition.append(encode_batch([{"key": k, "value": v, "timestamp_ms": at_ms} for k, v in pairs], **batch))


def kept(partition: Partition) -> list[tuple[int, bytes | None, bytes | None]]:
    data = partition.log.read(partition.log.start_offset, partition.log.size)
    assert isinstance(data, bytes)
    return [(r.offset, r.key, r.value) for batch in decode_batches(data) if not batch.is_control for r in batch]


def test_the_last_record_of_each_key_stays_at_its_offset() -> None:
    state, partition = state_with_topic()
    write(partition, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    write(partition, (b"c", b"1"), (b"b", b"2"), compression="gzip")
    freed = state.part(Compaction).run("t")
    assert kept(partition) == [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2")]
    assert freed > 0
    assert partition.log.end_offset == 5
    data = cast("bytes", partition.log.read(0, partition.log.size))
    first, second = read_headers(data)
    assert (first.base_offset, first.next_offset, first.count) == (0, 3, 1)
    assert second.compression == 1
    assert [r.timestamp_ms for batch in decode_batches(data) for r in batch] == [1000] * 3


def test_nothing_is_compacted_without_the_policy() -> None:
    state, partition = state_with_topic(cleanup_policy="delete")
    write(partition, (b"a", b"1"), (b"a", b"2"))
    assert state.part(Compaction).run() == 0
    assert len(kept(partition)) == 2


def test_a_tombstone_goes_when_it_was_compacted_long_enough_ago() -> None:
    state, partition = state_with_topic(delete_retention_ms="1000")
    write(partition, (b"a", b"1"), (b"a", None))
    write(partition, (b"z", b"1"))
    state.part(Compaction).run()
    assert kept(partition) == [(1, b"a", None), (2, b"z", b"1")]
    (header, _) = partition.log.headers(0)
    assert header.attributes & DELETE_HORIZON
    assert header.base_timestamp == state.wall_ms + 1000
    data = cast("bytes", partition.log.read(0, partition.log.size))
    assert decode_batches(data)[0][0].timestamp_ms == 1000, "the timestamps of records stay"
    state.advance(999)
    state.part(Compaction).run()
    assert len(kept(partition)) == 2
    state.advance(1000)
    state.part(Compaction).run()
    assert kept(partition) == [(2, b"z", b"1")]


def test_the_last_batch_stays_though_it_be_empty() -> None:
    partition = Partition(Topic("t", None), 0, [1], 1)  # type: ignore[arg-type]
    write(partition, (b"k", b"v"))
    write(partition, (None, b"no key"))
    batches = [(h, cast("bytes", partition.log.read(h.base_offset, h.size))) for h in partition.log.headers(0)]
    left = compact(batches, now_ms=0, delete_retention_ms=0)
    assert [(h.base_offset, h.next_offset, h.count) for h in left.headers] == [(0, 1, 1), (1, 2, 0)]
    assert [len(batch) for batch in decode_batches(bytes(left.data))] == [1, 0]


def test_the_last_batch_of_a_producer_stays_empty_with_its_numbers() -> None:
    state, partition = state_with_topic()
    write(partition, (b"a", b"1"), producer_id=7, producer_epoch=3, base_sequence=9)
    write(partition, (b"a", b"2"))
    (first, _) = partition.log.headers(0)
    partition.producers.add(first)
    state.part(Compaction).run()
    (first, second) = partition.log.headers(0)
    assert (first.producer_id, first.producer_epoch, first.base_sequence, first.last_sequence) == (7, 3, 9, 9)
    assert (first.count, second.count) == (0, 1)
    left = compact([], now_ms=0, delete_retention_ms=0, active={7: Active(0, 3)})
    assert not left.headers


def produce_transaction(state: ClusterState, partition: Partition, *, commit: bool, key: bytes = b"a") -> None:
    batch = encode_batch(
        [{"key": key, "value": b"t", "timestamp_ms": 1}],
        producer_id=5,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    partition.append(batch)
    header = list(partition.log.headers(0))[-1]
    partition.producers.add(header)
    partition.write_marker(5, 0, state.wall_ms, commit=commit)


def test_records_of_aborted_transactions_go_and_hide_nothing() -> None:
    state, partition = state_with_topic()
    write(partition, (b"a", b"1"))
    produce_transaction(state, partition, commit=False)
    write(partition, (b"z", b"1"))
    state.part(Compaction).run()
    assert kept(partition) == [(0, b"a", b"1"), (3, b"z", b"1")]
    marker = [header for header in partition.log.headers(0) if header.is_control]
    assert len(marker) == 1, "it stays until its transaction is gone, and then for a while"


def test_nothing_behind_an_open_transaction_is_compacted() -> None:
    state, partition = state_with_topic()
    write(partition, (b"a", b"1"), (b"a", b"2"))
    batch = encode_batch(
        [{"key": b"b", "value": b"1"}], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True
    )
    partition.append(batch)
    partition.producers.add(list(partition.log.headers(0))[-1])
    write(partition, (b"a", b"3"))
    state.part(Compaction).run()
    assert [offset for offset, _, _ in kept(partition)] == [1, 2, 3]


def test_min_compaction_lag_keeps_the_young() -> None:
    state, partition = state_with_topic(min_compaction_lag_ms="1000")
    write(partition, (b"a", b"1"), at_ms=state.wall_ms - 2000)
    write(partition, (b"a", b"2"), at_ms=state.wall_ms - 1500)
    write(partition, (b"a", b"3"), at_ms=state.wall_ms)
    state.part(Compaction).run()
    assert [value for _, _, value in kept(partition)] == [b"2", b"3"]


def test_readers_get_the_remaining_records_and_the_gaps() -> None:
    state, partition = state_with_topic()
    write(partition, (b"a", b"1"))
    write(partition, (b"a", b"2"))
    state.part(Compaction).run()
    fetch = protocol.FetchRequest
    wanted = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    response = ask(state, fetch(max_bytes=1 << 20, topics=[fetch.FetchTopic(topic="t", partitions=[wanted])]), 12)
    found = response.responses[0].partitions[0]
    assert [r.offset for batch in decode_batches(found.records) for r in batch] == [1]
