"""Requests that only make sense after others: the steps before a request, and the values that it takes from them.

A scenario belongs to an API. It puts steps before the target and binds fields of the target to their responses: a
member id from JoinGroup, a session id from a first Fetch, a producer id for record batches.
"""

import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

from kafwire.protocol import (
    MESSAGES,
    AddPartitionsToTxnRequest,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    FetchRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
)
from kafwire.testing.fuzzer.case import Bind, Step
from kafwire.testing.fuzzer.generate import FRESH, GROUP, TRANSACTION
from kafwire.testing.fuzzer.world import World

Scenario = Callable[[random.Random, World, Step], tuple[Step, ...]]
_CONSUMER_METADATA = b"\0\0" + ConsumerProtocolSubscription(topics=["a"]).encode(0)


def with_scenario(rng: random.Random, world: World, target: Step) -> tuple[Step, ...]:
    """Return the steps of a case for `target`: often with the steps before it that its API's scenario has."""
    scenario = SCENARIOS.get(target.api)
    if scenario is None or rng.random() < 0.3:
        return (target,)
    return scenario(rng, world, target)


def _step(world: World, api: str, message: dict[str, Any], *binds: Bind, at_most: int | None = None) -> Step | None:
    versions = world.versions(api)
    if not versions:
        return None
    version = versions[-1] if at_most is None else min(versions[-1], at_most)
    cls: Any = MESSAGES[f"{api}Request"]
    known = {field.name for field in cls.__fields__ if version in field.versions}
    kept = {name: value for name, value in message.items() if name in known}
    return Step(api, version, cls.from_dict(kept), tuple(bind for bind in binds if bind.target.split("[")[0] in known))


def _bound(target: Step, **names: tuple[int, str]) -> Step:
    known = {field.name for field in type(target.message).__fields__ if target.version in field.versions}
    binds = tuple(Bind(name, *source) for name, source in names.items() if name in known)
    return Step(target.api, target.version, target.message, binds, target.damage)


def _join(world: World) -> tuple[Step, ...]:
    """Return the steps that form a group of one member: the member id comes from step 0, the generation from step 1."""
    join = {
        "group_id": GROUP,
        "session_timeout_ms": 6000,
        "rebalance_timeout_ms": 500,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": _CONSUMER_METADATA}],
    }
    first = _step(world, "JoinGroup", join, at_most=JoinGroupRequest.SKIPS_ASSIGNMENT - 1)
    second = _step(
        world, "JoinGroup", join, Bind("member_id", 0, "member_id"), at_most=JoinGroupRequest.SKIPS_ASSIGNMENT - 1
    )
    sync = _step(
        world,
        "SyncGroup",
        {
            "group_id": GROUP,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": "", "assignment": b"\0\0" + ConsumerProtocolAssignment().encode(0)}],
        },
        Bind("member_id", 0, "member_id"),
        Bind("generation_id", 1, "generation_id"),
        Bind("assignments[0].member_id", 0, "member_id"),
    )
    return tuple(step for step in (first, second, sync) if step is not None)


def _as_member(rng: random.Random, world: World, target: Step) -> tuple[Step, ...]:
    steps = _join(world)
    if len(steps) < 3:
        return (target,)
    message: Any = target.message
    if hasattr(message, "group_instance_id"):
        message.group_instance_id = None
    if target.api == "SyncGroup":
        steps = steps[:2]
    bound = _bound(
        target,
        member_id=(0, "member_id"),
        generation_id=(1, "generation_id"),
        generation_id_or_member_epoch=(1, "generation_id"),
    )
    if target.api == "LeaveGroup" and target.version >= LeaveGroupRequest.MEMBERS:
        message.members = [type(message).MemberIdentity()]
        bound = Step(target.api, target.version, message, (Bind("members[0].member_id", 0, "member_id"),))
    del rng
    return (*steps, bound)


def _after_join(rng: random.Random, world: World, target: Step) -> tuple[Step, ...]:
    del rng
    return (*_join(world), target)


