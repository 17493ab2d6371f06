"""All share partitions that brokers lead, with their links to the rest of the broker: logs, options, time.

A share partition is loaded from its persistent state (`share_states.py`) when a member of its group first fetches from
it. It stays until another broker leads the partition or no member of the group is connected.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafwire.broker.log.log import find_timestamp
from kafwire.broker.share.acquisition import Limits
from kafwire.broker.share.share_partition import SharePartition
from kafwire.broker.share.share_sessions import Member, Place, ShareSession, ShareSessions
from kafwire.broker.share.share_states import UNKNOWN, ShareState, ShareStates
from kafwire.broker.topics.config_store import Refusal
from kafwire.broker.topics.group_configs import BY_DURATION, EARLIEST, LATEST, duration_ms
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.log.partition import Partition
    from kafwire.broker.request import ClientConnection
    from kafwire.broker.state import ClusterState
    from kafwire.broker.timers import Timer

Key = tuple[str, uuid.UUID, int]  # a group, a topic's id, a partition's number


@dataclass(slots=True, eq=False)
class Led:
    """A share partition at its leader. `watchers` are called when records may have become available.

    `looked_at`: the offset of the last search for records. As in Kafka, partitions whose next offset has not moved
    since come first.
    """

    group_id: str
    partition: Partition
    shared: SharePartition
    node: int
    node_epoch: int
    leader_epoch: int
    watchers: dict[Callable[[], object], None] = field(default_factory=dict)
    timer: Timer | None = None
    looked_at: int = -1

    def notify(self) -> None:
        """Call all watchers."""
        for watcher in list(self.watchers):
            watcher()


class SharePartitions:
    """All share partitions of the cluster: `state.part(SharePartitions)`."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._states: ShareStates = state.part(ShareStates)
        self._led: dict[Key, Led] = {}
        self._sessions: dict[int, ShareSessions] = {}
        state.disconnect_watchers.append(self._on_disconnect)
        state.topics.deletion_watchers.append(lambda topic: self._forget(lambda key: key[1] == topic.topic_id))

    def sessions(self, node: int) -> ShareSessions:
        """Return the share sessions of a broker."""
        if node not in self._sessions:
            self._sessions[node] = ShareSessions(self._state.config_int("group.share.max.share.sessions"))
        return self._sessions[node]

    # --- share partitions

    def find(self, node: int, group_id: str, place: Place) -> Led | None:
        """Return a share partition that a broker has loaded, or None."""
        led = self._led.get((group_id, *place))
        if led is None or led.node != node:
            return None
        is_leader = led.partition.leader == node and led.partition.leader_epoch == led.leader_epoch
        is_same = self._state.nodes[node].epoch == led.node_epoch
        if is_leader and is_same and led.shared.stored is self._states.of(group_id, *place):
            return led
        del self._led[group_id, *place]
        return None

    def load(self, node: int, group_id: str, partition: Partition) -> Led:
        """Return a share partition at its leader, loaded if needed.

        Raises:
            Refusal: this broker does not lead it, or it has no state.
        """
        place = partition.topic.topic_id, partition.index
        code = partition.refuses(node, -1)
        if code:
            raise Refusal(ErrorCode(code), None)
        led = self.find(node, group_id, place)
        if led is None:
            stored = self._states.of(group_id, *place)
            if stored is None:
                # No member of the group has subscribed to its topic.
                raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
            stored.lead(partition.leader_epoch)
            shared = SharePartition(stored, self._start(group_id, partition, stored))
            node_epoch = self._state.nodes[node].epoch
            led = Led(group_id, partition, shared, node, node_epoch, partition.leader_epoch)
            self._led[group_id, *place] = led
        return led

    def _start(self, group_id: str, partition: Partition, stored: ShareState) -> int:
        """Return a share partition's start: the stored one, or that of `share.auto.offset.reset`."""
        if stored.start != UNKNOWN:
            return stored.start
        strategy = self._state.group_config(group_id, "share.auto.offset.reset")
        if strategy == LATEST:
            return partition.high_watermark
        if strategy == EARLIEST:
            return partition.log.start_offset
        since_ms = self._state.wall_ms - duration_ms(strategy.removeprefix(BY_DURATION))
        found = find_timestamp(partition.log, since_ms, partition.high_watermark)
        if found is None:
            raise Refusal(ErrorCode.OFFSET_NOT_AVAILABLE, None)
        return found[1]

    def limits(self, group_id: str) -> Limits:
        """Return the limits of a group now."""
        return Limits(
            deliveries=self._limit(group_id),
            locks=self._state.group_config_int(group_id, "share.partition.max.record.locks"),
            lock_ends_ms=self._state.now_ms + self.lock_ms(group_id),
        )

    def _limit(self, group_id: str) -> int:
        return self._state.group_config_int(group_id, "share.delivery.count.limit")

    def lock_ms(self, group_id: str) -> int:
        """Return the duration of a lock in milliseconds."""
        return self._state.group_config_int(group_id, "share.record.lock.duration.ms")

    def _forget(self, is_meant: Callable[[Key], bool]) -> None:
        for key in [key for key in self._led if is_meant(key)]:
            led = self._led.pop(key)
            if led.timer is not None:
                led.timer.cancel()
            led.notify()

    # --- locks

    def watch_locks(self, led: Led) -> None:
        """Schedule the end of the earliest lock."""
        due_ms = led.shared.next_lock_end_ms
        if due_ms is None or (led.timer is not None and led.timer.call is not None and led.timer.at_ms <= due_ms):
            return
        if led.timer is not None:
            led.timer.cancel()
        led.timer = self._state.timers.at(due_ms, lambda: self._on_locks(led))

    def _on_locks(self, led: Led) -> None:
        led.timer = None
        if self.find(led.node, led.group_id, (led.partition.topic.topic_id, led.partition.index)) is not led:
            return
        has_ended = led.shared.expire(self._state.now_ms, self._limit(led.group_id))
        self.watch_locks(led)
        if has_ended:
            led.notify()

    # --- ends of sessions

    def release(self, node: int, session: ShareSession) -> None:
        """Release a member's records after its session: other members may get them."""
        group_id, member_id = session.member
        for place in session.partitions:
            led = self.find(node, group_id, place)
            if led is not None:
                led.shared.release(member_id, self._limit(group_id))
                led.notify()

    def close(self, node: int, member: Member) -> None:
        """Close a member's session."""
        session = self.sessions(node).close(member)
        if session is not None:
            self.release(node, session)

    def _on_disconnect(self, connection: ClientConnection) -> None:
        """End the session that a connection opened; after the last one of a group, forget its share partitions here."""
        sessions = self._sessions.get(connection.node)
        session = None if sessions is None else sessions.opened_by(connection.number)
        if sessions is None or session is None:
            return
        group_id = session.member[0]
        if sessions.of.get(session.member) is session:
            sessions.close(session.member)
            self.release(connection.node, session)
        if not sessions.has_members(group_id):
            self._forget(lambda key: key[0] == group_id and self._led[key].node == connection.node)
