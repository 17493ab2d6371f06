"""A driver of the demo's stream as a process: its batches are collected, and it can be killed with all it started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

MODULE = ("-m", "demo.pipeline")
ENDS_S = 120.0


@dataclass(frozen=True, slots=True)
class Batch:
    """A committed batch; `at` is the end of it, in seconds since the epoch."""

    batch: int
    rows: int
    seconds: float
    at: float

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0


class Driver:
    """A running driver, as a context manager: its end kills the driver if it runs."""

    def __init__(self, arguments: Sequence[str], log: Path, program: Sequence[str] = MODULE) -> None:
        """Start it; what it prints to standard error goes to `log`."""
        self.batches: list[Batch] = []
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, *program, *arguments],
                cwd=Path(__file__).parents[1],
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # a kill of the group reaches the JVM
                text=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.batches.append(Batch(**json.loads(line)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_running:
            self.kill()
        self._reader.join(ENDS_S)  # the pipe ends with the driver's workers, which see the end of their JVM

    @property
    def is_running(self) -> bool:
        """True until the driver ends."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill the driver and its JVM with SIGKILL."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(ENDS_S)

    def finish(self) -> None:
        """Wait for the driver's end; `SystemExit` with the end of its log if it fails."""
        code = self._process.wait(ENDS_S)
        self._reader.join(ENDS_S)
        if code:
            raise self.failure(f"the driver ended with exit code {code}")

    def failure(self, what: str) -> SystemExit:
        """Return the error: `what`, and the end of the driver's log."""
        return SystemExit(f"{what}:\n{self._log.read_text()[-4000:]}")
