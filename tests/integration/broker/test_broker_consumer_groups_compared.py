"""The embedded broker and a real one respond alike to random walks of a consumer group's members, line by line.

The embedded broker's topics have the ids of the real one's: Kafka's assignors follow them where nothing else decides.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

import kafwire
from kafwire import protocol
from kafwire.broker.embedded import EmbeddedKafka
from kafwire.broker.groups.hash_order import hash_of_id
from kafwire.testing import KafkaCluster
from tests.support import deadlines as waiting
from tests.support import seeds
from tests.support.group.consumer_group_walk import Walk
from tests.support.real_topics import create

STEPS = 60
PREFIX = f"walked-{uuid.uuid4().hex[:8]}"
SIZES = (5, 3, 1)  # partitions of each topic


@pytest.fixture(scope="module")
def topics(cluster: KafkaCluster) -> dict[str, uuid.UUID]:
    """The real topics, and their ids. Each has a bucket of its own in a table: the order in one follows no rule."""
    found: dict[str, uuid.UUID] = {}
    with kafwire.Client(cluster.bootstrap) as client:
        request = protocol.FindCoordinatorRequest(coordinator_keys=["walk"], key_type=0)
        waiting.until(lambda: not client.call(request, version=4).coordinators[0].error_code, "groups are coordinated")
        for name, partitions in zip("abc", SIZES, strict=True):
            for number in itertools.count():
                full = f"{PREFIX}-{name}{number}"
                create(cluster, full, partitions)
                topic_id = id_of(client, full)
                if bucket(topic_id) not in {bucket(each) for each in found.values()}:
                    found[full] = topic_id
                    break
    return found


def id_of(client: kafwire.Client, topic: str) -> uuid.UUID:
    asked = protocol.MetadataRequest()
    asked.topics = [asked.MetadataRequestTopic(name=topic)]
    (found,) = client.call(asked, version=12).topics
    topic_id: uuid.UUID = found.topic_id
    return topic_id


def bucket(topic_id: uuid.UUID) -> int:
    value = hash_of_id(topic_id)
    return (value ^ value >> 16) & 15


@pytest.fixture(scope="module")
def embedded(topics: dict[str, uuid.UUID]) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        for (name, topic_id), partitions in zip(topics.items(), SIZES, strict=True):
            running.state.topics.create(name, partitions, topic_id=topic_id)
        yield running


@pytest.mark.parametrize("is_mixed", [False, True])
@pytest.mark.parametrize("seed", seeds.sampled(range(24), 1, 2, 3, 5))
def test_responses_to_walks_are_alike(
    cluster: KafkaCluster, topics: dict[str, uuid.UUID], embedded: EmbeddedKafka, seed: int, *, is_mixed: bool
) -> None:
    places = cluster.bootstrap, embedded.bootstrap
    real, own = (Walk(where, topics, seed, is_mixed=is_mixed).play(STEPS) for where in places)
    if real != own:  # a busy broker may not have heeded the group's option at first
        real, own = (Walk(where, topics, seed, is_mixed=is_mixed).play(STEPS) for where in places)
    first = next((number for number, lines in enumerate(zip(real, own, strict=True)) if lines[0] != lines[1]), None)
    assert first is None, "\n".join([*real[:first], "--- real:", real[first], "--- embedded:", own[first]])


@pytest.mark.long  # patterns are looked at every ten seconds
def test_topics_that_appear_grow_and_go_are_reported_alike(cluster: KafkaCluster, embedded: EmbeddedKafka) -> None:
    real, own = (Story(where).play() for where in (cluster.bootstrap, embedded.bootstrap))
    assert real == own


class Story:
    """The assignments that a member gets while its topics change. It goes on when it has what it is to have."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._prefix = f"reported-{uuid.uuid4().hex[:8]}"
        self._epoch = 0
        self._owned: dict[uuid.UUID, list[int]] = {}
        self._letters: dict[uuid.UUID, str] = {}
        self._lines: list[str] = []

    def play(self) -> list[str]:
        with kafwire.Client(self._bootstrap) as self._client:
            self._make("a", 2)
            self._beat(0, subscribed_topic_regex=f"{self._prefix}-[ab]", rebalance_timeout_ms=60_000)
            self._has("a: 0 1")
            self._make("b", 1)
            self._has("a: 0 1, b: 0")
            self._grow("a", 3)
            self._has("a: 0 1 2, b: 0")
            self._beat(self._epoch, subscribed_topic_regex="", subscribed_topic_names=[f"{self._prefix}-c"])
            self._has("")
            self._make("c", 2)
            self._has("c: 0 1")
            self._call(protocol.DeleteTopicsRequest(topic_names=[f"{self._prefix}-c"], timeout_ms=10_000), 3)
            self._has("")
            self._beat(self._epoch, subscribed_topic_regex="(")
            self._beat(-1)
        return self._lines

    def _make(self, letter: str, partitions: int) -> None:
        request = protocol.CreateTopicsRequest(timeout_ms=10_000)
        name = f"{self._prefix}-{letter}"
        request.topics = [request.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)]
        response = self._call(request, 7)
        self._letters[response.topics[0].topic_id] = letter

    def _grow(self, letter: str, partitions: int) -> None:
        request = protocol.CreatePartitionsRequest(timeout_ms=10_000)
        topic = request.CreatePartitionsTopic(name=f"{self._prefix}-{letter}", count=partitions, assignments=None)
        request.topics = [topic]
        assert not self._call(request, 3).results[0].error_code

    def _call(self, request: Any, version: int) -> Any:
        return self._client.call(request, version=version)

    def _has(self, expected: str) -> None:
        """Heartbeats until it has these partitions."""

        def is_so() -> bool:
            self._beat(self._epoch)
            return self._shown() == expected

        waiting.until(is_so, f"the member has {expected or 'nothing'}", 60)
        self._lines.append(f"{self._epoch} {expected}")

    def _beat(self, epoch: int, **fields: Any) -> None:
        said: dict[str, Any] = {"group_id": self._prefix, "member_id": "m", "member_epoch": epoch} | fields
        request = protocol.ConsumerGroupHeartbeatRequest(**said)
        owned = self._owned if epoch else {}
        request.topic_partitions = [request.TopicPartitions(topic_id=i, partitions=its) for i, its in owned.items()]
        response = self._call(request, 1)
        if response.error_code or epoch < 0:
            message = (response.error_message or "").partition("expression: ")[0]
            self._lines.append(
                f"{response.error_code} {message} {response.member_epoch}".replace(self._prefix, "reported")
            )
            return
        self._epoch = response.member_epoch
        if response.assignment is not None:
            self._owned = {topic.topic_id: topic.partitions for topic in response.assignment.topic_partitions}

    def _shown(self) -> str:
        shown = {self._letters[each]: " ".join(map(str, sorted(its))) for each, its in self._owned.items()}
        return ", ".join(f"{letter}: {its}" for letter, its in sorted(shown.items()))