def _commit(rng: random.Random, world: World, target: Step) -> tuple[Step, ...]:
    if rng.random() < 0.5:
        return _as_member(rng, world, target)
    return (target,)


def _after_commit(rng: random.Random, world: World, target: Step) -> tuple[Step, ...]:
    topics = [
        {
            "name": topic.name,
            "partitions": [{"partition_index": index, "committed_offset": 1} for index in topic.partitions],
        }
        for topic in world.topics.values()
    ]
    commit = _step(
        world,
        "OffsetCommit",
        {"group_id": GROUP, "generation_id_or_member_epoch": -1, "topics": topics[:2]},
        at_most=OffsetCommitRequest.BY_TOPIC_ID - 1,
    )
    del rng
    return (target,) if commit is None else (commit, target)


def _fetch_session(rng: random.Random, world: World, target: Step) -> tuple[Step, ...]:
    del world
    if target.version < FetchRequest.SESSIONS:
        return (target,)
    message: Any = target.message
    opening = target.message.from_dict(message.to_dict() | {"session_id": 0, "session_epoch": 0})
    message.session_epoch = 1
    if rng.random() < 0.5:
        message.topics = []
    return (Step(target.api, target.version, opening), _bound(target, session_id=(0, "session_id")))


def _as_producer(rng: random.Random, world: World, target: Step) -> tuple[Step, ...]:
    message: Any = target.message
    init = _step(
        world,
        "InitProducerId",
        {"transactional_id": None, "transaction_timeout_ms": 60000, "producer_id": -1, "producer_epoch": -1},
    )
    if init is None or rng.random() < 0.4:
        return (target,)
    binds = tuple(
        Bind(f"topic_data[{t}].partition_data[{p}].records@producer", 0, "")
        for t, topic in enumerate(message.topic_data)
        for p in range(len(topic.partition_data))
    )
    return (init, Step(target.api, target.version, message, binds))


def _transaction(rng: random.Random, world: World, target: Step) -> tuple[Step, ...]:
    init = _step(
        world,
        "InitProducerId",
        {"transactional_id": TRANSACTION, "transaction_timeout_ms": 60000, "producer_id": -1, "producer_epoch": -1},
    )
    if init is None:
        return (target,)
    producer = (Bind("producer_id", 0, "producer_id"), Bind("producer_epoch", 0, "producer_epoch"))
    steps = [init]
    if target.api in ("EndTxn", "TxnOffsetCommit") and rng.random() < 0.7:
        added = _step(world, "AddOffsetsToTxn", {"transactional_id": TRANSACTION, "group_id": GROUP}, *producer)
        steps += [added] if added is not None else []
    message: Any = target.message
    if target.api == "AddPartitionsToTxn":
        binds: tuple[Bind, ...] = (
            Bind("v3_and_below_producer_id", 0, "producer_id"),
            Bind("v3_and_below_producer_epoch", 0, "producer_epoch"),
        )
        if target.version >= AddPartitionsToTxnRequest.FOR_BROKERS:
            binds = tuple(
                Bind(f"transactions[{index}].{name}", 0, name)
                for index in range(len(message.transactions))
                for name in ("producer_id", "producer_epoch")
            )
        return (*steps, Step(target.api, target.version, message, binds))
    return (*steps, _bound(target, producer_id=(0, "producer_id"), producer_epoch=(0, "producer_epoch")))


def _after_init(rng: random.Random, world: World, target: Step) -> tuple[Step, ...]:
    init = _step(
        world,
        "InitProducerId",
        {"transactional_id": TRANSACTION, "transaction_timeout_ms": 60000, "producer_id": -1, "producer_epoch": -1},
    )
    del rng
    return (target,) if init is None else (init, target)


def _telemetry(rng: random.Random, world: World, target: Step) -> tuple[Step, ...]:
    asked = _step(world, "GetTelemetrySubscriptions", {"client_instance_id": UUID(int=0)})
    del rng
    if asked is None:
        return (target,)
    return (asked, _bound(target, client_instance_id=(0, "client_instance_id"), subscription_id=(0, "subscription_id")))


