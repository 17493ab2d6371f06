"""How much memory a process has, and what for: `Watcher` writes it down each time that it has grown by much."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_MIB = 1 << 20
_FIRST_MIB = 250.0
_STEP_MIB = 100.0
_TYPES = 15
_ARENA_MAX = -8  # of glibc's mallopt


def resident_mib(pid: int | str = "self") -> float:
    """Resident now, in MiB; 0 where the system has no figure or the process is gone."""
    try:
        return round(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / _MIB, 1)
    except (OSError, IndexError, ValueError):
        return 0.0


def peak_mib() -> float:
    """The most that this process ever had resident, in MiB.

    Not `ru_maxrss`: that begins with what the process had that started it, however large that one was.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return next((round(int(line.split()[1]) / 1024, 1) for line in lines if line.startswith("VmHWM:")), 0.0)


def few_arenas(count: int = 2) -> bool:
    """Let malloc have so many arenas, where it is glibc's; whether it is. To be called before there are other threads.

    It has eight for each processor, and each keeps what it once had. A process that reads with several clients, one
    after the other and each with threads of its own, ends with all of them full of free memory.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_ARENA_MAX, count))


class Watcher:
    """Writes into a file what the memory is used for, at 250 MiB and each time that 100 more are resident."""

    def __init__(self, file: Path, more: Callable[[], dict[str, object]] = dict) -> None:
        self._file = file
        self._more = more
        self._next_mib = _FIRST_MIB
        self._began = time.monotonic()

    def look(self) -> float:
        """The resident memory, in MiB."""
        mib = resident_mib()
        if mib >= self._next_mib:
            self._next_mib = mib + _STEP_MIB
            self.write(mib)
        return mib

    def write(self, mib: float) -> None:
        """Write down what there is."""
        lines = [f"{time.monotonic() - self._began:.1f} s: {mib:.1f} MiB resident"]
        lines += [f"  {name}: {value}" for name, value in (_malloc() | _mappings() | self._more()).items()]
        with self._file.open("a") as out:
            out.write("\n".join([*lines, f"  objects: {_objects()}", ""]))


class _Mallinfo(ctypes.Structure):
    # glibc's mallinfo2: bytes in arenas, free chunks, and so on.
    _names = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    _fields_ = [(name, ctypes.c_size_t) for name in _names]


def _malloc() -> dict[str, object]:
    """The memory that malloc has from the system, and how much of that is free; nothing where it is not glibc's."""
    try:
        mallinfo = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):
        return {}
    mallinfo.restype = _Mallinfo
    figures = mallinfo()
    return {
        "malloc, used MiB": round((figures.uordblks + figures.hblkhd) / _MIB, 1),
        "malloc, of these mapped MiB": round(figures.hblkhd / _MIB, 1),
        "malloc, free and kept MiB": round(figures.fordblks / _MIB, 1),
        "Python's blocks": sys.getallocatedblocks(),
    }


def _mappings() -> dict[str, object]:
    """Resident MiB by the mapped file; the largest ones."""
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    name = ""
    try:
        lines = Path("/proc/self/smaps").read_text().splitlines()
    except OSError:
        return {}
    for line in lines:
        fields = line.split()
        if "-" in fields[0] and not fields[0].endswith(":"):
            name = fields[5] if len(fields) > 5 else "anonymous"
            counts[name] += 1
        elif fields[0] == "Rss:":
            sizes[name] += int(fields[1])
    return {f"resident MiB of {of} ({counts[of]})": round(kib / 1024, 1) for of, kib in sizes.most_common(5)}


def _objects() -> str:
    kinds = Counter(type(one).__name__ for one in gc.get_objects())
    return ", ".join(f"{name} {count}" for name, count in kinds.most_common(_TYPES))
