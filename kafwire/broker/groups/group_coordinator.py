"""All groups of a cluster, and the checks of their coordinators.

`classic_group.py`, `consumer_group.py`, `share_group.py` and `streams_group.py` have one group's own rules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from kafwire.broker.groups.classic_group import ClassicGroup
from kafwire.broker.groups.classic_member import Joined, member_of
from kafwire.broker.groups.consumer_group import ConsumerGroup
from kafwire.broker.groups.group import Group, GroupState
from kafwire.broker.groups.mixed_members import MixedMembers, downgraded, upgraded
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.broker.groups.offsets_topic import OffsetsTopic, Place
from kafwire.broker.groups.share_group import ShareGroup
from kafwire.broker.groups.streams_group import StreamsGroup
from kafwire.broker.groups.streams_topology import InternalTopic
from kafwire.broker.security.acls import Operation, ResourceType
from kafwire.broker.share.share_states import ShareStates
from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode
from kafwire.protocol import OffsetCommitRequest

if TYPE_CHECKING:
    from kafwire.broker.log.partition import Partition
    from kafwire.broker.request import Request
    from kafwire.broker.state import ClusterState

G = TypeVar("G", bound=Group)
Owner = tuple[int, int]  # a broker's id, and the number of its starts: another pair must load the group again


class GroupCoordinator:
    """All groups. `loading`: groups whose coordinator is loading them."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.groups: dict[str, Group] = {}
        self.loading: set[str] = set()
        self.responses: dict[str, int] = {}  # error codes that all requests about a group get
        self._owners: dict[str, Owner | None] = {}  # the coordinator of each group now
        self._looks = False
        self._topics_made = 0
        state.coordinator_watchers.append(self._move_all)
        state.topics.watchers.append(self._on_partition)
        offsets: OffsetStore = state.part(OffsetStore)
        offsets.unused_since = self.unused_since

    def _on_partition(self, partition: Partition) -> None:
        self._topics_made += partition.index == 0

    def refuses(self, request: Request, group_id: str) -> int:
        """Return the error code of a broker that does not coordinate a group, or is loading it; else 0."""
        self._move(group_id)
        if self._state.coordinator(group_id) != request.node:
            return ErrorCode.NOT_COORDINATOR
        if group_id in self.loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return self.responses.get(group_id, 0)

    # --- coordinators

    def _owner(self, group_id: str) -> Owner | None:
        node = self._state.nodes.get(self._state.coordinator(group_id))
        return (node.number, node.epoch) if node is not None and node.is_up else None

    def _move_all(self) -> None:
        for group_id in list(self.groups):
            self._move(group_id)

    def _move(self, group_id: str) -> None:
        """Move a group if another broker coordinates it now; that broker loads it from its log."""
        group = self.groups.get(group_id)
        owner = self._owner(group_id)
        before = self._owners.get(group_id)
        if group is None or owner == before:
            return
        self._owners[group_id] = owner
        if before is not None:
            node = self._state.nodes.get(before[0])
            group.unload(tell=node is not None and node.is_up and node.epoch == before[1])
        if owner is not None:
            group.load()

    # --- groups

    def exists(self, group_id: str) -> bool:
        """True if the group exists."""
        return group_id in self.groups

    def ensure(self, group_id: str) -> Group:
        """Return a group, created as a classic one if it does not exist."""
        return self.groups.get(group_id) or self._add(ClassicGroup(self._state, group_id))

    def _add(self, group: G) -> G:
        self.groups[group.group_id] = group
        self._owners[group.group_id] = self._owner(group.group_id)
        self._look_for_unused()
        return group

    def classic(self, group_id: str) -> ClassicGroup | None:
        """Return a classic group; None: there is none of this name."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def consumer(self, group_id: str) -> ConsumerGroup | None:
        """Return a group of the consumer protocol; None: there is none of this name."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def to_join(self, group_id: str) -> ClassicGroup:
        """Return the classic group for a join, created if needed."""
        return self.classic(group_id) or self._add(ClassicGroup(self._state, group_id))

    def heartbeat(self, request: Request) -> Any:
        """Handle a ConsumerGroupHeartbeat for a group that may not exist yet. Return the response.

        Raises:
            Refusal: nothing is changed.
        """
        message = request.message
        group = self.groups.get(message.group_id)
        if isinstance(group, ConsumerGroup):
            found = group
        elif message.member_epoch != 0 or isinstance(group, ShareGroup | StreamsGroup):
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, _why_not(message, is_there=group is not None))
        elif isinstance(group, ClassicGroup) and group.state is not GroupState.EMPTY:
            found = upgraded(self._state, group)
        else:
            found = ConsumerGroup(self._state, message.group_id)
        if message.member_epoch < 0:
            return found.leave(message.member_id, message.instance_id, message.member_epoch)
        found.topics_made = self._topics_made
        response = found.heartbeat(
            message, request.client_id or "", f"/{request.connection.peer}", self._sight(request)
        )
        if found is not group:
            if group is not None:
                group.unload(tell=False)
            found.on_classic_left = lambda leaving: self._downgrade(found, leaving)
            self._add(found)
            found.load()
        return response

    def share(self, group_id: str) -> ShareGroup | None:
        """Return a share group; None: there is none of this name."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ShareGroup) else None

    def share_heartbeat(self, request: Request) -> Any:
        """Handle a ShareGroupHeartbeat for a group that may not exist yet. Return the response.

        Raises:
            Refusal: nothing is changed.
        """
        message = request.message
        leaves = message.member_epoch < 0
        group = self.to_share(message.group_id, creates=message.member_epoch == 0, kind="Group" if leaves else "")
        if leaves:
            return group.leave(message.member_id)
        response = group.heartbeat(message, request.client_id or "", f"/{request.connection.peer}")
        self.add_share(group)
        return response

    def to_share(self, group_id: str, *, creates: bool, kind: str = "") -> ShareGroup:
        """Return the share group of a name, or a new one, not added yet. `kind`: its name in errors.

        Raises:
            Refusal: the group has another type, or does not exist.
        """
        group = self.groups.get(group_id)
        if isinstance(group, ShareGroup):
            return group
        if group is not None:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        if not creates:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind or 'Share group'} {group_id} not found.")
        return ShareGroup(self._state, group_id)

    def add_share(self, group: ShareGroup) -> None:
        """Add a share group that `to_share` has returned."""
        if group.group_id not in self.groups:
            self._add(group)

    def streams(self, group_id: str) -> StreamsGroup | None:
        """Return a streams group; None: there is none of this name."""
        group = self.groups.get(group_id)
        return group if isinstance(group, StreamsGroup) else None

    def streams_heartbeat(self, request: Request) -> tuple[Any, Sequence[InternalTopic]]:
        """Handle a StreamsGroupHeartbeat for a group that may not exist yet. Returns the response, and topics to
        create.

        Raises:
            Refusal: nothing is changed.
        """
        message = request.message
        joins, leaves = message.member_epoch == 0, message.member_epoch < 0
        group = self.groups.get(message.group_id)
        is_new = joins and (group is None or (isinstance(group, ClassicGroup) and group.state is GroupState.EMPTY))
        if not is_new and not isinstance(group, StreamsGroup):
            kind = "Group" if leaves else "Streams group"
            why = f"{kind} {message.group_id} not found." if group is None else _is_not(message.group_id, "streams")
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, why)
        found = group if isinstance(group, StreamsGroup) else StreamsGroup(self._state, message.group_id)
        if leaves:
            return found.leave(message), ()
        host = f"/{request.connection.peer}"
        response, missing = found.heartbeat(message, request.client_id or "", host, request.version)
        if is_new:
            if group is None:
                response.endpoint_information_epoch = 0
            else:
                group.unload(tell=False)
            self._add(found)
            found.load()
        return response, missing

    def can_be_classic(self, group_id: str) -> bool:
        """True if the group's type lets a member join by the classic protocol."""
        group = self.groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return group.state is GroupState.EMPTY
        return not isinstance(group, ShareGroup)

    def _sight(self, request: Request) -> Callable[[str], bool]:
        """Return a function: True if the client of a request may see a topic."""
        return lambda topic: self._state.allows(request, Operation.DESCRIBE, ResourceType.TOPIC, topic)

    def _downgrade(self, group: ConsumerGroup, leaving: Sequence[str]) -> bool:
        """Convert a consumer group to a classic one if only classic members stay. Return True if it was converted."""
        members = downgraded(self._state, group, leaving)
        if members is None:
            return False
        group.unload(tell=False)
        self._add(ClassicGroup(self._state, group.group_id)).adopt(members, group.epoch)
        return True

    def mixed(self, group_id: str) -> MixedMembers | None:
        """Return the classic members of a consumer group; None: it is no consumer group."""
        group = self.consumer(group_id)
        return None if group is None else MixedMembers(self._state, group)

    def join_mixed(self, request: Request) -> Joined | None:
        """Join a consumer group with members. None: the group is classic, or it was empty and is deleted."""
        group = self.consumer(request.message.group_id)
        if group is None or group.state is GroupState.EMPTY:
            replaced = group or self.streams(request.message.group_id)
            if replaced is not None:
                self.forget_if_empty(replaced.group_id)
            return None
        group.topics_made = self._topics_made
        asked = member_of(request)
        return MixedMembers(self._state, group).join(asked, self._sight(request), version=request.version)

    def forget_if_empty(self, group_id: str) -> None:
        """Delete a group if it has no members."""
        found = self.groups.get(group_id)
        if found is not None and found.state is GroupState.EMPTY:
            found.unload(tell=False)
            del self.groups[group_id]
            del self._owners[group_id]
            if isinstance(found, ClassicGroup):
                topic: OffsetsTopic = self._state.part(OffsetsTopic)
                topic.forget_group(group_id)

    def delete(self, group_id: str) -> int:
        """Delete a group with its offsets. Return an error code, or 0."""
        found = self.groups.get(group_id)
        if found is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if found.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        self.forget_if_empty(group_id)
        if isinstance(found, ShareGroup):
            states: ShareStates = self._state.part(ShareStates)
            states.forget_group(group_id)
            return 0
        store: OffsetStore = self._state.part(OffsetStore)
        store.delete_group(group_id)
        return 0

    def _look_for_unused(self) -> None:
        if not self._looks and self.groups:
            self._looks = True
            self._state.after(self._state.config_int("offsets.retention.check.interval.ms"), self._forget_unused)

    def _forget_unused(self) -> None:
        """Delete groups that have neither members nor offsets."""
        self._looks = False
        store: OffsetStore = self._state.part(OffsetStore)
        for group_id in [
            each.group_id for each in self.groups.values() if each.expires and not store.has_offsets(each.group_id)
        ]:
            self.forget_if_empty(group_id)
        self._look_for_unused()

    # --- offsets

    def unused_since(self, group_id: str, topic: str, committed_ms: int) -> int | None:
        """Return the wall-clock time since which no member needs an offset of a topic; None: a member may need it.

        `committed_ms`: the time of the commit. It counts for offsets of a group without members ever.
        """
        group = self.groups.get(group_id)
        return committed_ms if group is None else group.unused_since(topic, committed_ms)

    def check_commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        is_transactional: bool,
        version: int = OffsetCommitRequest.MEMBER_EPOCHS,
    ) -> int:
        """Return the error code for a commit in the name of this member; with 0, its session restarts."""
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.ILLEGAL_GENERATION if generation >= 0 else 0
        return group.check_commit(
            member_id, instance_id, generation, is_transactional=is_transactional, version=version
        )

    def check_partitions(self, group_id: str, member_id: str, generation: int, places: Collection[Place]) -> int:
        """Return the error code for a permitted commit of these partitions, or 0: one partition can refuse all."""
        group = self.groups.get(group_id)
        return 0 if group is None else group.check_partitions(member_id, generation, places)

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> int:
        """Return the error code for a fetch of offsets in the name of this member, or 0."""
        group = self.groups.get(group_id)
        return 0 if group is None else group.check_fetch(member_id, member_epoch)

    def check_offset_delete(self, group_id: str) -> int:
        """Return the error code for a deletion of a group's offsets, or 0."""
        return self.groups[group_id].check_offset_delete()

    def is_subscribed(self, group_id: str, topic: str) -> bool:
        """True if a member of a group subscribes to a topic."""
        return self.groups[group_id].is_subscribed(topic)


def _why_not(message: Any, *, is_there: bool) -> str:
    """Return the reason why a heartbeat is not for a group, in Kafka's words."""
    if not is_there:
        return f"{'Group' if message.member_epoch < 0 else 'Consumer group'} {message.group_id} not found."
    return _is_not(message.group_id, "consumer")


def _is_not(group_id: str, kind: str) -> str:
    return f"Group {group_id} is not a {kind} group."
