"""Quotas: their owners, how long a client above its quota is throttled, and the response it gets."""

from __future__ import annotations

from typing import Any

from kafwire import protocol
from kafwire.broker import dispatch
from kafwire.broker.quotas import FETCHED, PRODUCED, Quotas, Rate
from kafwire.broker.request import Request
from kafwire.broker.state import ClusterState
from kafwire.records import encode_batch
from tests.support.broker.driver import BrokerDriver


def test_a_rate_is_measured_over_ten_seconds_at_least() -> None:
    rate = Rate()
    rate.add(20_000, 0)
    assert rate.measure(0) == (2000, 10_000)
    assert rate.excess_ms(1000, 0) == 10_000
    assert rate.excess_ms(2000, 0) == 0
    rate.add(-20_000, 0)
    assert rate.excess_ms(1000, 0) == 0


def test_old_samples_are_forgotten() -> None:
    rate = Rate()
    rate.add(20_000, 0)
    rate.add(0, 10_999)
    assert rate.measure(10_999)[0] > 0
    assert rate.measure(11_000)[0] == 0


def limit(quotas: Quotas, state: ClusterState, user: str, client: str, key: str = PRODUCED) -> Any:
    connection = state.connect(1)
    connection.principal = f"User:{user}"
    found = quotas.limit(Request(connection, protocol.ProduceRequest(), 9, client_id=client), key)
    return None if found is None else (found[0], dict(found[1]))


def test_the_most_specific_quota_counts() -> None:
    state = ClusterState()
    quotas = state.part(Quotas)
    steps = [
        ({"client-id": None}, {"client-id": "c"}),
        ({"client-id": "c"}, {"client-id": "c"}),
        ({"user": None}, {"user": "u"}),
        ({"user": None, "client-id": None}, {"user": "u", "client-id": "c"}),
        ({"user": None, "client-id": "c"}, {"user": "u", "client-id": "c"}),
        ({"user": "u"}, {"user": "u"}),
        ({"user": "u", "client-id": None}, {"user": "u", "client-id": "c"}),
        ({"user": "u", "client-id": "c"}, {"user": "u", "client-id": "c"}),
    ]
    assert limit(quotas, state, "u", "c") is None
    for value, (names, shared) in enumerate(steps, 1):
        quotas.set(names, {PRODUCED: value})
        assert limit(quotas, state, "u", "c") == (value, shared)
        assert limit(quotas, state, "u", "c", FETCHED) is None
    for names, _ in steps:
        quotas.set(names, {PRODUCED: None})
    assert not quotas.values


def test_fetches_above_a_quota_get_an_empty_response_and_count_once() -> None:
    driver = BrokerDriver()
    state = driver.state
    partition = state.topics.create("t").partitions[0]
    partition.append(encode_batch([b"x" * 3000]))
    state.part(Quotas).set({"client-id": "test"}, {FETCHED: 200})
    fetch = protocol.FetchRequest
    wanted = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    message = fetch(max_bytes=1 << 20, topics=[fetch.FetchTopic(topic="t", partitions=[wanted])])
    response = driver.ask(message, 12)
    assert response.throttle_time_ms > 0
    assert not response.responses
    state.part(Quotas).set({"client-id": "test"}, {FETCHED: 400})
    response = driver.ask(message, 12)
    assert response.throttle_time_ms == 0
    assert response.responses[0].partitions[0].records
    response = driver.ask(message, 12)
    assert response.throttle_time_ms > 0
    driver.pass_ms(20_000)
    assert driver.ask(message, 12).throttle_time_ms == 0


def test_producers_are_throttled_and_written() -> None:
    driver = BrokerDriver()
    state = driver.state
    partition = state.topics.create("t").partitions[0]
    state.part(Quotas).set({"client-id": None}, {PRODUCED: 10})
    produce = protocol.ProduceRequest
    data = produce.TopicProduceData(
        name="t", partition_data=[produce.PartitionProduceData(index=0, records=encode_batch([b"v"]))]
    )
    request = Request(driver.connection(), produce(acks=1, topic_data=[data]), 9, client_id="c", size=1000)
    dispatch.receive(state, request, 0)
    ((_, response),) = state.take_replies()
    assert response.throttle_time_ms == 90_000
    assert partition.log.end_offset == 1
