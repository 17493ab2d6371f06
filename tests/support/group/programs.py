"""Programs of members of simulated groups, as users write them: streams, loops, tasks for partitions, transactions.

Each takes inputs, has `Inputs.behave` as its handler, writes results to a topic, and notes its work in the history.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any

import kafwire
from kafwire.aio.partition_stream import AsyncPartitionStream
from kafwire.errors import CommitFailedError, TransactionAbortableError, TransactionAbortedError
from kafwire.records import Batch, Record
from kafwire.stream import ConsumerSource, Message, NotNow, Pipeline, StopRequest, TopicSink
from kafwire.testing.simulation.cluster import ClusterWorld
from kafwire.types import ConsumerGroupMetadata, TopicPartition
from tests.support.group.history import Delivery, Ended, Settled, Where
from tests.support.group.inputs import OUT, Inputs

POLL_S = 1.0
FAILS_AFTER_S = 0.5  # a delivery that fails does so later


class Program:
    """One member. `consumer`: its options; `pipeline` and `guarantee`: of streams."""

    def __init__(self, world: ClusterWorld, inputs: Inputs, name: str, consumer: Mapping[str, Any]) -> None:
        self.name = name
        self.is_held = False  # a fault holds its requests
        self.is_over = False  # it leaves, or is dead: its errors do not count
        self.world, self.inputs = world, inputs
        self.stop = StopRequest()
        self.producer: Mapping[str, Any] = {}  # options of its producer, in transactions
        self._options = dict(consumer)
        self._consumer: kafwire.AsyncConsumer | None = None
        self._read_from: dict[int, Where] = {}  # inputs, and the partition that each was read from
        self._busy = 0
        self._task: asyncio.Task[None] | None = None

    # --- what the watch asks

    @property
    def reads(self) -> set[Where]:
        """See `WatchedMember`."""
        if self._consumer is None or self.is_over:
            return set()
        fetched = self._consumer._core.fetcher.cursors
        return {(topic, partition) for topic, partition in (*self._consumer.assignment, *fetched)}

    @property
    def only_waits(self) -> bool:
        """See `WatchedMember`."""
        return not self._busy and not self.is_held and not self.is_over

    @property
    def options_text(self) -> str:
        """Its consumer's options that differ from others'."""
        named = ("on_revocation", "revocation_timeout_ms")
        return " ".join(f"{name}={self._options[name]}" for name in named if name in self._options)

    # --- its life

    def start(self) -> None:
        """Run in a task of its own."""
        self._task = asyncio.ensure_future(self._live())

    async def _live(self) -> None:
        try:
            await self._run()
        except Exception as error:  # the judge decides
            if not self.is_over:
                text = f"{type(error).__name__}: {error}"
                self.inputs.history.ended.append(Ended(self.inputs.now_s, self.name, text))

    async def _run(self) -> None:
        raise NotImplementedError

    async def leave(self, limit_s: float) -> bool:
        """Stop as users do. Returns whether it ended in time; it is cancelled otherwise."""
        self.stop.request()
        self._stop_reading()
        return await self.end(limit_s)

    def _stop_reading(self) -> None:
        """End loops over the consumer; a stream does that by itself."""

    async def end(self, limit_s: float = 0.0) -> bool:
        """Wait for the program, and cancel it when it does not end."""
        task = self._task
        if task is None:
            return True
        await asyncio.wait({task}, timeout=limit_s)
        ended = task.done()
        self.is_over = True
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return ended

    # --- parts of programs

    def _make_consumer(self, **options: Any) -> kafwire.AsyncConsumer:
        self._consumer = kafwire.AsyncConsumer(
            self.world.bootstrap, engine=self.world.engine, client_id=self.name, **self._options | options
        )
        return self._consumer

    def _producer(self, **options: Any) -> kafwire.AsyncProducer:
        return kafwire.AsyncProducer(
            self.world.bootstrap, engine=self.world.engine, client_id=self.name, linger_ms=0, **options
        )

    async def handle(self, record: Record) -> Message:
        """Process one input."""
        number = int(record.value or b"")
        assert record.topic is not None
        assert record.partition is not None
        self._read_from[number] = record.topic, record.partition
        with self.busy():
            await self.inputs.behave(number)
        return Message(record.value, key=record.key)

    def pass_on(self, record: Record) -> Message:
        """Process one input at once, as a step does."""
        assert record.topic is not None
        assert record.partition is not None
        self._read_from[int(record.value or b"")] = record.topic, record.partition
        return Message(record.value, key=record.key)

    def deliver(self, number: int) -> None:
        """An input goes on to the sink, or came to its user."""
        where = self._read_from.get(number)
        owns = where is None or where in self.reads or self.is_over
        self.inputs.history.deliveries.append(Delivery(self.inputs.now_s, self.name, number, owns))

    def settle(self, number: int) -> None:
        """An input is processed."""
        self.inputs.history.settled.append(Settled(self.inputs.now_s, self.name, number))

    def busy(self) -> Busy:
        """A context in which the member does not only wait."""
        return Busy(self)

    def count_busy(self, step: int) -> None:
        """One handler call or write more, or less."""
        self._busy += step


class Busy:
    """While it is entered, its program counts as busy."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def __enter__(self) -> None:
        self._program.count_busy(1)

    def __exit__(self, *error: object) -> None:
        self._program.count_busy(-1)


