"""Members of a classic group, as tests of the embedded broker's coordinator drive them: one request at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafwire import protocol
from kafwire.broker.request import Request
from kafwire.broker.state import ClusterState
from kafwire.errors import ErrorCode
from tests.support.broker.driver import BrokerDriver

RANGE = (("range", b"metadata"),)
Protocols = Sequence[tuple[str, bytes]]


@dataclass
class Membership:
    """The identity of a member in a group, by the last response to its JoinGroup."""

    member_id: str
    generation: int
    leader: str
    instance_id: str | None = None


class Members:
    """A group, and its members' requests. Waiting requests get their responses later, see `response_to`."""

    def __init__(self, group_id: str = "g", nodes: Sequence[int] = (1,), **configs: object) -> None:
        options = {name.replace("_", "."): str(value) for name, value in configs.items()}
        self.state = ClusterState(nodes, configs=options)
        self.driver = BrokerDriver(self.state)
        self.group_id = group_id
        self.node = self.state.coordinator(group_id)
        self.state.topics.create("t", 1)

    def send(self, message: Any, version: int | None = None, client_id: str = "test") -> Request:
        return self.driver.send(message, version, node=self.node, client_id=client_id)

    def response_to(self, request: Request) -> Any:
        """The response to a request; None: it waits."""
        return self.driver.late.pop(request, None)

    def ask(self, message: Any, version: int | None = None) -> Any:
        return self.response_to(self.send(message, version))

    def pass_ms(self, ms: float) -> None:
        self.driver.pass_ms(ms)

    # --- joining

    def join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: Protocols = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        version: int = 9,
        client_id: str = "test",
    ) -> Request:
        """JoinGroup, whose response may come later."""
        request = protocol.JoinGroupRequest(
            group_id=self.group_id,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
        )
        request.protocols = [request.JoinGroupRequestProtocol(name=n, metadata=data) for n, data in protocols]
        return self.send(request, version, client_id)

    def new_id(self, **how: Any) -> str:
        """The id that a new member is given before it joins."""
        response = self.response_to(self.join(**how))
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return str(response.member_id)

    def stable(self, *, count: int = 1, instance_ids: Sequence[str] = (), **how: Any) -> list[Membership]:
        """A stable group of new members; each has its number as assignment. The first one leads."""
        names: list[str | None] = [*instance_ids] or [None] * count
        ids = [self.new_id(**how) if name is None else "" for name in names]
        waiting = [self.join(member_id, instance_id=name, **how) for member_id, name in zip(ids, names, strict=True)]
        responses = [self.response_to(each) for each in waiting]
        if len(names) > 1:  # the first one was alone, and joins again with the others
            first = responses[0]
            assert first.error_code == 0
            again = self.join(first.member_id, instance_id=names[0], **how)
            responses = [self.response_to(again), *(self.response_to(each) for each in waiting[1:])]
        members = [
            Membership(each.member_id, each.generation_id, each.leader, name)
            for each, name in zip(responses, names, strict=True)
        ]
        assert {each.leader for each in members} == {members[0].member_id}
        given = {each.member_id: b"%d" % number for number, each in enumerate(members)}
        protocol_type = how.get("protocol_type", "consumer")
        for number, each in enumerate(members):
            response = self.response_to(self.sync(each, given if number == 0 else None, protocol_type=protocol_type))
            assert response.assignment == b"%d" % number
        return members

    # --- being in it

    def sync(
        self, member: Membership, assignments: Mapping[str, bytes] | None = None, *, version: int = 5, **fields: Any
    ) -> Request:
        """SyncGroup, whose response may come later."""
        request = protocol.SyncGroupRequest(
            group_id=self.group_id,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            generation_id=member.generation,
            **({"protocol_type": "consumer", "protocol_name": "range"} | fields),
        )
        request.assignments = [
            request.SyncGroupRequestAssignment(member_id=member_id, assignment=data)
            for member_id, data in (assignments or {}).items()
        ]
        return self.send(request, version)

    def beat(self, member: Membership) -> int:
        """Heartbeat: its error code."""
        request = protocol.HeartbeatRequest(
            group_id=self.group_id,
            member_id=member.member_id,
            generation_id=member.generation,
            group_instance_id=member.instance_id,
        )
        return int(self.ask(request).error_code)

    def leave(self, *members: tuple[str, str | None]) -> list[int]:
        """LeaveGroup: the error codes of each."""
        request = protocol.LeaveGroupRequest(group_id=self.group_id)
        request.members = [
            request.MemberIdentity(member_id=member_id, group_instance_id=instance_id, reason="because")
            for member_id, instance_id in members
        ]
        return [each.error_code for each in self.ask(request).members]

    def commit(self, member: Membership | None, offset: int = 7, topic: str = "t") -> int:
        """OffsetCommit, as a member or without a member id: the error code."""
        request = protocol.OffsetCommitRequest(group_id=self.group_id, generation_id_or_member_epoch=-1)
        if member is not None:
            request.generation_id_or_member_epoch, request.member_id = member.generation, member.member_id
            request.group_instance_id = member.instance_id
        part = request.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request.topics = [request.OffsetCommitRequestTopic(name=topic, partitions=[part])]
        return int(self.ask(request, 9).topics[0].partitions[0].error_code)

    def describe(self, version: int = 6) -> Any:
        """DescribeGroups."""
        return self.ask(protocol.DescribeGroupsRequest(groups=[self.group_id]), version).groups[0]

    @property
    def status(self) -> str:
        return str(self.describe().group_state)
