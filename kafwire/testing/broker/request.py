"""A request as a broker sees it, the connection that it came on, and what may be given instead of an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kafwire.testing.broker.request_log import SeenRequest

ANONYMOUS: Final = "User:ANONYMOUS"

# A response message, LATER, NO_ANSWER, HANG_UP (see below), or the bytes that follow the correlation id.
Answer = Any


@dataclass(slots=True, eq=False)
class Connection:
    """What a broker knows of one connection. `listener`: the name of the one that accepted it."""

    number: int
    node: int
    listener: str = "PLAINTEXT"
    peer: str = "127.0.0.1"
    principal: str = ANONYMOUS
    is_ready: bool = True  # whether requests other than those of SASL are served
    login: Any = None  # how far it has authenticated by SASL, see `login.py`
    session_ends_ms: float | None = None  # when it has to authenticate again (KIP-368)
    closes: bool = False  # once its next answer is sent
    client_software: tuple[str, str] = ("unknown", "unknown")
    is_open: bool = True


@dataclass(slots=True, eq=False)
class Request:
    """One request. `at_ms` is the driver's monotonic time when it was received."""

    connection: Connection
    message: Any
    version: int
    correlation_id: int = 0
    client_id: str | None = None
    at_ms: float = 0.0
    size: int = 0  # bytes of its frame
    delay_ms: float = 0.0  # how much later its answer is sent, by a fault script
    edits: list[Callable[[Answer], Answer]] = field(default_factory=list)  # what fault scripts make of its answer
    seen: SeenRequest | None = None  # what the log of requests has of it
    notes: dict[str, Any] = field(default_factory=dict)  # what interceptors remember of it

    @property
    def name(self) -> str:
        """The name of its API, such as `Produce`."""
        return type(self.message).__name__.removesuffix("Request")

    @property
    def node(self) -> int:
        """The broker that was asked."""
        return self.connection.node


class _Instead:
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


# What a handler returns when the answer comes later, by `ClusterState.reply`.
LATER: Final = _Instead("LATER")
# What a driver is given in the place of an answer: there is none (acks=0, or a fault); the connection is closed.
NO_ANSWER: Final = _Instead("NO_ANSWER")
HANG_UP: Final = _Instead("HANG_UP")
