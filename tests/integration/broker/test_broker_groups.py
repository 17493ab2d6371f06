"""Groups of the embedded broker, with clients that are not kafwire's, of one kind and of two.

Nothing is read twice and nothing is lost, whatever joins, leaves and moves: each client commits before it gives up
partitions. So rebalances, commits and fetches have to be right together.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from kafwire.broker.embedded import EmbeddedKafka
from kafwire.broker.groups.classic_group import ClassicGroup
from kafwire.broker.groups.consumer_group import ConsumerGroup
from kafwire.broker.groups.group import GroupState
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.broker.state import ClusterState
from tests.support.group.clients import GroupClient, JavaMembers
from tests.support.group.stage import GROUP, PARTITIONS, GroupStage

OFTEN = {"group.consumer.heartbeat.interval.ms": "300", "group.consumer.assignment.interval.ms": "0"}
NOBODY = GroupState.EMPTY, 0, 0
REST_S = 0.5  # longer than the pause between two heartbeats
PAIRS = [*itertools.combinations_with_replacement(["confluent", "aiokafka", "java"], 2), ("java", "confluent")]


def often(pairs: Iterable[tuple[str, str]], *every_run: tuple[str, str]) -> list[Any]:
    """All pairs, those that are not named only in long runs."""
    return [pytest.param(*pair, marks=[] if pair in every_run else pytest.mark.long) for pair in pairs]


@pytest.fixture(scope="module")
def java() -> Iterator[JavaMembers]:
    with JavaMembers() as process:
        yield process


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(2, configs=OFTEN) as running:
        running.create_topic("t", PARTITIONS)
        yield running


class Stage(GroupStage):
    """Members of a group on an embedded broker, which is looked into."""

    def __init__(self, kafka: EmbeddedKafka, java: JavaMembers) -> None:
        super().__init__(kafka.bootstrap, java)
        self.kafka = kafka

    def describe(self) -> str:
        """See `GroupStage`."""
        return f"{super().describe()}; group: {self.status()}"

    def shared(self, *members: GroupClient) -> None:
        """The members have all partitions between them, each about as many, and the group is at rest."""
        super().shared(*members)
        self.wait("the group is stable", lambda: self.status()[:2] == (GroupState.STABLE, len(members)))
        generation = self.status()[2]
        time.sleep(REST_S)
        assert self.status() == (GroupState.STABLE, len(members), generation)

    def status(self) -> tuple[GroupState, int, int]:
        """The group's state, how many are in it, and its generation."""

        def look(state: ClusterState) -> tuple[GroupState, int, int]:
            groups: GroupCoordinator = state.part(GroupCoordinator)
            found = groups.groups.get(GROUP)
            if isinstance(found, ConsumerGroup):
                return found.state, len(found.members), found.epoch
            return (found.state, len(found.members), found.generation) if isinstance(found, ClassicGroup) else NOBODY

        return self.kafka.ask(look)

    def kind(self) -> str:
        """Which protocol the group is of."""

        def look(state: ClusterState) -> str:
            groups: GroupCoordinator = state.part(GroupCoordinator)
            return groups.groups[GROUP].type.value

        return self.kafka.ask(look)

    def committed(self) -> dict[int, int]:
        """The offsets that the group has committed, by partition."""

        def look(state: ClusterState) -> dict[int, int]:
            store: OffsetStore = state.part(OffsetStore)
            return {place[1]: committed.offset for place, committed in store.of(GROUP).items()}

        return self.kafka.ask(look)


@pytest.fixture
def stage(kafka: EmbeddedKafka, java: JavaMembers) -> Iterator[Stage]:
    made = Stage(kafka, java)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("one", "other"), often(PAIRS, ("confluent", "aiokafka"), ("aiokafka", "java"), ("java", "confluent"))
)
def test_two_members_share_a_topic_and_one_goes_on_where_the_other_was(stage: Stage, one: str, other: str) -> None:
    stage.write()
    first = stage.join(one)
    stage.shared(first)
    stage.all_is_read()
    second = stage.join(other)
    stage.shared(first, second)
    stage.write()
    stage.all_is_read()
    assert {partition for partition, _ in second.look()[1]} == second.look()[0]
    first.close()
    stage.shared(second)
    stage.write()
    stage.all_is_read()
    second.close()
    stage.wait("the group is empty", lambda: stage.status()[:2] == (GroupState.EMPTY, 0))
    assert stage.committed() == dict.fromkeys(range(PARTITIONS), 30)
    stage.write()
    third = stage.join(one)  # reads what was written meanwhile, and nothing of what was read before
    stage.shared(third)
    stage.all_is_read()
    assert [member.look()[2] for member in stage.members] == [None] * 3


@pytest.mark.parametrize(
    ("one", "other"),
    often([("confluent", "confluent"), ("java", "java"), ("java", "confluent")], ("java", "confluent")),
)
def test_cooperative_members_keep_their_partitions(stage: Stage, one: str, other: str) -> None:
    how = {"partition_assignment_strategy": "cooperative-sticky"}
    first = stage.join(one, **how)
    stage.shared(first)
    second = stage.join(other, **how)
    while not second.look()[0]:  # while partitions move, the first one never has none
        assert first.look()[0]
    stage.shared(first, second)
    stage.write()
    stage.all_is_read()
    first.close()
    stage.shared(second)
    stage.write()
    stage.all_is_read()


