"""The simulated world's broker, as scenarios see it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kafwire.protocol import encode_request
from tests.scenarios.responses import Difference
from tests.scenarios.script import Restart
from tests.support.simulated.world import World

# Lines in which the simulated broker is known not to respond as Kafka does.
KNOWN: list[Difference] = []

PAUSE_S = 0.01
LONGEST_S = 100.0
BATCHES_KEPT = {Restart.CLEAN: 1, Restart.CRASH: 1}


class SimulatedKafka:
    """One broker of a `World`. Requests and responses are encoded in their version, and lose fields it lacks."""

    def __init__(self, world: World, version: str) -> None:
        self.version = version
        self.world = world
        world.before_4 = version < "4"
        world.transaction_version = 0 if world.before_4 else 2
        self._correlation = 0

    def call(self, request: Any, version: int) -> Any:
        self._correlation += 1
        data = encode_request(request, version, self._correlation, "scenario")
        (node,) = self.world.nodes.values()
        _, response = self.world.run(node.respond(0, bytes(data)))
        return type(response).decode(bytes(response.encode(version)), version)

    def create_topic(self, partitions: int) -> tuple[str, uuid.UUID]:
        made = self.world.create_topic(f"topic-{len(self.world.topics)}", partitions=partitions)
        return made.name, made.topic_id

    def wait_until(self, condition: Callable[[], bool]) -> None:
        until = self.world.loop.time() + LONGEST_S
        while not condition():
            assert self.world.loop.time() < until, "it never comes to its end"
            self.world.pass_time(PAUSE_S)
            self.world.run(self._expire())

    async def _expire(self) -> None:
        self.world.expire_transactions()

    @contextmanager
    def hold_markers(self) -> Iterator[None]:
        usual, self.world.marker_delay_s = self.world.marker_delay_s, 2.0
        yield
        self.world.marker_delay_s = usual

    def restart(self, how: Restart) -> None:
        """The broker remembers what it would."""
        (node,) = self.world.nodes
        self.world.forget_producers(node, BATCHES_KEPT[how])
