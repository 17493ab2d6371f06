"""The programs of the client's threads: short runs of producers, consumers, scans and Arrow streams, until time is up.

Each program is drawn from the actor's own seed. Faults make it fail with a `KafkaError`, which is expected; any other
error is a find. A program closes its clients, or drops them in a cycle for the collector.
"""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

import kafwire
from fuzz.chaos.server import PARTITIONS, STORED
from kafwire.consumer.delivery._fetch_reader import FetchReader
from kafwire.consumer.fetch._fetch_buffer import FetchBuffer
from kafwire.errors import ConfigError, KafkaError
from kafwire.memory._buffer import Buffer
from kafwire.records import encode_batch
from kafwire.records._arrow import Layout
from kafwire.runtime._io import Loop

CODECS: list[Literal["none", "gzip", "snappy", "lz4", "zstd"]] = ["none", "gzip", "snappy", "lz4", "zstd"]

TOPICS = ["one", "two"]  # which producers write to and consumers read
QUICK = {
    "request_timeout_ms": 500,
    "default_api_timeout_ms": 1_000,
    "socket_connection_setup_timeout_ms": 500,
    "reconnect_backoff_max_ms": 100,
    "retry_backoff_max_ms": 100,
    "metadata_max_age_ms": 1_000,
}
CLOSE_S = 0.5
PAUSE_S = 0.2  # of what only computes, for the others
LARGE = 1 << 20
MANY = 100_000


@dataclass
class Stage:
    """The state that all actors share."""

    listeners: list[dict[str, Any]]  # what clients of each are given
    until: float
    seed: int
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def is_over(self) -> bool:
        """True when the time is up."""
        return time.monotonic() >= self.until

    def count(self, name: str, number: int = 1) -> None:
        """Add to the summary. The GIL makes it one step often enough: the numbers need not be exact."""
        self.counts[name] += number

    def options(self, chance: random.Random, **more: Any) -> dict[str, Any]:
        """Options of a client of one of the listeners."""
        return {**chance.choice(self.listeners), **QUICK, **more}


Program = Callable[[Stage, random.Random], None]


def drop(stage: Stage, *things: Any) -> None:
    """Leave things to the collector, in a cycle."""
    ring: list[Any] = [*things]
    ring.append(ring)
    del things, ring
    gc.collect()
    stage.count("dropped")


def produce(stage: Stage, chance: random.Random) -> None:
    """Send single records, with callbacks, and tables."""
    producer = kafwire.Producer(
        **stage.options(chance),
        compression_type=chance.choice(CODECS),
        linger_ms=chance.choice([0, 5, 20]),
        batch_size=chance.choice([1_000, 100_000]),
        delivery_timeout_ms=1_000,
        max_block_ms=1_000,
        buffer_memory=4 << 20,
    )
    try:
        for number in range(chance.choice([10, 300])):
            value = chance.randbytes(chance.choice([0, 10, 2_000]))
            delivery = producer.send(chance.choice(TOPICS), value, key=b"%d" % number)
            delivery.add_done_callback(lambda done: stage.count("failed" if done.exception() else "delivered"))
        rows = pa.table({"value": [chance.randbytes(100)] * 200, "key": [b"k"] * 200})
        handle = producer.send_batch(chance.choice(TOPICS), rows)
        if chance.random() < 0.5:
            producer.flush(timeout=0.5)
            stage.count("rows", len(handle))
    finally:
        if chance.random() < 0.2:
            drop(stage, producer)
        else:
            producer.close(timeout=CLOSE_S)


def consume(stage: Stage, chance: random.Random) -> None:
    """Read as a member of a group, or alone, with seeks, pauses and commits in between."""
    group = chance.choice([None, "group"])
    consumer = kafwire.Consumer(
        **stage.options(chance),
        topics=chance.sample([STORED, *TOPICS], 2),
        group_id=group,
        auto_offset_reset="earliest",
        fetch_strategy=chance.choice(["hybrid", "per_partition", "per_node"]),
        chunk_bytes=chance.choice([1, 1 << 20]),
        on_corrupt=chance.choice(["error", "skip"]),
        fetch_max_wait_ms=100,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=500,
    )
    try:
        for _ in range(chance.randint(1, 20)):
            read_some(stage, chance, consumer, has_group=group is not None)
    finally:
        if chance.random() < 0.2:
            drop(stage, consumer)
        else:
            consumer.close(timeout=CLOSE_S)


def read_some(stage: Stage, chance: random.Random, consumer: kafwire.Consumer, *, has_group: bool) -> None:
    """One step of `consume`."""
    for batch in consumer.poll(chance.choice([0.0, 0.1, 0.3])):
        stage.count("records", sum(1 for record in batch if record.offset >= 0))
    partitions = sorted(consumer.assignment)
    if not partitions:
        return
    where = chance.choice(partitions)
    match chance.randrange(8):
        case 0:
            consumer.seek(where, chance.randrange(500))
        case 1:
            consumer.pause(where)
            consumer.resume(where)
        case 2 if has_group:
            consumer.commit()
        case 3:
            consumer.lag()
        case _:
            pass


