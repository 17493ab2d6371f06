"""Topics to read are chosen and left without a group; and questions about topics: on both flavours."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any

import pytest

import kafwire
from kafwire import TopicPartition
from kafwire.errors import BrokerError, ConfigError
from kafwire.testing.cluster import KafkaCluster
from tests.support.deadlines import until
from tests.support.known_topics import NOW_MS, fill, make_topic, partitions_of

EACH = 10
FLAVOURS = ["blocking", "awaited"]


class Either:
    """A client of either flavour, whose calls return what comes of them."""

    def __init__(self, flavour: str) -> None:
        self.flavour = flavour
        self.runner = asyncio.Runner()

    def make(self, name: str, *args: Any, **options: Any) -> Any:
        async def awaited() -> Any:
            return getattr(kafwire, f"Async{name}")(*args, **options)

        made = getattr(kafwire, name)(*args, **options) if self.flavour == "blocking" else self.runner.run(awaited())
        return Calls(made, self.runner)


class Calls:
    def __init__(self, client: Any, runner: asyncio.Runner) -> None:
        self._client, self._runner = client, runner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        is_method = callable(found) and not isinstance(found, AbstractSet)  # the sets of properties refuse a call
        return (lambda *args, **options: self._outcome(found(*args, **options))) if is_method else found

    def _outcome(self, result: Any) -> Any:
        async def awaited() -> Any:
            return await result

        return self._runner.run(awaited()) if inspect.isawaitable(result) else result


@pytest.fixture(params=FLAVOURS)
def either(request: pytest.FixtureRequest) -> Iterator[Either]:
    it = Either(request.param)
    yield it
    it.runner.close()


@pytest.fixture
def topics(cluster: KafkaCluster, topic_name: str) -> list[str]:
    names = [f"{topic_name}-{letter}" for letter in "ab"]
    for name in names:
        make_topic(cluster.bootstrap, name, 2)
        fill(cluster.bootstrap, name, 2, EACH)
    return names


def read(consumer: Any, silence: float = 1.0) -> dict[TopicPartition, list[int]]:
    """The offsets of all that is there."""
    found: dict[TopicPartition, list[int]] = {}
    while batches := consumer.poll(silence):
        for batch in batches:
            found.setdefault(TopicPartition(batch.topic, batch.partition), []).extend(r.offset for r in batch)
    return found


def test_subscribe_and_unsubscribe(cluster: KafkaCluster, topics: list[str], either: Either) -> None:
    a, b = topics
    consumer = either.make("Consumer", cluster.bootstrap, start="earliest")
    try:
        consumer.subscribe(a)
        assert consumer.subscription == {a}
        assert read(consumer) == {where: list(range(EACH)) for where in partitions_of(a, 2)}
        fill(cluster.bootstrap, a, 2, 1, first=EACH)
        consumer.subscribe([b, a])
        assert consumer.assignment == {*partitions_of(a, 2), *partitions_of(b, 2)}
        rows = read(consumer)
        assert rows == {where: list(range(EACH)) for where in partitions_of(b, 2)} | {
            where: [EACH] for where in partitions_of(a, 2)
        }
        with pytest.raises(BrokerError, match="does not exist"):
            consumer.subscribe([a, f"{a}-none"])
        assert consumer.subscription == {a, b}
        consumer.seek(TopicPartition(a, 1), 3)
        consumer.seek(TopicPartition(b, 1), 3)
        consumer.subscribe(b)
        assert read(consumer) == {TopicPartition(b, 1): list(range(3, EACH))}, "nothing of a topic that was left"
        consumer.unsubscribe()
        assert (consumer.subscription, consumer.assignment) == (set(), set())
        consumer.assign([TopicPartition(b, 0)])
        assert consumer.subscription == set()
        with pytest.raises(ConfigError, match="a name or a list of names is needed"):
            consumer.subscribe([])
    finally:
        consumer.close()


def test_a_consumer_that_commits_from_outside_a_group_becomes_a_member_by_subscribing(
    cluster: KafkaCluster, topics: list[str], either: Either
) -> None:
    where = TopicPartition(topics[0], 0)
    consumer = either.make("Consumer", cluster.bootstrap, group_id=topics[0], assign=[where], start="earliest")
    try:
        assert sum(len(batch) for batch in consumer.poll(10)) == EACH
        assert consumer.poll(0.1) == []  # asked for more: what came before is processed
        assert consumer.processed() == {where: EACH}
        assert consumer.group_metadata() == (topics[0], -1, "", None)
        consumer.commit()
        consumer.subscribe(topics)
        counts: Counter[TopicPartition] = Counter()
        until(
            lambda: sum(_counted(counts, consumer.poll(0.1)).values()) == 3 * EACH, "all but what was committed is read"
        )
        assert where not in counts
        assert consumer.group_metadata().member_id
        consumer.assign([where])
        assert consumer.group_metadata().member_id == ""
        assert consumer.assignment == {where}
    finally:
        consumer.close()


def _counted(counts: Counter[TopicPartition], batches: list[Any]) -> Counter[TopicPartition]:
    for batch in batches:
        counts[TopicPartition(batch.topic, batch.partition)] += len(batch)
    return counts


def test_offsets_for_times(cluster: KafkaCluster, topics: list[str], either: Either) -> None:
    first, second = partitions_of(topics[0], 2)
    consumer = either.make("Consumer", cluster.bootstrap, assign=[first])
    try:
        moment = dt.datetime.fromtimestamp((NOW_MS + 4000) / 1000, dt.UTC)
        assert consumer.offsets_for_times({first: moment, second: NOW_MS + 6500}) == {first: 4, second: 7}
        assert consumer.offsets_for_times({first: NOW_MS + 3_600_000}) == {first: None}
        with pytest.raises(ConfigError, match="a mapping of TopicPartition"):
            consumer.offsets_for_times([first])
    finally:
        consumer.close()


@pytest.mark.parametrize("client", ["Consumer", "Producer", "Client"])
def test_partitions_for(cluster: KafkaCluster, topics: list[str], either: Either, client: str) -> None:
    made = either.make(client, cluster.bootstrap)
    try:
        assert made.partitions_for(topics[0]) == {0, 1}
        with pytest.raises(BrokerError, match="does not exist"):
            made.partitions_for(f"{topics[0]}-none")
    finally:
        made.close()
