"""Standard output for bytes: written as they arrive, and checked for a reader while none arrive."""

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
    """Writes to standard output. `check` raises BrokenPipeError, as a write does, if the reader is gone."""

    def __init__(self, out: TextIO | None = None) -> None:
        out = out or sys.stdout
        self._stream = out.buffer
        self._descriptor: int | None = None
        with suppress(UnsupportedOperation, OSError, ValueError):  # without a descriptor, as in tests
            self._descriptor = out.fileno()
            self._errors, self._room = select.poll(), select.poll()
            self._errors.register(self._descriptor, 0)  # poll always reports errors
            self._room.register(self._descriptor, select.POLLOUT)

    def write(self, texts: Iterable[bytes], written: Callable[[], object] | None = None) -> None:
        """Write the texts, then call `written`; a signal of `orderly_end` never comes between the two."""
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
        # A pipe with room takes PIPE_BUF bytes without blocking.
        self._stream.write(last[: -select.PIPE_BUF])
        self._stream.flush()
        self._room.poll()
        with held():
            left = last[-select.PIPE_BUF :]
            while left:
                left = left[os.write(self._descriptor, left) :]
            written()

    def check(self) -> None:
        """Raise BrokenPipeError if the output has no reader any more, as after `| head -1`."""
        if self._descriptor is not None and any(events & select.POLLERR for _, events in self._errors.poll(0)):
            raise BrokenPipeError
