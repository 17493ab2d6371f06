"""The processes of a segment's workloads, from the side of the process that started them."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from soak.matrix import CONTROL, Workload

_END_S = 150.0


class Broken(RuntimeError):
    """A process of kafwire's workloads ended by itself, or does not end."""


class ControlBroken(RuntimeError):
    """The same of the control's: nothing that kafwire has done."""


class Process:
    """One process; `folder` gets its specification, its history and what it prints."""

    def __init__(
        self, name: str, workloads: tuple[Workload, ...], folder: Path, bootstrap: str, seed: int, mistake: str | None
    ) -> None:
        self.name = name
        self.history = folder / f"{name}.history"
        self.counts: dict[str, dict[str, int]] = {}
        self.crashes: list[str] = []
        self.recovered: dict[int, dict[str, float]] = {}
        self.done: dict[str, Any] | None = None
        spec = {
            "bootstrap": bootstrap,
            "seed": seed,
            "history": str(self.history),
            "mistake": mistake,
            "workloads": [one.as_json() for one in workloads],
        }
        file = folder / f"{name}.json"
        file.write_text(json.dumps(spec, indent=1))
        self._errors = folder / f"{name}.stderr"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "soak.worker", str(file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def mark(self, number: int) -> None:
        """Ask to be told when all that is under way now is settled."""
        self._say(f"mark {number}")

    def stop(self) -> None:
        """Ask it to send nothing more and to end."""
        self._say("stop")

    def check(self) -> None:
        """Raise `Broken` if it has ended by itself, or one of its workloads has."""
        if self.done is None and self._process.poll() is not None:
            self._reader.join(5)
            if self.done is None:
                raise self._broken(f"ended with {self._process.returncode}")
        if self.crashes:
            raise self._broken("has a workload that ended by itself: " + "\n".join(self.crashes))

    def join(self) -> None:
        """Wait until it has ended. Raises `Broken` if it does not, or not well."""
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGUSR1)  # it writes down where its threads are
            time.sleep(1)
            raise self._broken(f"did not end within {_END_S:g} s of being told to") from None
        self._reader.join(5)
        self.check()

    def kill(self) -> None:
        """End it now, if it has not ended."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def errors(self) -> str:
        """The end of what it wrote to stderr."""
        return "\n".join(self._errors.read_text(errors="replace").splitlines()[-200:])

    def totals(self) -> Counter[str]:
        """The counts of all its workloads."""
        total: Counter[str] = Counter()
        for counts in self.counts.values():
            total.update(counts)
        return total

    def _broken(self, what: str) -> Broken | ControlBroken:
        kind = ControlBroken if self.name == CONTROL else Broken
        return kind(f"{self.name} {what}\n{self.errors()}")

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "counts" in told:
                self.counts, self.crashes = told["counts"], told["crashes"]
            elif "recovered" in told:
                self.recovered[told["recovered"]] = told["after"]
            else:
                self.done = told
