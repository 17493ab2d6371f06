"""`python -m soak.worker SPEC`: the workloads of one process, which writes one history.

Lines come in: "mark N" asks to be told when all that is under way now is settled and something sent since was
acknowledged; "stop" ends it in order. JSON objects go out, one a line: {"counts", "crashes"}, twice a second and at
the end; {"recovered": N, "after": {workload: seconds}}; {"done": ...}. Without its parent it ends at once.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from kafwire.testing.history import History
from soak import control, idempotent, matrix, transactions
from soak.matrix import CONTROL, KAFWIRE, Workload
from soak.mistakes import PRODUCERS, TRANSACTIONAL
from soak.runner import Runner

_TELL_S = 0.5
_LOOK_S = 0.05

RUNNERS: dict[tuple[str, str], type[Runner]] = {
    (KAFWIRE, matrix.SEND): idempotent.Sender,
    (KAFWIRE, matrix.WAIT): idempotent.Sender,
    (KAFWIRE, matrix.BATCH): idempotent.BatchSender,
    (KAFWIRE, matrix.TRANSACTIONS): transactions.Transactions,
    (KAFWIRE, matrix.TRANSFORM): transactions.Transform,
    (CONTROL, matrix.SEND): control.Sender,
    (CONTROL, matrix.TRANSACTIONS): control.Transactions,
}


class Mark:
    """What was under way at a moment, by runner."""

    def __init__(self, number: int, runners: list[Runner]) -> None:
        self.number = number
        self.at = time.monotonic()
        self.after: dict[str, float] = {}
        self._left = {runner: runner.started for runner in runners}

    def reached(self) -> bool:
        """Whether all of it is settled, and something was acknowledged since to each."""
        for runner, started in list(self._left.items()):
            if (runner.settled >= started and runner.last_success > self.at) or not runner.running:
                del self._left[runner]
                self.after[runner.workload.name] = round(time.monotonic() - self.at, 3)
        return not self._left


class Worker:
    """The process."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._history = History(spec["history"])
        workloads = [Workload.from_json(known) for known in spec["workloads"]]
        self._runners = [
            RUNNERS[one.client, one.kind](one, self._history, spec["bootstrap"], spec["seed"]) for one in workloads
        ]
        for runner in self._runners:
            if spec["mistake"] in PRODUCERS and isinstance(runner, idempotent.Sender):
                runner.make = PRODUCERS[spec["mistake"]]
            elif spec["mistake"] in TRANSACTIONAL and isinstance(runner, transactions.Transactions):
                runner.make = TRANSACTIONAL[spec["mistake"]]
        self._marks: list[Mark] = []
        self._lock = threading.Lock()

    def run(self) -> None:
        """Work until told to stop and all is settled."""
        threading.Thread(target=self._listen, daemon=True).start()
        for runner in self._runners:
            runner.start()
        told = 0.0
        while any(runner.running for runner in self._runners):
            time.sleep(_LOOK_S)
            with self._lock:
                for mark in [mark for mark in self._marks if mark.reached()]:
                    self._marks.remove(mark)
                    self._tell(recovered=mark.number, after=mark.after)
            if time.monotonic() - told > _TELL_S:
                told = time.monotonic()
                self._tell_counts()
                self._history.flush()
        self._history.close()
        self._tell_counts()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        self._tell(done=True, peak_mib=usage.ru_maxrss / 1024, cpu=usage.ru_utime + usage.ru_stime)

    def _tell_counts(self) -> None:
        self._tell(
            counts={runner.workload.name: dict(runner.counts) for runner in self._runners},
            crashes=[runner.crash for runner in self._runners if runner.crash],
        )

    def _listen(self) -> None:
        for line in sys.stdin:
            word, *rest = line.split()
            if word == "stop":
                for runner in self._runners:
                    runner.stop()
            else:
                with self._lock:
                    self._marks.append(Mark(int(rest[0]), self._runners))
        os._exit(3)

    def _tell(self, **what: Any) -> None:
        print(json.dumps(what), flush=True)


def main() -> None:
    """Run the workloads of the file that is named."""
    faulthandler.register(signal.SIGUSR1)
    Worker(json.loads(Path(sys.argv[1]).read_text())).run()


if __name__ == "__main__":
    main()
