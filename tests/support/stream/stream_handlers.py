"""Handlers for streams in other processes, which import them by their names."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from kafwire.records import Record
from tests.support.deadlines import until


def process_and_value(record: Record) -> tuple[int, bytes]:
    """Where it ran, and what it got."""
    return os.getpid(), record.value


def hang_at_one(record: Record) -> bytes:
    """Hangs for the value 1."""
    if record.value == b"1":
        threading.Event().wait(600)
    return bytes(record.value)


def die_at_one(record: Record) -> bytes:
    """Kills its process for the value 1."""
    if record.value == b"1":
        os.kill(os.getpid(), signal.SIGKILL)
    return bytes(record.value)


def raise_at_one(record: Record) -> bytes:
    """Raises for the value 1."""
    if record.value == b"1":
        raise ValueError("no")
    return bytes(record.value)


class UnreadableError(Exception):
    """Its `__init__` takes other arguments than its pickle has."""

    def __init__(self, left: str, right: str) -> None:
        super().__init__(f"{left} and {right}")


def raise_unreadable_at_one(record: Record) -> bytes:
    """Raises for the value 1 what another process could not read."""
    if record.value == b"1":
        raise UnreadableError("one", "other")
    return bytes(record.value)


def interrupt_itself(record: Record) -> bytes:
    """Gets the signals that stop a stream."""
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(os.getpid(), number)
    return bytes(record.value)


def say_and_hang(record: Record) -> None:
    """Says that it hangs, and does."""
    print("hanging", flush=True)
    threading.Event().wait(600)


def wait_for_file(record: Record) -> bytes:
    """Says that it has begun, waits for a file, and fails unless it is called for `bills`."""
    begun, released = (Path(name) for name in record.value.decode().split())
    begun.touch()
    until(released.exists, "the test has gone on")
    if record.topic == "bills":
        return b"bills"
    raise ValueError("no")
