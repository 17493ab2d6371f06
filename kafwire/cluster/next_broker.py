"""The order of brokers for requests that any broker serves: metadata, coordinators, lists. Pure.

`hedging.first_response` asks the brokers of such an order one after another; the bootstrap servers come last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:

    class Shuffles(Protocol):
        """A source of randomness, such as `random.Random`."""

        def shuffle(self, x: list[Any]) -> None:
            """Shuffle a list in place."""

    class Candidate(Protocol):
        """The facts of a connection that decide its place."""

        @property
        def node(self) -> int:
            """The broker's id."""

        @property
        def is_ready(self) -> bool:
            """True if it is connected."""

        @property
        def failures(self) -> int:
            """The number of attempts that failed in a row."""

        @property
        def in_flight(self) -> int:
            """The number of requests without a response."""


_C = TypeVar("_C", bound="Candidate")


class NextBroker:
    """Orders the connections of one client. `is_overdue(node)`: a response of that broker is overdue."""

    def __init__(self, random: Shuffles, is_overdue: Callable[[int], bool]) -> None:
        self._random = random
        self._is_overdue = is_overdue
        self._responses: dict[int, int] = {}  # by broker: the number of its last metadata response

    def note_metadata(self, node: int) -> None:
        """Note that a broker has returned metadata."""
        self._responses[node] = max(self._responses.values(), default=0) + 1

    def order(self, connections: Iterable[_C], *, first: int = -1) -> list[_C]:
        """Sort: broker `first`, connected brokers (idle before busy), failed brokers, overdue brokers."""
        found = list(connections)
        self._random.shuffle(found)
        found.sort(
            key=lambda connection: (
                connection.node != first,
                self._is_overdue(connection.node),
                not connection.is_ready,
                connection.failures,
                connection.in_flight > 0,
            )
        )
        return found

    def elsewhere(self, ordered: Iterable[_C]) -> list[_C]:
        """Sort by the last metadata response, oldest first: another broker's metadata may lag less."""
        return sorted(
            ordered,
            key=lambda connection: (
                self._is_overdue(connection.node),
                connection.failures,
                self._responses.get(connection.node, 0),
            ),
        )

    @staticmethod
    def seeds(connections: Iterable[_C]) -> list[_C]:
        """Sort bootstrap servers: connected ones first."""
        return sorted(connections, key=lambda connection: not connection.is_ready)
