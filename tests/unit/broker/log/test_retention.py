"""Retention by time and size, by call and by timer."""

from __future__ import annotations

from kafwire.broker.log.partition import Partition
from kafwire.broker.log.retention import Retention
from kafwire.broker.state import ClusterState
from kafwire.records import encode_batch


def made(**configs: str) -> tuple[ClusterState, Partition]:
    state = ClusterState()
    topic = state.topics.create("t", configs={key.replace("_", "."): value for key, value in configs.items()})
    return state, topic.partitions[0]


def write(partition: Partition, at_ms: int) -> None:
    partition.append(encode_batch([{"value": b"v", "timestamp_ms": at_ms}]))


def test_old_records_go_up_to_the_first_that_is_not() -> None:
    state, partition = made(retention_ms="1000")
    for at_ms in (state.wall_ms - 3000, state.wall_ms - 1001, state.wall_ms - 1000, state.wall_ms - 5000):
        write(partition, at_ms)
    state.part(Retention).run()
    assert (partition.log.start_offset, partition.log.end_offset) == (2, 4)


def test_size_is_kept_at_least() -> None:
    state, partition = made(retention_ms="-1")
    for _ in range(5):
        write(partition, 1)
    size = partition.log.size // 5
    partition.topic.configs["retention.bytes"] = str(2 * size + 1)
    assert state.part(Retention).run("t") == 2 * size
    assert partition.log.start_offset == 2
    partition.topic.configs["retention.bytes"] = str(2 * size)
    assert state.part(Retention).run("t") == size


def test_compacted_topics_and_unreplicated_records_stay() -> None:
    state, partition = made(retention_ms="0", cleanup_policy="compact")
    write(partition, 1)
    assert state.part(Retention).run() == 0
    partition.topic.configs["cleanup.policy"] = "compact,delete"
    partition.held_at = 0
    assert state.part(Retention).run() == 0
    partition.held_at = None
    assert state.part(Retention).run() > 0


def test_the_timer_looks_again_and_again() -> None:
    state, partition = made(retention_ms="1000")
    assert state.next_due_ms is None
    state.part(Retention).watch()
    state.part(Retention).watch()
    write(partition, state.wall_ms)
    state.advance(29_999)
    assert partition.log.start_offset == 0
    state.advance(30_000)
    assert partition.log.start_offset == 1
    assert state.next_due_ms == 330_000
