"""kafwire's `Consumer` under one fetching strategy: everything flows, almost nothing flows, and both at once.

flood: all partitions of a topic to Arrow, as fast as they come. quiet: a trickle into one partition, the others
empty. flooded: the same while a deep partition is read as fast as it comes, and from its beginning again. slow: the
same while the deep partition's user takes a batch now and then.
"""

import time
from collections.abc import Callable
from dataclasses import replace

from benchmarks.counted import difference, read_counts
from benchmarks.workers.common import Options, Pass, Stopwatch, work
from benchmarks.workers.delays import Delays
from benchmarks.workers.kafwire_consumer import WAIT_SECONDS, touch
from kafwire import Consumer, TopicPartition, __version__

SLOW_SECONDS = 0.1


def flood(options: Options) -> Callable[[], Pass]:
    """Read `records` records, every batch to Arrow, every value touched."""
    expected = options.number("records")

    def once() -> Pass:
        before, cpu = read_counts(options.text("report")), time.process_time()
        clock = Stopwatch()
        with Consumer(
            options.text("bootstrap"), topics=options.text("topic"), start="earliest", **options.keywords()
        ) as consumer:
            records = size = 0
            for batch in consumer.batches(timeout=WAIT_SECONDS):
                table = batch.to_arrow()
                size += touch(table.column("value"))[0]
                records += table.num_rows
                if records >= expected:
                    break
            seconds = clock.seconds()
            cpu = time.process_time() - cpu
            counts = difference(before, read_counts(options.text("report")))
        figures = {
            "mb_per_second": size / seconds / 1e6,
            "requests_per_second": counts["requests"] / seconds,
            "connections": counts["open"],
            "cpu_us": cpu / records * 1e6,
        }
        return Pass(seconds, records, size, figures=figures)

    return once


def quiet(options: Options) -> Callable[[], Pass]:
    """Nothing but the trickle."""

    def once() -> Pass:
        with _consumer(options, deep=False) as consumer, Delays(options) as delays:
            while not delays.done:
                for batch in consumer.poll(timeout=WAIT_SECONDS):
                    for record in batch:
                        delays.add(record.value or b"")
            return delays.as_pass()

    return once


def flooded(options: Options) -> Callable[[], Pass]:
    """The trickle, while another partition gives all it can."""
    deep, turn_back = TopicPartition(options.text("deep"), 0), options.number("turn_back")

    def once() -> Pass:
        with _consumer(options, deep=True) as consumer, Delays(options) as delays:
            clock, flooding = Stopwatch(), 0
            for batch in consumer.batches(timeout=WAIT_SECONDS):
                if batch.topic == deep.topic:
                    flooding += touch(batch.to_arrow().column("value"))[0]
                    if batch.next_offset >= turn_back:
                        consumer.seek(deep, 0)
                    continue
                for record in batch:
                    delays.add(record.value or b"")
                if delays.done:
                    break
            if not flooding:
                raise RuntimeError("nothing came from the partition that floods")
            flow = {"flood_mb_per_second": flooding / clock.seconds() / 1e6}
            found = delays.as_pass()
            return replace(found, figures={**found.figures, **flow})

    return once


def slow(options: Options) -> Callable[[], Pass]:
    """The trickle, while the reader of another partition takes a batch every 100 ms."""
    deep, turn_back = TopicPartition(options.text("deep"), 0), options.number("turn_back")

    def once() -> Pass:
        with _consumer(options, deep=True) as consumer, Delays(options) as delays:
            stream = iter(consumer.partition_stream(deep))
            taken, due = 0, 0.0
            while not delays.done:
                for batch in consumer.poll(timeout=SLOW_SECONDS / 10):
                    for record in batch:
                        delays.add(record.value or b"")
                if time.monotonic() >= due:
                    taken += 1
                    if next(stream).next_offset >= turn_back:
                        consumer.seek(deep, 0)
                    due = time.monotonic() + SLOW_SECONDS
            if not taken:
                raise RuntimeError("nothing came from the partition whose user is slow")
            return delays.as_pass()

    return once


def _consumer(options: Options, *, deep: bool) -> Consumer:
    """One that reads `among` partitions: the quiet topic's, its first where it ended; and the deep one, if asked for.

    The consumer knows its partitions before the producer begins, so that no record is there before it is waited for.
    """
    topic, count = options.text("topic"), options.number("among") - int(deep)
    start = {TopicPartition(topic, number): 0 for number in range(count)}
    start[TopicPartition(topic, 0)] = options.number("offset")
    if deep:
        start[TopicPartition(options.text("deep"), 0)] = 0
    return Consumer(options.text("bootstrap"), assign=list(start), start=start, **options.keywords())


if __name__ == "__main__":
    work({"flood": flood, "quiet": quiet, "flooded": flooded, "slow": slow}, __version__)
