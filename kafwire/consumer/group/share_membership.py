"""A member of a share group (KIP-932): it heartbeats as in the consumer protocol, and gives nothing up in order.

What a member has acquired stays acquired when its partition goes to others, until it is acknowledged or its lock is
over. Pure; see `membership.py`.
"""

from __future__ import annotations

from typing import Any

from kafwire import protocol
from kafwire.consumer.group.consumer_membership import ConsumerMembership


class ShareMembership(ConsumerMembership):
    """One member. There are no static ones, and no patterns."""

    def _fields(self) -> dict[str, Any]:
        return {"rack_id": self._options.rack or None, "subscribed_topic_names": list(self._topics)}

    def _message(self, epoch: int, fields: dict[str, Any]) -> Any:
        return protocol.ShareGroupHeartbeatRequest(
            group_id=self._options.group_id, member_id=self._member_id, member_epoch=epoch, **fields
        )
