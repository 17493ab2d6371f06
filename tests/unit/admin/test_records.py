"""`admin.records`: records are deleted and offsets listed at the leaders, in both faces."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from kafwire import protocol
from kafwire.admin import ListedOffset
from kafwire.admin.records import PLACES
from kafwire.errors import (
    AdminError,
    AuthorizationError,
    BrokerError,
    ConfigError,
    ErrorCode,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
)
from kafwire.records import encode_batch
from kafwire.testing.simulation.calls import HANGUP, Call
from kafwire.types import TopicPartition
from tests.support.simulated.flavours import Flavour

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def make(flavour: Flavour, records: int = 5) -> None:
    """Create a topic whose partitions have different leaders, and records with the times 1000, 2000, ..."""
    flavour.world.create_topic("t", partitions=2)
    flavour.world.move_leader("t", 1, 2)
    flavour.world.move_leader("t", 0, 1)
    for partition in (0, 1):
        for number in range(records):
            flavour.world.log("t", partition).append(encode_batch([(None, b"x", 1000 * (number + 1))]))


def test_records_are_deleted(flavour: Flavour) -> None:
    make(flavour)
    found = flavour.get(flavour.admin().delete_records({A: 2, ("t", 1): "latest"}))
    assert found == {A: 2, B: 5}
    assert [flavour.world.log("t", partition).start for partition in (0, 1)] == [2, 5]
    assert {call.node for call in flavour.world.made("DeleteRecords")} == {1, 2}, "each leader its own"


def test_one_failure_does_not_hide_the_results_of_others(flavour: Flavour) -> None:
    make(flavour)
    admin = flavour.admin()
    with pytest.raises(AdminError, match="1 of 2 failed: t-0: OFFSET_OUT_OF_RANGE") as caught:
        flavour.get(admin.delete_records({A: 6, B: 3}))
    assert caught.value.results == {B: 3}
    errors: dict[TopicPartition, KafkaError] = {}
    assert flavour.get(admin.delete_records({A: 6, B: 4}, on_error=errors.__setitem__)) == {B: 4}
    assert list(errors) == [A]
    with pytest.raises(BrokerError, match="OFFSET_OUT_OF_RANGE.*deleting records of t-0"):
        flavour.get(admin.delete_records({A: 6}))


def test_records_of_compacted_topics_are_not_deleted(flavour: Flavour) -> None:
    make(flavour)
    flavour.world.topics["t"].configs = {"cleanup.policy": "compact"}
    with pytest.raises(BrokerError, match="POLICY_VIOLATION"):
        flavour.get(flavour.admin().delete_records({A: 2}))
    assert flavour.world.log("t", 0).start == 0


def test_records_are_deleted_at_the_next_leader(flavour: Flavour) -> None:
    make(flavour)
    admin = flavour.admin()
    flavour.get(admin.delete_records({A: 1}))
    flavour.world.move_leader("t", 0, 2)
    assert flavour.get(admin.delete_records({A: 2})) == {A: 2}
    assert [call.node for call in flavour.world.made("DeleteRecords")] == [1, 1, 2]


def test_a_leader_whose_followers_lag_is_asked_again(flavour: Flavour) -> None:
    make(flavour)
    response = protocol.DeleteRecordsResponse
    part = response.DeleteRecordsPartitionResult(
        partition_index=0, low_watermark=-1, error_code=ErrorCode.REQUEST_TIMED_OUT
    )
    late = [response(topics=[response.DeleteRecordsTopicResult(name="t", partitions=[part])])]
    flavour.world.on("DeleteRecords", lambda _: late.pop() if late else None)
    assert flavour.get(flavour.admin().delete_records({A: 2})) == {A: 2}


def test_topics_and_partitions_that_do_not_exist(flavour: Flavour) -> None:
    make(flavour)
    admin = flavour.admin()
    for call, wanted in ((admin.delete_records, 0), (admin.list_offsets, "latest")):
        with pytest.raises(ConfigError, match="topic 't' has partitions 0 to 1, not 7"):
            flavour.get(call({TopicPartition("t", 7): wanted}))
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION.*'x' does not exist"):
            flavour.get(call({TopicPartition("x", 0): wanted}))


def test_a_topic_that_another_client_deleted(flavour: Flavour) -> None:
    """The metadata of the client still has its leaders."""
    make(flavour)
    admin = flavour.admin()
    flavour.get(admin.list_offsets({A: "latest"}))
    flavour.get(flavour.admin().delete_topics(["t"]))
    started = flavour.engine.now_ms()
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION.*'t' does not exist"):
        flavour.get(admin.list_offsets({A: "latest"}))
    assert flavour.engine.now_ms() - started < 5000, "not at the time limit of all attempts"


def test_a_topic_without_partitions_in_the_metadata(flavour: Flavour) -> None:
    make(flavour)

    def respond(call: Call) -> Any:
        response = flavour.world.serve(call)
        for topic in response.topics:
            topic.partitions = []
        return response

    flavour.world.on("Metadata", respond)
    with pytest.raises(KafkaTimeoutError, match="LEADER_NOT_AVAILABLE"):
        flavour.get(flavour.admin().list_offsets({A: "latest"}, timeout=10))


def test_new_partitions_reach_the_brokers_one_after_the_other(flavour: Flavour) -> None:
    """The metadata responses of the first second do not have them yet."""
    make(flavour)
    admin = flavour.admin()
    flavour.get(admin.list_offsets({A: "latest"}))
    flavour.get(admin.create_partitions({"t": 3}))
    old_until = flavour.engine.now_ms() + 1000

    def respond(call: Call) -> Any:
        response = flavour.world.serve(call)
        for topic in response.topics if flavour.engine.now_ms() < old_until else ():
            del topic.partitions[2:]
        return response

    flavour.world.on("Metadata", respond)
    added = TopicPartition("t", 2)
    assert flavour.get(admin.list_offsets({added: "latest"}))[added].offset == 0


@pytest.mark.parametrize("lagging", [1, 2])
def test_a_broker_that_lags_for_good_hides_no_partition(flavour: Flavour, lagging: int) -> None:
    make(flavour)

    def respond(call: Call) -> Any:
        response = flavour.world.serve(call)
        for topic in response.topics if call.node == lagging else ():
            del topic.partitions[1:]
        return response

    flavour.world.on("Metadata", respond)
    assert flavour.get(flavour.admin().list_offsets({B: "latest"}))[B].offset == 5


def test_an_offset_without_an_epoch(flavour: Flavour) -> None:
    make(flavour)
    response = protocol.ListOffsetsResponse
    part = response.ListOffsetsPartitionResponse(partition_index=0, offset=5, timestamp=-1, leader_epoch=-1)
    topic = response.ListOffsetsTopicResponse(name="t", partitions=[part])
    flavour.world.on("ListOffsets", lambda _: response(topics=[topic]))
    assert flavour.get(flavour.admin().list_offsets({A: "latest"})) == {A: ListedOffset(5, None, None)}


def test_a_refused_deletion_names_the_permission(flavour: Flavour) -> None:
    make(flavour)
    response = protocol.DeleteRecordsResponse
    part = response.DeleteRecordsPartitionResult(
        partition_index=0, low_watermark=-1, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
    )
    topic = response.DeleteRecordsTopicResult(name="t", partitions=[part])
    flavour.world.on("DeleteRecords", lambda _: response(topics=[topic]))
    with pytest.raises(AuthorizationError, match="permits Delete on Topic 't'"):
        flavour.get(flavour.admin().delete_records({A: 2}))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("earliest", (1, None)),
        ("latest", (5, None)),
        (2500, (2, 3000)),
        (dt.datetime(1970, 1, 1, 0, 0, 4, tzinfo=dt.UTC), (3, 4000)),
        (9000, (-1, None)),
        ("max-timestamp", (4, 5000)),
        ("earliest-local", (1, None)),
        ("latest-tiered", (-1, None)),
        ("earliest-pending-upload", (-1, None)),
    ],
)
def test_offsets_are_found_by_every_spec(flavour: Flavour, spec: Any, expected: tuple[int, int | None]) -> None:
    make(flavour)
    admin = flavour.admin()
    flavour.get(admin.delete_records({A: 1, B: 1}))
    found = flavour.get(admin.list_offsets({A: spec, ("t", 1): spec}))
    assert {key: (each.offset, each.timestamp_ms) for key, each in found.items()} == dict.fromkeys((A, B), expected)
    assert {call.node for call in flavour.world.made("ListOffsets")} == {1, 2}


def test_each_partition_has_its_own_spec(flavour: Flavour) -> None:
    make(flavour)
    found = flavour.get(flavour.admin().list_offsets({A: "earliest", B: "latest"}))
    epoch = flavour.world.log("t", 1).leader_epoch
    assert found[A].offset == 0
    assert found[B] == ListedOffset(5, None, epoch)


def test_committed_offsets_end_at_the_last_stable_one(flavour: Flavour) -> None:
    make(flavour)
    flavour.world.log("t", 0).stable_at = 3
    admin = flavour.admin()
    levels = [
        flavour.get(admin.list_offsets({A: "latest"}, isolation_level=level))[A].offset
        for level in ("read_uncommitted", "read_committed")
    ]
    assert levels == [5, 3]


def test_offsets_come_from_the_next_leader(flavour: Flavour) -> None:
    make(flavour)
    admin = flavour.admin()
    flavour.get(admin.list_offsets({A: "latest"}))
    flavour.world.move_leader("t", 0, 2)
    assert flavour.get(admin.list_offsets({A: "latest"}))[A].offset == 5


def test_one_leader_that_does_not_respond_hides_no_other(flavour: Flavour) -> None:
    make(flavour)

    def respond(call: Call) -> Any:
        return HANGUP if call.node == 2 else None

    flavour.world.on("ListOffsets", respond)
    errors: dict[TopicPartition, KafkaError] = {}
    found = flavour.get(
        flavour.admin().list_offsets({A: "latest", B: "latest"}, timeout=2, on_error=errors.__setitem__)
    )
    assert found[A].offset == 5
    assert "listing offsets did not succeed within 2 s" in str(errors[B])


def test_a_leader_that_is_silent_ends_the_call_at_the_time_limit(flavour: Flavour) -> None:
    make(flavour)
    admin = flavour.admin()
    flavour.get(admin.list_offsets({A: "latest"}))
    flavour.world.nodes[1].receive = lambda *_: None  # type: ignore[method-assign]
    with pytest.raises(KafkaTimeoutError, match="within 1 s"):
        flavour.get(admin.list_offsets({A: "latest"}, timeout=1))


@pytest.mark.parametrize(
    ("spec", "version", "kafka"),
    [
        ("max-timestamp", 6, "3.0"),
        ("earliest-local", 7, "3.4"),
        ("latest-tiered", 8, "3.8"),
        ("earliest-pending-upload", 10, "4.2"),
    ],
)
def test_an_older_leader_hides_no_other_offset(flavour: Flavour, spec: str, version: int, kafka: str) -> None:
    make(flavour)
    for node in flavour.world.nodes.values():
        node.versions = {"ListOffsets": (1, version)}
    errors: dict[TopicPartition, KafkaError] = {}
    admin = flavour.admin()
    found = flavour.get(admin.list_offsets({A: spec, B: "latest"}, on_error=errors.__setitem__))
    assert found[B].offset == 5
    assert isinstance(errors[A], ProtocolError)
    assert f"'{spec}' needs Kafka {kafka} or newer" in str(errors[A])
    assert all(
        part.timestamp == -1
        for call in flavour.world.made("ListOffsets")
        for topic in call.message.topics
        for part in topic.partitions
    )


def test_every_place_has_a_name() -> None:
    assert list(PLACES) == [
        "earliest",
        "latest",
        "max-timestamp",
        "earliest-local",
        "latest-tiered",
        "earliest-pending-upload",
    ]


WRONG: list[tuple[str, tuple[Any, ...], str]] = [
    ("delete_records", ([A],), "write a dict"),
    ("delete_records", ({A: -1},), "an offset of 0 or more"),
    ("delete_records", ({A: "earliest"},), "an offset of 0 or more"),
    ("delete_records", ({"t": 1},), "is not a partition"),
    ("list_offsets", ([A],), "write a dict"),
    ("list_offsets", ({A: "newest"},), "'newest' is not one of earliest, latest, max-timestamp"),
    ("list_offsets", ({A: -1},), "milliseconds since the epoch"),
    ("list_offsets", ({A: dt.datetime(2026, 1, 1)},), "no time zone"),  # noqa: DTZ001
    ("list_offsets", ({("t", "0"): "latest"},), "is not a partition"),
]


@pytest.mark.parametrize(("method", "args", "text"), WRONG)
def test_wrong_arguments(flavour: Flavour, method: str, args: tuple[Any, ...], text: str) -> None:
    admin = flavour.admin()
    with pytest.raises(ConfigError, match=text):
        flavour.get(getattr(admin, method)(*args))
    assert not flavour.world.calls


def test_a_wrong_isolation_level(flavour: Flavour) -> None:
    with pytest.raises(ConfigError, match="allowed: read_uncommitted, read_committed"):
        flavour.get(flavour.admin().list_offsets({A: "latest"}, isolation_level="none"))
