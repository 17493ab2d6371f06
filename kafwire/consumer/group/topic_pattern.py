"""A subscription by pattern, matched by the client against the topics that exist, as the classic protocol requires."""

from __future__ import annotations

import re
from typing import Any

from kafwire import protocol
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.metadata import TopicInfo, info_of
from kafwire.errors import broker_error

# Internal topics of Kafka, which no pattern matches.
_INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")


class TopicPattern:
    """A pattern that a topic's whole name must match."""

    def __init__(self, cluster: Cluster, text: str) -> None:
        """`text` is a Python regular expression."""
        self.text = text
        self._cluster = cluster
        self._matches = re.compile(text).fullmatch
        self._listed_ms: float | None = None  # when the last listing was requested
        self._lacked_ms: dict[str, float | None] = {}  # for each listed topic: the last listing without it

    async def matching(self) -> dict[str, TopicInfo]:
        """Return the existing topics that match, by name, without those that the user may not describe."""
        asked_ms = self._cluster.engine.now_ms()
        request: Any = protocol.MetadataRequest(topics=None, allow_auto_topic_creation=False)
        response = await self._cluster.call(request)
        if response.error_code:
            raise broker_error(response.error_code, "listing topics", api="Metadata")
        found = {
            topic.name: info_of(topic)
            for topic in response.topics
            if topic.name and not topic.error_code and not topic.is_internal
            and topic.name not in _INTERNAL and self._matches(topic.name)
        }  # fmt: skip
        for name in found:
            self._lacked_ms.setdefault(name, self._listed_ms)
        self._listed_ms = asked_ms
        return found

    def lacked_ms(self, topic: str) -> float | None:
        """Return the time of the last listing without a topic; None if the first one had it."""
        return self._lacked_ms.get(topic, self._listed_ms)
