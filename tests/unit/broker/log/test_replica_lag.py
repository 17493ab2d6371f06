"""Followers that lag by time or by records, the replicas in sync, and acknowledgements that wait."""

from __future__ import annotations

from typing import Any

from kafwire import protocol
from kafwire.broker.log.partition import Partition
from kafwire.broker.log.replica_lag import ReplicaLag
from kafwire.broker.state import ClusterState
from kafwire.errors import ErrorCode
from kafwire.records import encode_batch
from tests.support.broker.driver import BrokerDriver


def made(**configs: str) -> tuple[BrokerDriver, Partition]:
    driver = BrokerDriver(ClusterState((1, 2), configs={"replica.lag.time.max.ms": "1000"}))
    options = {key.replace("_", "."): value for key, value in configs.items()}
    return driver, driver.state.topics.create("t", assignments=[[1, 2]], configs=options).partitions[0]


def write(partition: Partition, count: int = 1) -> None:
    for _ in range(count):
        partition.append(encode_batch([b"v"]))


def produce(driver: BrokerDriver, timeout_ms: int = 60_000) -> Any:
    request = protocol.ProduceRequest
    data = request.PartitionProduceData(index=0, records=encode_batch([b"v"]))
    topic = request.TopicProduceData(name="t", partition_data=[data])
    return driver.send(request(acks=-1, timeout_ms=timeout_ms, topic_data=[topic]), 9)


def code_of(response: Any) -> int:
    return int(response.responses[0].partition_responses[0].error_code)


def test_a_follower_that_lags_by_time_holds_acknowledgements_back() -> None:
    driver, partition = made()
    driver.state.part(ReplicaLag).set(2, ms=300)
    request = produce(driver)
    driver.pass_ms(299)
    assert request not in driver.late
    assert (partition.log.end_offset, partition.high_watermark) == (1, 0)
    driver.pass_ms(1)
    assert code_of(driver.late[request]) == 0
    assert partition.high_watermark == 1
    driver.pass_ms(5000)
    assert partition.isr == [1, 2]


def test_a_lag_below_the_limit_stays_in_sync_under_load() -> None:
    driver, partition = made()
    driver.state.part(ReplicaLag).set(2, ms=900)
    for _ in range(50):
        write(partition)
        driver.pass_ms(100)
    assert partition.isr == [1, 2]
    assert partition.log.end_offset - partition.high_watermark == 8


def test_a_lag_above_the_limit_leaves_those_in_sync_and_comes_back() -> None:
    driver, partition = made()
    driver.state.part(ReplicaLag).set(2, ms=1500)
    request = produce(driver)
    driver.pass_ms(999)
    assert request not in driver.late
    driver.pass_ms(1)
    assert code_of(driver.late[request]) == 0
    assert partition.isr == [1]
    metadata = protocol.MetadataRequest
    response = driver.ask(metadata(topics=[metadata.MetadataRequestTopic(name="t")]))
    assert response.topics[0].partitions[0].isr_nodes == [1]
    driver.pass_ms(500)
    assert partition.isr == [1, 2]


def test_too_few_in_sync_after_the_append() -> None:
    driver, partition = made(min_insync_replicas="2")
    driver.state.part(ReplicaLag).set(2, ms=5000)
    request = produce(driver)
    driver.pass_ms(1000)
    assert code_of(driver.late[request]) == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert code_of(driver.late[produce(driver)]) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.log.end_offset == 1


def test_a_lag_by_records_never_gets_the_last_ones() -> None:
    driver, partition = made()
    driver.state.part(ReplicaLag).set(2, records=3)
    write(partition, 10)
    driver.pass_ms(0)
    assert partition.high_watermark == 7
    driver.pass_ms(1000)
    assert partition.isr == [1]
    assert partition.high_watermark == 10
    driver.state.part(ReplicaLag).clear(2)
    assert partition.isr == [1, 2]
    write(partition)
    assert partition.high_watermark == 11


def test_records_that_a_new_leader_lacks_are_lost() -> None:
    driver, partition = made()
    driver.state.part(ReplicaLag).set(2, ms=500)
    write(partition, 2)
    driver.pass_ms(500)
    write(partition, 3)
    driver.state.move_leader("t", 0, 2)
    assert partition.log.end_offset == 2
    write(partition)
    assert partition.high_watermark == 3


def test_topics_that_are_made_later_lag_too() -> None:
    driver, _ = made()
    driver.state.part(ReplicaLag).set(2, ms=500)
    later = driver.state.topics.create("later", assignments=[[1, 2]]).partitions[0]
    write(later)
    assert later.high_watermark == 0
    driver.pass_ms(500)
    assert later.high_watermark == 1
