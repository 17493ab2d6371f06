"""The calls of `Admin` about groups on a real Kafka, and the same outcomes on the embedded broker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import kafwire
from kafwire import TopicPartition
from kafwire.admin.group_types import GROUP_TYPES
from kafwire.errors import KafkaError
from kafwire.testing import EmbeddedKafka, KafkaCluster
from tests.support.group.classic_member import joined_classic
from tests.support.group.every_type import every_type

TOPIC = "admin-groups"
T0, T1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
CLASSIC, CONSUMER, SHARE, STREAMS = GROUPS = [f"{TOPIC}-{kind}" for kind in GROUP_TYPES]


class Errors(dict[Any, str]):
    """The names of errors, by key."""

    def __call__(self, key: Any, error: KafkaError) -> None:
        """Take one."""
        self[key] = getattr(error, "name", type(error).__name__)


def with_members(admin: kafwire.Admin) -> dict[str, Any]:
    """The outcomes of calls while the groups have members."""
    found: dict[str, Any] = {}
    names = set(GROUPS)
    for what, filters in {
        "all": {},
        "share": {"types": ["share"]},
        "empty": {"states": ["Empty"]},
        "consumers": {"protocol_types": ["consumer"]},
    }.items():
        listed = [each for each in admin.list_groups(**filters) if each.group_id in names]  # type: ignore[arg-type]
        found[f"list {what}"] = [(each.group_id, each.type, each.state, each.protocol_type) for each in listed]
    errors = Errors()
    described = admin.describe_groups([*GROUPS, "admin-groups-none"], authorized_operations=True, on_error=errors)
    found["describe errors"] = errors
    for name, its in described.items():
        (member,) = its.members
        found[f"describe {name}"] = (its.type, its.state, its.assignor, its.protocol_type, its.authorized_operations)
        found[f"member {name}"] = (
            *(member.instance_id, member.client_id, member.protocol, member.assignment, member.target_assignment),
            *(member.topics, member.pattern, member.rack_id, member.problem),
        )
    streams = described[STREAMS]
    assert streams.members[0].streams is not None
    found["streams"] = (streams.topology, streams.members[0].streams)
    for name in GROUPS:
        alter, delete, whole, gone = Errors(), Errors(), Errors(), Errors()
        admin.alter_group_offsets(name, {T0: 1}, on_error=alter)
        admin.delete_group_offsets(name, [T0], on_error=delete)
        admin.delete_group_offsets(name, [TOPIC], on_error=whole)
        admin.delete_groups([name, "admin-groups-none"], on_error=gone)
        found[f"refused {name}"] = (alter, delete, whole, gone)
        left = Errors()
        admin.remove_members(name, ["unknown"], on_error=left)
        admin.remove_members(name, instance_ids=["none"], on_error=left)
        found[f"unknown members of {name}"] = left
    return found


def without_members(admin: kafwire.Admin) -> dict[str, Any]:
    """The outcomes of calls about groups without members."""
    found: dict[str, Any] = {}
    for name in GROUPS:
        altered = Errors()
        admin.alter_group_offsets(name, {T0: 2, T1: 3, TopicPartition(TOPIC, 9): 1}, on_error=altered)
        found[f"altered {name}"] = altered
    new = "admin-groups-new"
    admin.alter_group_offsets(new, {T0: 1}, type="share")
    admin.alter_group_offsets(CLASSIC, {T0: (5, "note")})
    asked: dict[str, Any] = dict.fromkeys((*GROUPS, new, "admin-groups-none"))
    found["offsets"] = admin.list_group_offsets(asked)
    # A broker looks for the state of a share group's partition that does not exist for half a minute.
    named = {name: [T1] if name in (SHARE, new) else [T1, (TOPIC, 9)] for name in asked}
    found["named"] = admin.list_group_offsets(named, require_stable=True)
    for name in GROUPS:
        errors = Errors()
        admin.delete_group_offsets(name, [TOPIC] if name == SHARE else [T0, (TOPIC, 9)], on_error=errors)
        admin.delete_group_offsets(name, ["admin-groups-no-topic"], on_error=errors)
        found[f"deleted {name}"] = errors
    found["left"] = admin.list_group_offsets(asked)
    gone = Errors()
    admin.delete_groups([*GROUPS, new, "admin-groups-none"], on_error=gone)
    found["gone"] = gone
    found["afterwards"] = [each for each in admin.list_groups() if each.group_id in asked]
    return found


def outcomes(bootstrap: str) -> dict[str, Any]:
    with kafwire.Client(bootstrap) as client, kafwire.Producer(bootstrap) as producer:
        client.create_topic(TOPIC, partitions=2)
        for number in range(10):
            producer.send(TOPIC, b"value", partition=number % 2)
    with kafwire.Admin(bootstrap) as admin:
        with every_type(bootstrap, TOPIC, TOPIC):
            found = with_members(admin)
        return found | without_members(admin)


@pytest.fixture(scope="module")
def real(cluster: KafkaCluster) -> dict[str, Any]:
    return outcomes(cluster.bootstrap)


def test_groups_of_all_types(real: dict[str, Any]) -> None:
    assert [each[1] for each in real["list all"]] == ["classic", "consumer", "share", "streams"]
    assert [each[0] for each in real["list share"]] == [SHARE]
    assert real["describe errors"] == {"admin-groups-none": "GROUP_ID_NOT_FOUND"}
    offsets = real["offsets"]
    assert {where: its.offset for where, its in offsets[STREAMS].items()} == {T0: 2, T1: 3}
    assert (offsets[CLASSIC][T0].metadata, offsets["admin-groups-none"]) == ("note", {})
    assert {where: its.offset for where, its in offsets[SHARE].items()} == {T0: 2, T1: 3}
    assert real["left"][SHARE] == {}
    assert real["gone"] == {"admin-groups-none": "GROUP_ID_NOT_FOUND"}
    assert real["afterwards"] == []


def test_outcomes_on_the_embedded_broker_are_the_same(real: dict[str, Any]) -> None:
    with EmbeddedKafka() as kafka:
        embedded = outcomes(kafka.bootstrap)
    for what, theirs in real.items():
        assert embedded[what] == theirs, what


def test_members_are_removed(cluster: KafkaCluster) -> None:
    group, topic = "admin-groups-removed", "admin-groups-removed"

    async def go() -> None:
        async with kafwire.AsyncAdmin(cluster.bootstrap) as admin:
            found = await admin.describe_groups([group])
            (member,) = found[group].members
            await admin.remove_members(group, [member], reason="a test")
            assert (await admin.describe_groups([group]))[group].members == ()

    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic, partitions=1)
    with joined_classic(cluster.bootstrap, group, {topic: [0]}, instance_id="one"):
        asyncio.run(go())
    with joined_classic(cluster.bootstrap, group, {topic: [0]}), kafwire.Admin(cluster.bootstrap) as admin:
        admin.remove_members(group)
        assert admin.describe_groups([group])[group].is_empty