def stream(stage: Stage, chance: random.Random) -> None:
    """Read an Arrow stream, and perhaps leave it before its end."""
    with kafwire.Consumer(
        **stage.options(chance), topics=[STORED], auto_offset_reset="earliest", fetch_max_wait_ms=50, chunk_bytes=1
    ) as consumer:
        reader = consumer.arrow_stream(timeout=0.3).to_reader()
        kept = []
        for number, batch in enumerate(reader):
            stage.count("records", batch.num_rows)
            if chance.random() < 0.1:
                kept.append(batch)
            if number > 500 or stage.is_over:
                break
        if chance.random() < 0.3:
            drop(stage, reader, kept)


def scan(stage: Stage, chance: random.Random) -> None:
    """Read stored records as a table, in one thread or in several."""
    found = kafwire.scan(
        topics=STORED,
        columns=chance.choice([None, ["value"], ["offset", "key", "headers"]]),
        fetch_max_bytes=chance.choice([1 << 16, 8 << 20]),
        **stage.options(chance),
    )
    if chance.random() < 0.2:
        drop(stage, found)
        return
    stage.count("records", pa.table(found).num_rows)


def collect(stage: Stage, chance: random.Random) -> None:
    """Have the collector clear a cycle through a buffer whose reader's thread decodes ahead: no faults needed.

    The collector clears the oldest first: the buffer, then numbers that take it some milliseconds, then the list that
    keeps the reader. All that time the thread decodes, and each batch takes it about a millisecond.
    """
    native = Loop()
    buffer = FetchBuffer(native.notifier(1))
    blob = b"".join(encode_batch([bytes(LARGE)], compression="gzip", base_offset=offset) for offset in range(20))
    for number in range(PARTITIONS):
        buffer.add("t", number, Layout("t", number))
    reader = FetchReader(buffer, Layout("t", 0), chunk_bytes=1, max_decompressed=2 * LARGE, verify_crc=True)
    numbers: list[Any] = [float(number) for number in range(MANY)]
    numbers.append(numbers)
    ring: list[Any] = [reader]
    ring.append(ring)
    number = chance.randrange(PARTITIONS)
    until = time.monotonic() + 1.0
    while not reader.ahead and time.monotonic() < until:
        if reader.read(0) is None:
            buffer.push(Buffer(blob), 0, len(blob), number, 0, 1 << 40, [], buffer.reset(number, 0))
            buffer.seal()
    stage.count("decoding ahead", bool(reader.ahead))
    buffer.error = KafkaError("the read failed", ring)
    del buffer, reader, ring, numbers
    gc.collect()
    native.stop()
    time.sleep(PAUSE_S)


def run_async(stage: Stage, chance: random.Random) -> None:
    """Both asynchronous clients in one loop."""

    async def both() -> None:
        async with kafwire.AsyncProducer(
            **stage.options(chance), delivery_timeout_ms=1_000, max_block_ms=1_000
        ) as producer:
            sent = [await producer.send(chance.choice(TOPICS), chance.randbytes(100)) for _ in range(100)]
            done = await asyncio.gather(*sent, return_exceptions=True)
            stage.count("delivered", sum(not isinstance(each, BaseException) for each in done))
        async with kafwire.AsyncConsumer(
            **stage.options(chance), topics=TOPICS, auto_offset_reset="earliest"
        ) as consumer:
            for _ in range(5):
                for batch in await consumer.poll(0.2):
                    stage.count("records", len(batch))

    asyncio.run(both())


def share(stage: Stage, chance: random.Random) -> None:
    """Read as a member of a share group."""
    with kafwire.ShareConsumer(**stage.options(chance), topics=[STORED], group_id="share") as consumer:
        for _ in range(5):
            for batch in consumer.poll(0.2):
                stage.count("records", len(batch))


PROGRAMS: dict[str, Program] = {
    "produce": produce,
    "consume": consume,
    "stream": stream,
    "scan": scan,
    "collect": collect,
    "run_async": run_async,
    "share": share,
}


class Actor(threading.Thread):
    """Run one program again and again. `problem`: what escaped it besides a `KafkaError`."""

    def __init__(self, stage: Stage, program: str, number: int) -> None:
        super().__init__(name=f"{program} {number}", daemon=True)
        self._stage = stage
        self._chance = random.Random(f"{stage.seed}/{self.name}")
        self._program = PROGRAMS[program]
        self._runs = f"{program} runs"
        # An Arrow stream's errors are its consumer's.
        self._expected = (KafkaError, pa.ArrowException, OSError) if program in ("stream", "scan") else KafkaError
        self.problem: BaseException | None = None

    def run(self) -> None:
        """Run until time is up or something escapes."""
        while not self._stage.is_over and self.problem is None:
            try:
                self._program(self._stage, self._chance)
            except ConfigError as error:  # a KafkaError too, but of a program that does not run at all
                self.problem = error
            except self._expected:
                self._stage.count("errors")
            except BaseException as error:
                self.problem = error
            self._stage.count(self._runs)
