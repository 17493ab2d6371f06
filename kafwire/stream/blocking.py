"""Blocking runs of streams: a thread that runs the loop, and signals that stop it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from types import FrameType
from typing import Any, TypeVar

from kafwire.stream.stop_request import StopRequest

_T = TypeVar("_T")


def run_in_thread(function: Callable[[], Coroutine[Any, Any, _T]], stop: StopRequest) -> _T:
    """Run a coroutine on a new loop in a new thread, and wait for its outcome.

    If the waiting caller is interrupted, the stream is asked to stop and the caller leaves; the thread ends with the
    stream.
    """
    outcome: Future[_T] = Future()

    def work() -> None:
        try:
            outcome.set_result(asyncio.run(function()))
        except BaseException as error:  # noqa: BLE001  # the waiting caller raises it
            outcome.set_exception(error)

    thread = threading.Thread(target=work, name="kafwire-stream", daemon=True)
    thread.start()
    try:
        result = outcome.result()
    except BaseException:
        stop.request()
        raise
    thread.join()
    return result


@contextlib.contextmanager
def signals_stop(stop: StopRequest, signals: Sequence[int]) -> Iterator[None]:
    """Within the block, a first signal requests a stop, a second has its former effect. In the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Any] = {}

    def restore() -> None:
        while before:
            number, handler = before.popitem()
            signal.signal(number, handler)

    def on_signal(number: int, frame: FrameType | None) -> None:
        del number, frame
        restore()
        stop.request()

    try:
        for number in signals:
            before[number] = signal.signal(number, on_signal)
        yield
    finally:
        restore()
