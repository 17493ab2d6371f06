"""A thread that computes beside a test."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.deadlines import ended, happened


@contextmanager
def computing() -> Iterator[None]:
    """During the block another thread computes, which gives up the GIL only when it is asked to."""
    stop = threading.Event()
    began = threading.Event()

    def compute() -> None:
        value = 1
        while not stop.is_set():
            for number in range(10_000):
                value = (value * 31 + number) & 0xFFFF
            began.set()

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        happened(began)
        yield
    finally:
        stop.set()
        ended(thread)