def _heartbeats(rng: random.Random, world: World, target: Step) -> tuple[Step, ...]:
    """Return the steps of a member of the new group types: it joins by a heartbeat with epoch 0."""
    first = target.message.from_dict(target.message.to_dict())
    message: Any = target.message
    message.member_epoch = rng.choice((1, -1))
    for name in ("subscribed_topic_names", "topic_partitions", "topology", "active_tasks", "standby_tasks"):
        if hasattr(message, name) and rng.random() < 0.5 and not (name == "topology" and message.topology is None):
            setattr(message, name, None)
    steps = (Step(target.api, target.version, first),)
    names = {"member_id": (0, "member_id")}
    if message.member_epoch == 1:
        names["member_epoch"] = (0, "member_epoch")
    del world
    return (*steps, _bound(target, **names))


def _after_heartbeat(api: str, **fields: Any) -> Scenario:
    def scenario(rng: random.Random, world: World, target: Step) -> tuple[Step, ...]:
        names = list(world.topics)[:1]
        values = {"group_id": GROUP, "member_id": f"member-{FRESH}", "member_epoch": 0, "subscribed_topic_names": names}
        joined = _step(world, api, values | fields)
        del rng
        return (target,) if joined is None else (joined, target)

    return scenario


def _share_session(rng: random.Random, world: World, target: Step) -> tuple[Step, ...]:
    """Return the steps of a share group's member that opens a session, and goes on in it."""
    message: Any = target.message
    member = str(UUID(int=rng.getrandbits(128)))
    joined = _step(
        world,
        "ShareGroupHeartbeat",
        {"group_id": GROUP, "member_id": member, "member_epoch": 0, "subscribed_topic_names": list(world.topics)[:2]},
    )
    topics = [
        {"topic_id": topic.id, "partitions": [{"partition_index": index} for index in topic.partitions]}
        for topic in world.topics.values()
    ]
    opening = _step(
        world,
        "ShareFetch",
        {
            "group_id": GROUP,
            "member_id": member,
            "share_session_epoch": 0,
            "max_wait_ms": 10,
            "max_bytes": 1 << 20,
            "max_records": 100,
            "batch_size": 100,
            "topics": topics[:2],
        },
    )
    if joined is None or opening is None:
        return (target,)
    message.member_id, message.group_id = member, GROUP
    message.share_session_epoch = rng.choice((1, 1, 1, 0, 2, -1))
    return (joined, opening, target)


SCENARIOS: dict[str, Scenario] = {
    "Heartbeat": _as_member,
    "SyncGroup": _as_member,
    "LeaveGroup": _as_member,
    "OffsetCommit": _commit,
    "DescribeGroups": _after_join,
    "ListGroups": _after_join,
    "DeleteGroups": _after_commit,
    "OffsetFetch": _after_commit,
    "OffsetDelete": _after_commit,
    "Fetch": _fetch_session,
    "Produce": _as_producer,
    "AddPartitionsToTxn": _transaction,
    "AddOffsetsToTxn": _transaction,
    "TxnOffsetCommit": _transaction,
    "EndTxn": _transaction,
    "DescribeTransactions": _after_init,
    "ListTransactions": _after_init,
    "PushTelemetry": _telemetry,
    "ConsumerGroupHeartbeat": _heartbeats,
    "ShareGroupHeartbeat": _heartbeats,
    "StreamsGroupHeartbeat": _heartbeats,
    "ConsumerGroupDescribe": _after_heartbeat("ConsumerGroupHeartbeat", rebalance_timeout_ms=5000, topic_partitions=[]),
    "ShareGroupDescribe": _after_heartbeat("ShareGroupHeartbeat"),
    "DescribeShareGroupOffsets": _after_heartbeat("ShareGroupHeartbeat"),
    "ShareFetch": _share_session,
    "ShareAcknowledge": _share_session,
}
