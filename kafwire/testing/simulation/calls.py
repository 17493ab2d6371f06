"""Requests as tests of a simulated world see them, and the responses of their handlers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafwire.broker.request import Request


@dataclass(slots=True)
class Call:
    """A request as a broker sees it. `request`: the broker's object, None for a call that a test makes."""

    at_ms: float
    node: int
    connection: int
    version: int
    correlation_id: int
    message: Any
    request: Request | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The name of its API."""
        return type(self.message).__name__.removesuffix("Request")


class Never:
    """A response that does not come."""


class Hangup:
    """The broker closes the connection instead of sending a response."""


class Dropped:
    """A response lost in transit: the broker serves the requests after it, but the next response breaks the
    connection.
    """


DROPPED = Dropped()
NEVER = Never()
HANGUP = Hangup()
# bytes: a raw frame after the correlation id. None: the next handler, and at last the broker, makes the response.
Response = Any
Handler = Callable[[Call], Response]
