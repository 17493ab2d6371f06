"""Calls about groups, by Java's `Admin` and by kafwire's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import kafwire
from kafwire.admin import GroupDescription, GroupMember, GroupOffset, StreamsAssignment
from kafwire.admin.group_types import CLASSIC, CONSUMER, GROUP_TYPES, SHARE, STREAMS
from kafwire.types import TopicPartition
from tests.support.group import every_type as made
from tests.support.java.admin_comparison import Comparison, OnError, Scene, all_but, only, shown

NOTHING = "none"
Offsets = dict[str, Any]


def with_members(scene: Scene) -> None:
    """A group of each type with a member."""
    scene.stack.enter_context(
        made.every_type(scene.bootstrap, scene.name, scene.topic(partitions=2), scene.group_types)
    )


def with_offsets(scene: Scene) -> None:
    """A group of each type without members, and an offset in partition 0."""
    scene.stack.enter_context(made.left(scene.bootstrap, scene.name, scene.topic(partitions=2), scene.group_types))
    with kafwire.Admin(scene.bootstrap) as admin:
        for kind in scene.group_types:
            admin.alter_group_offsets(named(scene, kind), {places(scene)[0]: 1})


def named(scene: Scene, kind: str) -> str:
    return f"{scene.name}-{kind}"


def places(scene: Scene) -> list[TopicPartition]:
    """Partitions that exist, and one that does not."""
    return [TopicPartition(scene.existing, number) for number in (0, 1, 9)]


# --- lists and descriptions


def listings(admin: kafwire.Admin, _: Scene, __: OnError, **filters: Any) -> dict[str, Any]:
    found = admin.list_groups(**filters)
    return {
        "all": [
            {
                "groupId": each.group_id,
                "type": each.type,
                "protocol": each.protocol_type,
                "groupState": each.state,
                "isSimpleConsumerGroup": not each.protocol_type and each.type == CLASSIC,
            }
            for each in found
        ]
    }


def listings_of_java(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(({**each, "type": each["type"].lower()} for each in found), key=lambda each: str(each["groupId"]))


def described(kind: str) -> Callable[[kafwire.Admin, Scene, OnError], dict[str, GroupDescription]]:
    return lambda admin, scene, on_error: admin.describe_groups(
        [named(scene, kind), named(scene, NOTHING)], on_error=on_error
    )


def partitions(assignment: Iterable[TopicPartition] | None) -> list[str] | None:
    return None if assignment is None else sorted(shown(where) for where in assignment)


def partitions_of_java(assignment: Any) -> list[str] | None:
    if assignment is None:
        return None
    return sorted(f"{where['topic']}-{where['partition']}" for where in assignment["topicPartitions"])


def tasks(its: StreamsAssignment) -> list[list[str]]:
    return [[str(task) for task in given] for given in (its.active, its.standby, its.warmup)]


def tasks_of_java(its: Any) -> list[list[str]]:
    return [
        [f"{task['subtopologyId']}_{number}" for task in its[role] for number in task["partitions"]]
        for role in ("activeTasks", "standbyTasks", "warmupTasks")
    ]


def description(its: GroupDescription) -> dict[str, Any]:
    return {
        "state": its.state,
        "coordinator": its.coordinator,
        "epochs": [its.epoch, its.assignment_epoch],
        "assignor": "" if its.type in (SHARE, STREAMS) else its.assignor,  # Java reports it by one more method, or none
        "members": [member(each, its.type) for each in its.members],
        "topology": None if its.topology is None else [list(each.source_topics) for each in its.topology.subtopologies],
    }


def description_of_java(its: Any) -> dict[str, Any]:
    return {
        "state": its.get("groupState") or its.get("state"),
        "coordinator": its["coordinator"]["id"],
        "epochs": [its.get("groupEpoch"), its.get("targetAssignmentEpoch")],
        "assignor": its.get("partitionAssignor") or its.get("protocolData") or "",
        "members": [member_of_java(each) for each in its["members"]],
        "topology": [each["sourceTopics"] for each in its["subtopologies"]] if "subtopologies" in its else None,
    }


def member(its: GroupMember, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "instance": its.instance_id,
        "client": its.client_id,
        "host": its.host,
        "rack": its.rack_id,
        "epoch": its.epoch,
        "assignment": partitions(its.assignment),
        "target": partitions(its.target_assignment),
    }
    if kind == STREAMS and its.streams is not None:
        found |= {"assignment": tasks(its.streams.assignment), "target": tasks(its.streams.target_assignment)}
        found |= {"process": its.streams.process_id}
    return found


def member_of_java(its: Any) -> dict[str, Any]:
    is_streams = "processId" in its
    read: Callable[[Any], Any] = tasks_of_java if is_streams else partitions_of_java
    found = {
        "instance": its.get("groupInstanceId") or its.get("instanceId"),
        "client": its["clientId"],
        "host": its.get("host") or its.get("clientHost"),
        "rack": its.get("rackId"),
        "epoch": its.get("memberEpoch"),
        "assignment": read(its["assignment"]),
        "target": read(its.get("targetAssignment")),
    }
    return found | ({"process": its["processId"]} if is_streams else {})


# --- offsets


def offsets(kind: str) -> Callable[[kafwire.Admin, Scene, OnError], dict[str, Any]]:
    def call(admin: kafwire.Admin, scene: Scene, on_error: OnError) -> dict[str, Any]:
        asked: dict[str, Any] = {named(scene, kind): None, named(scene, NOTHING): places(scene)[:2]}
        return admin.list_group_offsets(asked, on_error=on_error)

    return call


def offsets_in_java(scene: Scene, kind: str) -> dict[str, Any]:
    return {"groups": {named(scene, kind): None, named(scene, NOTHING): [[*where] for where in places(scene)[:2]]}}


def committed(found: dict[TopicPartition, GroupOffset | None]) -> Offsets:
    return {shown(where): its and [its.offset, its.leader_epoch, its.metadata] for where, its in found.items()}


def committed_of_java(found: Any) -> Offsets:
    return {where: its and [its["offset"], its["leaderEpoch"], its["metadata"]] for where, its in found.items()}


def started(found: dict[TopicPartition, GroupOffset | None]) -> Offsets:
    return {shown(where): its and [its.offset, its.leader_epoch, its.lag] for where, its in found.items()}


def started_of_java(found: Any) -> Offsets:
    return {where: its and [its["startOffset"], its["leaderEpoch"], its["lag"]] for where, its in found.items()}


def altered(kind: str) -> Callable[[kafwire.Admin, Scene, OnError], dict[str, None]]:
    def call(admin: kafwire.Admin, scene: Scene, on_error: OnError) -> dict[str, None]:
        group, offsets = named(scene, kind), dict.fromkeys(places(scene), 4)
        return all_but(offsets, lambda failed: admin.alter_group_offsets(group, offsets, on_error=failed), on_error)

    return call


def altered_in_java(scene: Scene, kind: str) -> dict[str, Any]:
    return {"group": named(scene, kind), "offsets": [[*where, 4] for where in places(scene)]}


def forgotten(kind: str) -> Callable[[kafwire.Admin, Scene, OnError], dict[str, None]]:
    def call(admin: kafwire.Admin, scene: Scene, on_error: OnError) -> dict[str, None]:
        group = named(scene, kind)
        keys: list[Any] = [scene.existing, named(scene, NOTHING)] if kind == SHARE else places(scene)
        return all_but(keys, lambda failed: admin.delete_group_offsets(group, keys, on_error=failed), on_error)

    return call


def forgotten_in_java(scene: Scene, kind: str) -> dict[str, Any]:
    if kind == SHARE:
        return {"group": named(scene, kind), "topics": [scene.existing, named(scene, NOTHING)]}
    return {"group": named(scene, kind), "partitions": [[*where] for where in places(scene)]}


def kept(kind: str) -> Callable[[kafwire.Admin, Scene], Offsets]:
    return lambda admin, scene: {
        shown(where).replace(scene.name, "*"): its and its.offset
        for where, its in admin.list_group_offsets([named(scene, kind)])[named(scene, kind)].items()
    }


# --- deletion


def deleted(kind: str) -> Callable[[kafwire.Admin, Scene, OnError], dict[str, None]]:
    def call(admin: kafwire.Admin, scene: Scene, on_error: OnError) -> dict[str, None]:
        names = [named(scene, kind), named(scene, NOTHING)]
        return all_but(names, lambda failed: admin.delete_groups(names, on_error=failed), on_error)

    return call


def removed(admin: kafwire.Admin, scene: Scene, on_error: OnError) -> dict[str, None]:
    group, instances = named(scene, CLASSIC), [made.INSTANCE, NOTHING]
    return all_but(
        instances, lambda failed: admin.remove_members(group, instance_ids=instances, on_error=failed), on_error
    )


def members_of(kind: str) -> Callable[[kafwire.Admin, Scene], list[str | None]]:
    return lambda admin, scene: [
        each.instance_id for each in admin.describe_groups([named(scene, kind)])[named(scene, kind)].members
    ]


def groups_in_java(scene: Scene, kind: str) -> dict[str, Any]:
    return {"groups": [named(scene, kind), named(scene, NOTHING)]}


def common(its: dict[str, Any]) -> dict[str, Any]:
    """The part of a description that Java of all releases has."""
    names = ("instance", "client", "host", "assignment")
    members = [{name: each[name] for name in names} for each in its["members"]]
    return {name: its[name] for name in ("state", "coordinator", "assignor")} | {"members": members}


def comparisons_of(kind: str) -> list[Comparison]:
    """The calls that Java has for each type."""
    java = {CLASSIC: "Consumer", CONSUMER: "Consumer", SHARE: "Share", STREAMS: "Streams"}[kind]
    # Java has one method for both types of consumer groups, except to describe them.
    aspect = CLASSIC if kind == CLASSIC else ""
    read, read_java = (started, started_of_java) if kind == SHARE else (committed, committed_of_java)
    return [
        Comparison(
            f"describe{kind.capitalize()}Groups",
            lambda scene: groups_in_java(scene, kind),
            described(kind),
            ours=description,
            theirs=description_of_java,
            prepare=with_members,
        ),
        Comparison(
            f"list{java}GroupOffsets",
            lambda scene: offsets_in_java(scene, kind),
            offsets(kind),
            ours=read,
            theirs=read_java,
            aspect=aspect,
            prepare=with_offsets,
        ),
        Comparison(
            f"alter{java}GroupOffsets",
            lambda scene: altered_in_java(scene, kind),
            altered(kind),
            aspect=aspect,
            prepare=with_offsets,
            twins=True,
            after=kept(kind),
        ),
        Comparison(
            f"alter{java}GroupOffsets",
            lambda scene: altered_in_java(scene, kind),
            altered(kind),
            aspect="-".join(filter(None, [aspect, "members"])),
            prepare=with_members,
        ),
        Comparison(
            f"delete{java}GroupOffsets",
            lambda scene: forgotten_in_java(scene, kind),
            forgotten(kind),
            aspect=aspect,
            prepare=with_offsets,
            twins=True,
            after=kept(kind),
        ),
        Comparison(
            f"delete{java}GroupOffsets",
            lambda scene: forgotten_in_java(scene, kind),
            forgotten(kind),
            aspect="-".join(filter(None, [aspect, "members"])),
            prepare=with_members,
        ),
        Comparison(
            f"delete{java}Groups",
            lambda scene: groups_in_java(scene, kind),
            deleted(kind),
            aspect=aspect,
            prepare=with_offsets,
            twins=True,
        ),
        Comparison(
            f"delete{java}Groups",
            lambda scene: groups_in_java(scene, kind),
            deleted(kind),
            aspect="-".join(filter(None, [aspect, "members"])),
            prepare=with_members,
        ),
    ]


def removal_of_all(kind: str) -> Comparison:
    return Comparison(
        "removeMembersFromConsumerGroup",
        lambda scene: {"group": named(scene, kind)},
        lambda admin, scene, on_error: only("all", lambda: admin.remove_members(named(scene, kind)), on_error),
        aspect=f"all-{kind}",
        prepare=with_members,
        twins=True,
        after=members_of(kind),
    )


def consumers_of_java(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Groups by the older method, which has no protocol."""
    names = ("groupId", "type", "isSimpleConsumerGroup")
    return listings_of_java([{name: each[name] for name in names} | {"groupState": each["state"]} for each in found])


