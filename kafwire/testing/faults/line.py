"""One direction of a proxied connection: what is on its way, and when it may go on. Pure."""

import math
from collections import deque
from enum import Enum

__all__ = ["End", "Line"]

# A throttled line is served in pieces of what it may carry in this time, and may make up for so much of being late.
_THROTTLE_SECONDS = 0.02
_LARGEST_PIECE = 256 << 10


class End(Enum):
    """How a line ends: in order, or by a reset that overtakes what is still on its way."""

    CLOSE = "close"
    RESET = "reset"


class Line:
    """What is on its way in one direction: in order, nothing before its time, nothing faster than allowed."""

    def __init__(self) -> None:
        self.size = 0
        self.ended = False
        self._pieces: deque[tuple[float, memoryview | End]] = deque()
        self._dark_until = -math.inf
        self._lit = 0  # so many pieces go on in spite of that
        self._rate = math.inf
        self._rate_until = -math.inf
        self._free_at = -math.inf

    def put(self, data: bytes, not_before: float = -math.inf) -> None:
        """Send on, behind all that is there; ignored behind the end."""
        if data and not self.ended:
            self._pieces.append((not_before, memoryview(data)))
            self.size += len(data)

    def end(self, how: End = End.CLOSE) -> None:
        """Let the line end behind what is on its way."""
        if not self.ended:
            self.ended = True
            self._pieces.append((-math.inf, how))

    def drop(self, how: End | None = None) -> None:
        """Let the line end at once, without what is on its way; silently, or in a way that is seen."""
        self._pieces.clear()
        self.size = self._lit = 0
        self.ended = True
        self._dark_until = self._free_at = -math.inf
        if how is not None:
            self._pieces.append((-math.inf, how))

    def darken(self, now: float, until: float, *, behind: bool = False) -> None:
        """Let nothing through until then, neither bytes nor ends; what is on its way goes on if this comes `behind`."""
        if not behind:
            self._lit = 0
        elif self._dark_until <= now:  # else those before the first darkness are known
            self._lit = len(self._pieces)
        self._dark_until = until

    def throttle(self, bytes_per_second: float, until: float) -> None:
        """Let no more than so many bytes a second through until then."""
        self._rate, self._rate_until = bytes_per_second, until

    def heal(self) -> None:
        """Take back `darken` and `throttle`."""
        self._dark_until = self._rate_until = self._free_at = -math.inf

    def take(self, now: float) -> memoryview | End | None:
        """What may be sent now: bytes, of which `sent` says how many were; the end, once; or nothing for now."""
        wake = self.wake()
        if wake is None or wake > now:
            return None
        _, piece = self._pieces[0]
        if isinstance(piece, End):
            self._next()
            return piece
        limit = max(1, int(self._rate * _THROTTLE_SECONDS)) if now < self._rate_until else _LARGEST_PIECE
        return piece[: min(limit, _LARGEST_PIECE)]

    def sent(self, count: int, now: float) -> None:
        """Take it that so many bytes of what `take` returned were sent."""
        not_before, piece = self._pieces[0]
        assert isinstance(piece, memoryview)
        if count < len(piece):
            self._pieces[0] = (not_before, piece[count:])
        else:
            self._next()
        self.size -= count
        if now < self._rate_until:
            self._free_at = max(now - _THROTTLE_SECONDS, self._free_at) + count / self._rate

    def wake(self) -> float | None:
        """When `take` has something; None: not before more is put, or never without `heal`."""
        if not self._pieces:
            return None
        due = self._pieces[0][0] if self._lit else max(self._pieces[0][0], self._dark_until)
        if self._free_at > due:
            due = min(self._free_at, max(due, self._rate_until))
        return due if due < math.inf else None

    def _next(self) -> None:
        self._pieces.popleft()
        self._lit = max(0, self._lit - 1)
