"""SIGINT and SIGTERM, for commands that have something to bring to an end."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["held", "orderly_end"]


class _Held:
    """The state of `held`: `number` is the last signal that waits."""

    is_active = False
    number: int | None = None


@contextmanager
def orderly_end() -> Iterator[None]:
    """Let SIGTERM end the command as Ctrl-C does: it finishes first what it began."""
    if threading.current_thread() is not threading.main_thread():  # which alone may have handlers
        yield
        return
    numbers = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        numbers.append(signal.SIGINT)
    before = {number: signal.signal(number, _on_signal) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def held() -> Iterator[None]:
    """Let a signal of `orderly_end` take effect at the end of this block only. Nothing in the block may wait."""
    _Held.is_active = True
    try:
        yield
    finally:
        _Held.is_active = False
        number, _Held.number = _Held.number, None
        if number is not None:
            _end(number)


def _on_signal(number: int, _frame: FrameType | None) -> None:
    if _Held.is_active:
        _Held.number = number
    else:
        _end(number)


def _end(number: int) -> None:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)
