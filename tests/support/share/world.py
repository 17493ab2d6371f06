"""A simulated cluster with a topic and a share group, its consumers, and what they ask of the brokers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kafwire
from kafwire.broker.request import Request
from kafwire.broker.share.in_flight import Delivery
from kafwire.broker.share.share_partitions import SharePartitions
from kafwire.testing.simulation.cluster import ClusterWorld
from kafwire.testing.simulation.network import OnResponse
from tests.support import seeds

BATCH, BATCHES = 10, 6
GROUP, TOPIC = "g", "t"


class ShareWorld(ClusterWorld):
    """Brokers with a topic of as many partitions, and what they are asked.

    Args:
        brokers: how many.
        batches: how many each partition has, of `BATCH` records.
        seed: that of the test without one.
        options: of the group, with underscores.
    """

    def __init__(self, brokers: int = 1, *, batches: int = BATCHES, seed: int | None = None, **options: str) -> None:
        chosen = seeds.of_test() if seed is None else seed
        super().__init__(brokers=brokers, seed=chosen, configs={"group.share.assignment.interval.ms": "0"})
        self.asked: list[tuple[float, Request]] = []
        self.topic = self.state.topics.create(TOPIC, brokers, 1)
        configs = {name.replace("_", "."): value for name, value in options.items()}
        self.state.group_configs[GROUP] = {"share.auto.offset.reset": "earliest", **configs}
        for partition in self.topic.partitions:
            for _ in range(batches):
                partition.append_values([b"x"] * BATCH)
        self.changed()

    def ask(self, request: Request, on_response: OnResponse) -> None:
        """See `ClusterWorld`."""
        self.asked.append((self.loop.time(), request))
        super().ask(request, on_response)

    def consumer(self, **options: Any) -> kafwire.ShareConsumer:
        """One that acquires a batch at once."""
        return kafwire.ShareConsumer(
            self.bootstrap, topics=TOPIC, group_id=GROUP, engine=self.engine, **{"max_poll_records": BATCH, **options}
        )

    def async_consumer(self, **options: Any) -> kafwire.AsyncShareConsumer:
        """The same, awaited."""
        return kafwire.AsyncShareConsumer(
            self.bootstrap, topics=TOPIC, group_id=GROUP, engine=self.engine, **{"max_poll_records": BATCH, **options}
        )

    def made(self, api: str) -> list[Any]:
        """The requests of an API so far, as messages."""
        return [request.message for _, request in self.asked if request.name == api]

    def reported(self, api: str) -> list[tuple[int, int, list[int]]]:
        """The acknowledgements in requests of an API: first and last offsets, and types."""
        return [
            (batch.first_offset, batch.last_offset, list(batch.acknowledge_types))
            for message in self.made(api)
            for topic in message.topics
            for part in topic.partitions
            for batch in part.acknowledgement_batches
        ]

    def fetched_from(self) -> list[int]:
        """The brokers of the ShareFetch requests so far, in order."""
        return [request.node for _, request in self.asked if request.name == "ShareFetch"]

    def left(self) -> dict[int, list[int]]:
        """The offsets of each partition that the group is not done with."""
        return {partition.index: [*self._left(partition.index)] for partition in self.topic.partitions}

    def _left(self, index: int) -> Iterator[int]:
        """Offsets without a final state."""
        partition = self.topic.partitions[index]
        led = self.state.part(SharePartitions).find(partition.leader, GROUP, (self.topic.topic_id, index))
        end = partition.log.end_offset
        if led is None:
            yield from range(end)
            return
        for offset in range(led.shared.start, end):
            at = led.shared.floor(offset)
            found: Delivery | None = led.shared.batches[at].at(offset) if at >= 0 else None
            if found is None or not found.state.is_final:
                yield offset
