"""Which process a connection on this machine comes from, by its port, as Linux's /proc tells."""

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["pid_of", "source_of"]

_PROC = Path("/proc")
_TABLES = ("net/tcp", "net/tcp6")


def source_of(port: int, pids: Mapping[int, int]) -> int | None:
    """The key of the process id, of `pids`, that has a connection from this port; None if none of them has."""
    pid = pid_of(port, pids.values())
    return next((name for name, known in pids.items() if known == pid), None) if pid is not None else None


def pid_of(port: int, pids: Iterable[int]) -> int | None:
    """Which of these processes has a connected socket at this port of this machine; None if none of them has."""
    inodes = set(_inodes(port))
    if not inodes:
        return None
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            for name in os.listdir(_PROC / str(pid) / "fd"):  # noqa: PTH208 - of many small links
                with contextlib.suppress(OSError):  # it was closed
                    if os.readlink(f"{_PROC}/{pid}/fd/{name}") in inodes:  # noqa: PTH115 - the same
                        return pid
    return None


def _inodes(port: int) -> list[str]:
    """The links that descriptors of the sockets have whose own port it is, and that are connected to another."""
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
