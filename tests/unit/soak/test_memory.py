"""The memory figures of a process of the soak."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak import memory
from tests.soak.memory import Watcher, peak_mib, resident_mib


def test_resident_memory_is_measured() -> None:
    assert 5 < resident_mib() <= peak_mib() + 1
    assert resident_mib(2**22 + 1) == 0.0  # no process has that number


def test_the_peak_is_that_of_this_process_and_not_of_the_one_that_started_it() -> None:
    child = "from tests.soak.memory import peak_mib; print(peak_mib())"
    parent = f"""
import subprocess, sys
held = bytearray(200 << 20)
held[::4096] = b"x" * len(held[::4096])
del held
print(subprocess.run([sys.executable, "-c", {child!r}], capture_output=True, text=True, check=True).stdout)
"""
    reported = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True, check=True)
    assert 5 < float(reported.stdout) < 100


def test_it_is_written_down_each_time_that_it_has_grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "memory.txt"
    watcher = Watcher(file, lambda: {"under way": 7})
    now = 0.0
    monkeypatch.setattr(memory, "resident_mib", lambda: now)
    for now, reported in ((249.0, 0), (250.0, 1), (349.0, 1), (350.0, 2), (300.0, 2), (449.0, 2), (700.0, 3)):
        assert watcher.look() == now
        text = file.read_text() if file.exists() else ""
        assert text.count("MiB resident") == text.count("under way: 7") == text.count("objects: ") == reported
    assert "Python's blocks" in text
    assert "resident MiB of" in text


def test_many_threads_have_few_arenas() -> None:
    """Each thread that allocates at the same time as others would have one of its own."""
    child = """
import ctypes, os, sys, threading
from tests.soak import memory
if sys.argv[1:]:
    assert memory.few_arenas(int(sys.argv[1]))
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
barrier = threading.Barrier(12)
found = []
def allocate():
    barrier.wait(30)
    found.append(libc.malloc(1000) >> 26)  # arenas begin at multiples of 64 MiB
    barrier.wait(30)
threads = [threading.Thread(target=allocate) for _ in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(set(found)))
"""
    if platform.libc_ver()[0] != "glibc":
        assert not memory.few_arenas()
        return
    counts = [
        int(subprocess.run([sys.executable, "-c", child, *given], capture_output=True, text=True, check=True).stdout)
        for given in ([], ["2"])
    ]
    assert counts[0] > 2 >= counts[1]
