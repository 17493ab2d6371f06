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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafwire.broker.security.certificates import write_private
from tests.soak.matrix import CONTROL, KAFWIRE, Hop, Reading, Workload
from tests.soak.readers import Ends, text_of

_END_S = 150.0


class Broken(RuntimeError):
    """A process of kafwire's workloads ended by itself, or does not end."""


class ControlBroken(RuntimeError):
    """The same of the control's: nothing that kafwire has done."""


class Process:
    """One process; `folder` gets its specification, its history and what it prints.

    `access` is how clients come to the cluster (`soak.access`): a file that only its owner may read has it, not the
    command line.
    """

    def __init__(
        self,
        name: str,
        workloads: tuple[Workload, ...],
        folder: Path,
        access: Mapping[str, Mapping[str, str]],
        seed: int,
        mistake: str | None,
        readings: tuple[Reading, ...] = (),
    ) -> None:
        self.name = name
        self.history = folder / f"{name}.history"
        self.counts: dict[str, dict[str, int]] = {}
        self.crashes: list[str] = []
        self.recovered: dict[int, dict[str, float]] = {}
        self.done: dict[str, Any] | None = None
        self.reads = bool(readings)
        self.began = time.monotonic()
        # (seconds since the start, MiB), twice a second.
        self.memory: list[tuple[float, float]] = []
        spec = {
            "access": access,
            "seed": seed,
            "history": str(self.history),
            "mistake": mistake,
            "workloads": [one.as_json() for one in workloads],
            "readings": [one.as_json() for one in readings],
        }
        self._begin("tests.soak.worker", spec, folder)

    def _begin(self, program: str, spec: dict[str, Any], folder: Path) -> None:
        self._program = program
        self._file = folder / f"{self.name}.json"
        write_private(self._file, json.dumps(spec, indent=1).encode())
        self._errors = folder / f"{self.name}.stderr"
        self._start()

    def _start(self) -> None:
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._program, str(self._file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    def mark(self, number: int) -> None:
        """Ask for a line when all that is under way now is settled."""
        self._say(f"mark {number}")

    def reach(self, number: int, ends: Ends) -> None:
        """Ask for a line when its readers have come to these ends."""
        self._say(f"reach {number} {text_of(ends)}")

    def stop(self) -> None:
        """Ask it to send nothing more and to end."""
        self._say("stop")

    def finish(self, ends: Ends) -> None:
        """Ask its readers to read to these ends, and to end."""
        self._say(f"finish {text_of(ends)}")

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
            raise self._broken(f"did not end within {_END_S:g} s of its stop") from None
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

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            try:
                reported = json.loads(line)
            except ValueError:  # it was killed in the middle of a line
                continue
            if "counts" in reported:
                self.counts, self.crashes = reported["counts"], reported["crashes"]
                self.memory.append((time.monotonic() - self.began, reported["mib"]))
            elif "recovered" in reported:
                self.recovered[reported["recovered"]] = reported["after"]
            else:
                self.done = reported


class HopProcess(Process):
    """A hop of a chain: it may be killed and paused, and does not settle anything but what it passes on."""

    def __init__(self, hop: Hop, folder: Path, access: Mapping[str, Mapping[str, str]], mistake: str | None) -> None:
        self.name = hop.identity
        self.hop = hop
        self.reads = True
        self.counts = {}
        self.crashes = []
        self.recovered = {}
        self.done = None
        self.began = time.monotonic()
        self.memory = []
        self.kills = self.pauses = 0
        self._before: Counter[str] = Counter()
        self._resume_at: float | None = None
        spec = {
            "access": access[KAFWIRE],
            "identity": hop.identity,
            "source": hop.source.name,
            "target": hop.target.name,
            "partitions": hop.source.partitions,
            "producer": hop.producer,
            "consumer": hop.consumer,
            "mistake": mistake,
        }
        self._begin("tests.soak.hop", spec, folder)

    def totals(self) -> Counter[str]:
        """The counts of all its lives, as far as it reported them."""
        return self._before + super().totals()

    def kill_and_start(self) -> None:
        """SIGKILL, and another one in its place."""
        self.kills += 1
        self._resume_at = None
        self.kill()
        self._before += super().totals()
        self.counts = {}
        self._start()

    def pause(self, seconds: float) -> None:
        """SIGSTOP; `look` lets it go on when it is time."""
        self.pauses += 1
        self._process.send_signal(signal.SIGSTOP)
        self._resume_at = time.monotonic() + seconds

    def look(self, *, resume: bool = False) -> None:
        """Let it go on if it was paused for long enough, or if it is to."""
        if self._resume_at is not None and (resume or time.monotonic() >= self._resume_at):
            self._resume_at = None
            self._process.send_signal(signal.SIGCONT)
