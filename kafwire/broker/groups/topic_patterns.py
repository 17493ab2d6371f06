"""The patterns of topic names in subscriptions of a consumer group, and the topics that match.

As in Kafka, the coordinator resolves patterns after the response, with the permissions of the client that triggered it,
and at most every ten seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING

from kafwire.broker.regular_expressions import Pattern, PatternError, matching
from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.groups.consumer_member import ConsumerMember
    from kafwire.broker.state import ClusterState

LEAST_INTERVAL_MS = 10_000
Allows = Callable[[str], bool]  # returns True if a client may see a topic


class PatternChange(Enum):
    """The change of a member's pattern by a heartbeat."""

    NONE = 0
    CHANGED = 1
    RESOLVED = 2  # changed, and the matching topics are known


class TopicPatterns:
    """The patterns of one group. `on_resolved`: called with the matching topics when they were resolved."""

    def __init__(self, state: ClusterState, on_resolved: Callable[[Mapping[str, frozenset[str]]], None]) -> None:
        self.resolved: dict[str, frozenset[str]] = {}
        self._state = state
        self._on_resolved = on_resolved
        self._resolved_ms = 0.0
        self._resolved_topics = 0
        self._is_looking = False

    def change(
        self, members: Iterable[ConsumerMember], old: str, new: str, topics_made: int, allows: Allows
    ) -> PatternChange:
        """Note a member's pattern, which may be new; `members` are those before. Resolve patterns if needed.

        `topics_made`: the number of topics ever created. `allows`: returns True if the member may see a topic.

        Raises:
            Refusal: the new pattern is invalid.
        """
        counts = Counter(each.pattern for each in members if each.pattern)
        found, looks = PatternChange.NONE, False
        if old != new:
            found = PatternChange.CHANGED
            if new and not counts[new]:
                _check(new)
                looks = True
            elif new in self.resolved or (old and not new):
                found = PatternChange.RESOLVED
        counts.subtract({old: 1})
        counts.update({new: 1})
        wanted = {pattern for pattern, count in counts.items() if pattern and count > 0}
        now_ms = self._state.now_ms
        is_recent = bool(self.resolved) and now_ms <= self._resolved_ms + LEAST_INTERVAL_MS
        if not wanted or self._is_looking or is_recent:
            return found
        interval_ms = self._state.config_int("group.consumer.regex.refresh.interval.ms")
        looks |= len(wanted) != len(self.resolved) or self._resolved_topics < topics_made
        if looks or now_ms > self._resolved_ms + interval_ms:
            self._is_looking = True
            self._state.after(0, lambda: self._look(wanted, topics_made, allows))
        return found

    def _look(self, wanted: Iterable[str], topics_made: int, allows: Allows) -> None:
        self._is_looking = False
        self._resolved_ms, self._resolved_topics = self._state.now_ms, topics_made
        names = [topic.name for topic in self._state.topics if allows(topic.name)]
        self._on_resolved(matching([Pattern(each) for each in wanted], names))


def _check(pattern: str) -> None:
    try:
        Pattern(pattern)
    except PatternError as error:
        raise Refusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}.",
        ) from None
