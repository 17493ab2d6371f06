"""kafwire: a topic as a frame of polars, by `scan` and by `scan_kafka`."""

from collections.abc import Callable

import polars as pl

from benchmarks.workers.common import Options, Pass, Stopwatch, work
from kafwire import __version__, scan
from kafwire.polars import scan_kafka


def frame(options: Options) -> Callable[[], Pass]:
    """The stream of a scan, which polars takes in whole."""
    bootstrap, topic = options.text("bootstrap"), options.text("topic")
    return _passes(lambda: pl.DataFrame(scan(bootstrap, topic)))


def lazy(options: Options) -> Callable[[], Pass]:
    """A lazy frame, collected."""
    bootstrap, topic = options.text("bootstrap"), options.text("topic")
    return _passes(lambda: scan_kafka(bootstrap, topic).collect())


def _passes(read: Callable[[], pl.DataFrame]) -> Callable[[], Pass]:
    def once() -> Pass:
        clock = Stopwatch()
        found = read()
        seconds = clock.seconds()
        return Pass(seconds, found.height, int(found["value"].bin.size().sum()))

    return once


if __name__ == "__main__":
    work({"frame": frame, "lazy": lazy}, __version__)
