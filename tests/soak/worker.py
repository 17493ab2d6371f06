"""`python -m tests.soak.worker SPEC`: the workloads of one process, which writes one history.

Lines come in: "mark N" asks for a line when all that is under way now is settled and something sent since was
acknowledged; "reach N ENDS" when the readers have come to these ends; "stop" ends it in order, readers when they have
come to the ends of "finish ENDS". JSON objects go out, one a line: {"counts", "crashes", "mib"}, twice a second and at
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

import pyarrow as pa

import kafwire
from kafwire.testing.history import History
from tests.soak import control, idempotent, matrix, memory, transactions
from tests.soak.access import Access
from tests.soak.matrix import CONTROL, KAFWIRE, Reading, Workload
from tests.soak.mistakes import PRODUCERS, READERS, TRANSACTIONAL
from tests.soak.readers import Ends, Reader, ends_of
from tests.soak.runner import Runner

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
    """The open steps at a moment, by runner."""

    def __init__(self, number: int, runners: list[Runner]) -> None:
        self.number = number
        self.at = time.monotonic()
        self.after: dict[str, float] = {}
        self._left = {runner: runner.started for runner in runners}

    def reached(self) -> bool:
        """True if all of it is settled, and something was acknowledged since to each."""
        for runner, started in list(self._left.items()):
            if (runner.settled >= started and runner.last_success > self.at) or not runner.running:
                del self._left[runner]
                self.after[runner.workload.name] = round(time.monotonic() - self.at, 3)
        return not self._left


class Reach:
    """Where the logs ended at a moment, by reader."""

    def __init__(self, number: int, readers: list[Reader], ends: Ends) -> None:
        self.number = number
        self.at = time.monotonic()
        self.after: dict[str, float] = {}
        self._left = {reader: reader.want(ends) for reader in readers}

    def reached(self) -> bool:
        """True if all have read up to there."""
        for reader, goal in list(self._left.items()):
            if reader.has(goal) or not reader.running:
                del self._left[reader]
                self.after[reader.reading.name] = round(time.monotonic() - self.at, 3)
        return not self._left


class Worker:
    """The process."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._history = History(spec["history"])
        workloads = [Workload.from_json(known) for known in spec["workloads"]]
        self._access = {client: Access(options) for client, options in spec["access"].items()}
        self._runners = [
            RUNNERS[one.client, one.kind](one, self._history, self._access[one.client], spec["seed"])
            for one in workloads
        ]
        for runner in self._runners:
            if spec["mistake"] in PRODUCERS and isinstance(runner, idempotent.Sender):
                runner.make = PRODUCERS[spec["mistake"]]
            elif spec["mistake"] in TRANSACTIONAL and isinstance(runner, transactions.Transactions):
                runner.make = TRANSACTIONAL[spec["mistake"]]
        self._readers = [
            Reader(Reading.from_json(known), self._history, self._access[KAFWIRE], spec["seed"])
            for known in spec["readings"]
        ]
        for reader in self._readers:
            if spec["mistake"] in READERS:
                reader.change = READERS[spec["mistake"]]
            elif spec["mistake"] == "dirty":
                reader.isolation_level = "read_uncommitted"
        self._memory = memory.Watcher(Path(spec["history"]).with_suffix(".memory.txt"), self._buffers)
        self._marks: list[Mark | Reach] = []
        self._lock = threading.Lock()

    def run(self) -> None:
        """Work until stopped and all is settled."""
        threading.Thread(target=self._listen, daemon=True).start()
        everybody: list[Runner | Reader] = [*self._runners, *self._readers]
        for one in everybody:
            one.start()
        printed = 0.0
        while any(one.running for one in everybody):
            time.sleep(_LOOK_S)
            with self._lock:
                for mark in [mark for mark in self._marks if mark.reached()]:
                    self._marks.remove(mark)
                    self._tell(recovered=mark.number, after=mark.after)
            if time.monotonic() - printed > _TELL_S:
                printed = time.monotonic()
                self._tell_counts()
                self._history.flush()
        self._history.close()
        self._tell_counts()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        self._tell(done=True, peak_mib=memory.peak_mib(), cpu=usage.ru_utime + usage.ru_stime)

    def _tell_counts(self) -> None:
        counts = {runner.workload.name: dict(runner.counts) for runner in self._runners}
        counts |= {reader.reading.name: dict(reader.counts) for reader in self._readers}
        counts |= {f"clients of {client}": dict(access.counts) for client, access in self._access.items()}
        everybody: list[Runner | Reader] = [*self._runners, *self._readers]
        crashes = [one.crash for one in everybody if one.crash]
        self._tell(counts=counts, crashes=crashes, mib=self._memory.look())

    def _buffers(self) -> dict[str, object]:
        """The open steps, by workload: begun and not settled."""
        found: dict[str, object] = {"Arrow MiB": round(pa.total_allocated_bytes() / (1 << 20), 1)}
        for runner in self._runners:
            producer = getattr(runner, "producer", None)
            counters = producer.metrics()["producer"] if isinstance(producer, kafwire.Producer) else ""
            found[runner.workload.name] = f"{runner.started - runner.settled} under way {counters}"
        return found

    def _listen(self) -> None:
        for line in sys.stdin:
            word, *rest = line.split(maxsplit=2)
            if word == "stop":
                for runner in self._runners:
                    runner.stop()
            elif word == "finish":
                for reader in self._readers:
                    reader.finish(ends_of(" ".join(rest)))
            elif word == "reach":
                with self._lock:
                    self._marks.append(Reach(int(rest[0]), self._readers, ends_of(rest[1])))
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
