"""Timers that end the membership of a consumer group's members: one of each kind for each member."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState
    from kafwire.broker.timers import Timer


class Limit(Enum):
    """The events that a member has limited time for."""

    SESSION = "to send a heartbeat"
    REBALANCE = "to give up partitions"
    JOIN = "to join again, by the classic protocol"
    SYNC = "to request its assignment, by the classic protocol"


class MemberTimers:
    """The timers of one group."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._timers: dict[tuple[str, Limit], Timer] = {}

    def start(self, member_id: str, limit: Limit, delay_ms: int, expire: Callable[[], object]) -> None:
        """Call `expire` later. A timer of this kind that the member has is cancelled."""
        self.stop(member_id, limit)
        self._timers[member_id, limit] = self._state.after(delay_ms, expire)

    def is_on(self, member_id: str, limit: Limit) -> bool:
        """True if a member has a timer of this kind."""
        return (member_id, limit) in self._timers

    def stop(self, member_id: str, *limits: Limit) -> None:
        """Cancel timers of a member; all, if no kinds are named."""
        for limit in limits or Limit:
            timer = self._timers.pop((member_id, limit), None)
            if timer is not None:
                timer.cancel()

    def stop_all(self) -> None:
        """Cancel all timers."""
        for member_id, limit in list(self._timers):
            self.stop(member_id, limit)
