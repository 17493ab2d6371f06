"""A group of each type on a broker, with a member, made of single requests."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import kafwire
from kafwire import protocol
from kafwire.admin.group_types import CLASSIC, CONSUMER, GROUP_TYPES, SHARE, STREAMS
from tests.support.deadlines import until
from tests.support.group.classic_member import joined_classic
from tests.support.stream.streams_group_walk import HEARTBEAT, subtopology

MEMBER, INSTANCE = "AAAAAAAAAAAAAAAAAAAAAA", "one"
NO_TASKS: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
KINDS: dict[str, Any] = {
    CONSUMER: protocol.ConsumerGroupHeartbeatRequest,
    SHARE: protocol.ShareGroupHeartbeatRequest,
    STREAMS: HEARTBEAT,
}


def first_fields(topic: str) -> dict[str, dict[str, Any]]:
    """The fields of the first heartbeat, by type."""
    return {
        CONSUMER: {
            "instance_id": INSTANCE,
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": [topic],
            "topic_partitions": [],
        },
        SHARE: {"subscribed_topic_names": [topic]},
        STREAMS: {
            "instance_id": INSTANCE,
            "rebalance_timeout_ms": 60_000,
            "process_id": "p",
            "topology": HEARTBEAT.Topology(subtopologies=[subtopology("0", (topic,))]),
            **NO_TASKS,
        },
    }


@contextmanager
def every_type(
    bootstrap: str, prefix: str, topic: str, kinds: Collection[str] = GROUP_TYPES
) -> Iterator[dict[str, str]]:
    """The groups by their types. Each is stable, and its only member has partitions 0 and 1; at the end it leaves."""
    names = {kind: f"{prefix}-{kind}" for kind in kinds}
    epochs = dict.fromkeys(KINDS.keys() & names, 0)
    with kafwire.Client(bootstrap, client_id="member") as client, kafwire.Admin(bootstrap) as admin:

        def beat(kind: str, epoch: int, **fields: Any) -> int:
            group = names[kind]
            asked = protocol.FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
            node = client.call(asked).coordinators[0].node_id
            static = {} if kind == SHARE else {"instance_id": INSTANCE}
            message = KINDS[kind](group_id=group, member_id=MEMBER, member_epoch=epoch, **(static | fields))
            response = client.call(message, broker=node)
            assert not response.error_code, response
            return int(response.member_epoch)

        def are_stable() -> bool:
            for kind in epochs:
                epochs[kind] = beat(kind, epochs[kind])
            found = admin.describe_groups(names.values()).values()
            return all(each.state == "Stable" and len(each.members[0].assignment) == 2 for each in found)

        admin.list_group_offsets(names.values())  # waits for the coordinators of a new cluster
        with joined_classic(bootstrap, names[CLASSIC], {topic: [0, 1]}, instance_id=INSTANCE):
            for kind in epochs:
                epochs[kind] = beat(kind, 0, **first_fields(topic)[kind])
            until(are_stable, "all groups are stable", 60)
            yield names
        there = admin.describe_groups(names.values()).values()
        for kind in (each.type for each in there if each.members and each.type in epochs):
            beat(kind, -1)


@contextmanager
def left(bootstrap: str, prefix: str, topic: str, kinds: Collection[str] = GROUP_TYPES) -> Iterator[dict[str, str]]:
    """The same groups without members."""
    with every_type(bootstrap, prefix, topic, kinds) as names:
        pass
    yield names
