"""Errors of topics that streams groups need and that were not created. No broker retries while an error is kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


class CreationErrors:
    """The errors of all topics. `state`: the cluster's state, for its time."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._errors: dict[str, tuple[str, float]] = {}  # texts, and the time until which each is kept

    def keep(self, topic: str, text: str, ttl_ms: int) -> None:
        """Keep the error of a topic for `ttl_ms`."""
        self._errors[topic] = text, self._state.now_ms + ttl_ms

    def of(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the errors of those topics that are still kept."""
        found = {topic: self._errors.get(topic, ("", 0.0)) for topic in topics}
        return {topic: text for topic, (text, until_ms) in found.items() if self._state.now_ms < until_ms}