class WatchedSink:
    """A `TopicSink` that notes a stream's values in the history; some deliveries fail once, later."""

    splits_lists = True

    def __init__(self, program: Program, producer: kafwire.AsyncProducer, *, settles_at_once: bool) -> None:
        self._program = program
        self._sink = TopicSink(producer, OUT)
        self._settles_at_once = settles_at_once  # in a transaction

    async def write(self, value: Any) -> Awaitable[object]:
        """See `Sink`."""
        program, number = self._program, int(value.value)
        program.deliver(number)
        if program.inputs.fails_at_sink(number):
            return _fails_later()
        with program.busy():
            stored = await self._sink.write(value)
        if self._settles_at_once:
            program.settle(number)
            return stored
        return _Storing(program, stored, number)

    async def start(self) -> None:
        """See `TransactionalSink`."""
        await self._sink.start()

    async def begin(self) -> None:
        """See `TransactionalSink`."""
        await self._sink.begin()

    async def commit(self, offsets: Mapping[TopicPartition, int], group: ConsumerGroupMetadata) -> None:
        """See `TransactionalSink`."""
        with self._program.busy():
            await self._sink.commit(offsets, group)

    async def abort(self) -> None:
        """See `TransactionalSink`."""
        with self._program.busy():
            await self._sink.abort()


class _Storing:
    """A delivery under way: its input is processed when it is stored."""

    def __init__(self, program: Program, stored: Awaitable[object], number: int) -> None:
        self._program, self._stored, self._number = program, stored, number

    def __await__(self) -> Generator[Any, Any, None]:
        with self._program.busy():
            yield from self._stored.__await__()
        self._program.settle(self._number)


def _fails_later() -> asyncio.Future[object]:
    loop = asyncio.get_running_loop()
    failing: asyncio.Future[object] = loop.create_future()

    def fail() -> None:
        if not failing.done():
            failing.set_exception(TimeoutError("this delivery fails once"))
            failing.exception()  # a stream that has ended does not look

    loop.call_later(FAILS_AFTER_S, fail)
    return failing


class StreamProgram(Program):
    """A pipeline with handlers. `make`: adds steps and policies to an empty one."""

    def __init__(
        self, *where: Any, make: Callable[[Program], Pipeline], guarantee: Any, producer: Mapping[str, Any]
    ) -> None:
        super().__init__(*where)
        self._make, self._guarantee, self.producer = make, guarantee, producer

    async def _run(self) -> None:
        is_exact = self._guarantee == "exactly_once"
        options: dict[str, Any] = {"enable_auto_commit": False}
        if is_exact:
            options["isolation_level"] = "read_committed"
        consumer = self._make_consumer(**options)
        async with self._producer(**self.producer if is_exact else {}) as producer:
            engine = self.world.engine
            await self._make(self).run_async(
                ConsumerSource(consumer),
                WatchedSink(self, producer, settles_at_once=is_exact),
                guarantee=self._guarantee,
                stop=self.stop,
                clock=engine.clock,
                random=engine.random,
            )


