"""A program that goes on sending while the broker stands still; the accepted records are delivered once it goes on."""

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
    """Call `send`, which returns how many records the client accepted, while the broker stands still (`held_seconds`).

    Returns how many records were accepted, and how many calls got rid of none.
    """
    taken = refused = 0
    with stopped(options):
        until = time.monotonic() + float(options.given.get("held_seconds", HELD_SECONDS))
        while time.monotonic() < until:
            count = send()
            taken += count
            refused += not count
    return taken, refused
