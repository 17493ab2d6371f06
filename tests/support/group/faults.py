"""Faults of a simulated group: members cut off or fenced, heartbeats withheld, metadata that lag or come late."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

from kafwire.broker import dispatch
from kafwire.broker.groups.classic_group import ClassicGroup
from kafwire.broker.groups.consumer_group import ConsumerGroup
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.broker.request import LATER, Request
from kafwire.testing.simulation.cluster import ClusterWorld
from tests.support.group.inputs import Inputs
from tests.support.group.programs import Program
from tests.support.group.watch import GroupWatch

MEMBERSHIP = ("Heartbeat", "ConsumerGroupHeartbeat", "JoinGroup", "SyncGroup")
RECOVERS_S = 100.0  # after a lost session: the session, a transaction's time-out, a rebalance
JOINS_AGAIN_S = 20.0


class GroupFaults:
    """The faults of one group. Each fault excuses what waits because of it, and no longer."""

    def __init__(self, world: ClusterWorld, group_id: str, inputs: Inputs, watch: GroupWatch) -> None:
        self._world, self._group_id, self._inputs, self._watch = world, group_id, inputs, watch
        self._mute: set[str] = set()
        self._withheld: dict[str, list[Request]] = {}
        self._slow_until_s = self._slow_s = 0.0
        self._lagging: dict[int, float] = {}
        world.state.interceptors.insert(0, self._intercept)

    def _intercept(self, request: Request) -> Any:
        name = request.client_id or ""
        if name in self._mute:
            return LATER
        if name in self._withheld and request.name in MEMBERSHIP:
            self._withheld[name].append(request)
            return LATER
        # The world asks too, for what a lagging broker knows.
        if name and request.name == "Metadata" and self._world.loop.time() < self._slow_until_s:
            request.delay_ms = self._slow_s * 1000
        return None

    def _disturb(self, seconds: float, why: str, *, calm_after_s: float) -> None:
        self._inputs.excuse(seconds, why)
        self._watch.calm_from_s = max(self._watch.calm_from_s, self._world.loop.time() + calm_after_s)

    # --- members

    def cut_off(self, program: Program) -> None:
        """A member reaches no broker any more, as a process that was killed."""
        program.is_held = program.is_over = True
        self._mute.add(program.name)
        self._disturb(RECOVERS_S, f"{program.name} is cut off", calm_after_s=RECOVERS_S)

    async def withhold(self, program: Program, seconds: float) -> None:
        """A member's heartbeats are held back, while it goes on reading and writing."""
        program.is_held = True
        self._withheld[program.name] = []
        self._disturb(seconds + RECOVERS_S, f"{program.name}'s heartbeats are withheld", calm_after_s=seconds + 30.0)
        await asyncio.sleep(seconds)
        for request in self._withheld.pop(program.name):
            if request.connection.is_open:
                dispatch.handle(self._world.state, request)
        self._world.changed()
        program.is_held = False

    def fence(self, program: Program) -> None:
        """The coordinator removes a member, as an admin has it do."""
        group = self._world.state.part(GroupCoordinator).groups.get(self._group_id)
        if isinstance(group, ClassicGroup | ConsumerGroup):
            ids = [key for key, each in group.members.items() if each.client_id == program.name]
            if isinstance(group, ConsumerGroup):
                group.remove(ids)
            else:
                group.leave_classic([(each, None) for each in ids])
            self._world.changed()
            self._disturb(JOINS_AGAIN_S, f"{program.name} is removed", calm_after_s=3.0)

    def delete_group(self) -> bool:
        """An admin deletes the group, if it is empty, and sets its offsets as they were."""
        coordinator, store = self._world.state.part(GroupCoordinator), self._world.state.part(OffsetStore)
        offsets = dict(store.of(self._group_id))
        if self._group_id not in coordinator.groups or coordinator.delete(self._group_id):
            return False
        for place, committed in offsets.items():
            store.commit(self._group_id, place, committed)
        return True

    # --- brokers and their metadata

    def break_connections(self, node: int) -> None:
        """All connections to a broker end."""
        self._world.break_connections(node)
        self._disturb(JOINS_AGAIN_S, f"connections to broker {node} break", calm_after_s=5.0)

    def move_coordinator(self, node: int) -> None:
        """Another broker has the group."""
        self._world.state.move_coordinator(self._group_id, node)
        self._world.changed()
        self._disturb(JOINS_AGAIN_S, f"the coordinator moves to {node}", calm_after_s=5.0)

    def slow_metadata(self, each_s: float, seconds: float) -> None:
        """Delay each Metadata response by `each_s` for `seconds`."""
        self._slow_s, self._slow_until_s = each_s, self._world.loop.time() + seconds
        self._watch.leads_from_s = self._slow_until_s + each_s + JOINS_AGAIN_S
        self._inputs.excuse(seconds + each_s, f"metadata come {each_s:.0f} s late")

    @contextlib.contextmanager
    def lagging(self, nodes: list[int]) -> Iterator[None]:
        """Brokers whose metadata stay as they are now, and deny new topics."""
        for node in nodes:
            self._world.lag(node, denies=True)
        try:
            yield
        finally:
            for node in nodes:
                self._world.catch_up(node)
