"""Fault scripts: the requests that meet a fault, and the work that is done all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.faults import Faults
from kafwire.broker.request import HANG_UP
from kafwire.broker.state import ClusterState
from kafwire.errors import ErrorCode
from kafwire.records import encode_batch
from tests.support.broker.driver import BrokerDriver


@pytest.fixture
def driver() -> BrokerDriver:
    state = ClusterState((1, 2))
    state.topics.create("flights", 2, 2)
    state.topics.create("trains", 1, 2)
    for topic in state.topics:
        for partition in topic.partitions:
            partition.lead(1)
    return BrokerDriver(state)


@pytest.fixture
def faults(driver: BrokerDriver) -> Faults:
    made: Faults = driver.state.part(Faults)
    return made


def produce(*places: tuple[str, int], acks: int = 1) -> Any:
    asked = protocol.ProduceRequest
    topics: dict[str, Any] = {}
    for topic, index in places:
        data = topics.setdefault(topic, asked.TopicProduceData(name=topic))
        data.partition_data.append(asked.PartitionProduceData(index=index, records=encode_batch([b"x"])))
    return asked(acks=acks, timeout_ms=1000, topic_data=list(topics.values()))


def fetch(driver: BrokerDriver, *places: tuple[str, int], session: int = 0, epoch: int = 0, wait_ms: int = 0) -> Any:
    asked = protocol.FetchRequest
    topics: dict[str, Any] = {}
    for topic, index in places:
        topic_id = driver.state.topics.by_name[topic].topic_id
        wanted = topics.setdefault(topic, asked.FetchTopic(topic_id=topic_id))
        wanted.partitions.append(asked.FetchPartition(partition=index, partition_max_bytes=1 << 20))
    return asked(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session,
        session_epoch=epoch,
        topics=list(topics.values()),
    )


def reported(response: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, part.index): part.error_code for topic in response.responses for part in topic.partition_responses
    }


def stored(driver: BrokerDriver, topic: str, partition: int = 0) -> int:
    found = driver.state.topics.partition(topic, partition)
    assert found is not None
    return found.log.end_offset


def test_the_next_requests_fail(driver: BrokerDriver, faults: Faults) -> None:
    fault = faults.fail_next("Produce", "NOT_ENOUGH_REPLICAS", times=2)
    responses = [driver.ask(produce(("flights", 0)), 12) for _ in range(3)]
    assert [reported(response) for response in responses] == [{("flights", 0): code} for code in (19, 19, 0)]
    assert stored(driver, "flights") == 1
    assert fault.times == 2
    assert faults.script == []


def test_all_requests_fail_until_the_script_is_cleared(driver: BrokerDriver, faults: Faults) -> None:
    faults.fail_next("Produce", ErrorCode.NOT_ENOUGH_REPLICAS, times=None)
    assert all(19 in reported(driver.ask(produce(("flights", 0)), 12)).values() for _ in range(5))
    faults.clear()
    assert reported(driver.ask(produce(("flights", 0)), 12)) == {("flights", 0): 0}


def test_other_parts_of_a_request_are_carried_out(driver: BrokerDriver, faults: Faults) -> None:
    faults.fail_next("Produce", "NOT_ENOUGH_REPLICAS", topic="flights", partition=1)
    assert reported(driver.ask(produce(("flights", 0)), 12)) == {("flights", 0): 0}  # it is not meant for this one
    response = driver.ask(produce(("flights", 0), ("flights", 1), ("trains", 0)), 12)
    assert reported(response) == {("flights", 0): 0, ("flights", 1): 19, ("trains", 0): 0}
    assert [topic.name for topic in response.responses] == ["flights", "trains"]
    assert (stored(driver, "flights", 0), stored(driver, "flights", 1), stored(driver, "trains")) == (2, 0, 1)


def test_a_topic_fails_as_a_whole(driver: BrokerDriver, faults: Faults) -> None:
    faults.fail_next("Produce", "NOT_ENOUGH_REPLICAS", topic="flights", message="too few")
    response = driver.ask(produce(("flights", 0), ("flights", 1), ("trains", 0)), 12)
    assert reported(response) == {("flights", 0): 19, ("flights", 1): 19, ("trains", 0): 0}
    assert {p.error_message for t in response.responses for p in t.partition_responses} == {"too few", None}


def test_the_rest_of_a_request_without_response_is_done(driver: BrokerDriver, faults: Faults) -> None:
    faults.fail_next("Produce", "NOT_ENOUGH_REPLICAS", topic="flights")
    assert driver.ask(produce(("flights", 0), ("trains", 0), acks=0), 12) is HANG_UP
    assert (stored(driver, "flights"), stored(driver, "trains")) == (0, 1)


def test_a_request_that_was_executed_fails(driver: BrokerDriver, faults: Faults) -> None:
    fault = faults.fail_next("Produce", "REQUEST_TIMED_OUT", executed=True, topic="flights", partition=0)
    response = driver.ask(produce(("flights", 0), ("flights", 1)), 12)
    assert reported(response) == {("flights", 0): ErrorCode.REQUEST_TIMED_OUT, ("flights", 1): 0}
    assert (stored(driver, "flights", 0), stored(driver, "flights", 1)) == (1, 1)
    assert (fault.times, str(fault)) == (1, "fails with REQUEST_TIMED_OUT when it is done")


def test_a_request_without_response_that_was_executed_ends_its_connection(driver: BrokerDriver, faults: Faults) -> None:
    faults.fail_next("Produce", "REQUEST_TIMED_OUT", executed=True)
    assert driver.ask(produce(("flights", 0), acks=0), 12) is HANG_UP
    assert stored(driver, "flights") == 1


def test_a_response_that_comes_later_has_the_error_too(driver: BrokerDriver, faults: Faults) -> None:
    partition = driver.state.topics.partition("trains", 0)
    assert partition is not None
    partition.replica_ends[2] = 0  # it lags: acks=all waits
    faults.fail_next("Produce", "NOT_ENOUGH_REPLICAS", topic="flights")
    request = driver.send(produce(("flights", 0), ("trains", 0), acks=-1), 12)
    assert request not in driver.late
    partition.replicate(2)
    driver.pass_ms(0)
    assert reported(driver.late[request]) == {("flights", 0): 19, ("trains", 0): 0}


@pytest.mark.parametrize(
    ("make", "meets"),
    [
        (lambda faults: faults.hang_up("Produce", node=2), False),
        (lambda faults: faults.hang_up("Produce", node=1), True),
        (lambda faults: faults.hang_up("Produce", client_id="other"), False),
        (lambda faults: faults.hang_up("Produce", client_id="test"), True),
        (lambda faults: faults.hang_up("Produce", topic="trains"), False),
        (lambda faults: faults.hang_up("Produce", topic="flights", partition=0), True),
        (lambda faults: faults.hang_up("Produce", partition=1), False),
        (lambda faults: faults.hang_up(["Fetch", "Metadata"]), False),
        (lambda faults: faults.hang_up(["Fetch", "Produce"]), True),
    ],
)
def test_whose_requests_are_meant(
    driver: BrokerDriver, faults: Faults, make: Callable[[Faults], object], meets: bool
) -> None:
    make(faults)
    assert (driver.ask(produce(("flights", 0)), 12) is HANG_UP) == meets
    assert stored(driver, "flights") == (not meets)


def test_a_request_whose_response_is_dropped_is_carried_out(driver: BrokerDriver, faults: Faults) -> None:
    faults.drop_response("Produce")
    assert driver.ask(produce(("flights", 0)), 12) is HANG_UP
    assert stored(driver, "flights") == 1


def test_delays_add_up_and_other_faults_come_behind(driver: BrokerDriver, faults: Faults) -> None:
    faults.delay("Produce", 0.2)
    faults.delay("Produce", 0.3, times=1)
    faults.fail_next("Produce", "NOT_ENOUGH_REPLICAS")
    first = driver.send(produce(("flights", 0)), 12)
    driver.pass_ms(499)
    assert first not in driver.late
    driver.pass_ms(1)
    assert reported(driver.late[first]) == {("flights", 0): 19}
    assert first.seen is not None
    assert first.seen.fault == "delayed by 0.2 s, delayed by 0.3 s, fails with NOT_ENOUGH_REPLICAS"
    second = driver.send(produce(("flights", 0)), 12)
    assert stored(driver, "flights") == 1  # the request is executed at once
    driver.pass_ms(200)
    assert reported(driver.late[second]) == {("flights", 0): 0}


def test_a_delayed_response_has_an_error_once(driver: BrokerDriver, faults: Faults) -> None:
    faults.delay("Produce", 0.1)
    faults.fail_next("Produce", "NOT_ENOUGH_REPLICAS", topic="flights")
    request = driver.send(produce(("flights", 0), ("trains", 0)), 12)
    driver.pass_ms(100)
    reported_by = [(topic.name, len(topic.partition_responses)) for topic in driver.late[request].responses]
    assert sorted(reported_by) == [("flights", 1), ("trains", 1)]


def test_held_requests_are_served_in_order_when_they_are_released(driver: BrokerDriver, faults: Faults) -> None:
    faults.delay("Produce", 0.1, times=None)
    fault = faults.hold("Produce")
    requests = [driver.send(produce(("flights", 0)), 12) for _ in range(3)]
    closed = driver.state.connect(1)
    driver.send(produce(("flights", 0)), 12, connection=closed)
    driver.state.disconnect(closed)
    driver.pass_ms(10_000)
    assert stored(driver, "flights") == 0
    assert driver.late == {}
    faults.release(fault)
    driver.pass_ms(0)
    assert stored(driver, "flights") == 3  # and nothing of the closed connection
    assert driver.late == {}
    driver.pass_ms(100)  # each was delayed once
    assert list(driver.late) == requests
    assert reported(driver.ask(produce(("flights", 0)), 12) or driver.late[requests[2]])


def test_a_held_request_meets_the_faults_behind(driver: BrokerDriver, faults: Faults) -> None:
    fault = faults.hold("Produce")
    request = driver.send(produce(("flights", 0)), 12)
    faults.fail_next("Produce", "NOT_ENOUGH_REPLICAS")
    faults.release(fault)
    driver.pass_ms(0)
    assert reported(driver.late[request]) == {("flights", 0): 19}


# --- APIs that need their handlers


def test_fetch_errors_are_a_partition_s_and_the_session_goes_on(driver: BrokerDriver, faults: Faults) -> None:
    driver.ask(produce(("flights", 0), ("flights", 1)), 12)
    faults.fail_next("Fetch", "KAFKA_STORAGE_ERROR", topic="flights", partition=1)
    response = driver.ask(fetch(driver, ("flights", 0), ("flights", 1)), 16)
    codes = {part.partition_index: part.error_code for topic in response.responses for part in topic.partitions}
    assert codes == {0: 0, 1: 56}
    assert response.session_id
    assert any(part.records for topic in response.responses for part in topic.partitions)
    # A request of the session names no partition, and is about them all the same.
    fault = faults.fail_next("Fetch", "UNKNOWN_LEADER_EPOCH", topic="flights")
    faults.fail_next("Fetch", "KAFKA_STORAGE_ERROR", topic="trains")
    response = driver.ask(fetch(driver, session=response.session_id, epoch=1), 16)
    assert response.error_code == 0
    codes = {part.partition_index: part.error_code for topic in response.responses for part in topic.partitions}
    assert codes == {0: 75, 1: 75}
    assert fault.times == 1
    assert len(faults.script) == 1
    response = driver.ask(fetch(driver, session=response.session_id, epoch=2), 16)
    assert not any(part.error_code for topic in response.responses for part in topic.partitions)


def test_partitions_that_a_session_forgets_meet_no_fault(driver: BrokerDriver, faults: Faults) -> None:
    response = driver.ask(fetch(driver, ("flights", 0), ("trains", 0)), 16)
    fault = faults.fail_next("Fetch", "KAFKA_STORAGE_ERROR", topic="trains")
    message = fetch(driver, session=response.session_id, epoch=1)
    topic_id = driver.state.topics.by_name["trains"].topic_id
    message.forgotten_topics_data = [protocol.FetchRequest.ForgottenTopic(topic_id=topic_id, partitions=[0])]
    assert driver.ask(message, 16).responses == []
    assert fault.times == 0


def test_other_errors_of_fetch_are_at_the_partitions(driver: BrokerDriver, faults: Faults) -> None:
    faults.fail_next("Fetch", "KAFKA_STORAGE_ERROR")
    response = driver.ask(fetch(driver, ("flights", 0)), 16)
    assert (response.error_code, response.responses[0].partitions[0].error_code) == (0, 56)


def test_session_errors_are_at_the_top(driver: BrokerDriver, faults: Faults) -> None:
    faults.fail_next("Fetch", "FETCH_SESSION_ID_NOT_FOUND")
    response = driver.ask(fetch(driver, ("flights", 0)), 16)
    assert (response.error_code, response.responses) == (70, [])


def test_metadata_errors_are_a_topic_s_and_brokers_are_listed(driver: BrokerDriver, faults: Faults) -> None:
    asked = protocol.MetadataRequest
    every = asked(topics=None)
    faults.fail_next("Metadata", "LEADER_NOT_AVAILABLE", topic="flights")
    response = driver.ask(every, 12)
    assert {topic.name: (topic.error_code, len(topic.partitions)) for topic in response.topics} == {
        "flights": (5, 0),
        "trains": (0, 1),
    }
    assert len(response.brokers) == 2
    faults.fail_next("Metadata", "LEADER_NOT_AVAILABLE")
    response = driver.ask(asked(topics=[asked.MetadataRequestTopic(name="flights")]), 12)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("flights", 5)]
    assert len(response.brokers) == 2
    faults.fail_next("Metadata", "LEADER_NOT_AVAILABLE", partition=1)
    response = driver.ask(every, 12)
    codes = {(t.name, p.partition_index): (p.error_code, p.leader_id) for t in response.topics for p in t.partitions}
    assert codes == {("flights", 0): (0, 1), ("flights", 1): (5, -1), ("trains", 0): (0, 1)}


def test_a_request_without_a_place_for_the_error_does_not_count(driver: BrokerDriver, faults: Faults) -> None:
    fault = faults.fail_next("Metadata", "LEADER_NOT_AVAILABLE")
    assert driver.ask(protocol.MetadataRequest(topics=[]), 12).topics == []
    assert fault.times == 0
    assert driver.ask(protocol.MetadataRequest(topics=None), 12).topics[0].error_code == 5
    assert fault.times == 1


def test_a_cluster_s_error_of_metadata_is_at_the_top(driver: BrokerDriver, faults: Faults) -> None:
    faults.fail_next("Metadata", "REBOOTSTRAP_REQUIRED")
    assert driver.ask(protocol.MetadataRequest(topics=[]), 12).brokers  # this version has no room for it
    response = driver.ask(protocol.MetadataRequest(topics=None), 13)
    assert (response.error_code, len(response.brokers)) == (129, 2)
    assert {topic.error_code for topic in response.topics} == {0}


# --- the cluster


def test_brokers_leaders_and_coordinators_move(driver: BrokerDriver, faults: Faults) -> None:
    state = driver.state
    faults.move_leader("flights", 0, 2)
    assert reported(driver.ask(produce(("flights", 0)), 12)) == {("flights", 0): 6}
    assert reported(driver.ask(produce(("flights", 0)), 12, node=2)) == {("flights", 0): 0}
    faults.move_coordinator("riders", 2)
    assert state.coordinator("riders") == 2
    faults.stop_node(2)
    faults.stop_node(2)
    assert not state.nodes[2].is_up
    assert reported(driver.ask(produce(("flights", 0)), 12)) == {("flights", 0): 0}
    epoch = state.nodes[2].epoch
    faults.start_node(2)
    faults.start_node(2)
    assert state.nodes[2].epoch == epoch + 1


# --- mistakes


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda f: f.fail_next("Produce", "NOT_ENOUGH_REPLICA"), "did you mean NOT_ENOUGH_REPLICAS"),
        (lambda f: f.fail_next("Produce", "xyz"), "Kafka has no error 'xyz'$"),
        (lambda f: f.fail_next("Produce", 4711), "4711"),
        (lambda f: f.fail_next("Produced", "NONE"), "no API 'Produced'; did you mean Produce"),
        (lambda f: f.fail_next("produce", "NONE"), "did you mean Produce"),
        (lambda f: f.fail_next("ProduceRequest", "NONE"), "did you mean Produce"),
        (lambda f: f.fail_next("Vote", "NONE"), "does not serve Vote"),
        (lambda f: f.fail_next("Heartbeat", "UNKNOWN_MEMBER_ID", topic="flights"), "Heartbeat requests name no topic"),
        (lambda f: f.hang_up("CreateTopics", partition=0), "CreateTopics requests name no partition"),
        (lambda f: f.hang_up("Produce", times=0), "it must be 1 or more"),
        (lambda f: f.hang_up("Produce", node=3), "no broker 3; there are 1, 2"),
        (lambda f: f.move_leader("flights", 0, 7), "no broker 7"),
        (lambda f: f.stop_node(-1), "no broker -1"),
    ],
)
def test_mistakes_are_errors(faults: Faults, call: Callable[[Faults], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call(faults)
    assert faults.script == []
