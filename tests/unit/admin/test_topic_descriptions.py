"""`admin.topics`: lists and descriptions of topics, by either API, and topics by their ids, in both faces."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from kafwire import protocol
from kafwire.admin import NewPartitions, NewTopic, PartitionDescription, TopicListing
from kafwire.admin.operations import operations_of
from kafwire.broker.security.acls import Operation
from kafwire.errors import (
    AdminError,
    AuthorizationError,
    BrokerError,
    ConfigError,
    ErrorCode,
    KafkaError,
    ProtocolError,
)
from kafwire.testing.simulation.calls import HANGUP, Call
from kafwire.types import TopicPartition
from tests.support.simulated.flavours import Flavour

UNKNOWN = uuid.UUID(int=7)


def make_old(flavour: Flavour, **versions: tuple[int, int]) -> None:
    """Take DescribeTopicPartitions from the brokers, and give them these versions of other APIs."""
    flavour.world.on("ApiVersions", lambda call: _without_pages(flavour, call, versions))


async def _without_pages(flavour: Flavour, call: Call, versions: dict[str, tuple[int, int]]) -> Any:
    response = await flavour.world.response_to(call)
    lacking = protocol.DescribeTopicPartitionsRequest.api_key
    response.api_keys = [each for each in response.api_keys if each.api_key != lacking]
    for name, (low, high) in versions.items():
        request: Any = protocol.MESSAGES[f"{name}Request"]
        for each in response.api_keys:
            if each.api_key == request.api_key:
                each.min_version, each.max_version = low, high
    return response


@pytest.fixture(params=["pages", "metadata"])
def api(request: pytest.FixtureRequest, flavour: Flavour) -> Iterator[str]:
    """The API that the brokers have; the other one gets no request."""
    if request.param == "metadata":
        make_old(flavour)
    yield str(request.param)
    if request.param == "metadata":
        assert not flavour.world.made("DescribeTopicPartitions")


def test_topics_are_listed(flavour: Flavour) -> None:
    for name in ("u", "t"):
        flavour.world.create_topic(name)
    flavour.world.topics["u"].is_internal = True
    admin = flavour.admin()
    topic_id = flavour.world.topics["t"].topic_id
    assert flavour.get(admin.list_topics()) == {"t": TopicListing("t", topic_id, False)}
    every = flavour.get(admin.list_topics(internal=True))
    assert list(every) == ["t", "u"]
    assert every["u"].is_internal


def test_a_list_is_retried(flavour: Flavour) -> None:
    lost = [HANGUP, HANGUP]
    flavour.world.on("Metadata", lambda _: lost.pop() if lost else None)
    assert flavour.get(flavour.admin().list_topics()) == {}
    assert not lost


def test_a_topic_is_described(flavour: Flavour, api: str) -> None:
    flavour.world.create_topic("t", partitions=2, replicas=2)
    topic = flavour.world.topics["t"]
    topic.partitions[1].leader = -1
    topic.partitions[1].isr = [2]
    found = flavour.get(flavour.admin().describe_topics(["t"]))["t"]
    assert (found.name, found.topic_id, found.is_internal) == ("t", topic.topic_id, False)
    assert found.authorized_operations is None
    assert [each.partition for each in found.partitions] == [0, 1]
    first, second = found.partitions
    assert first == PartitionDescription(
        partition=0,
        leader=topic.partitions[0].leader,
        leader_epoch=topic.partitions[0].leader_epoch,
        replicas=tuple(topic.partitions[0].replicas),
        isr=tuple(topic.partitions[0].isr),
        offline_replicas=(),
        eligible_leaders=() if api == "pages" else None,
        last_known_eligible=() if api == "pages" else None,
    )
    assert (second.leader, second.isr) == (None, (2,))


def test_a_warm_call_is_one_round_trip(flavour: Flavour, api: str) -> None:
    flavour.world.create_topic("t")
    admin = flavour.admin()
    flavour.get(admin.describe_topics(["t"]))
    before = len(flavour.world.calls)
    flavour.get(admin.describe_topics(["t"]))
    asked = {"pages": "DescribeTopicPartitions", "metadata": "Metadata"}[api]
    assert [call.name for call in flavour.world.calls[before:]] == [asked]


def test_eligible_leaders_and_epochs_are_those_of_the_broker(flavour: Flavour) -> None:
    response = protocol.DescribeTopicPartitionsResponse
    parts = [
        response.DescribeTopicPartitionsResponsePartition(
            partition_index=index,
            leader_id=1,
            leader_epoch=-1,
            replica_nodes=[1, 2, 3],
            isr_nodes=[1],
            eligible_leader_replicas=[2],
            last_known_elr=[3] if index else None,
            offline_replicas=[3],
        )
        for index in (1, 0)
    ]
    topic = response.DescribeTopicPartitionsResponseTopic(name="t", topic_id=uuid.UUID(int=0), partitions=parts)
    flavour.world.on("DescribeTopicPartitions", lambda _: response(topics=[topic]))
    found = flavour.get(flavour.admin().describe_topics(["t"]))["t"]
    assert found.topic_id is None
    assert found.partitions == (
        PartitionDescription(0, 1, None, (1, 2, 3), (1,), (3,), (2,), None),
        PartitionDescription(1, 1, None, (1, 2, 3), (1,), (3,), (2,), (3,)),
    )


def test_operations_are_those_of_the_acls(flavour: Flavour, api: str) -> None:
    flavour.world.create_topic("t")
    admin = flavour.admin()
    every = flavour.get(admin.describe_topics(["t"], authorized_operations=True))["t"].authorized_operations
    assert {"Read", "Write", "DescribeConfigs", "Delete"} <= every
    assert "ClusterAction" not in every
    assert api


def test_operations_have_the_names_of_acls() -> None:
    for operation in set(Operation) - {Operation.ALL}:
        assert operations_of(1 << operation) == frozenset({operation.name.title().replace("_", "")})


def test_one_topic_that_does_not_exist_hides_no_other(flavour: Flavour, api: str) -> None:
    flavour.world.create_topic("t")
    admin = flavour.admin()
    with pytest.raises(AdminError, match=r"1 of 2 failed: x: UNKNOWN_TOPIC_OR_PARTITION") as caught:
        flavour.get(admin.describe_topics(["x", "t"]))
    assert list(caught.value.results) == ["t"]
    errors: dict[Any, KafkaError] = {}
    found = flavour.get(admin.describe_topics(["x", "t"], on_error=errors.__setitem__))
    assert (list(found), list(errors)) == (["t"], ["x"])
    with pytest.raises(BrokerError, match="describing topic 'x'"):
        flavour.get(admin.describe_topics(["x"]))
    assert api


def test_a_topic_without_permission(flavour: Flavour) -> None:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    response = protocol.DescribeTopicPartitionsResponse
    topic = response.DescribeTopicPartitionsResponseTopic(name="t", error_code=code)
    flavour.world.on("DescribeTopicPartitions", lambda _: response(topics=[topic]))
    with pytest.raises(AuthorizationError, match="permits Describe on Topic 't'"):
        flavour.get(flavour.admin().describe_topics(["t"]))


def test_pages_are_joined(flavour: Flavour) -> None:
    """Pages of 3 partitions end within topics and between them."""
    sizes = {"a": 2, "b": 5, "c": 1, "d": 3}
    for name, partitions in sizes.items():
        flavour.world.create_topic(name, partitions=partitions)

    def shorten(call: Call) -> None:
        call.message.response_partition_limit = 3

    flavour.world.on("DescribeTopicPartitions", shorten)
    found = flavour.get(flavour.admin().describe_topics(["d", "c", "x", "b", "a"], on_error=lambda *_: None))
    assert list(found) == ["d", "c", "b", "a"], "in the order of the call"
    for name, description in found.items():
        assert [each.partition for each in description.partitions] == list(range(sizes[name]))
    asked = [[topic.name for topic in call.message.topics] for call in flavour.world.made("DescribeTopicPartitions")]
    assert asked[0] == ["a", "b", "c", "d", "x"]
    assert asked[-1][0] == "d", "topics of earlier pages are not asked for again"


def test_pages_that_do_not_advance_end(flavour: Flavour) -> None:
    response = protocol.DescribeTopicPartitionsResponse
    cursor = response.Cursor(topic_name="t", partition_index=1)
    flavour.world.on("DescribeTopicPartitions", lambda _: response(topics=[], next_cursor=cursor))
    with pytest.raises(ProtocolError, match="do not advance"):
        flavour.get(flavour.admin().describe_topics(["t"]))


def test_a_topic_that_is_deleted_between_two_pages_has_an_error(flavour: Flavour) -> None:
    for name in "ab":
        flavour.world.create_topic(name, partitions=4)
    made = flavour.world.made

    def shorten(call: Call) -> None:
        call.message.response_partition_limit = 3
        if len(made("DescribeTopicPartitions")) == 2:
            flavour.world.state.topics.delete(flavour.world.topics["a"])

    flavour.world.on("DescribeTopicPartitions", shorten)
    errors: dict[Any, KafkaError] = {}
    found = flavour.get(flavour.admin().describe_topics(["a", "b"], on_error=errors.__setitem__))
    assert len(found["b"].partitions) == 4
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(errors["a"])


def test_topics_of_earlier_pages_are_not_lost_with_the_connection(flavour: Flavour) -> None:
    for name in "abc":
        flavour.world.create_topic(name, partitions=2)

    def respond(call: Call) -> Any:
        if [topic.name for topic in call.message.topics] == ["a", "b", "c"]:
            call.message.response_partition_limit = 3
        return None if call.message.cursor is None else HANGUP

    flavour.world.on("DescribeTopicPartitions", respond)
    found = flavour.get(flavour.admin().describe_topics(["a", "b", "c"]))
    assert {name: len(each.partitions) for name, each in found.items()} == {"a": 2, "b": 2, "c": 2}


def test_many_topics_are_requested_in_parts_of_metadata(flavour: Flavour, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafwire.admin.topic_descriptions.PAGE", 2)
    make_old(flavour)
    for name in "abc":
        flavour.world.create_topic(name)
    assert list(flavour.get(flavour.admin().describe_topics(["c", "b", "a"]))) == ["c", "b", "a"]
    asked = [[topic.name for topic in call.message.topics] for call in flavour.world.made("Metadata")]
    assert asked[-2:] == [["a", "b"], ["c"]]


def test_topics_are_described_by_their_ids(flavour: Flavour) -> None:
    for name in "tu":
        flavour.world.create_topic(name)
    topic_id = flavour.world.topics["t"].topic_id
    admin = flavour.admin()
    found = flavour.get(admin.describe_topics([topic_id, "u"]))
    assert [each.name for each in found.values()] == ["t", "u"]
    assert list(found) == [topic_id, "u"]
    with pytest.raises(BrokerError, match=f"UNKNOWN_TOPIC_ID.*describing topic {UNKNOWN}"):
        flavour.get(admin.describe_topics([UNKNOWN]))


def test_ids_that_cannot_be_looked_up_hide_no_name(flavour: Flavour) -> None:
    flavour.world.create_topic("t")
    topic_id = flavour.world.topics["t"].topic_id
    admin, errors = flavour.admin(), dict[Any, KafkaError]()
    flavour.get(admin.list_topics())
    flavour.world.on("Metadata", lambda _: HANGUP)
    assert list(flavour.get(admin.describe_topics(["t", topic_id], timeout=2, on_error=errors.__setitem__))) == ["t"]
    assert list(errors) == [topic_id]


def test_a_description_creates_no_topic(flavour: Flavour) -> None:
    make_old(flavour)
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        flavour.get(flavour.admin().describe_topics(["nope"]))
    assert not any(call.message.allow_auto_topic_creation for call in flavour.world.made("Metadata"))


def test_a_created_topic_has_no_id_from_an_old_broker(flavour: Flavour) -> None:
    make_old(flavour, CreateTopics=(2, 4))
    created = flavour.get(flavour.admin().create_topics(["t"]))["t"]
    assert (created.topic_id, created.partitions, created.replication_factor, created.config) == (None, -1, -1, None)


@pytest.mark.parametrize("by", ["name", "topic_id"])
def test_a_deleted_topic_is_forgotten(flavour: Flavour, by: str) -> None:
    """A new topic of its name has other partitions."""
    flavour.world.create_topic("t", partitions=2)
    admin, first, second = flavour.admin(), TopicPartition("t", 0), TopicPartition("t", 1)
    flavour.get(admin.list_offsets({first: "latest", second: "latest"}))
    flavour.get(admin.delete_topics([getattr(flavour.world.topics["t"], by)]))
    flavour.get(admin.create_topics([NewTopic("t", partitions=1)]))
    before = len(flavour.world.calls)
    flavour.get(admin.list_offsets({first: "latest"}))
    assert [call.name for call in flavour.world.calls[before:]] == ["Metadata", "ListOffsets"]


def test_an_old_broker_has_no_descriptions_by_id(flavour: Flavour) -> None:
    flavour.world.create_topic("t")
    make_old(flavour, Metadata=(0, 11))
    with pytest.raises(ProtocolError, match="needs Kafka 3.1"):
        flavour.get(flavour.admin().describe_topics([flavour.world.topics["t"].topic_id]))


def test_topics_are_deleted_by_their_ids(flavour: Flavour) -> None:
    for name in "tu":
        flavour.world.create_topic(name)
    topic_id = flavour.world.topics["t"].topic_id
    admin = flavour.admin()
    errors: dict[Any, KafkaError] = {}
    flavour.get(admin.delete_topics([topic_id, UNKNOWN, "u"], on_error=errors.__setitem__))
    assert not flavour.world.topics
    assert list(errors) == [UNKNOWN]
    with pytest.raises(BrokerError, match=f"UNKNOWN_TOPIC_ID.*deleting topic {UNKNOWN}"):
        flavour.get(admin.delete_topics([UNKNOWN]))


def test_a_name_and_an_id_of_one_topic_delete_nothing(flavour: Flavour) -> None:
    flavour.world.create_topic("t")
    topic_id = flavour.world.topics["t"].topic_id
    with pytest.raises(AdminError, match="2 of 2 failed") as caught:
        flavour.get(flavour.admin().delete_topics(["t", topic_id]))
    assert {error.name for error in caught.value.errors.values() if isinstance(error, BrokerError)} == {
        "INVALID_REQUEST"
    }
    assert "t" in flavour.world.topics


def test_added_partitions_get_these_brokers(flavour: Flavour) -> None:
    flavour.world.create_topic("t")
    admin = flavour.admin()
    flavour.get(admin.create_partitions({"t": NewPartitions(3, assignment=[[2], [1]])}))
    assert [part.replicas for part in flavour.world.topics["t"].partitions[1:]] == [[2], [1]]
    with pytest.raises(BrokerError, match="INVALID_REPLICA_ASSIGNMENT"):
        flavour.get(admin.create_partitions({"t": NewPartitions(5, assignment=[[2]])}))


WRONG: list[tuple[str, tuple[Any, ...], str]] = [
    ("describe_topics", ("t",), "write a list of names or topic ids"),
    ("describe_topics", (UNKNOWN,), "write a list of names or topic ids"),
    ("describe_topics", ([3],), "at least one character"),
    ("describe_topics", ([uuid.UUID(int=0)],), "is no topic's id"),
    ("delete_topics", (UNKNOWN,), "write a list of names or topic ids"),
    ("create_partitions", ({"t": NewPartitions(0)},), "from 1"),
    ("create_partitions", ({"": 3},), "at least one character"),
]


@pytest.mark.parametrize(("method", "args", "text"), WRONG)
def test_wrong_arguments(flavour: Flavour, method: str, args: tuple[Any, ...], text: str) -> None:
    admin = flavour.admin()
    with pytest.raises(ConfigError, match=text):
        flavour.get(getattr(admin, method)(*args))
    assert not flavour.world.calls
