"""The kinds of faults, as data: faults of a frame, of a connection, of a broker's port. Pure.

`drawn` takes `chance`, a function that draws from [0, 1), and returns the same fault with all random choices made.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Self

__all__ = [
    "BlackHole",
    "Chance",
    "Corrupt",
    "Cut",
    "Delay",
    "DropResponse",
    "Duplicate",
    "Fault",
    "Hold",
    "Refuse",
    "Reorder",
    "Reset",
    "Throttle",
]

Chance = Callable[[], float]
Span = float | tuple[float, float]
Way = Literal["request", "response"]
Ways = Literal["request", "response", "both"]
Scope = Literal["connection", "broker"]


@dataclass(frozen=True, slots=True)
class Fault:
    """The base class of all faults of a frame, a connection or a broker's port.

    Example:
        >>> from kafwire.testing.faults import Fault, Reset
        >>> isinstance(Reset(), Fault)
        True
    """

    def drawn(self, chance: Chance) -> Self:  # noqa: ARG002 - subclasses use it
        """Return the same fault with all random choices made.

        Args:
            chance: draws a number in [0, 1).

        Returns:
            The fault.
        """
        return self


@dataclass(frozen=True, slots=True)
class _Timed(Fault):
    """A fault with a duration: seconds, or a pair (least, most) from which one is drawn."""

    seconds: Span

    def __post_init__(self) -> None:
        least, most = self.seconds if isinstance(self.seconds, tuple) else (self.seconds, self.seconds)
        if not 0 <= least <= most:
            message = f"seconds are not negative and the least comes first, not {self.seconds!r}"
            raise ValueError(message)

    def drawn(self, chance: Chance) -> Self:
        """Return the same fault with one duration.

        Args:
            chance: draws a number in [0, 1).

        Returns:
            The fault.
        """
        if not isinstance(self.seconds, tuple):
            return self
        least, most = self.seconds
        return replace(self, seconds=round(least + (most - least) * chance(), 6))

    @property
    def duration(self) -> float:
        """The duration in seconds, of a fault that was drawn."""
        assert not isinstance(self.seconds, tuple)
        return self.seconds


@dataclass(frozen=True, slots=True)
class Delay(_Timed):
    """The request or response is delivered later, and so is all that comes after it in its direction.

    A request is delivered even if its client has given up and closed the connection.

    Args:
        seconds: how much later; a pair (least, most) draws a number between them.
        way: "request" or "response".

    Example:
        >>> from kafwire.testing.faults import Delay
        >>> Delay(0.5).way
        'response'
    """

    way: Way = "response"


@dataclass(frozen=True, slots=True)
class Hold(_Timed):
    """The client's connection is reset at once, and the request reaches the broker later, unexpectedly.

    Args:
        seconds: how much later; a pair (least, most) draws a number between them.

    Example:
        >>> from kafwire.testing.faults import Hold
        >>> Hold((0.5, 1.0)).seconds
        (0.5, 1.0)
    """


@dataclass(frozen=True, slots=True)
class DropResponse(Fault):
    """The broker executes the request. Its response is dropped, and the client's connection is reset.

    Args:
        reset: reset the connection; without it the connection goes on, and this one response is missing.

    Example:
        >>> from kafwire.testing.faults import DropResponse
        >>> DropResponse(reset=False).reset
        False
    """

    reset: bool = True


@dataclass(frozen=True, slots=True)
class Reset(Fault):
    """The client's connection is reset before the broker gets the request, or as soon as it is made (`CONNECT`).

    Example:
        >>> from kafwire.testing.faults import Reset
        >>> Reset()
        Reset()
    """


@dataclass(frozen=True, slots=True)
class Cut(Fault):
    """The connection ends in the middle of the request or response.

    Args:
        part: how much of the frame arrives, more than 0 and less than 1; None draws it. At least one byte arrives, and
            at least one does not.
        way: "request" or "response".
        reset: end the connection by a reset instead of an orderly close.

    Raises:
        ValueError: `part` is out of range.

    Example:
        >>> from kafwire.testing.faults import Cut
        >>> Cut(0.5, way="request").part
        0.5
    """

    part: float | None = None
    way: Way = "response"
    reset: bool = False

    def __post_init__(self) -> None:
        _check_part("part", self.part)

    def drawn(self, chance: Chance) -> Self:
        """Return the same fault with its position.

        Args:
            chance: draws a number in [0, 1).

        Returns:
            The fault.
        """
        return self if self.part is not None else replace(self, part=chance())


@dataclass(frozen=True, slots=True)
class Corrupt(Fault):
    """One byte of the request or response is changed by exclusive or.

    With `where="records"` it is a byte that the checksum of a record batch covers, in Produce requests and Fetch
    responses. A frame without one passes and does not count. The sign of a batch's sequence stays, as brokers call a
    negative sequence out of order before they look at the checksum. With `where="anywhere"` it is any byte after the
    frame's size. That can change the meaning of a message unnoticed, as only records have checksums.

    Args:
        way: "request" or "response".
        where: "records" or "anywhere".
        spot: the position, from 0 to below 1; None draws it.
        mask: the operand of the exclusive or, 1 to 255; None draws it.

    Raises:
        ValueError: `spot` or `mask` is out of range.

    Example:
        >>> from kafwire.testing.faults import Corrupt
        >>> Corrupt(way="request").where
        'records'
    """

    way: Way = "response"
    where: Literal["records", "anywhere"] = "records"
    spot: float | None = None
    mask: int | None = None

    def __post_init__(self) -> None:
        _check_part("spot", self.spot)
        if self.mask is not None and not 1 <= self.mask <= 255:
            message = f"a mask is 1 to 255, not {self.mask}"
            raise ValueError(message)

    def drawn(self, chance: Chance) -> Self:
        """Return the same fault with its position and its change.

        Args:
            chance: draws a number in [0, 1).

        Returns:
            The fault.
        """
        spot = self.spot if self.spot is not None else chance()
        return replace(self, spot=spot, mask=self.mask or 1 + int(chance() * 255))


@dataclass(frozen=True, slots=True)
class Duplicate(Fault):
    """The response is delivered twice; or the request is, and the client gets the response to the first of the two.

    Args:
        way: "request" or "response".

    Example:
        >>> from kafwire.testing.faults import Duplicate
        >>> Duplicate("request").way
        'request'
    """

    way: Way = "response"


@dataclass(frozen=True, slots=True)
class Reorder(_Timed):
    """The response waits until the next one of its connection has been sent before it.

    If no response comes in time, the fault becomes a `Delay`, and the event says so.

    Args:
        seconds: how long it waits at most; a pair (least, most) draws a number between them.

    Example:
        >>> from kafwire.testing.faults import Reorder
        >>> Reorder().seconds
        1.0
    """

    seconds: Span = 1.0


@dataclass(frozen=True, slots=True)
class BlackHole(Fault):
    """From the matched request on nothing arrives any more. Connections stay open.

    A later black hole replaces an earlier one, as throttles do.

    Args:
        way: "request", "response" or "both".
        seconds: how long; None: for ever. Bytes sent meanwhile arrive then, as TCP would repeat them.
        scope: "connection", or "broker" for all connections of the broker, new ones too.

    Example:
        >>> from kafwire.testing.faults import BlackHole
        >>> BlackHole(seconds=5.0).way
        'both'
    """

    way: Ways = "both"
    seconds: float | None = None
    scope: Scope = "connection"


@dataclass(frozen=True, slots=True)
class Throttle(Fault):
    """From the matched request on, pass at most `bytes_per_second` bytes a second, each way.

    Args:
        bytes_per_second: the limit.
        way: "request", "response" or "both".
        seconds: how long; None: for ever.
        scope: "connection", or "broker" for all connections of the broker, new ones too.

    Raises:
        ValueError: `bytes_per_second` is not positive.

    Example:
        >>> from kafwire.testing.faults import Throttle
        >>> Throttle(10_000).way
        'both'
    """

    bytes_per_second: float
    way: Ways = "both"
    seconds: float | None = None
    scope: Scope = "connection"

    def __post_init__(self) -> None:
        if self.bytes_per_second <= 0:
            message = f"bytes_per_second is above 0, not {self.bytes_per_second}; BlackHole lets none through"
            raise ValueError(message)


@dataclass(frozen=True, slots=True)
class Refuse(Fault):
    """The broker's port refuses connections. Open ones stay.

    Args:
        seconds: how long; None: for ever.

    Example:
        >>> from kafwire.testing.faults import Refuse
        >>> Refuse(2.0).seconds
        2.0
    """

    seconds: float | None = None


def _check_part(name: str, value: float | None) -> None:
    if value is not None and not 0 <= value < 1:
        message = f"{name} is a part of the whole, from 0 to below 1, not {value}"
        raise ValueError(message)
