"""Metrics of a membership: the count and duration of rebalances, heartbeats, lost partitions."""

from __future__ import annotations

from typing import Any

from kafwire import protocol
from kafwire.consumer.group.consumer_membership import ConsumerMembership
from kafwire.consumer.group.membership import Membership, State

_HEARTBEATS = (protocol.HeartbeatRequest, protocol.ConsumerGroupHeartbeatRequest)


class MembershipMetrics:
    """Counters of one consumer's successive memberships. Times are arguments, in milliseconds."""

    def __init__(self) -> None:
        self.heartbeats = 0
        self.rebalances = 0
        self.last_rebalance_ms: float | None = None
        self.rebalance_ms_sum = 0.0
        self.rebalance_ms_peak = 0.0  # the longest since the last push of metrics
        self.lost_partitions = 0
        self._since_ms: float | None = None  # when the current rebalance began

    def on_response(self, message: Any) -> None:
        """Count a response of the coordinator."""
        if isinstance(message, _HEARTBEATS):
            self.heartbeats += 1

    def look(self, state: State, now: float, *, is_settled: bool) -> None:
        """Note the begin or the end of a rebalance, from the member's state."""
        if state in (State.OUT, State.LEAVING, State.FAILED):
            self._since_ms = None
        elif not is_settled:
            self._since_ms = now if self._since_ms is None else self._since_ms
        elif self._since_ms is not None:
            self.rebalances += 1
            self.last_rebalance_ms = now - self._since_ms
            self.rebalance_ms_sum += self.last_rebalance_ms
            self.rebalance_ms_peak = max(self.rebalance_ms_peak, self.last_rebalance_ms)
            self._since_ms = None

    def snapshot(self, membership: Membership | None, now: float) -> dict[str, Any]:
        """Return the value of `Consumer.metrics()["group"]`."""
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
            "rebalance_ms_sum": round(self.rebalance_ms_sum),
            "rebalancing_ms": None if self._since_ms is None else round(now - self._since_ms),
            "lost_partitions": self.lost_partitions,
        }


def protocol_of(membership: Membership) -> str:
    """Return the member's protocol, as `group_protocol` names it."""
    return "consumer" if isinstance(membership, ConsumerMembership) else "classic"
