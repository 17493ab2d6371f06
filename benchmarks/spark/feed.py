"""Records at a steady rate, until standard input ends: `python -m benchmarks.spark.feed BOOTSTRAP TOPIC TASKS RATE`."""

from __future__ import annotations

import sys
import threading
import time

import kafwire

_STEP_S = 0.01
_VALUE = b"v" * 100


def main(bootstrap: str, topic: str, partitions: str, rate: str) -> None:
    """Send `rate` records a second, in steps of 10 ms, to each partition in turn."""
    ends = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        ends.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    sent, begun = 0, time.monotonic()
    with kafwire.Producer(bootstrap, linger_ms=0) as producer:
        while not ends.wait(_STEP_S):
            while sent < int(rate) * (time.monotonic() - begun):
                producer.send(topic, _VALUE, partition=sent % int(partitions))
                sent += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
