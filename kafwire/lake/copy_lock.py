"""The lock of a copy: one process at a time writes a folder. The kernel releases it when the process ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import gethostname

from kafwire.errors import KafkaError

LOCK_NAME = ".copier"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; raise `KafkaError` if another copier holds it."""
    path = folder / LOCK_NAME
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 300).decode(errors="replace").strip()
            raise KafkaError(f"another copier writes {folder} ({holder}): end it, or copy to another folder") from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {gethostname()}\n".encode())
        yield
    finally:
        os.close(descriptor)
