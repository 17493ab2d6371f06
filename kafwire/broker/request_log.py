"""The requests to the brokers of a cluster, the newest last, for tests."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from kafwire.broker.request import Request, SeenRequest

if TYPE_CHECKING:
    from kafwire.broker.topics.topics import Topics

MAX_REQUESTS = 10_000
MAX_BYTES = 32 << 20  # of frames, as the log keeps their records in memory


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
