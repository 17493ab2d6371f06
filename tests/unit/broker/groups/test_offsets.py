"""Committed offsets: which one holds, what transactions do to them, and when they expire; see `test_scenarios.py`."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.broker.groups.offsets_topic import OFFSETS_TOPIC, Committed
from kafwire.broker.state import ClusterState
from kafwire.errors import ErrorCode
from tests.support.broker.driver import BrokerDriver
from tests.support.broker.transactions import Place, TransactionalClient

MINUTE_MS = 60_000
T0, T1 = ("t", 0), ("t", 1)
SUBSCRIPTION = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"  # version 0, to "t", no user data


def cluster(nodes: Sequence[int] = (1,), **configs: str) -> BrokerDriver:
    state = ClusterState(nodes, configs={key.replace("_", "."): value for key, value in configs.items()})
    state.topics.create("t", 2)
    for name in ("x", "y", "g", "h"):
        state.move_coordinator(name, 1)
    return BrokerDriver(state)


@pytest.fixture
def driver() -> BrokerDriver:
    return cluster()


def store(driver: BrokerDriver) -> OffsetStore:
    found: OffsetStore = driver.state.part(OffsetStore)
    return found


def commit(
    driver: BrokerDriver,
    offset: int,
    *,
    group: str = "g",
    to: Place = T0,
    metadata: str = "",
    version: int = 9,
    **member: Any,
) -> int:
    request = protocol.OffsetCommitRequest(group_id=group, **member)
    part = request.OffsetCommitRequestPartition(
        partition_index=to[1], committed_offset=offset, committed_leader_epoch=4, committed_metadata=metadata
    )
    request.topics = [request.OffsetCommitRequestTopic(name=to[0], partitions=[part])]
    return int(driver.ask(request, version).topics[0].partitions[0].error_code)


def fetch(
    driver: BrokerDriver, *, group: str = "g", places: Sequence[Place] = (T0,), stable: bool = False, version: int = 9
) -> list[int]:
    """The offsets, and error codes where there are such."""
    request = protocol.OffsetFetchRequest(require_stable=stable)
    topics = [request.OffsetFetchRequestTopics(name=name, partition_indexes=[index]) for name, index in places]
    request.groups = [request.OffsetFetchRequestGroup(group_id=group, topics=topics)]
    (response,) = driver.ask(request, version).groups
    assert not response.error_code
    parts = [part for topic in response.topics for part in topic.partitions]
    return [part.committed_offset if not part.error_code else ErrorCode(part.error_code) for part in parts]


def began(driver: BrokerDriver, name: str = "x") -> TransactionalClient:
    client = TransactionalClient(driver, name)
    assert client.init() == 0
    return client


# --- which commit holds


def test_the_last_commit_holds_although_a_transaction_ends_later(driver: BrokerDriver) -> None:
    client = began(driver)
    assert client.commit_offset(5) == 0
    assert commit(driver, 8) == 0
    client.end()
    driver.pass_ms(5)
    assert fetch(driver, stable=True) == [8]


def test_offsets_are_unstable_while_a_transaction_is_about_to_change_them(driver: BrokerDriver) -> None:
    commit(driver, 3)
    client = began(driver)
    client.commit_offset(5)
    assert fetch(driver) == [3]
    assert fetch(driver, places=(T0, T1), stable=True) == [ErrorCode.UNSTABLE_OFFSET_COMMIT, -1]
    assert fetch(driver, group="h", stable=True) == [-1]
    client.end()
    assert fetch(driver, stable=True) == [ErrorCode.UNSTABLE_OFFSET_COMMIT], "until its marker is written"
    driver.pass_ms(5)
    assert fetch(driver, stable=True) == [5]
    client.commit_offset(6)
    client.end(commit=False)
    driver.pass_ms(5)
    assert fetch(driver, stable=True) == [5]


def test_an_offset_is_kept_with_its_epoch_text_and_time(driver: BrokerDriver) -> None:
    driver.pass_ms(1234)
    commit(driver, 7, metadata="note")
    assert store(driver).of("g") == {T0: Committed(7, 4, "note", driver.state.wall_ms)}
    assert store(driver).history[T0] == [7]


def test_a_transaction_ends_in_the_partition_that_has_its_marker(driver: BrokerDriver) -> None:
    groups = ["g", "h"]
    places = {group: store(driver).place_of(group) for group in groups}
    assert {name for name, _ in places.values()} == {OFFSETS_TOPIC}
    assert len(set(places.values())) == 2
    for group in groups:
        store(driver).add_pending(group, 7, 0, T0, Committed(1))
    store(driver).end_transaction(7, places["g"][1], commit=True)
    assert store(driver).of("g") == {T0: Committed(1)}
    assert store(driver).of("h") == {}
    assert store(driver).is_unstable("h", T0)
    store(driver).end_transaction(8, places["h"][1], commit=True)
    assert store(driver).is_unstable("h", T0)


def test_a_group_takes_part_by_its_partition(driver: BrokerDriver) -> None:
    client = began(driver)
    client.commit_offset(5)
    assert [(topic.topic, topic.partitions) for topic in client.describe().topics] == [
        (OFFSETS_TOPIC, [store(driver).place_of("g")[1]])
    ]


def test_older_clients_have_to_add_the_group_first(driver: BrokerDriver) -> None:
    client = began(driver)
    assert client.commit_offset(5, version=4) == ErrorCode.TRANSACTION_ABORTABLE
    assert client.commit_offset(5, version=3) == ErrorCode.INVALID_TXN_STATE
    add = protocol.AddOffsetsToTxnRequest(
        transactional_id="x", producer_id=client.producer_id, producer_epoch=client.epoch, group_id="g"
    )
    assert driver.ask(add, 4).error_code == 0
    assert client.commit_offset(5, version=3) == 0
    assert client.commit_offset(5, group="h", version=3) == ErrorCode.INVALID_TXN_STATE


def test_a_partition_already_written_in_the_transaction_is_not_checked_again(driver: BrokerDriver) -> None:
    """An offset may therefore come between the decision and its marker, as in Kafka's version 1 of transactions."""
    client = began(driver)
    client.commit_offset(5)
    assert client.end(version=4) == 0
    assert client.commit_offset(6) == 0
    driver.pass_ms(5)
    assert fetch(driver) == [6]
    client.commit_offset(7)
    client.end(version=4)
    client.epoch += 1
    assert client.commit_offset(8) == ErrorCode.CONCURRENT_TRANSACTIONS, "another epoch has written nothing there"


