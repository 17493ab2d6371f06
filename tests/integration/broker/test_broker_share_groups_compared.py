"""The embedded broker and a real one respond alike to the same random walks of share groups, line by line.

The embedded broker's topics have the ids of the real one's: Kafka's assignor follows them where nothing else decides.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator, Sequence

import pytest

from kafwire import protocol
from kafwire.broker.embedded import EmbeddedKafka
from kafwire.broker.groups.hash_order import hash_of_id
from kafwire.testing import KafkaCluster
from tests.support import deadlines as waiting
from tests.support import seeds
from tests.support.share.group_walk import MembersWalk
from tests.support.share.walk import BrokerSocket, ReadingWalk

PREFIX = f"shared-{uuid.uuid4().hex[:8]}"
SIZES = (5, 3, 1)  # partitions of each topic
STEPS = 60


@pytest.fixture(scope="module")
def topics(cluster: KafkaCluster) -> dict[str, uuid.UUID]:
    """The real topics, and their ids. Each has a bucket of its own in a table: the order in one follows no rule."""
    found: dict[str, uuid.UUID] = {}
    with BrokerSocket(cluster.bootstrap) as broker:
        asked = protocol.FindCoordinatorRequest(coordinator_keys=["walk"], key_type=0)
        waiting.until(lambda: not broker.ask(asked).coordinators[0].error_code, "groups are coordinated")
        for name, partitions in zip("abc", SIZES, strict=True):
            for number in itertools.count():
                full = f"{PREFIX}-{name}{number}"
                topic_id = made(broker, full, partitions)
                if bucket(topic_id) not in {bucket(each) for each in found.values()}:
                    found[full] = topic_id
                    break
        waiting.until(lambda: are_ready(broker, found), "share groups may read the topics")
    return found


def made(broker: BrokerSocket, name: str, partitions: int) -> uuid.UUID:
    request = protocol.CreateTopicsRequest(timeout_ms=10_000)
    request.topics = [request.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)]
    (response,) = broker.ask(request).topics
    assert not response.error_code, response.error_message
    topic_id: uuid.UUID = response.topic_id
    return topic_id


def are_ready(broker: BrokerSocket, topics: dict[str, uuid.UUID]) -> bool:
    """Join once more with another group, until the coordinators know of all topics."""
    beat = protocol.ShareGroupHeartbeatRequest(group_id=PREFIX, member_id="m", member_epoch=0)
    beat.subscribed_topic_names = [*topics]
    broker.ask(beat)
    return broker.ready(PREFIX).keys() >= topics.keys()


def bucket(topic_id: uuid.UUID) -> int:
    value = hash_of_id(topic_id)
    return (value ^ value >> 16) & 15


@pytest.fixture(scope="module")
def embedded(topics: dict[str, uuid.UUID]) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        for (name, topic_id), partitions in zip(topics.items(), SIZES, strict=True):
            running.state.topics.create(name, partitions, topic_id=topic_id)
        yield running


def compare(places: Sequence[str], play: Callable[[str], list[str]]) -> None:
    real, own = (play(where) for where in places)
    if real != own:  # a busy broker may have been slow to write something down
        real, own = (play(where) for where in places)
    first = next((number for number, (a, b) in enumerate(zip(real, own, strict=False)) if a != b), None)
    assert first is None, "\n".join([*real[:first], "--- real:", real[first], "--- embedded:", own[first]])
    assert len(real) == len(own)


@pytest.mark.parametrize("seed", seeds.sampled(range(24), 2, 7, 12))
def test_responses_to_members_are_alike(
    cluster: KafkaCluster, topics: dict[str, uuid.UUID], embedded: EmbeddedKafka, seed: int
) -> None:
    compare((cluster.bootstrap, embedded.bootstrap), lambda where: MembersWalk(where, topics, seed).play(STEPS))


@pytest.mark.parametrize("seed", seeds.sampled(range(24), 3, 17, 21))
def test_responses_to_readers_are_alike(cluster: KafkaCluster, embedded: EmbeddedKafka, seed: int) -> None:
    compare((cluster.bootstrap, embedded.bootstrap), lambda where: ReadingWalk(where, seed).play(STEPS))


@pytest.mark.parametrize("seed", seeds.sampled(range(24), 2, 12, 19))
def test_readers_that_leave_and_come_back_get_the_same_records(
    cluster: KafkaCluster, embedded: EmbeddedKafka, seed: int
) -> None:
    compare(
        (cluster.bootstrap, embedded.bootstrap),
        lambda where: ReadingWalk(where, seed, leaves_often=True).play(2 * STEPS),
    )
