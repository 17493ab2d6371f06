"""Members of a group of the consumer protocol, as tests of the embedded broker's coordinator drive them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from kafwire import protocol
from kafwire.broker.groups.consumer_group import ConsumerGroup
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.state import ClusterState
from tests.support.broker.driver import BrokerDriver

Places = set[tuple[str, int]]
T = ("t",)


class Reader:
    """One member, as a client plays it: it has its assigned partitions, and says so."""

    def __init__(self, group: ConsumerMembers, member_id: str, **how: Any) -> None:
        self._group, self._how = group, how
        self.member_id, self.epoch = member_id, 0
        self.owned: Places = set()

    def enter(self, topics: Sequence[str] | None = T, **fields: Any) -> Any:
        """Its first heartbeat, or one after it was fenced."""
        self.epoch, self.owned = 0, set()
        said: dict[str, Any] = {
            "subscribed_topic_names": topics if topics is None else [*topics],
            "rebalance_timeout_ms": 60_000,
        }
        return self._take(self._group.beat(self.member_id, 0, owned=set(), **said | self._how | fields))

    def beat(self, **fields: Any) -> Any:
        """A heartbeat that says what it has."""
        response = self._group.beat(
            self.member_id, self.epoch, instance_id=self._how.get("instance_id"), owned=self.owned, **fields
        )
        return self._take(response)

    def quiet(self) -> Any:
        """A heartbeat that says nothing of what it has."""
        return self._take(self._group.beat(self.member_id, self.epoch, instance_id=self._how.get("instance_id")))

    def leave(self, epoch: int = -1) -> Any:
        """Leave the group: for good (-1), or as a static member for a while (-2)."""
        return self._group.beat(self.member_id, epoch, instance_id=self._how.get("instance_id"))

    def _take(self, response: Any) -> Any:
        if not response.error_code:
            self.epoch = response.member_epoch
            if response.assignment is not None:
                self.owned = self._group.places(response.assignment)
        return response


class ConsumerMembers:
    """A group on an embedded broker. `topics`: how many partitions each has."""

    def __init__(self, nodes: Sequence[int] = (1,), topics: Mapping[str, int] | None = None, **configs: object) -> None:
        options = {name.replace("_", "."): str(value) for name, value in configs.items()}
        self.state = ClusterState(nodes, configs={"group.consumer.assignment.interval.ms": "0"} | options)
        self.driver = BrokerDriver(self.state)
        self.coordinator: GroupCoordinator = self.state.part(GroupCoordinator)
        for name, count in ({"t": 4} if topics is None else topics).items():
            self.state.topics.create(name, count)

    @property
    def group(self) -> ConsumerGroup:
        found = self.coordinator.consumer("g")
        assert found is not None
        return found

    def reader(self, member_id: str, **how: Any) -> Reader:
        return Reader(self, member_id, **how)

    def joined(self, *member_ids: str, **how: Any) -> list[Reader]:
        """Members that have joined, and have what they are to have."""
        readers = [self.reader(each, **how) for each in member_ids]
        for each in readers:
            each.enter()
        self.settle(readers)
        return readers

    def settle(self, readers: Sequence[Reader]) -> None:
        """Heartbeats until the group is stable."""
        for _ in range(6):
            for each in readers:
                assert each.beat().error_code == 0
        assert self.group.state.value == "Stable"

    def beat(self, member_id: str, epoch: int, *, owned: Places | None = None, version: int = 1, **fields: Any) -> Any:
        """The response to a ConsumerGroupHeartbeat."""
        said: dict[str, Any] = {"group_id": "g", "member_id": member_id, "member_epoch": epoch}
        message = protocol.ConsumerGroupHeartbeatRequest(**said | fields)
        if owned is not None:
            names = sorted({name for name, _ in owned})
            message.topic_partitions = [
                message.TopicPartitions(
                    topic_id=self.topic_id(name), partitions=sorted(i for n, i in owned if n == name)
                )
                for name in names
            ]
        return self.driver.ask(message, version, node=self.state.coordinator("g"))

    def topic_id(self, name: str) -> uuid.UUID:
        return self.state.topics.by_name[name].topic_id

    def places(self, assignment: Any) -> Places:
        names = {each.topic_id: each.name for each in self.state.topics}
        return {
            (names.get(topic.topic_id, "?"), index)
            for topic in assignment.topic_partitions
            for index in topic.partitions
        }

    def pass_ms(self, ms: float) -> None:
        self.driver.pass_ms(ms)
