"""The requests to the brokers of a cluster, the newest last, for tests."""

from __future__ import annotations

import itertools
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafwire.broker.request import Request
    from kafwire.broker.topics.topics import Topics

MAX_REQUESTS = 10_000
MAX_BYTES = 32 << 20  # of frames, as the log keeps their records in memory


@dataclass(slots=True, eq=False)
class SeenRequest:
    """A request that a broker has received."""

    number: int  # from 1, in the order of arrival, over all brokers
    api: str  # such as `Produce`
    version: int
    node: int
    client_id: str | None
    principal: str  # the user of the connection at that time
    connection: int  # the connection's number
    at: float  # seconds since the start of the brokers
    message: Any  # the request, a class of `kafwire.protocol`
    fault: str = ""  # the fault that was applied to it
    _topics: Topics | None = field(default=None, repr=False)

    @property
    def partitions(self) -> list[tuple[str, int | None]]:
        """The topics and partitions of the request; (topic, None) if it names no partition."""
        from kafwire.broker.error_answers import places_of

        return places_of(self.api, self.version, self.message, self._name_of)

    @property
    def topics(self) -> list[str]:
        """The topics of the request, each once."""
        return list(dict.fromkeys(topic for topic, _ in self.partitions))

    def _name_of(self, topic_id: uuid.UUID) -> str | None:
        topic = None if self._topics is None else self._topics.by_id.get(topic_id)
        return None if topic is None else topic.name

    def __str__(self) -> str:
        named = [topic if index is None else f"{topic}-{index}" for topic, index in self.partitions]
        about = ", ".join(named[:4]) + (f" and {len(named) - 4} more" if len(named) > 4 else "")
        parts = [
            f"{self.at:9.3f} s",
            f"broker {self.node}",
            f"connection {self.connection}",
            f"{self.api} v{self.version}",
            f"of {self.client_id or 'an unnamed client'}",
        ]
        return "  ".join([*parts, *([about] if about else []), *([f"[{self.fault}]"] if self.fault else [])])


class RequestLog:
    """The last requests, limited by number and by bytes of frames."""

    def __init__(self, topics: Topics, *, max_requests: int = MAX_REQUESTS, max_bytes: int = MAX_BYTES) -> None:
        self.watchers: list[Callable[[SeenRequest], None]] = []
        self._topics = topics
        self._max_requests, self._max_bytes = max_requests, max_bytes
        self._seen: deque[tuple[SeenRequest, int]] = deque()
        self._bytes = 0
        self._numbers = itertools.count(1)

    def __len__(self) -> int:
        return len(self._seen)

    def __iter__(self) -> Iterator[SeenRequest]:
        return (seen for seen, _ in self._seen)

    def add(self, request: Request) -> None:
        """Add a received request."""
        connection = request.connection
        seen = SeenRequest(
            next(self._numbers),
            request.name,
            request.version,
            connection.node,
            request.client_id,
            connection.principal,
            connection.number,
            request.at_ms / 1000.0,
            request.message,
            "",
            self._topics,
        )
        request.seen = seen
        self._seen.append((seen, request.size))
        self._bytes += request.size
        while len(self._seen) > self._max_requests or (self._bytes > self._max_bytes and len(self._seen) > 1):
            self._bytes -= self._seen.popleft()[1]
        for watcher in list(self.watchers):
            watcher(seen)

    def clear(self) -> None:
        """Remove all requests. Their numbers go on."""
        self._seen.clear()
        self._bytes = 0

    def find(
        self,
        apis: Collection[str] = (),
        *,
        node: int | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        after: int = 0,
    ) -> list[SeenRequest]:
        """Return requests of some APIs (none: all), to a broker, of a client, that name a topic; `after` a number."""
        return [
            seen
            for seen, _ in self._seen
            if (not apis or seen.api in apis)
            and seen.number > after
            and (node is None or seen.node == node)
            and (client_id is None or seen.client_id == client_id)
            and (topic is None or topic in seen.topics)
        ]
