"""The kinds of faults, as data: what can happen to a frame, a connection or a broker's port. Pure.

`drawn` takes chance, a function that draws from [0, 1), and returns the same fault with nothing left to it.
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
    """What can happen to a frame, a connection or a broker's port."""

    def drawn(self, chance: Chance) -> Self:  # noqa: ARG002 - for those that leave something to it
        """The same fault with nothing left to chance."""
        return self


@dataclass(frozen=True, slots=True)
class _Timed(Fault):
    """A fault with a duration: seconds, or the (least, most) between which one is drawn."""

    seconds: Span

    def __post_init__(self) -> None:
        least, most = self.seconds if isinstance(self.seconds, tuple) else (self.seconds, self.seconds)
        if not 0 <= least <= most:
            message = f"seconds are not negative and the least comes first, not {self.seconds!r}"
            raise ValueError(message)

    def drawn(self, chance: Chance) -> Self:
        """The same with one duration."""
        if not isinstance(self.seconds, tuple):
            return self
        least, most = self.seconds
        return replace(self, seconds=round(least + (most - least) * chance(), 6))

    @property
    def duration(self) -> float:
        """The duration of a fault that was drawn."""
        assert not isinstance(self.seconds, tuple)
        return self.seconds


@dataclass(frozen=True, slots=True)
class Delay(_Timed):
    """The request or response is delivered so much later, and with it all that comes behind it on its way.

    A request whose client has given up and closed meanwhile is delivered all the same.
    """

    way: Way = "response"


@dataclass(frozen=True, slots=True)
class Hold(_Timed):
    """The client's connection is reset at once, and the request reaches the broker so much later, unexpected."""


@dataclass(frozen=True, slots=True)
class DropResponse(Fault):
    """The broker gets the request and does it; its response is dropped, then the client's connection is reset.

    Without `reset` the connection goes on, with that one response missing.
    """

    reset: bool = True


@dataclass(frozen=True, slots=True)
class Reset(Fault):
    """The client's connection is reset before the broker gets the request, or as soon as it is made (`CONNECT`)."""


@dataclass(frozen=True, slots=True)
class Cut(Fault):
    """The connection ends in the middle of the request or response.

    `part` of the frame still arrives, more than 0 and less than 1, drawn if None; at least one of its bytes does and
    one does not. The end is an orderly one, or a `reset`.
    """

    part: float | None = None
    way: Way = "response"
    reset: bool = False

    def __post_init__(self) -> None:
        _check_part("part", self.part)

    def drawn(self, chance: Chance) -> Self:
        """The same with its place."""
        return self if self.part is not None else replace(self, part=chance())


@dataclass(frozen=True, slots=True)
class Corrupt(Fault):
    """One byte of the request or response is changed, by exclusive or with `mask` (1 to 255).

    `where` it lies: in "records", what the checksums of record batches cover, in Produce requests and Fetch responses;
    a frame without any passes, and counts as not met; the sign of a batch's sequence stays, as brokers call a negative
    one out of order before they look at the checksum. Or "anywhere" behind the frame's size, which can change the
    meaning of a message unseen, as only records have checksums. `spot` is the place in there, from 0 to below 1. Spot
    and mask are drawn if None.
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
        """The same with its place and its change."""
        spot = self.spot if self.spot is not None else chance()
        return replace(self, spot=spot, mask=self.mask or 1 + int(chance() * 255))


@dataclass(frozen=True, slots=True)
class Duplicate(Fault):
    """The response is delivered twice; or the request is, and the client sees the answer to the first of the two."""

    way: Way = "response"


@dataclass(frozen=True, slots=True)
class Reorder(_Timed):
    """The response waits until the next one of its connection has gone before it; for so long at most.

    If none came, what was done is a `Delay`, and the event says so.
    """

    seconds: Span = 1.0


@dataclass(frozen=True, slots=True)
class BlackHole(Fault):
    """From the matched request on nothing arrives any more, on one `way` or both; connections stay open.

    After `seconds` (None: never) what was sent meanwhile arrives, as TCP would repeat it. `scope` is the connection, or
    all those of its "broker", the new ones too. A later black hole replaces an earlier one, as throttles do.
    """

    way: Ways = "both"
    seconds: float | None = None
    scope: Scope = "connection"


@dataclass(frozen=True, slots=True)
class Throttle(Fault):
    """From the matched request on only so many bytes a second get through, each way; for `seconds` (None: for ever)."""

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
    """The broker's port refuses connections for `seconds` (None: for ever); those that are open stay."""

    seconds: float | None = None


def _check_part(name: str, value: float | None) -> None:
    if value is not None and not 0 <= value < 1:
        message = f"{name} is a part of the whole, from 0 to below 1, not {value}"
        raise ValueError(message)
