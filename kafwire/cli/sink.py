"""Standard output as a place for bytes: written as they come, and watched while nothing comes."""

import select
import sys
from contextlib import suppress
from io import UnsupportedOperation

__all__ = ["Sink"]


class Sink:
    """Writes to standard output. Whoever reads it is told by BrokenPipeError to have gone, also without a write."""

    def __init__(self) -> None:
        self._stream = sys.stdout.buffer
        self._poll: select.poll | None = None
        with suppress(UnsupportedOperation, OSError, ValueError):  # no descriptor: a test's
            descriptor = sys.stdout.fileno()
            self._poll = select.poll()
            self._poll.register(descriptor, 0)  # errors are told without being asked for

    def write(self, data: bytes) -> None:
        """Write what may stay in the buffer until `flush`."""
        self._stream.write(data)

    def flush(self) -> None:
        """Hand over what is written so far."""
        self._stream.flush()

    def check(self) -> None:
        """Raise BrokenPipeError if nobody can read what would be written now, as after `| head -1`."""
        if self._poll is not None and any(events & select.POLLERR for _, events in self._poll.poll(0)):
            raise BrokenPipeError
