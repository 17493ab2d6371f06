"""A member of a share group (KIP-932): heartbeats as in the consumer protocol, and revocation without any wait.

Acquired records stay acquired when their partition goes to other members, until they are acknowledged or their lock
expires. Pure; see `membership.py`.
"""

from __future__ import annotations

from typing import Any

from kafwire import protocol
from kafwire.consumer.group.consumer_membership import ConsumerMembership


class ShareMembership(ConsumerMembership):
    """A member of a share group. Static members and patterns do not exist there."""

    def _fields(self) -> dict[str, Any]:
        return {"rack_id": self._options.rack or None, "subscribed_topic_names": list(self._topics)}

    def _message(self, epoch: int, fields: dict[str, Any]) -> Any:
        return protocol.ShareGroupHeartbeatRequest(
            group_id=self._options.group_id, member_id=self._member_id, member_epoch=epoch, **fields
        )
