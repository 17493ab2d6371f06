"""Members of a streams group, as tests of the embedded broker drive them, in simulated time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kafwire import protocol
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.groups.streams_group import StreamsGroup
from kafwire.broker.state import ClusterState
from tests.support.broker.driver import BrokerDriver
from tests.support.stream.streams_group_walk import HEARTBEAT, subtopology

GROUP, TOPIC, STORE = "g", "t", "g-store-changelog"
ROLES = ("active_tasks", "standby_tasks", "warmup_tasks")


class StreamsDriver(BrokerDriver):
    """A group that reads a topic, into a store by default. Assignments are made without waiting, unless options say."""

    def __init__(
        self, *, partitions: int = 4, nodes: Sequence[int] = (1,), stateful: bool = True, **options: str
    ) -> None:
        configs = {
            "group.streams.initial.rebalance.delay.ms": "0",
            "group.streams.assignment.interval.ms": "0",
            **{name.replace("_", "."): value for name, value in options.items()},
        }
        super().__init__(ClusterState(nodes, configs=configs))
        self.state.topics.create(TOPIC, 4)
        self.topology: Any = HEARTBEAT.Topology(
            subtopologies=[subtopology("0", (TOPIC,), stores=(STORE,) if stateful else ())]
        )

    @property
    def group(self) -> StreamsGroup:
        coordinator: GroupCoordinator = self.state.part(GroupCoordinator)
        found = coordinator.streams(GROUP)
        assert found is not None
        return found

    def member(self, name: str, process: str | None = None, instance: str | None = None) -> DrivenMember:
        return DrivenMember(self, name, process or f"p-{name}", instance)

    def joined(self, *names: str) -> list[DrivenMember]:
        """Members that share all tasks, with nothing left to do."""
        members = [self.member(name) for name in names]
        for each in members:
            each.enter()
        for _ in range(2 * len(members) + 2):
            for each in members:
                each.report()
        return members


@dataclass
class DrivenMember:
    """A member that runs what it is given as soon as it reports."""

    driver: StreamsDriver
    name: str
    process: str
    instance: str | None = None
    epoch: int = 0
    given: dict[str, list[tuple[str, list[int]]]] = field(default_factory=lambda: {role: [] for role in ROLES})

    def beat(self, epoch: int | None = None, version: int | None = None, **fields: Any) -> Any:
        """A heartbeat with these fields."""
        request = HEARTBEAT(
            group_id=GROUP,
            member_id=self.name,
            instance_id=self.instance,
            member_epoch=self.epoch if epoch is None else epoch,
            **fields,
        )
        response = self.driver.ask(request, version, node=self.driver.state.coordinator(GROUP))
        if not response.error_code and request.member_epoch >= 0:
            self.epoch = response.member_epoch
            if response.active_tasks is not None:
                self.given = {
                    role: [(t.subtopology_id, t.partitions) for t in getattr(response, role)] for role in ROLES
                }
        return response

    def enter(self, **fields: Any) -> Any:
        """A first heartbeat."""
        nothing: dict[str, Any] = {role: [] for role in ROLES}
        first = {"rebalance_timeout_ms": 20_000, "process_id": self.process, "topology": self.driver.topology}
        return self.beat(0, **{**first, **nothing, **fields})

    def report(self) -> Any:
        """A heartbeat with the tasks of the last assignment."""
        listed: dict[str, Any] = {
            role: [HEARTBEAT.TaskIds(subtopology_id=name, partitions=indexes) for name, indexes in tasks]
            for role, tasks in self.given.items()
        }
        return self.beat(**listed)

    def tasks(self, role: str = "active_tasks") -> list[int]:
        """The partitions of its tasks."""
        return sorted(index for _, indexes in self.given[role] for index in indexes)


def statuses(response: Any) -> list[tuple[int, str]]:
    """The statuses of a response."""
    return [(each.status_code, each.status_detail) for each in response.status]


def described(driver: StreamsDriver) -> Any:
    """The group in a StreamsGroupDescribe."""
    request = protocol.StreamsGroupDescribeRequest(group_ids=[GROUP])
    (found,) = driver.ask(request, node=driver.state.coordinator(GROUP)).groups
    return found
