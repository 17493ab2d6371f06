"""SIGTERM, for commands that have something to bring to an end."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["orderly_end"]


@contextmanager
def orderly_end() -> Iterator[None]:
    """Let SIGTERM end this as Ctrl-C does: what is begun is finished first."""

    def end(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    if threading.current_thread() is not threading.main_thread():  # which alone may have handlers
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
