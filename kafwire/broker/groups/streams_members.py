"""The members of a streams group by their ids, static ones by their instance ids too, and the owners of tasks."""

from __future__ import annotations

from typing import Any

from kafwire.broker.groups.group import static_member
from kafwire.broker.groups.streams_member import (
    LEFT_FOR_A_WHILE,
    StreamsMember,
    TaskOwners,
    Tasks,
    check_epoch,
)
from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode


class StreamsMembers:
    """The members of one group."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self.by_id: dict[str, StreamsMember] = {}
        self.static: dict[str, str] = {}  # instance ids, and their members
        self.owners = TaskOwners()

    def before(self, message: Any, owned: Tasks | None) -> tuple[StreamsMember, str | None]:
        """Return the member before its heartbeat, and the static member whose place it takes; None: none.

        Raises:
            Refusal: there is no such member, or it has another epoch.
        """
        member_id, instance_id, joins = message.member_id, message.instance_id, message.member_epoch == 0
        if joins and instance_id is not None:
            holder = self.by_id.get(self.static.get(instance_id, ""))
            if holder is None:
                return self.by_id.get(member_id) or StreamsMember(member_id), None
            if holder.epoch != LEFT_FOR_A_WHILE:
                raise Refusal(
                    ErrorCode.UNRELEASED_INSTANCE_ID,
                    f"Static member {member_id} with instance id {instance_id} cannot join the group because the"
                    f" instance id is owned by {holder.member_id} member.",
                )
            return holder.successor(member_id), holder.member_id
        if joins and member_id not in self.by_id:
            return StreamsMember(member_id), None
        member = self.find(member_id, instance_id)
        check_epoch(member, message.member_epoch, owned)
        return member, None

    def find(self, member_id: str, instance_id: str | None) -> StreamsMember:
        """Return the member of an id. The instance id finds a static one.

        Raises:
            Refusal: there is no such member.
        """
        if instance_id is None:
            member = self.by_id.get(member_id)
            if member is None:
                text = f"Member {member_id} is not a member of group {self._group_id}."
                raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, text)
            return member
        return self.by_id[static_member(self.static, instance_id, member_id)]

    def put(self, member: StreamsMember) -> None:
        """Add a member, or replace the one with its id."""
        if member.member_id in self.by_id:
            old = self.by_id[member.member_id]
            self.owners.remove(old)
            self._free(old)
        self.owners.add(member)
        self.by_id[member.member_id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        """Remove a member with its instance id and its tasks."""
        member = self.by_id.pop(member_id)
        self.owners.remove(member)
        self._free(member)

    def _free(self, member: StreamsMember) -> None:
        if member.instance_id is not None:
            self.static.pop(member.instance_id, None)
