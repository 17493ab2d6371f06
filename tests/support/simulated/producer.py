"""A producer's engine side in the simulated world, fed by the test; and brokers that refuse its batches."""

from __future__ import annotations

from typing import Any

from kafwire import protocol
from kafwire.cluster.cluster import Cluster
from kafwire.config import ProducerConfig
from kafwire.producer.core import ProducerCore
from kafwire.records import decode_batches
from kafwire.testing.simulation.calls import Call
from kafwire.testing.simulation.scripted import Log
from kafwire.testing.simulation.traces import content_of
from tests.support.simulated.world import World


class Work:
    """A producer's engine side, fed by the test."""

    def __init__(self, world: World, *topics: str, **options: Any) -> None:
        self.world = world
        self.config = ProducerConfig.build({"bootstrap_servers": world.bootstrap, **options})
        self.cluster = Cluster(world.engine, self.config)
        self.core = ProducerCore(self.cluster, self.config)
        self.accumulator = self.core.accumulator
        for topic in topics:
            world.run(self.core.ensure_metadata([topic], 60_000))

    def send(self, topic: str, value: bytes, *, partition: int | None = 0, key: bytes | None = None) -> Any:
        delivery = self.accumulator.append(topic, value, key, None, None, partition)
        assert delivery is not None, "no room"
        return delivery

    @property
    def used(self) -> int:
        """Bytes of `buffer_memory` in use."""
        return self.accumulator.budget.used

    def flush(self) -> None:
        self.world.run(self.core.flush(300.0))

    def close(self, timeout_s: float | None = 300.0) -> dict[str, int]:
        return self.world.run(self.core.close(timeout_s))


def values(count: int, *, size: int = 10) -> list[bytes]:
    return [f"{i:06}".encode().ljust(size, b".") for i in range(count)]


def produced(call: Call) -> list[tuple[int, Any]]:
    """(partition, batch) of a request."""
    return [
        (data.index, decode_batches(data.records)[0])
        for topic in call.message.topic_data
        for data in topic.partition_data
    ]


def errors(code: int) -> Any:
    """A handler that responds to every batch with `code`."""

    def respond(call: Call) -> Any:
        kind = protocol.ProduceResponse
        return kind(
            responses=[
                kind.TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        kind.PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1)
                        for data in topic.partition_data
                    ],
                )
                for topic in call.message.topic_data
            ]
        )

    return respond


def log_of(world: World, partition: int = 0, topic: str = "t") -> Log:
    return world.log(topic, partition)


# A batch of its own for each record of `values(n, size=60)`.
ONE_EACH: dict[str, Any] = {"batch_size": 100}


def numbers(world: World, partition: int = 0) -> list[tuple[int, int, int]]:
    """(producer id, epoch, sequence) of every batch sent to a partition."""
    return [
        (batch.producer_id, batch.producer_epoch, batch.base_sequence)
        for call in world.made("Produce")
        for index, batch in produced(call)
        if index == partition
    ]


def started(world: World, *topics: str, **options: Any) -> Work:
    """A producer whose partition knows it: more than one batch may be in flight."""
    for topic in topics or "t":
        world.create_topic(topic, partitions=2)
    work = Work(world, *(topics or "t"), **{**ONE_EACH, **options})
    work.send("t", b"first")
    work.flush()
    return work


def committed_values(log: Log) -> list[bytes | None]:
    """The values that readers of committed records get; no transaction is open."""
    assert log.producers.first_open_offset is None, "a transaction is not decided"
    return content_of(log, committed_only=True)[1]
