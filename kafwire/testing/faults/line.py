"""One direction of a proxied connection: the bytes in transit, and the time at which they may go on. Pure."""

import math
from collections import deque
from enum import Enum

__all__ = ["End", "Line"]

# A throttled line sends in pieces of its bytes for this time, and may catch up on a delay of the same length.
_THROTTLE_SECONDS = 0.02
_LARGEST_PIECE = 256 << 10


class End(Enum):
    """The end of a line: an orderly close, or a reset that overtakes the bytes in transit."""

    CLOSE = "close"
    RESET = "reset"


class Line:
    """The bytes in transit in one direction: in order, none before its time, none faster than allowed."""

    def __init__(self) -> None:
        self.size = 0
        self.ended = False
        self._pieces: deque[tuple[float, memoryview | End]] = deque()
        self._dark_until = -math.inf
        self._lit = 0  # this many pieces go on in spite of the black hole
        self._rate = math.inf
        self._rate_until = -math.inf
        self._free_at = -math.inf

    def put(self, data: bytes, not_before: float = -math.inf) -> None:
        """Send bytes after all others; ignored after the end."""
        if data and not self.ended:
            self._pieces.append((not_before, memoryview(data)))
            self.size += len(data)

    def end(self, how: End = End.CLOSE) -> None:
        """End the line after the bytes in transit."""
        if not self.ended:
            self.ended = True
            self._pieces.append((-math.inf, how))

    def drop(self, how: End | None = None) -> None:
        """End the line at once, and drop the bytes in transit; `how`: the end that the receiver sees, None for none."""
        self._pieces.clear()
        self.size = self._lit = 0
        self.ended = True
        self._dark_until = self._free_at = -math.inf
        if how is not None:
            self._pieces.append((-math.inf, how))

    def darken(self, now: float, until: float, *, behind: bool = False) -> None:
        """Block bytes and the end of the line until a time; `behind`: bytes in transit still pass."""
        if not behind:
            self._lit = 0
        elif self._dark_until <= now:  # otherwise the pieces before the first black hole are counted already
            self._lit = len(self._pieces)
        self._dark_until = until

    def throttle(self, bytes_per_second: float, until: float) -> None:
        """Let at most this many bytes a second through until a time."""
        self._rate, self._rate_until = bytes_per_second, until

    def heal(self) -> None:
        """End `darken` and `throttle`."""
        self._dark_until = self._rate_until = self._free_at = -math.inf

    def take(self, now: float) -> memoryview | End | None:
        """Return bytes that may be sent now (report them by `sent`), the end (once), or None for nothing yet."""
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
        """Note that this many of the bytes from `take` were sent."""
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
        """Return when `take` has something; None: not before more is put, or never without `heal`."""
        if not self._pieces:
            return None
        due = self._pieces[0][0] if self._lit else max(self._pieces[0][0], self._dark_until)
        if self._free_at > due:
            due = min(self._free_at, max(due, self._rate_until))
        return due if due < math.inf else None

    def _next(self) -> None:
        self._pieces.popleft()
        self._lit = max(0, self._lit - 1)
