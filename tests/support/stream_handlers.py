"""Handlers for streams in other processes, which import them by their names."""

from __future__ import annotations

import os
import signal
import threading

from kafwire.records import Record


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