def consumers(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in each.items() if name != "protocol"} for each in found]


COMPARISONS = [
    Comparison(
        "listConsumerGroups",
        lambda _: {},
        lambda admin, scene, on_error: listings(
            admin, scene, on_error, types=[CLASSIC, CONSUMER], protocol_types=["consumer", ""]
        ),
        ours=consumers,
        theirs=consumers_of_java,
        prepare=with_offsets,
        own_by="groupId",
    ),
    Comparison("listGroups", lambda _: {}, listings, theirs=listings_of_java, prepare=with_members, own_by="groupId"),
    Comparison(
        "listGroups",
        lambda _: {"types": ["share", "streams"], "states": ["Stable"]},
        lambda admin, scene, on_error: listings(admin, scene, on_error, types=["share", "streams"], states=["Stable"]),
        theirs=listings_of_java,
        aspect="types",
        prepare=with_members,
        own_by="groupId",
    ),
    Comparison(
        "listGroups",
        lambda _: {"protocolTypes": ["consumer", ""]},
        lambda admin, scene, on_error: listings(admin, scene, on_error, protocol_types=["consumer", ""]),
        theirs=listings_of_java,
        aspect="protocols",
        prepare=with_offsets,
        own_by="groupId",
    ),
    *(each for kind in GROUP_TYPES for each in comparisons_of(kind)),
    Comparison(
        "describeConsumerGroups",
        lambda scene: {"groups": [named(scene, CONSUMER)]},
        lambda admin, scene, on_error: admin.describe_groups([named(scene, CONSUMER)], on_error=on_error),
        ours=lambda its: common(description(its)),
        theirs=lambda its: common(description_of_java(its)),
        aspect="common",
        prepare=with_members,
    ),
    Comparison(
        "removeMembersFromConsumerGroup",
        lambda scene: {"group": named(scene, CLASSIC), "instances": [made.INSTANCE, NOTHING]},
        removed,
        prepare=with_members,
        twins=True,
        after=members_of(CLASSIC),
    ),
    removal_of_all(CLASSIC),
    removal_of_all(CONSUMER),
]
