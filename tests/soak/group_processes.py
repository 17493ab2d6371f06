"""The members of a group as processes, from the side that starts, stops and kills them, and reads their journals."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.soak.group_judgement import GroupProgress

_END_S = 60.0


class MemberProcess:
    """One member. A killed one is started again under its name, with the same journal."""

    MODULE = "tests.soak.group_member"

    def __init__(self, spec: dict[str, Any], folder: Path) -> None:
        self.name = spec["name"]
        self.is_in = False
        self.is_paused = False
        self._journal = folder / f"{self.name}.journal"
        self._journal.touch()
        self._file = folder / f"{self.name}.json"
        self._file.write_text(json.dumps(spec | {"journal": str(self._journal)}, indent=1))
        self._errors = folder / f"{self.name}.stderr"
        self._at = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def runs(self) -> bool:
        """True if there is a process."""
        return self._process is not None

    def join(self) -> None:
        """Be a member, in a new process if there is none."""
        if self._process is None:
            with self._errors.open("ab") as errors:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", self.MODULE, str(self._file)],
                    stdin=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                )
        self._say("join")
        self.is_in = True

    def leave(self) -> None:
        """Leave the group in order; the process stays."""
        self._say("leave")
        self.is_in = False

    def kill(self) -> None:
        """SIGKILL: the coordinator finds out by itself."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._close()
        self._process = None
        self.is_in = self.is_paused = False

    def pause(self) -> None:
        """SIGSTOP."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        """SIGCONT, if it is paused."""
        if self._process is not None and self.is_paused:
            self._process.send_signal(signal.SIGCONT)
            self.is_paused = False

    def where(self) -> str:
        """The stacks of the process's threads, which it writes on a signal, and its last other lines of stderr."""
        if self._process is not None:
            self._process.send_signal(signal.SIGUSR1)
            time.sleep(1.0)
        return "\n".join(self._errors.read_text(errors="replace").splitlines()[-80:])

    def check(self) -> None:
        """Raise `RuntimeError` if it ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise RuntimeError(f"{self.name} ended with {self._process.returncode}\n{self.where()}")

    def look(self, progress: GroupProgress) -> None:
        """Take in what it wrote since."""
        with self._journal.open("rb") as file:
            file.seek(self._at)
            data = file.read()
        end = data.rfind(b"\n") + 1
        self._at += end
        for line in data[:end].decode().splitlines():
            progress.take(line)

    def close(self) -> None:
        """End it: in order if it does. Raises `RuntimeError` if it does not leave."""
        process = self._process
        if process is None:
            return
        self.resume()
        if self.is_in:
            self._say("leave")
            self.is_in = False
        self._close()
        self._process = None
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGUSR1)  # it writes down where its threads are
            time.sleep(1.0)
            process.kill()
            process.wait()
            raise RuntimeError(f"{self.name} did not leave within {_END_S:g} s") from None

    def _close(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def _say(self, line: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
