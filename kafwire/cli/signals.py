"""SIGINT and SIGTERM, for commands that must finish something first."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["held", "orderly_end"]


class _Held:
    """The state of `held`: `number` is the last deferred signal."""

    is_active = False
    number: int | None = None


@contextmanager
def orderly_end() -> Iterator[None]:
    """Let SIGTERM end the command like Ctrl-C, so that it finishes its work first."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set signal handlers
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
    """Defer signals of `orderly_end` to the end of this block. Nothing in the block may wait."""
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
