"""The embedded broker's state, as scenarios see it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kafwire.broker.state import ClusterState
from kafwire.broker.transactions.transactions import Transactions
from tests.scenarios.responses import Difference
from tests.scenarios.script import Restart
from tests.support.broker.driver import BrokerDriver

# Lines in which the embedded broker is known not to respond as Kafka does.
KNOWN: list[Difference] = []

PAUSE_MS = 10.0
LONGEST_MS = 100_000.0
LOOK_MS = "transaction.abort.timed.out.transaction.cleanup.interval.ms"


class EmbeddedState:
    """One broker of a `ClusterState`. Requests and responses are encoded in their version, and lose fields it lacks."""

    def __init__(self, version: str, *, seed: int = 1) -> None:
        self.version = version
        # Records of a scene have the real time, and a broker refuses records from the future.
        self.state = ClusterState(
            configs={LOOK_MS: "200", "offsets.topic.num.partitions": "1"}, seed=seed, wall_ms=time.time() * 1000
        )
        self.state.before_4 = version < "4"
        self.driver = BrokerDriver(self.state)
        self._transactions: Transactions = self.state.part(Transactions)

    def call(self, request: Any, version: int) -> Any:
        kind = type(request)
        sent = self.driver.send(kind.decode(bytes(request.encode(version)), version), version)
        for _ in range(1000):
            if sent in self.driver.late:
                break
            self.driver.pass_ms(PAUSE_MS)
        response = self.driver.late.pop(sent)
        return type(response).decode(bytes(response.encode(version)), version)

    def create_topic(self, partitions: int) -> tuple[str, uuid.UUID]:
        made = self.state.topics.create(f"topic-{len(self.state.topics)}", partitions)
        return made.name, made.topic_id

    def wait_until(self, condition: Callable[[], bool]) -> None:
        until_ms = self.state.now_ms + LONGEST_MS
        while not condition():
            assert self.state.now_ms < until_ms, "it never comes to its end"
            self.driver.pass_ms(PAUSE_MS)

    @contextmanager
    def hold_markers(self) -> Iterator[None]:
        usual, self._transactions.marker_delay_ms = self._transactions.marker_delay_ms, 2000.0
        yield
        self._transactions.marker_delay_ms = usual

    def restart(self, how: Restart) -> None:
        """The broker stops, and starts."""
        self.state.stop(1, clean=how is Restart.CLEAN)
        self.state.start(1)
