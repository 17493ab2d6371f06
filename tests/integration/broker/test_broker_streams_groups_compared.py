"""The embedded broker and a real one respond alike to the same random walks of streams groups, line by line."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from kafwire import protocol
from kafwire.broker.embedded import EmbeddedKafka
from kafwire.testing import KafkaCluster
from tests.support import deadlines as waiting
from tests.support import seeds
from tests.support.share.walk import BrokerSocket
from tests.support.stream.streams_group_walk import StreamsWalk

TOPICS = f"streams-{uuid.uuid4().hex[:8]}-a", f"streams-{uuid.uuid4().hex[:8]}-b"
SIZES = (4, 2)  # partitions of each topic
STEPS = 70


@pytest.fixture(scope="module")
def places(cluster: KafkaCluster) -> Iterator[tuple[str, str]]:
    """The addresses of the real broker and of the embedded one, both with the topics."""
    with EmbeddedKafka() as embedded:
        for address in (cluster.bootstrap, embedded.bootstrap):
            with BrokerSocket(address) as broker:
                waiting.until(partial(has_coordinator, broker), "groups are coordinated")
                request = protocol.CreateTopicsRequest(timeout_ms=10_000)
                request.topics = [
                    request.CreatableTopic(name=name, num_partitions=count, replication_factor=1)
                    for name, count in zip(TOPICS, SIZES, strict=True)
                ]
                assert not any(each.error_code for each in broker.ask(request).topics)
        yield cluster.bootstrap, embedded.bootstrap


def has_coordinator(broker: BrokerSocket) -> bool:
    asked = protocol.FindCoordinatorRequest(coordinator_keys=["walk"], key_type=0)
    return not broker.ask(asked).coordinators[0].error_code


def compare(places: tuple[str, str], seed: int, play: Callable[[str, str], list[str]]) -> None:
    for attempt in range(2):  # a busy broker may have been slow to create a topic, or to heed an option
        group = f"walk-{seed}-{uuid.uuid4().hex[:8]}"
        real, own = (play(where, group) for where in places)
        if real == own:
            return
        print(f"attempt {attempt + 1} of group {group} differs")
    first = next((number for number, (a, b) in enumerate(zip(real, own, strict=False)) if a != b), -1)
    assert real == own, "\n".join([*real[:first], "--- real:", real[first], "--- embedded:", own[first]])


@pytest.mark.parametrize("seed", seeds.sampled(range(40), 0, 21, 24))
def test_members_get_the_same_responses(places: tuple[str, str], seed: int) -> None:
    compare(places, seed, lambda where, group: StreamsWalk(where, group, TOPICS, seed).play(STEPS))


@pytest.mark.parametrize("seed", seeds.sampled(range(20), 1, 14))
def test_members_that_wait_for_an_assignment_get_the_same_responses(places: tuple[str, str], seed: int) -> None:
    compare(places, seed, lambda where, group: StreamsWalk(where, group, TOPICS, seed, calm=True).play(STEPS))
