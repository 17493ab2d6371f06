"""`broker.log.partition`: elections, as requests that wait at the old leader see them."""

from __future__ import annotations

from typing import Any

from kafwire import protocol
from kafwire.broker.state import ClusterState
from kafwire.errors import ErrorCode
from tests.support.broker.driver import BrokerDriver


def parked(driver: BrokerDriver, node: int, offset: int, *, epoch: int = 0) -> Any:
    """A Fetch that waits at a broker for records from `offset` on."""
    (topic,) = driver.state.topics
    request = protocol.FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1 << 20)
    part = request.FetchPartition(
        partition=0, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=1 << 20
    )
    request.topics.append(request.FetchTopic(topic_id=topic.topic_id, partitions=[part]))
    sent = driver.send(request, 17, node=node)
    assert sent not in driver.late
    return sent


def test_a_parked_fetch_learns_of_the_new_leader_when_records_are_lost() -> None:
    """The truncation wakes the request: its response must name the leader that truncated, not the one before."""
    state = ClusterState((1, 2))
    driver = BrokerDriver(state)
    (partition,) = state.topics.create("t", replicas=2).partitions
    partition.append_values([b"a", b"b", b"c"])
    sent = parked(driver, 1, 3)
    state.lose_records("t", 0, 2, 1)
    driver.pass_ms(0)
    (part,) = driver.late[sent].responses[0].partitions
    assert part.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (2, 1)
    assert (part.high_watermark, part.records) == (-1, b"")
