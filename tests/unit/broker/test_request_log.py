"""The log of requests: the fields of each, and how many are kept."""

from __future__ import annotations

from kafwire import protocol
from kafwire.broker.request import Request, SeenRequest
from kafwire.broker.request_log import RequestLog
from kafwire.broker.state import ClusterState
from tests.support.broker.driver import BrokerDriver


def metadata(*topics: str) -> protocol.MetadataRequest:
    asked = protocol.MetadataRequest
    return asked(topics=[asked.MetadataRequestTopic(name=topic) for topic in topics])


def test_the_kept_fields_of_a_request() -> None:
    driver = BrokerDriver(ClusterState((1, 2)))
    driver.state.topics.create("flights")
    driver.pass_ms(1500)
    connection = driver.state.connect(2)
    connection.principal = "User:alice"
    driver.ask(metadata("flights"), 12, connection=connection, client_id="app")
    (seen,) = driver.state.requests
    assert (seen.number, seen.api, seen.version, seen.node, seen.client_id) == (1, "Metadata", 12, 2, "app")
    assert (seen.principal, seen.connection, seen.at) == ("User:alice", connection.number, 1.5)
    assert seen.message.topics[0].name == "flights"
    assert (seen.topics, seen.partitions) == (["flights"], [("flights", None)])
    assert str(seen) == "    1.500 s  broker 2  connection 1  Metadata v12  of app  flights"


def test_topics_by_id_have_names() -> None:
    driver = BrokerDriver()
    topic = driver.state.topics.create("flights", 2)
    asked = protocol.FetchRequest
    parts = [asked.FetchPartition(partition=index) for index in (0, 1)]
    driver.send(asked(topics=[asked.FetchTopic(topic_id=topic.topic_id, partitions=parts)]), 16)
    (seen,) = driver.state.requests
    assert seen.partitions == [("flights", 0), ("flights", 1)]


def test_many_partitions_are_counted() -> None:
    seen = SeenRequest(1, "Metadata", 12, 1, None, "", 1, 0.0, metadata(*"abcdef"))
    assert str(seen).endswith("of an unnamed client  a, b, c, d and 2 more")
    seen.fault = "held"
    assert str(seen).endswith("more  [held]")


def test_requests_are_found() -> None:
    driver = BrokerDriver(ClusterState((1, 2)))
    driver.ask(metadata("a"), 12)
    driver.ask(metadata("b"), 12, node=2, client_id="other")
    driver.ask(protocol.ApiVersionsRequest(client_software_name="x", client_software_version="1"))
    find = driver.state.requests.find
    assert [seen.number for seen in find()] == [1, 2, 3]
    assert [seen.number for seen in find(["Metadata"])] == [1, 2]
    assert [seen.number for seen in find(["Metadata", "ApiVersions"], after=1)] == [2, 3]
    assert [seen.number for seen in find(node=2)] == [2]
    assert [seen.number for seen in find(client_id="other")] == [2]
    assert [seen.number for seen in find(topic="a")] == [1]


def test_the_log_has_an_end() -> None:
    state = ClusterState()
    log = RequestLog(state.topics, max_requests=3, max_bytes=100)
    reported: list[int] = []
    log.watchers.append(lambda seen: reported.append(seen.number))

    def add(size: int) -> list[int]:
        log.add(Request(state.connect(1), metadata("a"), 12, size=size))
        return [seen.number for seen in log]

    assert add(40) == [1]
    assert add(40) == [1, 2]
    assert add(40) == [2, 3]
    assert add(200) == [4]  # the newest is kept in any case
    assert add(1) == [5]
    assert [add(1) for _ in range(3)][-1] == [6, 7, 8]
    log.clear()
    assert len(log) == 0
    assert add(50) == [9]
    log.clear()
    assert add(60) == [10]
    assert add(40) == [10, 11]  # forgotten requests take no room
    assert reported == list(range(1, 12))
