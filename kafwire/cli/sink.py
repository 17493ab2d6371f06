"""Standard output as a place for bytes: written as they come, and watched while nothing comes."""

import os
import select
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from io import UnsupportedOperation
from typing import TextIO

from kafwire.cli.signals import held

__all__ = ["Sink"]


class Sink:
    """Writes to standard output. `check` raises BrokenPipeError, as a write does, if the reader has gone."""

    def __init__(self, out: TextIO | None = None) -> None:
        out = out or sys.stdout
        self._stream = out.buffer
        self._descriptor: int | None = None
        with suppress(UnsupportedOperation, OSError, ValueError):  # no descriptor: a test's
            self._descriptor = out.fileno()
            self._errors, self._room = select.poll(), select.poll()
            self._errors.register(self._descriptor, 0)  # poll reports errors without being asked for them
            self._room.register(self._descriptor, select.POLLOUT)

    def write(self, texts: Iterable[bytes], written: Callable[[], object] | None = None) -> None:
        """Write these, and call `written` if all of them are written. A signal of `orderly_end` never comes between."""
        if written is None or self._descriptor is None:
            for text in texts:
                self._stream.write(text)
            self._stream.flush()
            if written is not None:
                written()
            return
        last = b""
        for text in texts:
            self._stream.write(last)
            last = text
        # A pipe that has room takes PIPE_BUF bytes without waiting.
        self._stream.write(last[: -select.PIPE_BUF])
        self._stream.flush()
        self._room.poll()
        with held():
            left = last[-select.PIPE_BUF :]
            while left:
                left = left[os.write(self._descriptor, left) :]
            written()

    def check(self) -> None:
        """Raise BrokenPipeError if nothing can read what would be written now, as after `| head -1`."""
        if self._descriptor is not None and any(events & select.POLLERR for _, events in self._errors.poll(0)):
            raise BrokenPipeError