def test_a_coordinator_of_transactions_that_is_not_there(driver: BrokerDriver) -> None:
    client = began(driver)
    driver.state.move_coordinator("x", -1)
    assert client.commit_offset(5) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert client.produce(0)[0] == ErrorCode.NOT_ENOUGH_REPLICAS


# --- refused commits


def test_a_missing_partition_is_reported_before_any_other_error(driver: BrokerDriver) -> None:
    generation: dict[str, Any] = {"generation_id_or_member_epoch": 3}
    assert commit(driver, 1, to=("none", 0), **generation) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(driver, 1, to=("t", 9), **generation) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(driver, 1, **generation) == ErrorCode.GROUP_ID_NOT_FOUND
    assert commit(driver, 1, version=8, **generation) == ErrorCode.ILLEGAL_GENERATION
    nobody = TransactionalClient(driver, "x")
    assert nobody.commit_offset(1, to=("none", 0)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert nobody.commit_offset(1, group="") == ErrorCode.INVALID_GROUP_ID
    client = began(driver)
    assert client.commit_offset(1, to=("none", 0)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.state == "Empty", "no coordinator was asked"


def test_a_topic_that_comes_twice_is_in_the_response_once_and_missing_partitions_first(driver: BrokerDriver) -> None:
    request = protocol.OffsetCommitRequest(group_id="g")
    for index in (1, 9, 0):
        part = request.OffsetCommitRequestPartition(partition_index=index, committed_offset=1)
        request.topics.append(request.OffsetCommitRequestTopic(name="t", partitions=[part]))
    (topic,) = driver.ask(request, 9).topics
    assert [(part.partition_index, bool(part.error_code)) for part in topic.partitions] == [
        (9, True),
        (1, False),
        (0, False),
    ]


def test_metadata_has_its_limit() -> None:
    driver = cluster(offset_metadata_max_bytes="3")
    assert commit(driver, 1, metadata="äx") == 0
    assert commit(driver, 2, metadata="ää") == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert fetch(driver) == [1]


def test_topics_by_their_ids(driver: BrokerDriver) -> None:
    topic_id = driver.state.topics.by_name["t"].topic_id
    request = protocol.OffsetCommitRequest(group_id="g")
    for each in (topic_id, uuid.UUID(int=7)):
        part = request.OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
        request.topics.append(request.OffsetCommitRequestTopic(topic_id=each, partitions=[part]))
    responses = {topic.topic_id: topic.partitions[0].error_code for topic in driver.ask(request, 10).topics}
    assert responses == {topic_id: 0, uuid.UUID(int=7): ErrorCode.UNKNOWN_TOPIC_ID}
    asked = protocol.OffsetFetchRequest()
    topics = [
        asked.OffsetFetchRequestTopics(topic_id=each, partition_indexes=[0]) for each in (topic_id, uuid.UUID(int=7))
    ]
    asked.groups = [asked.OffsetFetchRequestGroup(group_id="g", topics=topics)]
    known, unknown = driver.ask(asked, 10).groups[0].topics
    assert (known.topic_id, known.partitions[0].committed_offset) == (topic_id, 5)
    assert unknown.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


# --- forgotten offsets


def test_offsets_of_a_topic_go_with_it(driver: BrokerDriver) -> None:
    driver.state.topics.create("gone")
    commit(driver, 1)
    commit(driver, 2, to=("gone", 0))
    client = began(driver)
    client.commit_offset(3, to=("gone", 0))
    driver.state.topics.delete(driver.state.topics.by_name["gone"])
    driver.state.topics.create("gone")
    client.end()
    driver.pass_ms(5)
    assert fetch(driver, places=(T0, ("gone", 0)), stable=True) == [1, -1]


def expiring() -> BrokerDriver:
    return cluster(offsets_retention_minutes="10", offsets_retention_check_interval_ms=str(MINUTE_MS))


def test_offsets_from_outside_expire_by_the_time_of_their_commit() -> None:
    driver = expiring()
    commit(driver, 1)
    driver.pass_ms(6 * MINUTE_MS)
    commit(driver, 2, to=T1)
    driver.pass_ms(5 * MINUTE_MS)
    assert fetch(driver, places=(T0, T1)) == [-1, 2]
    driver.pass_ms(6 * MINUTE_MS)
    assert fetch(driver, places=(T0, T1)) == [-1, -1]
    assert not driver.state.part(GroupCoordinator).exists("g"), "a group that has nothing is gone"
    assert driver.state.next_due_ms is None


def test_an_offset_with_a_pending_transaction_does_not_expire() -> None:
    driver = expiring()
    commit(driver, 1)
    client = TransactionalClient(driver, timeout_ms=900_000)
    client.init()
    client.commit_offset(2)
    driver.pass_ms(12 * MINUTE_MS)
    assert fetch(driver) == [1]


def joined(driver: BrokerDriver) -> dict[str, Any]:
    join = protocol.JoinGroupRequest(
        group_id="g", session_timeout_ms=1_800_000, rebalance_timeout_ms=1000, protocol_type="consumer"
    )
    join.protocols = [join.JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)]
    response = driver.ask(join, 3)
    sync = protocol.SyncGroupRequest(group_id="g", generation_id=response.generation_id, member_id=response.member_id)
    sync.assignments = [sync.SyncGroupRequestAssignment(member_id=response.member_id, assignment=b"")]
    assert driver.ask(sync, 3).error_code == 0
    return {"generation_id_or_member_epoch": response.generation_id, "member_id": response.member_id}


def test_offsets_of_members_expire_when_they_have_left() -> None:
    driver = expiring()
    driver.state.topics.create("other")
    member = joined(driver)
    commit(driver, 1, **member)
    commit(driver, 2, to=("other", 0), **member)
    driver.pass_ms(11 * MINUTE_MS)
    assert fetch(driver, places=(T0, ("other", 0))) == [1, -1], "no member has subscribed to the other topic"
    leave = protocol.LeaveGroupRequest(group_id="g")
    leave.members = [leave.MemberIdentity(member_id=member["member_id"])]
    assert driver.ask(leave, 3).members[0].error_code == 0
    driver.pass_ms(9 * MINUTE_MS)
    assert fetch(driver) == [1]
    driver.pass_ms(2 * MINUTE_MS)
    assert fetch(driver) == [-1]


def delete(driver: BrokerDriver, *places: Place, group: str = "g") -> Any:
    request = protocol.OffsetDeleteRequest(group_id=group)
    for name, index in places:
        part = request.OffsetDeleteRequestPartition(partition_index=index)
        request.topics.append(request.OffsetDeleteRequestTopic(name=name, partitions=[part]))
    return driver.ask(request, 0)


def test_offsets_are_deleted(driver: BrokerDriver) -> None:
    assert delete(driver, T0).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert delete(driver, T0, group="").error_code == ErrorCode.INVALID_GROUP_ID
    commit(driver, 1)
    client = began(driver)
    client.commit_offset(2)
    (topic,) = delete(driver, T0, ("t", 9)).topics
    assert [part.error_code for part in topic.partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    client.end()
    driver.pass_ms(5)
    assert fetch(driver) == [-1]


def test_offsets_that_members_read_are_not_deleted(driver: BrokerDriver) -> None:
    driver.state.topics.create("other")
    member = joined(driver)
    commit(driver, 1, **member)
    commit(driver, 2, to=("other", 0), **member)
    codes = [topic.partitions[0].error_code for topic in delete(driver, T0, ("other", 0)).topics]
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0]
    assert fetch(driver, places=(T0, ("other", 0))) == [1, -1]
