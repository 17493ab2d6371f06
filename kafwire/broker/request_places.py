"""The topics and partitions that a request names, by the levels of `response_levels.py`."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from kafwire.broker import response_levels
from kafwire.broker.response_levels import PARTITION, TOPIC, TOPIC_RESOURCE, Level

NameOf = Callable[[uuid.UUID], str | None]


def places_of(api: str, version: int, message: Any, name_of: NameOf) -> list[tuple[str, int | None]]:
    """Return the topics and partitions that a request names: (topic, None) where it names no partition."""
    found: list[tuple[str, int | None]] = []
    if api == "AlterReplicaLogDirs":
        return [(topic.name, index) for each in message.dirs for topic in each.topics for index in topic.partitions]

    def walk(levels: tuple[Level, ...], struct: Any, topic: str | None) -> None:
        level = levels[0]
        for array in level.asked:
            for element in getattr(struct, array, None) or ():
                its = topic_of(element, name_of) if level.kind == TOPIC else topic
                index = index_of(element) if level.kind == PARTITION else None
                if len(levels) > 1 and levels[1].asked:
                    walk(levels[1:], element, its)
                elif its is not None:
                    found.append((its, index))

    levels = response_levels.path(api, version)
    if levels:
        walk(levels, message, None)
    return found


def topic_of(element: Any, name_of: NameOf) -> str | None:
    """Return the topic of an element of a request or response, or None."""
    if isinstance(element, str):
        return element
    if getattr(element, "resource_type", TOPIC_RESOURCE) != TOPIC_RESOURCE:
        return None
    for name in response_levels.names_of(TOPIC):
        found = getattr(element, name, None)
        if found:
            return str(found)
    topic_id = getattr(element, "topic_id", None)
    return None if topic_id is None else name_of(topic_id) or str(topic_id)


def index_of(element: Any) -> int | None:
    """Return the partition of an element of a request or response, or None."""
    if isinstance(element, int):
        return element
    return next((getattr(element, n) for n in response_levels.names_of(PARTITION) if hasattr(element, n)), None)
