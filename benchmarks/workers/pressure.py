"""A user who goes on sending while the broker stands still; what was taken is delivered once it goes on."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.workers.common import Options

HELD_SECONDS = "4"


@contextmanager
def stopped(options: Options) -> Iterator[None]:
    """The broker gets no processor time during the block (SIGSTOP to `broker_pid`)."""
    pid = options.number("broker_pid")
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def keep_sending(options: Options, send: Callable[[], int]) -> tuple[int, int]:
    """Call `send`, which answers how many records it got rid of, while the broker stands still (`held_seconds`).

    Answers how many records were taken, and how many calls got rid of none.
    """
    taken = refused = 0
    with stopped(options):
        until = time.monotonic() + float(options.given.get("held_seconds", HELD_SECONDS))
        while time.monotonic() < until:
            count = send()
            taken += count
            refused += not count
    return taken, refused
