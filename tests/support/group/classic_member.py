"""A member of a classic group, made of single requests. It does not heartbeat: it stays for its session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import kafwire
from kafwire import protocol
from kafwire.consumer.group.member import GroupMember
from kafwire.consumer.group.subscription import PROTOCOL_TYPE, assignment, subscription
from kafwire.errors import ErrorCode


@contextmanager
def joined_classic(
    bootstrap: str,
    group: str,
    partitions: Mapping[str, Sequence[int]],
    *,
    instance_id: str | None = None,
    assigned: bytes | None = None,
) -> Iterator[str]:
    """The group's only member, which has these partitions, or the bytes `assigned` as its assignment; its id."""
    with kafwire.Client(bootstrap, client_id="member") as client:
        (found,) = client.call(protocol.FindCoordinatorRequest(key_type=0, coordinator_keys=[group])).coordinators
        node = found.node_id
        request = protocol.JoinGroupRequest
        join = request(
            group_id=group,
            group_instance_id=instance_id,
            protocol_type=PROTOCOL_TYPE,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            protocols=[
                request.JoinGroupRequestProtocol(name="range", metadata=subscription(GroupMember("", list(partitions))))
            ],
        )
        response = client.call(join, broker=node)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            join.member_id = response.member_id
            response = client.call(join, broker=node)
        assert response.error_code == 0
        given = assigned or assignment((topic, number) for topic, numbers in partitions.items() for number in numbers)
        sync = protocol.SyncGroupRequest(
            group_id=group,
            generation_id=response.generation_id,
            member_id=response.member_id,
            group_instance_id=instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name="range",
        )
        sync.assignments = [sync.SyncGroupRequestAssignment(member_id=response.member_id, assignment=given)]
        assert client.call(sync, broker=node).error_code == 0
        yield response.member_id
        leave = protocol.LeaveGroupRequest(group_id=group)
        leave.members = [leave.MemberIdentity(member_id=response.member_id, group_instance_id=instance_id)]
        client.call(leave, broker=node)
