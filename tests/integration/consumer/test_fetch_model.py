"""The model of a broker's fetch sessions, and the simulated world's Fetch, beside a real broker: the same requests.

A proof on the model (`tests/unit/consumer/fetch/test_session_model.py`) is worth as much as the model.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import kafwire
from kafwire import protocol
from kafwire.records import encode_batch
from kafwire.testing.simulation.calls import Call
from tests.support import seeds
from tests.support.simulated.world import World
from tests.support.time_limits import within

REQUESTS = 300
PARTITIONS = 3
# The events that each run must have met.
COMPARED = [
    *(f"error {code}" for code in (0, 70, 71, 106)),
    *(f"partition's error {code}" for code in (0, 1, 3, 75)),
    "in a session",
    "opened",
    "records in a session",
]


class Both:
    """A real broker and a simulated one, with the same topics, logs and requests."""

    def __init__(self, client: kafwire.Client, world: World, topics: list[str], chance: random.Random) -> None:
        self.client = client
        self.world = world
        self.topics = topics
        self.chance = chance
        self.node = client.metadata().brokers[0].node_id
        self.sessions = [(0, 0)]  # simulated id, real id
        self.epochs: dict[int, int] = {}
        self.seen: Counter[str] = Counter()
        for name in topics:
            client.create_topic(name, partitions=PARTITIONS, replication_factor=1)
            world.create_topic(name, partitions=PARTITIONS).topic_id = client.topic(name).topic_id
        with within(30):
            while not self.ready():
                pass

    def ready(self) -> bool:
        """True if the broker knows that it leads the new partitions."""
        request = protocol.FetchRequest(max_wait_ms=0, session_epoch=-1)
        for name in self.topics:
            asked = [request.FetchPartition(partition=i, partition_max_bytes=1) for i in range(PARTITIONS)]
            for part in asked:
                part.current_leader_epoch = 0
            request.topics.append(request.FetchTopic(topic=name, partitions=asked))
        response = self.client.call(request, broker=self.node, version=12)
        return not any(part.error_code for topic in response.responses for part in topic.partitions)

    def append(self) -> None:
        name, index = self.chance.choice(self.topics), self.chance.randrange(PARTITIONS)
        data = encode_batch([b"x" * self.chance.randrange(200) for _ in range(self.chance.randint(1, 3))])
        request = protocol.ProduceRequest(acks=-1, timeout_ms=10_000)
        request.topic_data = [
            request.TopicProduceData(
                name=name, partition_data=[request.PartitionProduceData(index=index, records=data)]
            )
        ]
        response = self.client.call(request, broker=self.node, version=11)
        assert response.responses[0].partition_responses[0].error_code == 0
        self.world.topics[name].partitions[index].append(data)

    def delete(self) -> None:
        name, index = self.chance.choice(self.topics), self.chance.randrange(PARTITIONS)
        log = self.world.topics[name].partitions[index]
        offset = self.chance.randint(log.start, log.end)
        request = protocol.DeleteRecordsRequest(timeout_ms=10_000)
        part = request.DeleteRecordsPartition(partition_index=index, offset=offset)
        request.topics = [request.DeleteRecordsTopic(name=name, partitions=[part])]
        response = self.client.call(request, broker=self.node)
        assert response.topics[0].partitions[0].error_code == 0
        log.delete_before(offset)

    def request(self, version: int) -> None:
        """One request to both; their responses are the same but for the session's id."""
        chance = self.chance
        simulated, real = chance.choice([(0, 0), *self.sessions[-2:]])
        epoch = self.epochs.get(simulated, chance.choice([0, 0, 0, -1]))
        if chance.random() < 0.15:
            epoch = chance.choice([-1, 0, 3, 5, 9])
        request = protocol.FetchRequest(
            max_wait_ms=0,
            min_bytes=chance.choice([0, 1, 1000]),
            max_bytes=chance.choice([1, 300, 1000, 1 << 20]),
            isolation_level=chance.choice([0, 1]),
            session_epoch=epoch,
        )
        for name, index in self.some():
            asked = request.FetchPartition(
                partition=index,
                fetch_offset=self.offset(name, index),
                partition_max_bytes=chance.choice([1, 100, 1000, 1 << 20]),
                current_leader_epoch=chance.choice([-1, -1, 0, 0, 1]),
                last_fetched_epoch=chance.choice([-1, -1, -1, 0, 1]),
            )
            request.topics.append(request.FetchTopic(**self.named(name, version), partitions=[asked]))
        if epoch > 0:
            for name, index in self.some():
                request.forgotten_topics_data.append(
                    request.ForgottenTopic(**self.named(name, version), partitions=[index])
                )
        request.session_id = simulated
        expected = self.world.fetch_now(Call(0, 1, 0, version, 1, request))
        request.session_id = real
        response = self.client.call(request, broker=self.node, version=version)
        assert summary(response) == summary(expected), request
        self.note(simulated, epoch, expected.session_id, response)
        self.count(epoch, response)

    def note(self, simulated: int, epoch: int, opened: int, response: Any) -> None:
        assert (response.session_id == 0) == (opened == 0)
        if epoch <= 0:
            self.sessions = [(s, r) for s, r in self.sessions if s != simulated or s == 0]
            self.epochs.pop(simulated, None)
        if opened and opened not in self.epochs:
            self.sessions.append((opened, response.session_id))
        session = self.world.sessions(1).sessions.get(opened)
        if session is not None:
            self.epochs[opened] = session.epoch

    def count(self, epoch: int, response: Any) -> None:
        """Count the compared cases, so that a test can check that it compared something."""
        self.seen[f"error {response.error_code}"] += 1
        self.seen["in a session"] += epoch > 0 and response.error_code == 0
        self.seen["opened"] += epoch == 0 and response.session_id > 0
        self.seen["closed"] += epoch > 0 and response.error_code == 0 and response.session_id == 0
        for part in (part for topic in response.responses for part in topic.partitions):
            self.seen[f"partition's error {part.error_code}"] += 1
            self.seen["diverging"] += part.diverging_epoch.end_offset >= 0
            self.seen["records in a session"] += epoch > 0 and bool(part.records)

    def some(self) -> list[tuple[str, int]]:
        everything = [(name, index) for name in self.topics for index in range(PARTITIONS + 1)]
        return self.chance.sample(everything, self.chance.choice([0, 1, 3, 3, len(everything)]))

    def offset(self, name: str, index: int) -> int:
        logs = self.world.topics[name].partitions
        end = logs[index].end if index < len(logs) else 0
        return self.chance.choice([0, end, self.chance.randint(0, end + 1)])

    def named(self, name: str, version: int) -> dict[str, Any]:
        return {"topic_id": self.world.topics[name].topic_id} if version >= 13 else {"topic": name}


