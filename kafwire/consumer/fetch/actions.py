"""The actions that the parts of the fetch engine emit. `engine.py` alone applies them.

A part decides, and emits an action where the decision changes the buffer, the demand, the broker or the end of a
cursor. The engine applies an action before `Emit` returns: no other work of the loop comes between. Pure: actions are
data.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.consumer.fetch.truncation import Divergence
from kafwire.errors import KafkaError
from kafwire.lazy_dataclass import dataclass


class Requester(Protocol):
    """A broker fetcher, as far as the engine needs it to apply an action."""

    def pump(self) -> None:
        """Send the next request, if there is one to send."""


@dataclass(frozen=True, slots=True)
class Seek:
    """Continue at `position`, and drop the buffered records."""

    cursor: FetchCursor
    position: int


@dataclass(frozen=True, slots=True)
class Continue:
    """Continue at `position`, and keep the buffered records below it."""

    cursor: FetchCursor
    position: int
    last_epoch: int = -1


@dataclass(frozen=True, slots=True)
class AwaitPosition:
    """Fetch nothing of a cursor until its position is looked up; buffered records stay."""

    cursor: FetchCursor


@dataclass(frozen=True, slots=True)
class ResetPosition:
    """Reset a position that the log at the broker `where` does not have, by the reset policy."""

    cursor: FetchCursor
    where: str


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop a partition until a seek: its reader raises `error` after the buffered records."""

    cursor: FetchCursor
    error: KafkaError


@dataclass(frozen=True, slots=True)
class Move:
    """Move cursors to their current brokers, as the metadata names them."""

    cursors: Iterable[FetchCursor]


@dataclass(frozen=True, slots=True)
class Leave:
    """Take a cursor from its broker, until a `Move`."""

    cursor: FetchCursor


@dataclass(frozen=True, slots=True)
class Lose:
    """Look up the leaders of cursors whose broker cannot serve them because of `error`."""

    cursors: Iterable[FetchCursor]
    error: KafkaError


@dataclass(frozen=True, slots=True)
class LeaveReplica:
    """Return a cursor from its read replica to the leader, see `PositionValidation.leave_replica`."""

    cursor: FetchCursor
    doubt: bool = False
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class Truncate:
    """Continue below the position: the log at the broker `where` was truncated."""

    cursor: FetchCursor
    divergence: Divergence
    where: str


@dataclass(frozen=True, slots=True)
class FindOffset:
    """Find out if the log has the position, see `PositionValidation.look_for_offset`."""

    cursor: FetchCursor


@dataclass(frozen=True, slots=True)
class Fail:
    """End the whole read: readers raise `error` after the buffered records."""

    error: KafkaError


@dataclass(frozen=True, slots=True)
class PumpSoon:
    """Pump a broker fetcher in the loop's next turn."""

    broker_fetcher: Requester


@dataclass(frozen=True, slots=True)
class AwaitRoom:
    """Pump a broker fetcher once there may be room for its request."""

    broker_fetcher: Requester


@dataclass(frozen=True, slots=True)
class EndDemand:
    """End the demand of a cursor whose reader closed: a request that names it is built."""

    cursor: FetchCursor


@dataclass(frozen=True, slots=True)
class Finish:
    """Finish a cursor: its records up to the end are queued, or do not exist."""

    cursor: FetchCursor


class Signal(enum.Enum):
    """Actions without data. They come with each response: members of an enumeration are found without a class test."""

    ARRIVED = enum.auto()  # notify the listeners of new records
    RELEASED = enum.auto()  # pump the broker fetchers that wait for room: a response has released its reserved bytes


ARRIVED: Final = Signal.ARRIVED
RELEASED: Final = Signal.RELEASED


Action = (
    Seek
    | Continue
    | AwaitPosition
    | ResetPosition
    | Halt
    | Move
    | Leave
    | Lose
    | LeaveReplica
    | Truncate
    | FindOffset
    | Fail
    | PumpSoon
    | AwaitRoom
    | EndDemand
    | Signal
    | Finish
)
Emit = Callable[[Action], None]
