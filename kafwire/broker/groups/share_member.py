"""A member of a share group: its subscription and its partitions. Other members may have the same partitions.

A member is immutable: each step returns a new one, which the group keeps if the response has no error. The rules are
those of Kafka's `ShareGroupAssignmentBuilder`. See KIP-932.
"""

from __future__ import annotations

import uuid
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

from kafwire.broker.groups.consumer_member import TopicPartition
from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member. `assigned`: the partitions of its last response."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    host: str = ""
    topics: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = -1
    assigned: frozenset[TopicPartition] = frozenset()

    def updated(self, message: Any, client_id: str, host: str) -> ShareMember:
        """Return the member with the changes of a ShareGroupHeartbeat: fields that it leaves out stay."""
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
        """Return the member with its target assignment at once: no member has to revoke a partition first.

        `has_changed`: True if this heartbeat raised the group's epoch.
        """
        if not has_changed and self.epoch == target_epoch:
            return self
        assigned = frozenset(each for each in target if each[0] in subscribed)
        if self.epoch == target_epoch:
            return replace(self, assigned=assigned)
        return replace(self, assigned=assigned, epoch=target_epoch, previous_epoch=self.epoch)


def check_epoch(member: ShareMember, epoch: int) -> None:
    """Refuse an epoch other than the member's, or the one before: the last response may be lost.

    With 0 the member joins again.
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
