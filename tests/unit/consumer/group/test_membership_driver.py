"""`consumer.group.membership_driver`: changes of the assignment come one after the other, and none that is outdated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, cast

from kafwire.cluster.cluster import Cluster
from kafwire.cluster.coordinator import Coordinator
from kafwire.consumer.group.member import Partition
from kafwire.consumer.group.membership import NEVER, Action, Assign, Lose, Membership, Revoke, State
from kafwire.consumer.group.membership_driver import MembershipDriver
from kafwire.consumer.group.membership_metrics import MembershipMetrics
from kafwire.errors import KafkaError
from kafwire.types import ConsumerGroupMetadata
from tests.support.deadlines import comes

P, Q, R = ("t", 0), ("t", 1), ("t", 2)


class FakeCluster:
    """Time stands still, and metadata do not change."""

    def __init__(self) -> None:
        self.engine = self

    def now_ms(self) -> float:
        return 0.0

    def on_change(self, listener: object) -> Callable[[], None]:
        return lambda: None


class FakeMembership:
    """A membership whose owned partitions the test sets."""

    def __init__(self) -> None:
        self.state = State.STABLE
        self.owned: tuple[Partition, ...] = ()
        self.is_rebalancing = False
        self.wake_ms = NEVER
        self.log: list[str] = []

    def metadata(self) -> ConsumerGroupMetadata:
        return ConsumerGroupMetadata("g", 1, "m")

    def released(self, now: float) -> list[Action]:
        self.log.append("released")
        return []

    def leave(self, now: float) -> list[Action]:
        self.state = State.OUT
        return []


class Following:
    """A driver, and what follows its assignments: each change lasts until the test ends it."""

    def __init__(self) -> None:
        self.membership = FakeMembership()
        self.driver = MembershipDriver(
            cast("Cluster", FakeCluster()),
            cast("Coordinator", None),
            cast("Membership", self.membership),
            self,
            MembershipMetrics(),
        )
        self.log = self.membership.log
        self._going_on = asyncio.Event()

    def decides(self, *actions: Action) -> None:
        self.driver._do(list(actions))

    async def go_on(self) -> None:
        """End the change that is under way, and let the next one begin."""
        self._going_on.set()
        for _ in range(5):
            await asyncio.sleep(0)

    async def begin(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def _change(self, what: str) -> None:
        self.log.append(what)
        self._going_on.clear()
        await comes(self._going_on)

    async def take(self, partitions: Sequence[Partition]) -> None:
        await self._change(f"take {[number for _, number in partitions]}")

    async def give_up(self, partitions: Sequence[Partition]) -> None:
        await self._change(f"give up {[number for _, number in partitions]}")

    def lose(self, partitions: Sequence[Partition]) -> None:
        self.log.append(f"lose {[number for _, number in partitions]}")

    def made_anew(self, topics: Iterable[str]) -> Sequence[Partition]:
        return ()

    def fail(self, error: KafkaError) -> None:
        raise error


def following(test: Callable[[Following], Awaitable[Any]]) -> None:
    async def main() -> None:
        await test(Following())

    asyncio.run(main())


def test_an_assignment_that_waits_is_taken_as_far_as_it_is_still_owned() -> None:
    async def test(world: Following) -> None:
        world.membership.owned = (P, Q, R)
        world.decides(Assign((P,)))
        await world.begin()
        world.decides(Assign((Q, R)))
        world.membership.owned = (P, R)
        await world.go_on()
        assert world.log == ["take [0]", "take [2]"]
        await world.go_on()

    following(test)


def test_the_end_of_a_revocation_is_acknowledged_once() -> None:
    async def test(world: Following) -> None:
        world.decides(Revoke((P,)))
        await world.begin()
        assert world.log == ["give up [0]"]
        await world.go_on()
        assert world.log == ["give up [0]", "released"]

    following(test)


def test_a_revocation_during_which_all_is_lost_acknowledges_no_later_one() -> None:
    """Its handler took long; meanwhile the session was lost, the member joined again, and Q is to be given up."""

    async def test(world: Following) -> None:
        world.decides(Revoke((P,)))
        await world.begin()
        world.decides(Lose((P,)))
        world.membership.owned = (Q, R)
        world.decides(Assign((Q, R)), Revoke((Q,)))
        await world.go_on()
        assert world.log == ["give up [0]", "lose [0]", "take [1, 2]"]
        await world.go_on()
        assert world.log[3:] == ["give up [1]"]  # Q is still read: the coordinator must not give it to another member
        await world.go_on()
        assert world.log[3:] == ["give up [1]", "released"]

    following(test)


def test_a_revocation_that_a_leaving_member_was_in_acknowledges_nothing() -> None:
    async def test(world: Following) -> None:
        world.decides(Revoke((P,)))
        await world.begin()
        await world.driver.leave(1_000)
        await world.go_on()
        assert world.log == ["give up [0]"]

    following(test)
