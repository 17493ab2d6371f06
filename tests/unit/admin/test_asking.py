"""`admin.asking`: each key has one outcome, whatever becomes of the requests."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire import protocol
from kafwire.admin import ConfigResource
from kafwire.admin.asking import UNCERTAIN
from kafwire.cluster.requirements import needs
from kafwire.errors import (
    AdminError,
    BrokerError,
    ErrorCode,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
)
from kafwire.testing.simulation.calls import HANGUP, NEVER, Call
from kafwire.types import TopicPartition
from tests.support.simulated.flavours import Flavour

CREATED = protocol.CreateTopicsResponse.CreatableTopicResult


def lose_first_response(flavour: Flavour, api: str) -> None:
    """Let the broker execute the first request of an API, and then close the connection."""
    lost = [True]

    def respond(call: Call) -> Any:
        if not lost:
            return None
        lost.pop()
        flavour.world.serve(call)
        return HANGUP

    flavour.world.on(api, respond)


def test_a_topic_that_was_created_before_the_controller_was_lost(flavour: Flavour) -> None:
    """As in Java, the request is sent again: it finds the topics of the first request."""
    lose_first_response(flavour, "CreateTopics")
    with pytest.raises(AdminError, match="2 of 2 failed") as caught:
        flavour.get(flavour.admin().create_topics(["t", "u"]))
    assert not caught.value.results
    assert [error.code for error in caught.value.errors.values()] == [ErrorCode.TOPIC_ALREADY_EXISTS] * 2
    assert sorted(flavour.world.topics) == ["t", "u"]


@pytest.mark.parametrize(
    ("api", "method", "argument", "code"),
    [
        ("DeleteTopics", "delete_topics", ["t"], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("CreatePartitions", "create_partitions", {"t": 2}, ErrorCode.INVALID_PARTITIONS),
    ],
)
def test_a_change_that_was_made_before_the_controller_was_lost(
    flavour: Flavour, api: str, method: str, argument: Any, code: int
) -> None:
    flavour.world.create_topic("t")
    lose_first_response(flavour, api)
    with pytest.raises(BrokerError) as caught:
        flavour.get(getattr(flavour.admin(), method)(argument))
    assert caught.value.code == code
    assert len(flavour.world.made(api)) == 2


def test_a_controller_lost_for_good_leaves_no_half_result(flavour: Flavour) -> None:
    flavour.world.on("CreateTopics", lambda _: HANGUP)
    errors: dict[str, KafkaError] = {}
    created = flavour.get(flavour.admin().create_topics(["t", "u"], timeout=2, on_error=errors.__setitem__))
    assert created == {}
    assert list(errors) == ["t", "u"]
    assert {type(error) for error in errors.values()} == {KafkaConnectionError}
    assert all(str(error).endswith(UNCERTAIN) for error in errors.values())
    assert len(flavour.world.made("CreateTopics")) < 15, "the waits between the attempts grow"


def test_a_call_to_all_brokers_has_one_time_limit(flavour: Flavour) -> None:
    flavour.world.on("DescribeLogDirs", lambda call: NEVER if call.node == 2 else None)
    started, errors = flavour.engine.now_ms(), dict[int, KafkaError]()
    found = flavour.get(flavour.admin().describe_log_dirs(timeout=2, on_error=errors.__setitem__))
    assert (list(found), list(errors)) == ([1], [2])
    assert UNCERTAIN not in str(errors[2])
    assert flavour.engine.now_ms() - started <= 2100


def test_a_coordinator_that_hangs_up_is_looked_up_again(flavour: Flavour) -> None:
    admin, coordinator = flavour.admin(), 1

    def respond(call: Call) -> Any:
        flavour.world.move_coordinator("g", 2)
        return HANGUP if call.node == coordinator else None

    flavour.world.move_coordinator("g", coordinator)
    flavour.world.on("DeleteGroups", respond)
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        flavour.get(admin.delete_groups(["g"]))
    assert [call.node for call in flavour.world.made("DeleteGroups")] == [1, 2]


def test_a_broker_with_a_new_address_is_found_again(flavour: Flavour) -> None:
    admin = flavour.admin()
    flavour.get(admin.describe_log_dirs([2]))
    flavour.world.break_connections(2)
    flavour.world.nodes[2].host = "10.0.1.2"
    assert list(flavour.get(admin.describe_log_dirs([2], timeout=20))) == [2]


def test_any_broker_serves_calls_about_topics(flavour: Flavour) -> None:
    flavour.world.create_topic("t")
    flavour.world.nodes[1].down = True
    topic = ConfigResource.topic("t")
    assert list(flavour.get(flavour.admin().describe_configs([topic], timeout=10))) == [topic]


def test_only_the_lack_of_the_api_is_the_error_of_an_old_broker() -> None:
    request = protocol.ElectLeadersRequest
    with (
        pytest.raises(ProtocolError, match="elect needs Kafka 2.2 or newer: why"),
        needs(request, "elect", "2.2"),
    ):
        raise ProtocolError("why", api="ElectLeadersRequest")
    with pytest.raises(ProtocolError, match="^damaged"), needs(request, "elect", "2.2"):
        raise ProtocolError("damaged", api="ElectLeadersResponse")


def test_only_the_keys_without_an_outcome_are_sent_again(flavour: Flavour) -> None:
    throttled = [True]

    def respond(call: Call) -> Any:
        if not throttled:
            return None
        throttled.pop()
        response = flavour.world.serve(call)
        response.topics[0] = CREATED(name="t", error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        flavour.world.state.topics.by_name.pop("t")
        return response

    flavour.world.on("CreateTopics", respond)
    created = flavour.get(flavour.admin().create_topics(["t", "u"]))
    assert list(created) == ["t", "u"], "in the order of the keys"
    assert [[topic.name for topic in call.message.topics] for call in flavour.world.made("CreateTopics")] == [
        ["t", "u"],
        ["t"],
    ]


def test_a_response_with_other_keys(flavour: Flavour) -> None:
    """A key that the response lacks has an error; a key that the call does not have is no result."""
    topics = [CREATED(name="u"), CREATED(name="stranger")]
    flavour.world.on("CreateTopics", lambda _: protocol.CreateTopicsResponse(topics=topics))
    with pytest.raises(AdminError) as caught:
        flavour.get(flavour.admin().create_topics(["t", "u"]))
    assert list(caught.value.results) == ["u"]
    error = caught.value.errors["t"]
    assert isinstance(error, ProtocolError)
    assert "sent a response without 't'" in str(error)


def test_a_broker_that_is_silent_hides_no_result(flavour: Flavour) -> None:
    flavour.world.create_topic("t", partitions=2)
    flavour.world.move_leader("t", 0, 1)
    flavour.world.move_leader("t", 1, 2)
    flavour.world.on("ListOffsets", lambda call: NEVER if call.node == 2 else None)
    offsets = {TopicPartition("t", 0): "latest", TopicPartition("t", 1): "latest"}
    with pytest.raises(AdminError) as caught:
        flavour.get(flavour.admin().list_offsets(offsets, timeout=3))
    assert [where.partition for where in caught.value.results] == [0]
    assert isinstance(caught.value.errors[TopicPartition("t", 1)], KafkaTimeoutError)


@pytest.mark.parametrize("method", ["create_topics", "describe_groups"])
def test_a_closed_client_ends_its_calls(flavour: Flavour, method: str) -> None:
    admin = flavour.admin()
    started = flavour.engine.now_ms()

    def respond(_: Call) -> Any:
        flavour.engine.start(admin._cluster.shut)
        return HANGUP

    flavour.world.on("CreateTopics", respond)
    flavour.world.on("FindCoordinator", respond)
    with pytest.raises(KafkaConnectionError, match="the client was closed"):
        flavour.get(getattr(admin, method)(["t"]))
    assert flavour.engine.now_ms() - started < 5000, "not at the time limit of all attempts"