def summary(response: Any) -> tuple[int, list[tuple[Any, ...]]]:
    """The compared part of a response, in its order."""
    parts = [
        (
            topic.topic or topic.topic_id,
            part.partition_index,
            part.error_code,
            part.high_watermark,
            part.last_stable_offset,
            part.log_start_offset,
            (part.diverging_epoch.epoch, part.diverging_epoch.end_offset),
            part.preferred_read_replica,
            bytes(part.records or b""),
        )
        for topic in response.responses
        for part in topic.partitions
    ]
    return response.error_code, parts


@pytest.mark.parametrize(
    ("running", "versions"), seeds.sampled([("cluster", (12, 16, 18)), ("cluster_391", (12, 13, 17))], "cluster")
)
def test_simulated_broker_responds_as_a_real_one(
    request: pytest.FixtureRequest, topic_name: str, running: str, versions: tuple[int, ...]
) -> None:
    seed = seeds.of_test()
    chance = random.Random(seed)
    bootstrap = request.getfixturevalue(running).bootstrap
    with kafwire.Client(bootstrap) as client, World(seed=seed) as world:
        both = Both(client, world, [f"{topic_name}-a", f"{topic_name}-b"], chance)
        steps: list[Callable[[], None]] = [both.append, both.append, both.delete]
        for _ in range(REQUESTS):
            if chance.random() < 0.4:
                chance.choice(steps)()
            both.request(chance.choice(versions) if chance.random() < 0.2 else versions[-1])
        print(both.seen)
        assert all(both.seen[what] for what in COMPARED), both.seen
