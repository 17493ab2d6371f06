"""The embedded broker and a real one answer the same random walks of a consumer group's members alike, line by line.

The embedded broker's topics have the ids of the real one's: Kafka's assignors follow them where nothing else decides.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator

import pytest

import kafwire
from kafwire import protocol
from kafwire.testing import KafkaCluster
from kafwire.testing.broker.embedded import EmbeddedKafka
from kafwire.testing.broker.groups.hash_order import hash_of_id
from tests.support import deadlines as waiting
from tests.support import seeds
from tests.support.consumer_group_walk import Walk
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


@pytest.mark.parametrize("seed", seeds.sampled(range(24), 1, 2, 3, 5))
def test_walks_are_answered_alike(
    cluster: KafkaCluster, topics: dict[str, uuid.UUID], embedded: EmbeddedKafka, seed: int
) -> None:
    places = cluster.bootstrap, embedded.bootstrap
    real, own = (Walk(where, topics, seed).play(STEPS) for where in places)
    if real != own:  # a busy broker may not have heeded the group's option at first
        real, own = (Walk(where, topics, seed).play(STEPS) for where in places)
    first = next((number for number, lines in enumerate(zip(real, own, strict=True)) if lines[0] != lines[1]), None)
    assert first is None, "\n".join([*real[:first], "--- real:", real[first], "--- embedded:", own[first]])
