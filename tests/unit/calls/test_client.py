"""`calls.client`: the cluster as typed values, and requests that go to the controller."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import kafwire
from kafwire import protocol
from kafwire.calls.client import ClientCalls
from kafwire.cluster.cluster import Cluster
from kafwire.config import ClientConfig
from kafwire.error_codes import ErrorCode
from kafwire.errors import ConfigError, KafkaTimeoutError
from kafwire.testing.simulation.calls import Call
from tests.support.simulated.world import World


def test_the_cluster_as_values() -> None:
    with World(brokers=2) as world:
        topic = world.create_topic("t", partitions=3)
        cluster = Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap}))
        found = world.engine.run(ClientCalls(cluster).metadata(["t", "missing"]))
        assert isinstance(found, kafwire.ClusterMetadata)
        assert sorted(broker.node_id for broker in found.brokers) == [1, 2]
        assert all(isinstance(broker, kafwire.BrokerMetadata) and broker.port > 0 for broker in found.brokers)
        there, missing = found.topics
        assert (there.name, there.topic_id, there.error_code) == ("t", topic.topic_id, 0)
        assert [part.partition_index for part in there.partitions] == [0, 1, 2]
        assert [part.leader_id for part in there.partitions] == [log.leader for log in topic.partitions]
        assert all(part.leader_id in part.replica_nodes for part in there.partitions)
        assert (missing.name, missing.error_code, missing.partitions) == ("missing", 3, ())
        assert pickle.loads(pickle.dumps(found)) == found


class Controlled:
    """A simulated cluster in which one broker is the controller, and others refuse what it executes."""

    def __init__(self, world: World, controller: int) -> None:
        self.world = world
        self.controller = controller
        self.sent: list[int] = []  # the brokers that got a request for the controller, in order
        world.on("Metadata", self._metadata)
        for name in ("CreateTopics", "DeleteTopics", "CreatePartitions"):
            world.on(name, self._execute)

    def _metadata(self, call: Call) -> Any:
        response = self.world.serve(call)
        response.controller_id = self.controller
        return response

    def _execute(self, call: Call) -> Any:
        self.sent.append(call.node)
        code = ErrorCode.NONE if call.node == self.controller else ErrorCode.NOT_CONTROLLER
        response = type(call.message).response
        if call.message.__class__.__name__ == "CreateTopicsRequest":
            if not code:
                self.world.create_topic(call.message.topics[0].name)
            return response(topics=[response.CreatableTopicResult(name=call.message.topics[0].name, error_code=code)])
        if call.message.__class__.__name__ == "DeleteTopicsRequest":
            return response(responses=[response.DeletableTopicResult(name="t", error_code=code)])
        return response(results=[response.CreatePartitionsTopicResult(name="t", error_code=code)])


@pytest.mark.parametrize("controller", [1, 2, 3])
def test_requests_for_the_controller_go_to_the_controller(controller: int) -> None:
    with World(brokers=3) as world:
        controlled = Controlled(world, controller)
        requests = ClientCalls(Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap})))
        world.run(requests.create_topic("t", 1, 1, None)())
        world.run(requests.delete_topic("t")())
        world.run(requests.call(protocol.CreatePartitionsRequest(topics=[], timeout_ms=1_000))())
        assert controlled.sent == [controller] * 3


def test_a_controller_that_moved_is_found_again() -> None:
    with World(brokers=3) as world:
        controlled = Controlled(world, 1)
        requests = ClientCalls(Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap})))
        world.run(requests.create_topic("t", 1, 1, None)())
        controlled.controller = 3
        world.run(requests.create_topic("u", 1, 1, None)())
        assert controlled.sent == [1, 1, 3]


def test_a_controller_that_moved_is_found_after_damaged_metadata() -> None:
    """The damage of a moment ends no call that is retried."""
    with World(brokers=3) as world:
        controlled = Controlled(world, 1)
        requests = ClientCalls(Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap})))
        world.run(requests.create_topic("t", 1, 1, None)())
        controlled.controller = 3

        def metadata(call: Call) -> Any:
            response = controlled._metadata(call)
            if len(controlled.sent) == 2 and response.topics:
                response.topics[0].partitions[0].partition_index = -5
            return response

        world.on("Metadata", metadata)
        world.run(requests.create_topic("u", 1, 1, None)())
        assert controlled.sent == [1, 1, 1, 3]


def test_a_controller_that_is_gone_is_found_again() -> None:
    with World(brokers=3) as world:
        controlled = Controlled(world, 1)
        requests = ClientCalls(Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap})))
        world.run(requests.create_topic("t", 1, 1, None)())
        controlled.controller = 2
        world.kill(1)
        world.run(requests.delete_topic("t")())
        assert controlled.sent[-1] == 2


def test_a_cluster_without_a_controller_is_waited_for() -> None:
    with World(brokers=3) as world:
        controlled = Controlled(world, -1)
        requests = ClientCalls(Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap})))
        began = world.loop.time()
        world.loop.call_later(3, lambda: setattr(controlled, "controller", 2))
        world.run(requests.create_topic("t", 1, 1, None)())
        assert controlled.sent[-1] == 2
        assert 3 <= world.loop.time() - began < 6
        controlled.controller = -1
        world.run(requests._cluster.refresh(at_once=True))
        request = requests.call(protocol.CreatePartitionsRequest(topics=[], timeout_ms=1_000), timeout=2)
        with pytest.raises(KafkaTimeoutError, match="NOT_CONTROLLER"):
            world.run(request())


def test_added_partitions_are_waited_for() -> None:
    """A broker may know of them, and of their leaders, after the controller."""
    with World() as world:
        world.create_topic("t", partitions=2)
        requests = ClientCalls(Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap})))
        asked: list[Any] = []

        def grow(call: Call) -> Any:
            asked.extend((each.name, each.count, each.assignments) for each in call.message.topics)
            world.loop.call_later(3, lambda: world.add_partitions("t", 2))
            response = type(call.message).response
            return response(results=[response.CreatePartitionsTopicResult(name="t", error_code=ErrorCode.NONE)])

        world.on("CreatePartitions", grow)
        began = world.loop.time()
        world.run(requests.create_partitions("t", 4)())
        assert asked == [("t", 4, None)]
        assert 3 <= world.loop.time() - began < 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["t"], 3), r"\['t'\] is not a topic: write create_partitions\(topic, count\) for each topic"),
        (({"t": 3}, 3), "is not a topic"),
        (("t", 0), "count=0: the number of all partitions is needed"),
        (("t", True), "count=True: the number"),
        (("t", 1.5), "count=1.5: the number"),
        (("t", "3"), "count='3': the number"),
    ],
)
def test_added_partitions_wrong_arguments(arguments: tuple[Any, Any], message: str) -> None:
    with World() as world:
        requests = ClientCalls(Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap})))
        with pytest.raises(ConfigError, match=message):
            requests.create_partitions(*arguments)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        ("delete_topic", r"delete_topic\(topic\)"),
        ("topic_config", r"topic_config\(topic\)"),
        ("create_topic", r"create_topic\(topic\)"),
    ],
)
def test_a_list_of_topics_is_refused_where_one_is_needed(call: str, line: str) -> None:
    with World() as world:
        requests = ClientCalls(Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap})))
        rest = (1, 1, None) if call == "create_topic" else ()
        with pytest.raises(ConfigError, match=rf"\['t', 'u'\] is not a topic: write {line} for each topic"):
            getattr(requests, call)(["t", "u"], *rest)