class LoopProgram(Program):
    """A loop over batches, which commits by itself, or after each batch."""

    def __init__(self, *where: Any, commits: bool) -> None:
        super().__init__(*where)
        self._commits = commits

    def _stop_reading(self) -> None:
        if self._consumer is not None:
            self._consumer.stop()

    async def _run(self) -> None:
        options = {"enable_auto_commit": False} if self._commits else {"auto_commit_interval_ms": 500}
        async with self._producer() as producer, self._make_consumer(**options) as consumer:
            async for batch in consumer.batches():
                await self._process(producer, batch)
                if self._commits:
                    try:
                        await consumer.commit(batch)
                    except CommitFailedError:
                        continue  # another member has it now
                if self.stop.is_requested:
                    return

    async def _process(self, producer: kafwire.AsyncProducer, batch: Batch) -> None:
        for record in batch:  # all of it is in hand from now on
            self._read_from[int(record.value or b"")] = record.topic or "", record.partition or 0
        if len(batch):
            self.deliver(int(batch[0].value or b""))
        for record in batch:
            await self._one(producer, record)

    async def _one(self, producer: kafwire.AsyncProducer, record: Record) -> None:
        number = int(record.value or b"")
        with self.busy():
            while True:
                try:
                    await self.inputs.behave(number)
                    break
                except (ConnectionError, NotNow):
                    await asyncio.sleep(POLL_S)
            await (await producer.send(OUT, record.value, key=record.key))
        self.settle(number)


class TasksProgram(LoopProgram):
    """The recipe of docs/guide/consuming.md: a task for each partition, in a TaskGroup."""

    async def _run(self) -> None:
        options = {"enable_auto_commit": False} if self._commits else {"auto_commit_interval_ms": 500}
        async with (
            self._producer() as producer,
            self._make_consumer(**options) as consumer,
            asyncio.TaskGroup() as tasks,
        ):
            async for stream in consumer.partitions():
                tasks.create_task(self._read(producer, stream))

    async def _read(self, producer: kafwire.AsyncProducer, stream: AsyncPartitionStream) -> None:
        async for batch in stream:
            await self._process(producer, batch)
            if self._commits:
                try:
                    await stream.commit()
                except CommitFailedError:
                    return
        if self._commits:
            await stream.aclose()


class TransactionsProgram(Program):
    """The recipe of docs/guide/producing.md: poll, send, `send_offsets`; a new consumer after a refused transaction."""

    def __init__(self, *where: Any, producer: Mapping[str, Any]) -> None:
        super().__init__(*where)
        self.producer = producer

    async def _run(self) -> None:
        async with self._producer(**self.producer) as producer:
            await producer.init_transactions()
            while not self.stop.is_requested:
                async with self._make_consumer(enable_auto_commit=False, isolation_level="read_committed") as consumer:
                    try:
                        await self._read(producer, consumer)
                    except (TransactionAbortableError, TransactionAbortedError):
                        continue

    async def _read(self, producer: kafwire.AsyncProducer, consumer: kafwire.AsyncConsumer) -> None:
        while not self.stop.is_requested:
            batches = await consumer.poll(POLL_S)
            if not batches:
                continue
            upto = {TopicPartition(b.topic or "", b.partition or 0): b.next_offset for b in batches}
            with self.busy():
                async with producer.transaction():
                    for batch in batches:
                        for record in batch:
                            await self._one(producer, record)
                    await producer.send_offsets(upto, consumer.group_metadata())

    async def _one(self, producer: kafwire.AsyncProducer, record: Record) -> None:
        number = int(record.value or b"")
        while True:
            try:
                await self.inputs.behave(number)
                break
            except (ConnectionError, NotNow):
                await asyncio.sleep(POLL_S)
        await producer.send(OUT, record.value, key=record.key)
        self.settle(number)
