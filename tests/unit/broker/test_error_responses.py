"""Every API's response carries an injected error where its clients look, in every version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker import dispatch, response_levels
from kafwire.broker.error_responses import ErrorPlace, can_respond_with, inject, named
from kafwire.broker.request import HANG_UP, Request
from kafwire.broker.request_places import places_of
from kafwire.broker.state import ClusterState
from kafwire.errors import ErrorCode
from tests.support.broker.samples import sample

CODE = ErrorCode.KAFKA_STORAGE_ERROR
# Requests to controllers, and between those: this broker has none.
INTERNAL = {
    "AllocateProducerIds",
    "AlterPartition",
    "AssignReplicasToDirs",
    "BeginQuorumEpoch",
    "BrokerHeartbeat",
    "BrokerRegistration",
    "ControllerRegistration",
    "EndQuorumEpoch",
    "Envelope",
    "FetchSnapshot",
    "UpdateRaftVoter",
    "Vote",
}
APIS = sorted(
    name.removesuffix("Request")
    for name in protocol.MESSAGES
    if name.endswith("Request") and name.removesuffix("Request") not in INTERNAL
)


def request_of(state: ClusterState, message: Any, version: int | None = None) -> Request:
    return Request(state.connect(1), message, type(message).max_version if version is None else version)


def codes(value: Any) -> Iterator[tuple[str, int]]:
    """All error codes of a message: (the names of the arrays that they are in, the code)."""
    if isinstance(value, list):
        for each in value:
            yield from codes(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name.endswith("error_code") and name not in ("topic_config_error_code", "acknowledge_error_code"):
                yield "", each
            else:
                yield from ((f"{name}.{path}", code) for path, code in codes(each))


def plain_values(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for each in value:
            yield from plain_values(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from plain_values(each)
    else:
        yield value


@pytest.mark.parametrize("api", APIS)
def test_every_version_has_the_error(api: str) -> None:
    kind: Any = protocol.MESSAGES[api + "Request"]
    response_type: Any = protocol.MESSAGES[api + "Response"]
    place = ErrorPlace(CODE, "because")
    for version in range(kind.min_version, kind.max_version + 1):
        state = ClusterState()
        request = request_of(state, sample(kind, version), version)
        if api == "Produce":
            request.message.acks = 1
        if api in ("Fetch", "Metadata", "DescribeLogDirs", "DescribeTopicPartitions", "AlterReplicaLogDirs"):
            continue  # the response needs the handler
        if response_levels.depth(api, version, CODE) is None:
            assert not can_respond_with(state, request, place)
            assert "error_code" not in str([each.name for each in response_type.__fields__])
            continue
        assert can_respond_with(state, request, place)
        response: Any = inject(state, request, place)
        reported = response_type.decode(response.encode(version), version).to_dict()
        if response_levels.field_of(response_type, "error_code", version) is None:
            reported.pop("error_code", None)
        found = list(codes(reported))
        assert found
        deepest = max(path.count(".") for path, code in found)
        assert {code for path, code in found if path.count(".") == deepest} == {CODE}
        assert {code for path, code in found if path.count(".") < deepest} <= {0, CODE}
        if deepest:  # two elements in each array around it; the response has all the requested ones
            assert sum(code == CODE for _, code in found) in (2, 4, 8), found
            assert len(set(map(str, plain_values(reported)))) > 2 or api in ("CreateAcls", "DeleteAcls")


@pytest.mark.parametrize("api", APIS)
def test_the_table_names_fields_of_messages(api: str) -> None:
    kind: Any = protocol.MESSAGES[api + "Request"]
    response: Any = protocol.MESSAGES[api + "Response"]

    def check(level: response_levels.Level, asked: list[Any], owner: Any) -> None:
        found = next(each for each in owner.__fields__ if each.name == level.array)
        assert found.array
        names = {each.name for each in found.struct.__fields__}
        assert level.names.keys() <= names
        assert level.blank.keys() <= names
        arrays = [each for struct in asked for each in struct.__fields__ if each.name in level.asked]
        assert {each.name for each in arrays} == set(level.asked)
        for each in arrays:
            for name in level.names.values():
                assert (name == response_levels.ELEMENT) == (each.struct is None)
                assert each.struct is None or name in {own.name for own in each.struct.__fields__}
        if level.inner is not None:
            check(level.inner, [each.struct for each in arrays if each.struct] if level.asked else [kind], found.struct)

    for level in response_levels.LEVELS.get(api, ()):
        check(level, [kind], response)


def test_every_api_that_has_errors_in_arrays_is_in_the_table() -> None:
    for api in APIS:
        response: Any = protocol.MESSAGES[api + "Response"]
        for version in range(response.min_version, response.max_version + 1):
            at_top = response_levels.field_of(response, "error_code", version) is not None
            deep = [path for path, _ in codes(sample(response, version).to_dict())]
            if deep and not at_top:
                assert response_levels.path(api, version), (api, version)


def test_every_served_api_has_a_place_for_an_error() -> None:
    for each in dispatch.served().values():
        low, high = each.versions
        lacking = [v for v in range(low, high + 1) if response_levels.depth(each.name, v, CODE) is None]
        assert not lacking, each.name


# --- responses, by hand


def test_a_produce_response_mirrors_its_topics_and_partitions() -> None:
    state = ClusterState()
    asked = protocol.ProduceRequest
    message = asked(
        acks=1,
        topic_data=[
            asked.TopicProduceData(name="a", partition_data=[asked.PartitionProduceData(index=i) for i in (3, 5)]),
            asked.TopicProduceData(name="b", partition_data=[asked.PartitionProduceData(index=0)]),
        ],
    )
    response: Any = inject(state, request_of(state, message, 12), ErrorPlace(CODE, "the disk is full"))
    reported = [
        (topic.name, part.index, part.error_code, part.base_offset, part.error_message)
        for topic in response.responses
        for part in topic.partition_responses
    ]
    assert reported == [(*place, CODE, -1, "the disk is full") for place in (("a", 3), ("a", 5), ("b", 0))]


def test_without_a_response_the_connection_is_closed() -> None:
    state = ClusterState()
    asked = protocol.ProduceRequest
    data = asked.TopicProduceData(name="a", partition_data=[asked.PartitionProduceData(index=0)])
    assert inject(state, request_of(state, asked(acks=0, topic_data=[data]), 12), ErrorPlace(CODE)) is HANG_UP


def test_topics_by_id_are_mirrored_by_id() -> None:
    state = ClusterState()
    topic = state.topics.create("a")
    asked = protocol.ProduceRequest
    data = asked.TopicProduceData(topic_id=topic.topic_id, partition_data=[asked.PartitionProduceData(index=0)])
    request = request_of(state, asked(acks=1, topic_data=[data]), 13)
    assert can_respond_with(state, request, ErrorPlace(CODE, topic="a"))
    assert not can_respond_with(state, request, ErrorPlace(CODE, topic="b"))
    assert not can_respond_with(state, request, ErrorPlace(CODE, partition=1))
    response: Any = inject(state, request, ErrorPlace(CODE, topic="a"))
    assert response.responses[0].topic_id == topic.topic_id


def test_errors_of_offset_fetch_are_the_group_s_or_a_partition_s() -> None:
    state = ClusterState()
    asked = protocol.OffsetFetchRequest
    topic = asked.OffsetFetchRequestTopics(name="a", partition_indexes=[0, 1])
    message = asked(groups=[asked.OffsetFetchRequestGroup(group_id="g", topics=[topic])])
    response: Any = inject(state, request_of(state, message, 9), ErrorPlace(ErrorCode.NOT_COORDINATOR))
    assert [(group.group_id, group.error_code, group.topics) for group in response.groups] == [("g", 16, [])]
    response = inject(state, request_of(state, message, 9), ErrorPlace(ErrorCode.UNSTABLE_OFFSET_COMMIT))
    (group,) = response.groups
    assert group.error_code == 0
    assert [(p.partition_index, p.committed_offset, p.error_code) for p in group.topics[0].partitions] == [
        (0, -1, 88),
        (1, -1, 88),
    ]


def test_a_coordinator_that_is_not_found_is_nowhere() -> None:
    state = ClusterState()
    one: Any = inject(state, request_of(state, protocol.FindCoordinatorRequest(key="g"), 3), ErrorPlace(CODE))
    assert (one.error_code, one.node_id, one.port) == (CODE, -1, -1)
    many = protocol.FindCoordinatorRequest(coordinator_keys=["g", "h"])
    response: Any = inject(state, request_of(state, many, 6), ErrorPlace(CODE))
    assert [(c.key, c.error_code, c.node_id, c.port) for c in response.coordinators] == [
        ("g", CODE, -1, -1),
        ("h", CODE, -1, -1),
    ]


def test_quotas_are_named_by_their_entities() -> None:
    state = ClusterState()
    asked = protocol.AlterClientQuotasRequest
    entity = asked.EntityData(entity_type="user", entity_name="alice")
    response: Any = inject(
        state, request_of(state, asked(entries=[asked.EntryData(entity=[entity])])), ErrorPlace(CODE)
    )
    (entry,) = response.entries
    assert entry.error_code == CODE
    assert [(each.entity_type, each.entity_name) for each in entry.entity] == [("user", "alice")]


def test_places_of_a_request() -> None:
    state = ClusterState()
    topic = state.topics.create("a", 2)
    asked = protocol.ListOffsetsRequest
    parts = [asked.ListOffsetsPartition(partition_index=index) for index in (0, 1)]
    message = asked(topics=[asked.ListOffsetsTopic(name="a", partitions=parts)])
    assert places_of("ListOffsets", 7, message, named(state)) == [("a", 0), ("a", 1)]
    deleted = protocol.DeleteTopicsRequest
    by_id = deleted(topics=[deleted.DeleteTopicState(name=None, topic_id=topic.topic_id)])
    assert places_of("DeleteTopics", 6, by_id, named(state)) == [("a", None)]
    assert places_of("DeleteTopics", 4, deleted(topic_names=["b"]), named(state)) == [("b", None)]
    assert places_of("Heartbeat", 4, protocol.HeartbeatRequest(), named(state)) == []
    described = protocol.DescribeConfigsRequest
    resources = [described.DescribeConfigsResource(resource_type=kind, resource_name="1") for kind in (4, 2)]
    assert places_of("DescribeConfigs", 4, described(resources=resources), named(state)) == [("1", None)]
