"""Fetch strategies: how a consumer's partitions are divided among connections and requests.

`engine.py` and `broker_fetcher.py` are one mechanism: cursors that belong to connections, each connection with one
request in flight. A strategy has the differences between `fetch_strategy="hybrid"`, `"per_partition"` and
`"per_node"`, with or without `single_socket`. It is data; no other code tests for its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol, TypeVar

from kafwire.lazy_dataclass import dataclass

# The role of the connection for immediate fetches: requests that do not wait for records at the broker.
IMMEDIATE = "fetch-immediate"
# With one socket per broker, all other requests wait while a fetch is parked, so no fetch is parked for long.
SINGLE_SOCKET_MAX_WAIT_MS = 100


class Named(Protocol):
    """The attributes of a partition that a strategy uses."""

    @property
    def name(self) -> str:
        """The topic and partition number."""


P = TypeVar("P", bound=Named)


@dataclass(frozen=True, slots=True)
class FetchStrategy:
    """How partitions share connections and requests."""

    # The connection's role at a broker. Partitions of one role share requests.
    role: str = "fetch"
    # Each partition has a connection, a session and requests of its own. It is closed when the partition leaves.
    connection_per_partition: bool = False
    # A partition with new demand is fetched over a second connection while a request is parked at the broker.
    immediate_fetches: bool = False
    # A request names all partitions of the broker, or is not sent: a partition with a full buffer stops the others.
    all_or_none: bool = False
    # The longest wait of a request for records at the broker, even if `fetch_max_wait_ms` is longer.
    longest_wait_ms: int | None = None
    # Requests belong to a fetch session (KIP-227), so they name only changes.
    sessions: bool = True

    def by_role(self, partitions: Iterable[P]) -> dict[str, list[P]]:
        """Group these partitions of one broker by the role of their connection."""
        groups: dict[str, list[P]] = {}
        for partition in partitions:
            role = f"{self.role}:{partition.name}" if self.connection_per_partition else self.role
            groups.setdefault(role, []).append(partition)
        return groups

    def wait_ms(self, fetch_max_wait_ms: int) -> int:
        """Return how long a request may wait for records at the broker."""
        return fetch_max_wait_ms if self.longest_wait_ms is None else min(fetch_max_wait_ms, self.longest_wait_ms)


FETCH_STRATEGIES = {
    "hybrid": FetchStrategy(immediate_fetches=True),
    "per_partition": FetchStrategy(connection_per_partition=True),
    "per_node": FetchStrategy(all_or_none=True),
}


def strategy_of(name: str, *, single_socket: bool) -> FetchStrategy:
    """Return the strategy of a `fetch_strategy`. With `single_socket`, fetches share the control connection."""
    strategy = FETCH_STRATEGIES[name]
    if not single_socket:
        return strategy
    return replace(strategy, role="control", immediate_fetches=False, longest_wait_ms=SINGLE_SOCKET_MAX_WAIT_MS)
