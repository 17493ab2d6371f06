"""The load of rebalanced groups: records, written all the time to all partitions."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter, defaultdict

import kafwire

PARTITIONS = 6


class Load:
    """Writes to all partitions of topics in turn, in a thread of its own."""

    def __init__(self, bootstrap: str, topics: list[str], rate: float) -> None:
        """`rate`: records a second and topic."""
        self.ends: defaultdict[str, dict[int, int]] = defaultdict(lambda: dict.fromkeys(range(PARTITIONS), 0))
        self.failed: Counter[str] = Counter()
        self._producer = kafwire.Producer(bootstrap, linger_ms=5, delivery_timeout_ms=120_000, client_id="load")
        self._topics, self._rate = topics, rate
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Send nothing more; everything that was sent is in the logs, or failed."""
        self._stop.set()
        self._thread.join()
        self._producer.flush(150.0)
        self._producer.close()

    def _run(self) -> None:
        due = time.monotonic()
        for number in itertools.count():
            while (left := due - time.monotonic()) > 0 and not self._stop.is_set():
                self._stop.wait(left)
            if self._stop.is_set():
                return
            rows = max(1, round(self._rate / PARTITIONS / 20))  # twenty times a second
            due = max(due, time.monotonic() - 1.0) + rows * PARTITIONS / self._rate
            for topic in self._topics:
                for partition in range(PARTITIONS):
                    for _ in range(rows):
                        sent = self._producer.send(topic, b"%d" % number, partition=partition)
                        sent.add_done_callback(self._on_done)

    def _on_done(self, sent: kafwire.Delivery) -> None:
        error = sent.exception(0)
        if error is not None:
            self.failed[str(error)] += 1
            return
        made = sent.result(0)
        ends = self.ends[made.topic]
        ends[made.partition] = max(ends[made.partition], made.offset + 1)
