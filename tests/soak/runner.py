"""`Runner`: what all workloads have: a thread, a pace, a history's writer, and counts of what became of records."""

from __future__ import annotations

import random
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence

from kafwire.errors import BrokerError
from kafwire.testing.history import Dress, History, Writer
from tests.soak.access import Access
from tests.soak.matrix import Workload

# How far behind its pace a workload may be and still catch up.
_CATCH_UP_S = 2.0
_LOOK_S = 0.05
# Of each refusal that a workload meets, so many are written down.
_PRINTED = 20


class Runner(ABC):
    """Runs a workload in a thread of its own until it is stopped, and then until every outcome is known.

    `started` and `settled` count steps, which are settled in the order in which they are started: what was under way at
    some moment is settled when `settled` has come to what `started` was.
    """

    def __init__(self, workload: Workload, history: History, access: Access, seed: int) -> None:
        self.workload = workload
        self.access = access
        self.writer: Writer = history.producer(workload.producer, workload.name)
        self.chance = random.Random(f"{seed}/{workload.identity}")
        self.counts: Counter[str] = Counter()
        self.started = self.settled = 0
        self.last_success = time.monotonic()
        self.crash = ""
        self._stop = threading.Event()
        self._next = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=workload.name, daemon=True)

    @abstractmethod
    def work(self) -> None:
        """Send until `stopping`, then finish."""

    def idle(self) -> None:  # noqa: B027 - most have nothing to do
        """Do what can be done while the pace has nothing to send."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Let the client send nothing more."""
        self._stop.set()

    @property
    def stopping(self) -> bool:
        """True if it is to send nothing more."""
        return self._stop.is_set()

    @property
    def running(self) -> bool:
        """True if the thread runs."""
        return self._thread.is_alive()

    def pace(self, rows: int) -> None:
        """Wait until it is time for so many rows, or to stop."""
        while not self.stopping:
            self.idle()
            now = time.monotonic()
            if now >= self._next:
                self._next = max(self._next, now - _CATCH_UP_S) + rows / self.workload.rate
                return
            self._stop.wait(min(self._next - now, _LOOK_S))

    def keys(self, rows: int) -> list[int]:
        """A key for each row."""
        return [self.chance.randrange(self.workload.keys) for _ in range(rows)]

    def dress(self, key: int, given: bytes | None, partition: int | None) -> Dress:
        """The fields of a record of a key besides its value."""
        headers = (("key", b"%d" % key), ("none", None))[: self.workload.headers]
        return Dress(given, headers, int(time.time() * 1000) if self.workload.timed else None, partition)

    def succeeded(self, count: int) -> None:
        """Count acknowledged records."""
        self.counts["acked"] += count
        self.last_success = time.monotonic()

    def failed(self, sequences: Sequence[int], error: BaseException | str, *, certain: bool, prefix: str = "") -> None:
        """Write down that records are certainly not there, or in doubt."""
        if sequences:
            (self.writer.fail if certain else self.writer.unknown)(sequences, str(error)[:200])
        self.counts["failed" if certain else "unknown"] += len(sequences)
        name = f"error {prefix}{name_of(error)}"
        self.counts[name] += 1
        if isinstance(error, BrokerError) and self.counts[name] <= _PRINTED:
            print(f"{time.strftime('%X')} {self.workload.name}: {prefix}records {sequences}: {error}", file=sys.stderr)

    def _run(self) -> None:
        try:
            self.work()
        except BaseException:
            self.crash = f"{self.workload.name}:\n{traceback.format_exc()}"


def name_of(error: BaseException | str) -> str:
    """A word or two for an error: its class, and its code's name where it has one."""
    if isinstance(error, str):
        return error
    name = getattr(error, "name", None)
    return f"{type(error).__name__} {name}" if isinstance(name, str) else type(error).__name__
