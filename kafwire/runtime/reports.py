"""`Reports`: the thread that emits log lines and delivers metric snapshots.

Log handlers and metrics hooks are user code: they may block, raise, or wait for Kafka. kafwire never waits for this
thread. Reports that it cannot keep up with are dropped and counted, and one line reports their number.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
from collections.abc import Callable

from kafwire.runtime.log import LogLine, log
from kafwire.runtime.patched import SimpleQueue, allocate_lock, new_thread, wait_lock

# Most reports that wait.
LIMIT = 1000


class Reports:
    """One thread, which makes reports in the order of submission."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._dropped = 0
        self._lock = allocate_lock()
        self._thread = new_thread(self._main, name="kafwire-reports")
        self._thread.start()

    def take(self, line: LogLine) -> None:
        """Queue a log line."""
        self.submit(line.emit)

    def submit(self, report: Callable[[], object]) -> bool:
        """Queue `report` to be called; False if it is dropped, as too many wait."""
        if self._waiting.qsize() >= LIMIT:
            with self._lock:
                self._dropped += 1
            return False
        self._waiting.put(report)
        return True

    def settle(self, timeout_s: float) -> bool:
        """Wait until all earlier reports were made; False after `timeout_s`."""
        made = wait_lock()
        self._waiting.put(made.release)
        return made.acquire(timeout=timeout_s)

    def stop(self, timeout_s: float) -> None:
        """End the thread after all earlier reports, and wait for that."""
        self._waiting.put(None)
        self._thread.join(timeout_s)

    def _main(self) -> None:
        while (report := self._waiting.get()) is not None:
            make(report)
            del report  # so that a waiting frame keeps nothing alive
            if self._dropped:
                with self._lock:
                    dropped, self._dropped = self._dropped, 0
                make(lambda dropped=dropped: _say(dropped))  # type: ignore[misc]


class InlineReports:
    """Makes each report at once, where it is submitted."""

    def submit(self, report: Callable[[], object]) -> bool:
        """Call `report`."""
        make(report)
        return True


def make(report: Callable[[], object]) -> None:
    """Call a report; print any exception, as `logging.Handler.handleError` does."""
    try:
        report()
    except BaseException:  # noqa: BLE001 # a handler's `sys.exit()` ends no thread of kafwire
        if logging.raiseExceptions and sys.stderr is not None:
            with contextlib.suppress(Exception):
                traceback.print_exc()


def _say(dropped: int) -> None:
    log.warning(
        "kafwire: %d log lines and metric snapshots were dropped: a log handler, or a metrics hook, is too slow",
        dropped,
    )