@pytest.mark.parametrize(
    ("one", "other"),
    often(
        [("java", "java"), ("confluent", "confluent"), ("java", "confluent")], ("java", "java"), ("java", "confluent")
    ),
)
def test_members_of_the_consumer_protocol_share_a_topic(stage: Stage, one: str, other: str) -> None:
    how = {"group_protocol": "consumer"}
    first = stage.join(one, **how)
    stage.shared(first)
    stage.write()
    stage.all_is_read()
    second = stage.join(other, **how)
    stage.shared(first, second)
    stage.write()
    stage.all_is_read()
    first.close()
    stage.shared(second)
    stage.write()
    stage.all_is_read()
    second.close()
    stage.wait("the group is empty", lambda: stage.status()[:2] == (GroupState.EMPTY, 0))
    assert stage.committed() == dict.fromkeys(range(PARTITIONS), 30)
    assert [member.look()[2] for member in stage.members] == [None] * 2


@pytest.mark.parametrize(
    ("one", "other"),
    often(
        [("java", "confluent"), ("confluent", "java"), ("aiokafka", "java"), ("kafwire", "confluent")],
        ("java", "confluent"),
        ("kafwire", "confluent"),
    ),
)
def test_a_group_changes_its_protocol_member_by_member_and_back(stage: Stage, one: str, other: str) -> None:
    members = [stage.join(one), stage.join(other)]
    stage.shared(*members)
    consumer = {"group_protocol": "consumer"}
    for kind, how in (("java", consumer), ("confluent", consumer), (one, {}), (other, {})):
        stage.write()
        stage.all_is_read()
        members.append(stage.join(kind, **how))
        stage.shared(*members)  # a member that is behind when a group becomes a classic one loses its partitions
        members.pop(0).close()
        stage.shared(*members)
    assert stage.kind() == "classic"
    stage.write()
    stage.all_is_read()
    assert [member.look()[2] for member in stage.members] == [None] * 6


@pytest.mark.parametrize("kind", ["java", "confluent", "kafwire"])
def test_static_members_of_the_consumer_protocol_restart_without_a_rebalance(stage: Stage, kind: str) -> None:
    how = {"group_protocol": "consumer"}
    first, second = (stage.join(kind, group_instance_id=name, **how) for name in "ab")
    stage.shared(first, second)
    stage.write()
    stage.all_is_read()
    epoch, had = stage.status()[2], first.look()[0]
    first.close()
    assert stage.status()[1:] == (2, epoch), "it has left for a while"
    stage.write()
    returned = stage.join(kind, group_instance_id="a", **how)
    stage.all_is_read()
    assert (returned.look()[0], stage.status()) == (had, (GroupState.STABLE, 2, epoch))


@pytest.mark.parametrize(
    ("one", "other"),
    often(
        [("confluent", "java"), ("java", "aiokafka"), ("aiokafka", "confluent"), ("kafwire", "confluent")],
        ("java", "aiokafka"),
        ("kafwire", "confluent"),
    ),
)
def test_static_members_restart_without_a_rebalance(stage: Stage, one: str, other: str) -> None:
    first, second = stage.join(one, group_instance_id="a"), stage.join(other, group_instance_id="b")
    stage.shared(first, second)
    stage.write()
    stage.all_is_read()
    generation = stage.status()[2]
    for number, kind in enumerate((one, other)):  # one of them leads
        had = stage.members[number].look()[0]
        stage.members[number].close()
        assert stage.status() == (GroupState.STABLE, 2, generation)
        stage.write()
        returned = stage.join(kind, group_instance_id="ab"[number])
        stage.all_is_read()
        assert returned.look()[0] == had
        assert stage.status() == (GroupState.STABLE, 2, generation)


@pytest.mark.parametrize("kind", ["confluent", "java", "kafwire"])  # aiokafka's heartbeats do not say its instance id
def test_a_member_with_an_instance_id_in_use_fences_the_other(stage: Stage, kind: str) -> None:
    first = stage.join(kind, group_instance_id="a")
    stage.shared(first)
    second = stage.join("confluent", group_instance_id="a")
    stage.wait("the first one is fenced", lambda: first.look()[2] is not None)
    assert "fence" in (first.look()[2] or "").lower()
    stage.wait("the second one has all", lambda: len(second.look()[0]) == PARTITIONS)
    stage.write()
    stage.wait("all is read", lambda: len(second.look()[1]) == 10 * PARTITIONS)


def test_the_coordinator_moves_and_no_member_fails(stage: Stage) -> None:
    members = [stage.join(kind) for kind in ("confluent", "aiokafka", "java", "kafwire")]
    stage.shared(*members)
    for _ in range(3):
        stage.write()
        stage.kafka.ask(lambda state: state.move_coordinator(GROUP, 3 - state.coordinator(GROUP)))
        stage.write()
        stage.all_is_read()
    members[0].close()
    stage.shared(*members[1:])
    stage.write()
    stage.all_is_read()
    assert [member.look()[2] for member in members] == [None] * 4
