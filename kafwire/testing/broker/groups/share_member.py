"""A member of a share group: what it asked for, and which partitions it has. Others may have the same ones.

Nothing here changes a member: each step gives a new one, which the group keeps if the request is answered without an
error. The rules are those of Kafka's `ShareGroupAssignmentBuilder`. See KIP-932.
"""

from __future__ import annotations

import uuid
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

from kafwire.errors import ErrorCode
from kafwire.testing.broker.groups.consumer_member import TopicPartition
from kafwire.testing.broker.topics.config_store import Refusal


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member. `assigned`: the partitions that it has been told of."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    host: str = ""
    topics: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = -1
    assigned: frozenset[TopicPartition] = frozenset()

    def told(self, message: Any, client_id: str, host: str) -> ShareMember:
        """The member as a ShareGroupHeartbeat describes it: what is left out of that stays."""
        names = message.subscribed_topic_names
        return replace(
            self,
            rack_id=self.rack_id if message.rack_id is None else message.rack_id,
            client_id=client_id,
            host=host,
            topics=self.topics if names is None else frozenset(names),
        )

    def step(
        self,
        target_epoch: int,
        target: AbstractSet[TopicPartition],
        subscribed: AbstractSet[uuid.UUID],
        *,
        has_changed: bool,
    ) -> ShareMember:
        """The member with what it is to have, at once: nobody has to give a partition up first.

        `has_changed`: whether the group's epoch went up just now.
        """
        if not has_changed and self.epoch == target_epoch:
            return self
        assigned = frozenset(each for each in target if each[0] in subscribed)
        if self.epoch == target_epoch:
            return replace(self, assigned=assigned)
        return replace(self, assigned=assigned, epoch=target_epoch, previous_epoch=self.epoch)


def check_epoch(member: ShareMember, epoch: int) -> None:
    """Refuse who has another epoch than it has been told, and than the one before, whose answer may be lost.

    With 0 it joins anew.
    """
    if epoch in (0, member.epoch, member.previous_epoch):
        return
    if epoch > member.epoch:
        raise Refusal(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a greater member epoch ({epoch}) than the one known by the group coordinator"
            f" ({member.epoch}). The member must abandon all its partitions and rejoin.",
        )
    raise Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a smaller member epoch ({epoch}) than the one known by the group coordinator"
        f" ({member.epoch}), and it does not match the previous member epoch ({member.previous_epoch})."
        " The member must abandon all its partitions and rejoin.",
    )
