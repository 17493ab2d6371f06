"""What a member's user wants to see of the membership: how often it was rebalanced, and how long that took."""

from __future__ import annotations

from typing import Any

from kafwire import protocol
from kafwire.consumer.group.consumer_membership import ConsumerMembership
from kafwire.consumer.group.membership import Membership, State

_HEARTBEATS = (protocol.HeartbeatRequest, protocol.ConsumerGroupHeartbeatRequest)


class MembershipMetrics:
    """Counters of one consumer's memberships, one after the other. Times are in milliseconds, and given."""

    def __init__(self) -> None:
        self.heartbeats = 0
        self.rebalances = 0
        self.last_rebalance_ms: float | None = None
        self.lost_partitions = 0
        self._since_ms: float | None = None  # when the rebalance that goes on began

    def answered(self, message: Any) -> None:
        """The coordinator answered a request."""
        if isinstance(message, _HEARTBEATS):
            self.heartbeats += 1

    def look(self, state: State, now: float, *, is_settled: bool) -> None:
        """A member may have begun to join or to be rebalanced, or be done with that."""
        if state in (State.OUT, State.LEAVING, State.FAILED):
            self._since_ms = None
        elif not is_settled:
            self._since_ms = now if self._since_ms is None else self._since_ms
        elif self._since_ms is not None:
            self.rebalances += 1
            self.last_rebalance_ms = now - self._since_ms
            self._since_ms = None

    def snapshot(self, membership: Membership | None, now: float) -> dict[str, Any]:
        """What `Consumer.metrics()["group"]` is."""
        found: dict[str, Any] = {"state": State.OUT.value, "protocol": None, "member_id": "", "generation": -1}
        if membership is not None:
            metadata = membership.metadata()
            found = {
                "state": membership.state.value,
                "protocol": protocol_of(membership),
                "member_id": metadata.member_id,
                "generation": metadata.generation_id,
            }
        return found | {
            "heartbeats": self.heartbeats,
            "rebalances": self.rebalances,
            "last_rebalance_ms": None if self.last_rebalance_ms is None else round(self.last_rebalance_ms),
            "rebalancing_ms": None if self._since_ms is None else round(now - self._since_ms),
            "lost_partitions": self.lost_partitions,
        }


def protocol_of(membership: Membership) -> str:
    """Which protocol a member speaks, as `group_protocol` names it."""
    return "consumer" if isinstance(membership, ConsumerMembership) else "classic"
