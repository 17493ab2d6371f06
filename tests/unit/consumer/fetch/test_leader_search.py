"""`consumer.fetch.leader_search`: metadata requests until no partition is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import pytest

from kafwire.consumer.fetch.error_log import FetchErrorLog
from kafwire.consumer.fetch.leader_search import LeaderSearch
from kafwire.consumer.fetch.tasks import FetchTasks
from kafwire.errors import KafkaConnectionError, KafkaError
from tests.support.simulated.world import World

BACKOFF_MS = 100.0


@dataclass(eq=False)
class Partition:
    topic: str
    failures: int = 0


class Metadata:
    """Metadata requests: their times, topics and errors."""

    def __init__(self, world: World) -> None:
        self.engine = world.engine
        self.asked: list[tuple[float, set[str]]] = []
        self.errors: list[KafkaError] = []
        self.hastened = 0

    async def refresh(self, topics: Iterable[str]) -> None:
        self.asked.append((self.engine.now_ms(), set(topics)))
        await asyncio.sleep(0)
        if self.errors:
            raise self.errors.pop(0)

    def hasten(self) -> None:
        self.hastened += 1

    def backoff_ms(self, failures: int) -> float:
        return BACKOFF_MS * failures


class Search:
    """A search in a simulated world, and what it reported."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.metadata = Metadata(world)
        self.found = 0
        self.failed: list[tuple[str, str]] = []
        errors = FetchErrorLog(world.engine)
        self.tasks = FetchTasks(lambda error: None)
        self.its: LeaderSearch[Partition] = LeaderSearch(
            cast("Any", self.metadata),
            self.tasks,
            errors,
            self._on_metadata,
            lambda partition, error: self.failed.append((partition.topic, str(error))),
        )

    def _on_metadata(self) -> None:
        self.found += 1

    def lose(self, *partitions: Partition) -> None:
        async def lose() -> None:
            for partition in partitions:
                self.its.lose(partition)
            self.its.begin()

        self.world.run(lose())

    @property
    def times(self) -> list[float]:
        """The times of the requests after the first one, in ms."""
        return [round(at - self.metadata.asked[0][0]) for at, _ in self.metadata.asked]


@pytest.fixture
def search() -> Iterator[Search]:
    with World() as world:
        yield Search(world)


def test_one_request_finds_all_lost_partitions(search: Search) -> None:
    first, second = Partition("t"), Partition("u")
    search.lose(first, second)
    assert first in search.its
    search.world.pass_time(1)
    assert [topics for _, topics in search.metadata.asked] == [{"t", "u"}]
    assert (first in search.its, second in search.its, search.found) == (False, False, 1)
    assert (first.failures, search.metadata.hastened) == (1, 2)


def test_repeated_losses_wait_for_the_backoff_and_a_first_one_does_not(search: Search) -> None:
    search.lose(Partition("t", failures=2))
    search.world.pass_time(0.15)
    assert search.metadata.asked == []
    search.lose(Partition("u"))
    search.world.pass_time(0.01)
    assert [topics for _, topics in search.metadata.asked] == [{"t", "u"}]


def test_a_failed_request_is_repeated_with_the_backoff_and_reported(
    search: Search, caplog: pytest.LogCaptureFixture
) -> None:
    search.metadata.errors = [KafkaConnectionError("no broker") for _ in range(2)]
    search.lose(Partition("t"))
    search.world.pass_time(5)
    assert search.times == [0, 100, 300]
    assert search.failed == [("t", "no broker")] * 2
    assert search.found == 1
    assert [each.message for each in caplog.records].count(
        "leaders could not be looked up: no broker; this is tried again"
    ) == 1


def test_a_forgotten_partition_is_not_looked_up(search: Search) -> None:
    lost = Partition("t", failures=5)
    search.lose(lost)
    search.its.forget(lost)
    search.world.pass_time(5)
    assert search.metadata.asked == []
    search.lose(Partition("u"))
    search.world.pass_time(1)
    assert [topics for _, topics in search.metadata.asked] == [{"u"}]
