"""`consumer.group.poll_interval`: when a member leaves whose user takes nothing, and when it joins again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kafwire.consumer.fetch.tasks import FetchTasks
from kafwire.consumer.group.poll_interval import CALL_LOOK_MS, PollInterval
from kafwire.errors import KafkaError, PollIntervalError
from tests.support.simulated.world import World

LIMIT_MS = 10_000


class Member:
    """A member that leaves and joins at once."""

    group_id = "flights"

    def __init__(self) -> None:
        self.is_joined = self.has_partitions = True
        self.left: list[str] = []
        self.errors: list[KafkaError] = []

    async def drop_out(self, why: str, is_due: Callable[[], bool]) -> bool:
        if not self.is_joined or not is_due():
            return False
        self.is_joined = False
        self.left.append(why)
        return True

    async def come_back(self, is_due: Callable[[], bool]) -> None:
        self.is_joined |= is_due()

    def fail(self, error: KafkaError) -> None:
        self.errors.append(error)


class Watched:
    """An interval that has begun, and its member."""

    def __init__(self, world: World, limit_ms: int | None = LIMIT_MS) -> None:
        self._world = world
        self.member = Member()
        self.problems: list[BaseException] = []
        self.interval = PollInterval(world.engine, FetchTasks(self.problems.append), self.member, limit_ms)

    def engine(self, work: Callable[[], object]) -> None:
        self._world.loop.call_soon(work)
        self._world.pass_time(0)

    def after(self, ms: float) -> bool:
        """Return True if it is still a member after this time."""
        self._world.pass_time(ms / 1000)
        assert not self.problems
        return self.member.is_joined


@pytest.fixture
def watched() -> Iterator[Watched]:
    with World() as world:
        it = Watched(world)
        it.engine(it.interval.begin)
        yield it
        it.engine(it.interval.stop)


def test_a_member_whose_user_takes_nothing_leaves_with_an_error(watched: Watched) -> None:
    assert watched.after(LIMIT_MS - 1)
    assert not watched.after(2)
    (error,) = watched.member.errors
    assert isinstance(error, PollIntervalError)
    assert "'flights', as nothing was taken from the consumer for max_poll_interval_ms (10000)" in str(error)


def test_a_read_begins_the_interval_again_and_a_waiting_one_holds_it(watched: Watched) -> None:
    for _ in range(3):
        assert watched.after(LIMIT_MS - 1)
        watched.interval.reads(watched, begun=True)
        watched.interval.reads(watched, begun=False)
    watched.interval.reads(watched, begun=True)
    assert watched.after(5 * LIMIT_MS)
    watched.interval.reads(watched, begun=False)
    assert not watched.after(2 * LIMIT_MS + 1)


def test_without_partitions_nothing_can_be_taken(watched: Watched) -> None:
    watched.member.has_partitions = False
    assert watched.after(5 * LIMIT_MS)
    watched.member.has_partitions = True
    watched.engine(watched.interval.restart)
    assert watched.after(LIMIT_MS - 1)
    assert not watched.after(LIMIT_MS + 1)


def test_no_limit_is_no_timer() -> None:
    with World() as world:
        it = Watched(world, None)
        it.engine(it.interval.begin)
        assert it.after(1000 * LIMIT_MS)


def test_a_long_call_of_a_stream_keeps_its_member_out_until_it_returns() -> None:
    with World() as world:
        it = Watched(world)
        call: list[tuple[float, str]] = []
        it.interval.watch_calls(lambda: call[0] if call else None)
        it.engine(it.interval.begin)
        assert it.after(3 * LIMIT_MS), "no call runs"
        call.append((LIMIT_MS, "step 'slow'"))
        assert not it.after(LIMIT_MS / 4 + 1)
        assert "'flights', as step 'slow' has run for longer than max_poll_interval_ms (10000)" in it.member.left[0]
        assert not it.after(LIMIT_MS)
        call.clear()
        assert it.after(CALL_LOOK_MS + 1), "it joins again"
        assert not it.member.errors
        it.engine(it.interval.stop)


def test_a_member_that_unsubscribed_does_not_join_again() -> None:
    with World() as world:
        it = Watched(world)
        call = [(LIMIT_MS, "slow")]
        it.interval.watch_calls(lambda: call[0] if call else None)
        it.engine(it.interval.begin)
        assert not it.after(LIMIT_MS)
        it.engine(it.interval.end)
        call.clear()
        assert not it.after(LIMIT_MS)
        it.engine(it.interval.stop)
