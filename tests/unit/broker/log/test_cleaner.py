"""The cleaner: which logs it compacts, when, and up to where, by simulated time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafwire.broker.log.cleaner import Cleaner, CleaningRules, offset_to_clean_to
from kafwire.broker.log.log import Extent, FileSpan, read_span
from kafwire.broker.log.partition import Partition
from kafwire.broker.state import ClusterState
from kafwire.broker.storage.storage import Storage
from kafwire.records import decode_batches, encode_batch
from kafwire.testing import EmbeddedKafka

BACKOFF_MS = 15_000  # log.cleaner.backoff.ms
MINUTE_MS = 60_000
NEVER = (1 << 63) - 1


def cleaned_state(**configs: str) -> tuple[ClusterState, Partition]:
    state = ClusterState()
    state.part(Cleaner).watch()
    return state, compacted(state, **configs)


def compacted(state: ClusterState, **configs: str) -> Partition:
    options = {"cleanup.policy": "compact"} | {key.replace("_", "."): value for key, value in configs.items()}
    return state.topics.create("t", configs=options).partitions[0]


def write(state: ClusterState, partition: Partition, key: bytes, value: bytes | None, **batch: Any) -> None:
    record: dict[str, object] = {"key": key, "value": value, "timestamp_ms": state.wall_ms}
    partition.append(encode_batch([record], **batch))


def kept(partition: Partition) -> list[tuple[int, bytes | None, bytes | None]]:
    data = partition.log.read(partition.log.start_offset, partition.log.size)
    data = read_span(data) if isinstance(data, FileSpan) else data
    return [(r.offset, r.key, r.value) for batch in decode_batches(data) if not batch.is_control for r in batch]


def test_a_closed_segment_is_compacted_after_a_while() -> None:
    state, partition = cleaned_state(segment_ms=f"{MINUTE_MS}")
    write(state, partition, b"a", b"1")
    write(state, partition, b"a", b"2")
    state.advance(10 * MINUTE_MS)
    assert len(kept(partition)) == 2, "the active segment is never cleaned"
    write(state, partition, b"a", b"3")  # it begins the next segment
    state.advance(state.now_ms + BACKOFF_MS - 1)
    assert len(kept(partition)) == 3
    state.advance(state.now_ms + 1)
    assert kept(partition) == [(1, b"a", b"2"), (2, b"a", b"3")], "each part of the log has a key's last record"
    assert partition.log.end_offset == 3


def test_segment_bytes_close_segments() -> None:
    state, partition = cleaned_state(segment_bytes="1048576")
    for number in range(4):
        write(state, partition, b"a", bytes([number]) * 400_000)
    state.advance(BACKOFF_MS)
    assert [offset for offset, _, _ in kept(partition)] == [1, 2, 3]


def test_a_log_that_is_not_dirty_enough_waits() -> None:
    state, partition = cleaned_state(segment_ms="1000", min_cleanable_dirty_ratio="0.5")
    for number in range(10):
        write(state, partition, b"%d" % number, b"v" * 100)
    state.advance(2000)
    write(state, partition, b"a", b"v")
    state.advance(state.now_ms + BACKOFF_MS)
    cleaner: Cleaner = state.part(Cleaner)
    assert cleaner.clean_to[partition] == 10
    write(state, partition, b"a", b"w")  # the segment of offset 10 is closed, and is a tenth of the log
    state.advance(state.now_ms + 100 * BACKOFF_MS)
    assert cleaner.clean_to[partition] == 10
    partition.topic.configs["min.cleanable.dirty.ratio"] = "0.01"
    state.advance(state.now_ms + BACKOFF_MS)
    assert cleaner.clean_to[partition] == 11


def test_max_compaction_lag_closes_segments_and_cleans_whatever_the_ratio_is() -> None:
    state, partition = cleaned_state(min_cleanable_dirty_ratio="1", max_compaction_lag_ms=f"{MINUTE_MS}")
    write(state, partition, b"a", b"1")
    write(state, partition, b"a", b"2")
    state.advance(MINUTE_MS + 1)
    write(state, partition, b"b", b"1")
    state.advance(state.now_ms + 1)
    assert len(kept(partition)) == 3
    state.advance(state.now_ms + BACKOFF_MS)
    assert kept(partition) == [(1, b"a", b"2"), (2, b"b", b"1")]


def test_min_compaction_lag_keeps_young_segments() -> None:
    state, partition = cleaned_state(segment_ms="1000", min_compaction_lag_ms=f"{5 * MINUTE_MS}")
    write(state, partition, b"a", b"1")
    write(state, partition, b"a", b"2")
    state.advance(2000)
    write(state, partition, b"a", b"3")
    state.advance(5 * MINUTE_MS - BACKOFF_MS)
    assert len(kept(partition)) == 3
    state.advance(5 * MINUTE_MS + BACKOFF_MS)
    assert [offset for offset, _, _ in kept(partition)] == [1, 2]


def test_tombstones_go_delete_retention_after_they_were_first_cleaned() -> None:
    state, partition = cleaned_state(segment_ms="1000", delete_retention_ms="100000", min_cleanable_dirty_ratio="0")

    def next_segment() -> None:
        state.advance(state.now_ms + 2000)
        write(state, partition, b"z", b"%d" % partition.log.end_offset)
        state.advance(state.now_ms + BACKOFF_MS)

    write(state, partition, b"a", b"1")
    write(state, partition, b"a", None)
    next_segment()
    assert kept(partition)[0] == (1, b"a", None)
    next_segment()
    assert kept(partition)[0] == (1, b"a", None), "not yet"
    state.advance(state.now_ms + 100_000)
    assert kept(partition)[0] == (1, b"a", None), "Kafka cleans a log again only when it is dirty"
    next_segment()
    assert b"a" not in [key for _, key, _ in kept(partition)]


def test_nothing_of_an_open_transaction_is_cleaned() -> None:
    state, partition = cleaned_state(segment_ms="1000")
    write(state, partition, b"a", b"1")
    write(state, partition, b"a", b"2", producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    partition.producers.add(list(partition.log.headers(0))[-1])
    state.advance(2000)
    write(state, partition, b"a", b"3")
    state.advance(state.now_ms + BACKOFF_MS)
    assert len(kept(partition)) == 3
    partition.write_marker(5, 0, state.wall_ms, commit=True)
    state.advance(state.now_ms + BACKOFF_MS)
    assert [offset for offset, _, _ in kept(partition)] == [2], "the marker begins the active segment"


@pytest.mark.parametrize("configs", [{"cleanup.policy": "delete"}, {"segment.ms": "604800000"}])
def test_other_logs_stay(configs: dict[str, str]) -> None:
    state, partition = cleaned_state(segment_ms="1000")
    partition.topic.configs.update(configs)
    for _ in range(3):
        write(state, partition, b"a", b"1")
        state.advance(state.now_ms + 2000)
    state.advance(state.now_ms + 10 * BACKOFF_MS)
    assert len(kept(partition)) == 3


def test_the_cleaner_may_be_off_and_its_interval_altered() -> None:
    state = ClusterState(configs={"log.cleaner.enable": "false", "log.cleaner.backoff.ms": "100"})
    cleaner: Cleaner = state.part(Cleaner)
    cleaner.watch()
    partition = compacted(state, segment_ms="1000")
    write(state, partition, b"a", b"1")
    write(state, partition, b"a", b"2")
    state.advance(2000)
    write(state, partition, b"a", b"3")
    state.advance(5000)
    assert len(kept(partition)) == 3
    state.configs["log.cleaner.enable"] = "true"
    state.advance(5100)
    assert len(kept(partition)) == 2


def test_a_log_on_disk_is_cleaned_by_its_own_segments_and_stays_clean_after_a_restart(tmp_path: Path) -> None:
    state = ClusterState()
    storage = Storage(state, tmp_path / "data")
    state.part(Cleaner).watch()
    partition = compacted(state, segment_ms="1000")
    for key in (b"a", b"b", b"a"):
        write(state, partition, key, b"1")
    state.advance(2000)
    write(state, partition, b"a", b"2")
    state.advance(BACKOFF_MS)
    assert kept(partition) == [(1, b"b", b"1"), (2, b"a", b"1"), (3, b"a", b"2")]
    storage.close()
    state = ClusterState()
    storage = Storage(state, tmp_path / "data")
    cleaner: Cleaner = state.part(Cleaner)
    (topic,) = state.topics
    assert cleaner.clean_to == {topic.partitions[0]: 3}
    assert len(kept(topic.partitions[0])) == 3
    state.topics.delete(topic)
    assert not cleaner.clean_to
    storage.close()


def test_the_running_broker_compacts() -> None:
    with EmbeddedKafka(configs={"log.cleaner.backoff.ms": 1}) as kafka:
        # The cleaner may run between two appends, and leave a half of the log that is dirty.
        kafka.create_topic("t", cleanup_policy="compact", segment_ms=1, min_cleanable_dirty_ratio=0.0)
        for number in range(3):
            kafka.append("t", [{"key": b"a", "value": b"%d" % number, "timestamp_ms": 1000 + 10 * number}])

        def run(state: ClusterState) -> list[int]:
            state.advance(state.now_ms + 100)
            return [record.offset for record in kafka.records("t")]

        assert kafka.ask(run) == [1, 2]


def segments(*sizes: int) -> list[Extent]:
    return [Extent(10 * number, size, 1000 * number, 1000 * number + 999) for number, size in enumerate(sizes, 1)]


@pytest.mark.parametrize(
    ("dirty", "clean_bytes", "stable", "rules", "end"),
    [
        ([], 0, 100, CleaningRules(0, 0, NEVER), None),
        (segments(5), 0, 100, CleaningRules(0, 0, NEVER), None),
        (segments(5, 5), 0, 100, CleaningRules(0.5, 0, NEVER), 20),
        (segments(5, 5), 5, 100, CleaningRules(0.5, 0, NEVER), None),
        (segments(6, 5), 5, 100, CleaningRules(0.5, 0, NEVER), 20),
        (segments(5, 5, 5), 0, 29, CleaningRules(0.5, 0, NEVER), 20),
        (segments(5, 5, 5), 0, 19, CleaningRules(0.5, 0, NEVER), None),
        (segments(5, 5, 5), 0, 100, CleaningRules(0.5, 7500, NEVER), 20),
        (segments(5, 5), 1000, 100, CleaningRules(0.5, 0, 8999), 20),
        (segments(5, 5), 1000, 100, CleaningRules(0.5, 0, 9000), None),
    ],
)
def test_up_to_where(dirty: list[Extent], clean_bytes: int, stable: int, rules: CleaningRules, end: int | None) -> None:
    assert offset_to_clean_to(dirty, clean_bytes, stable, 10_000, rules) == end
