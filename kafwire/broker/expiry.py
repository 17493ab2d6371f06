"""Expiry of unused state: scheduled checks, each at its own interval."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


class Expiry:
    """The checks. No check is due while there is no state that could expire."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._waiting: set[str] = set()

    def add(self, interval: str, look: Callable[[], bool]) -> Callable[[], None]:
        """Call `look` at this interval, a broker option, as long as it returns True: state is left.

        Returns:
            A function to call when there is state that could expire.
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
    """Makes leaders forget the producers without a record for `producer.id.expiration.ms`."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        expiry: Expiry = state.part(Expiry)
        self.watch = expiry.add("producer.id.expiration.check.interval.ms", self._expire)

    def _expire(self) -> bool:
        before_ms = self._state.wall_ms - self._state.config_int("producer.id.expiration.ms")
        left = [partition.producers.expire(before_ms) for topic in self._state.topics for partition in topic.partitions]
        return any(left)
