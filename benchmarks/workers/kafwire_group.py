"""kafwire's members of groups: they read all partitions, or join alone or beside another member. A group for each pass.

The rate begins with the first batch, which it leaves out: a join takes as long as the broker's timers say.
"""

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.workers.common import Options, Pass, Stopwatch, work
from benchmarks.workers.kafwire_consumer import WAIT_SECONDS, touch
from kafwire import AsyncConsumer, Consumer, __version__

_numbers = itertools.count()


class Rate:
    """Counts records; the rate is that of those after the first batch."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._clock = Stopwatch()
        self._first = 0
        self._later = Stopwatch()
        self.records = self.bytes = self.checksum = 0

    def add(self, records: int, size: int, checksum: int = 0) -> bool:
        """Add a batch, or what a loop over records has had of one. True if it was the last."""
        if not self.records:
            self._first = records
            self._later = Stopwatch()
        self.records += records
        self.bytes += size
        self.checksum += checksum
        return self.records >= self._expected

    def as_pass(self, *, summed: bool) -> Pass:
        """The pass that ends now."""
        seconds, later = self._clock.seconds(), self._later.seconds()
        figures = {"rate": (self.records - self._first) / later / 1e6}
        return Pass(seconds, self.records, self.bytes, self.checksum if summed else None, figures)


def batches(options: Options) -> Callable[[], Pass]:
    """Read every partition, every batch to Arrow, every value touched."""
    expected = options.number("records")

    def once() -> Pass:
        with Consumer(**_member(options)) as consumer:
            rate = Rate(expected)
            for batch in consumer.batches(timeout=WAIT_SECONDS):
                table = batch.to_arrow()
                if rate.add(table.num_rows, *touch(table.column("value"))):
                    break
            return rate.as_pass(summed=True)

    return once


def async_batches(options: Options) -> Callable[[], Pass]:
    """The same in an event loop."""
    expected = options.number("records")

    async def once() -> Pass:
        async with AsyncConsumer(**_member(options)) as consumer:
            rate = Rate(expected)
            async for batch in consumer.batches(timeout=WAIT_SECONDS):
                table = batch.to_arrow()
                if rate.add(table.num_rows, *touch(table.column("value"))):
                    break
            return rate.as_pass(summed=True)

    return lambda: asyncio.run(once())


def records(options: Options) -> Callable[[], Pass]:
    """Read every record as a Python object."""
    expected = options.number("records")

    def once() -> Pass:
        with Consumer(**_member(options)) as consumer:
            rate = Rate(expected)
            count = size = 0
            for record in consumer:
                record.key  # noqa: B018 - reading it is the measured work
                size += len(record.value or b"")
                count += 1
                if count == 1:
                    rate.add(1, size)
                elif count == expected:
                    break
            rate.add(count - 1, size - rate.bytes)
            return rate.as_pass(summed=False)

    return once


def join(options: Options) -> Callable[[], Pass]:
    """Join an empty group, up to the first record."""
    return lambda: _until_first_record(_member(options))


def rebalance(options: Options) -> Callable[[], Pass]:
    """Join a group whose only member reads all partitions, up to the first record of those that it gives away."""

    def once() -> Pass:
        member = _member(options)
        with _reading(member):
            return _until_first_record(member)

    return once


def _until_first_record(member: dict[str, Any]) -> Pass:
    clock = Stopwatch()
    consumer = Consumer(**member)
    try:
        got = consumer.poll(WAIT_SECONDS)
        seconds = clock.seconds()
    finally:
        consumer.close()
    if not got:
        raise RuntimeError(f"no record within {WAIT_SECONDS} s of the join")
    return Pass(seconds, 1, 0, figures={"first_record_ms": seconds * 1000})


@contextmanager
def _reading(member: dict[str, Any]) -> Iterator[None]:
    """A member in a thread of its own, which has read something when the block begins, and reads on slowly."""
    has_read, ends = threading.Event(), threading.Event()

    def read() -> None:
        with Consumer(**member) as consumer:
            while not ends.is_set():
                if consumer.poll(0.05):
                    has_read.set()
                time.sleep(0.005)  # the processor is the joining member's

    thread = threading.Thread(target=read)
    thread.start()
    try:
        if not has_read.wait(WAIT_SECONDS):
            raise RuntimeError(f"the first member has no record after {WAIT_SECONDS} s")
        yield
    finally:
        ends.set()
        thread.join()


def _member(options: Options) -> dict[str, Any]:
    """A member that commits nothing, so that the next one begins where this one began."""
    return {
        "bootstrap_servers": options.text("bootstrap"),
        "topics": options.text("topic"),
        "group_id": f"bench-group-{time.time_ns()}-{next(_numbers)}",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        **options.keywords(),
    }


if __name__ == "__main__":
    tasks = {
        "batches": batches,
        "async_batches": async_batches,
        "records": records,
        "join": join,
        "rebalance": rebalance,
    }
    work(tasks, __version__)
