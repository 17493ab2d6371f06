"""A request at a broker, its entry in the log of requests, its connection, and the values that replace a response."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kafwire.broker.request_places import places_of

if TYPE_CHECKING:
    from kafwire.broker.profiles import ServerProfile
    from kafwire.broker.topics.topics import Topics

ANONYMOUS: Final = "User:ANONYMOUS"

# A response message, LATER, NO_RESPONSE, HANG_UP (see below), or the bytes after the correlation id.
Response = Any


@dataclass(slots=True, eq=False)
class ClientConnection:
    """A broker's state of one connection. `listener`: the name of the listener that accepted it."""

    number: int
    node: int
    listener: str = "PLAINTEXT"
    peer: str = "127.0.0.1"
    principal: str = ANONYMOUS
    is_by_token: bool = False  # True if its client authenticated by a delegation token
    is_ready: bool = True  # True if requests other than those of SASL are served
    login: Any = None  # its progress of SASL authentication, see `login.py`
    session_ends_ms: float | None = None  # the time by which it must authenticate again (KIP-368)
    closes: bool = False  # closes after its next response
    client_software: tuple[str, str] = ("unknown", "unknown")
    is_open: bool = True
    profile: ServerProfile | None = None  # of its server, where that is not Kafka


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


@dataclass(slots=True, eq=False)
class Request:
    """One request. `at_ms` is the driver's monotonic time when it was received."""

    connection: ClientConnection
    message: Any
    version: int
    correlation_id: int = 0
    client_id: str | None = None
    at_ms: float = 0.0
    size: int = 0  # bytes of its frame
    delay_ms: float = 0.0  # the delay of its response, by a fault script
    edits: list[Callable[[Response], Response]] = field(
        default_factory=list
    )  # changes of fault scripts to its response
    seen: SeenRequest | None = None  # its entry in the log of requests
    notes: dict[str, Any] = field(default_factory=dict)  # notes of interceptors

    @property
    def name(self) -> str:
        """The name of its API, such as `Produce`."""
        return type(self.message).__name__.removesuffix("Request")

    @property
    def node(self) -> int:
        """The broker that received it."""
        return self.connection.node


class _Instead:
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


# A handler returns this if the response comes later, by `ClusterState.reply`.
LATER: Final = _Instead("LATER")
# A driver gets these in place of a response: none follows (acks=0, or a fault); the connection is closed.
NO_RESPONSE: Final = _Instead("NO_RESPONSE")
HANG_UP: Final = _Instead("HANG_UP")
