"""The end of a cluster's nodes with their parent: a small process on a pipe kills them when the parent has ended."""

import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import os, shutil, signal, sys
groups, folder = set(), None
for line in sys.stdin:
    word, value = line.split(maxsplit=1)
    if word == "started":
        groups.add(int(value))
    elif word == "ended":
        groups.discard(int(value))
    else:
        folder = value.rstrip("\\n")
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
if folder:
    shutil.rmtree(folder, ignore_errors=True)
"""


class Guard:
    """Kills process groups that were started and did not end, and removes `folder`, after this process has ended."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM], stdin=subprocess.PIPE, text=True, start_new_session=True
        )
        self._tell(f"folder {folder}")

    def started(self, group: int) -> None:
        """Note that a process group started."""
        self._tell(f"started {group}")

    def ended(self, group: int) -> None:
        """Note that a process group ended."""
        self._tell(f"ended {group}")

    def close(self) -> None:
        """Let the guard kill the groups and remove the folder now."""
        if self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()

    def _tell(self, line: str) -> None:
        if self._process.stdin is not None:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
