"""Why topics that streams groups need were not created: kept for a while, in which no broker tries again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafwire.testing.broker.state import ClusterState


class CreationErrors:
    """Those of all topics. `state`: the cluster's, for the time."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._errors: dict[str, tuple[str, float]] = {}  # texts, and until when each is kept

    def keep(self, topic: str, text: str, ttl_ms: int) -> None:
        """A topic was refused."""
        self._errors[topic] = text, self._state.now_ms + ttl_ms

    def of(self, topics: Iterable[str]) -> dict[str, str]:
        """The errors of topics that were refused lately."""
        found = {topic: self._errors.get(topic, ("", 0.0)) for topic in topics}
        return {topic: text for topic, (text, until_ms) in found.items() if self._state.now_ms < until_ms}
