"""What is forgotten when it has not been used for long: the scheduled looks for it, each at its own interval."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafwire.testing.broker.state import ClusterState


class Expiry:
    """The looks. Nothing is due while there is nothing that could be forgotten."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._waiting: set[str] = set()

    def add(self, interval: str, look: Callable[[], bool]) -> Callable[[], None]:
        """Look at this interval, a broker's option, as long as `look` returns that something is left.

        Returns:
            What is to be called when there is something that could be forgotten.
        """

        def due() -> None:
            self._waiting.discard(interval)
            if look():
                watch()

        def watch() -> None:
            if interval not in self._waiting:
                self._waiting.add(interval)
                self._state.after(self._state.config_int(interval), due)

        return watch


class ProducerExpiry:
    """Has leaders forget the producers that have written nothing for `producer.id.expiration.ms`."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        expiry: Expiry = state.part(Expiry)
        self.watch = expiry.add("producer.id.expiration.check.interval.ms", self._expire)

    def _expire(self) -> bool:
        before_ms = self._state.wall_ms - self._state.config_int("producer.id.expiration.ms")
        left = [partition.producers.expire(before_ms) for topic in self._state.topics for partition in topic.partitions]
        return any(left)
