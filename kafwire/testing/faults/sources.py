"""The process at the other end of a local connection, by its port, from Linux's /proc."""

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["pid_of", "source_of"]

_PROC = Path("/proc")
_TABLES = ("net/tcp", "net/tcp6")


def source_of(port: int, pids: Mapping[int, int]) -> int | None:
    """Return the key in `pids` of the process that has a connection from this port; None if there is none."""
    pid = pid_of(port, pids.values())
    return next((name for name, known in pids.items() if known == pid), None) if pid is not None else None


def pid_of(port: int, pids: Iterable[int]) -> int | None:
    """Return the process among these that has a connected socket at this local port; None if there is none."""
    inodes = set(_inodes(port))
    if not inodes:
        return None
    for pid in pids:
        with contextlib.suppress(OSError):  # the process has ended
            for name in os.listdir(_PROC / str(pid) / "fd"):  # noqa: PTH208 - faster for many small links
                with contextlib.suppress(OSError):  # the descriptor was closed
                    if os.readlink(f"{_PROC}/{pid}/fd/{name}") in inodes:  # noqa: PTH115 - the same
                        return pid
    return None


def _inodes(port: int) -> list[str]:
    """Return the descriptor links of all connected sockets with this local port."""
    wanted = f":{port:04X}"
    nobody = ":0000"
    found = []
    for table in _TABLES:
        with contextlib.suppress(OSError):
            for line in (_PROC / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[1].endswith(wanted) and not fields[2].endswith(nobody):
                    found.append(f"socket:[{fields[9]}]")
    return found
