"""The clients of a run: they send, read and commit, and write each event to a history.

Each client is a task on the world's loop and uses the public async clients. `blocking` runs the blocking clients as one
thread would; the world goes on while they wait. `run.py` judges the promises.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import kafwire
from kafwire.errors import KafkaError, TransactionError, TransactionTimeoutError
from kafwire.testing.simulation.readers import Readers
from kafwire.testing.simulation.schedule import CHAIN, MAIN, SECOND
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from kafwire.testing.history import History, Writer
    from kafwire.testing.simulation.cluster import ClusterWorld
    from kafwire.testing.simulation.schedule import Load

CALL_S = 60.0
HASTY_S = 10.0  # the time-out of clients that are not patient
LONGEST_S = 180.0  # after the load: until the blocking clients have sent and read all
TRANSACTION_MS = 20_000
PATIENT_MS = 300_000  # time-out of transactions, where no client may get an error
ABORTED = 0.15  # the share of all transactions that abort on purpose
SLOW = 0.1  # the share of a slow client's transactions that take about as long as their time-out
SLOW_S = (15.0, 40.0)
KEYS = 20
LIVES = 10  # between the numbers of a sender's successive producers
PROMISES = ("lost", "duplicated", "misordered")


Sent = tuple[int, Any]  # a record's sequence, and its delivery


class _Planned(Exception):
    """An abort that was drawn."""


class Workload:
    """All clients of one run. `say` writes a line of the timeline."""

    def __init__(
        self, world: ClusterWorld, load: Load, history: History, seed: int, say: Callable[[str], None]
    ) -> None:
        self.world = world
        self.load = load
        self.history = history
        self.say = say
        self.chance = random.Random(f"workload {seed}")
        self.counts: Counter[str] = Counter()
        self.is_over = False  # no more load
        self.problems: list[str] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.readers = Readers(self)

    # --- the run

    def start(self) -> None:
        """Start the clients, in the world's loop."""
        load = self.load
        if not load.is_alone:
            self._begin(self._try_side_topic())
            self.readers.roam()
        if load.blocking:
            return
        if load.transactional:
            self._begin(self._transact(1, MAIN))
        else:
            self._begin(self._send(1))
        self.readers.start()
        if load.chained:
            self._begin(self._pass_on(2))

    def _begin(self, coroutine: Any) -> None:
        self._tasks.append(self.world.loop.create_task(self.watched(coroutine)))

    async def watched(self, coroutine: Any) -> None:
        """Run a client; an error that it raises is a problem."""
        try:
            await coroutine
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - the run is judged by it
            self.problems.append(f"a client failed: {type(error).__name__}: {error}")

    def run_blocking(self, until_s: float) -> None:
        """Send by the blocking producer and poll by the blocking consumer until `until_s`, as one thread.

        The world goes on while a call waits.
        """
        loop, writer = self.world.loop, self._writer(1, "blocking sender")
        isolation = self.chance.choice(("read_uncommitted", "read_committed"))
        view = self.history.view("reader", isolation, live=self.load.is_durable)
        known: set[TopicPartition] = set()
        pending: deque[list[Sent]] = deque()
        next_s = loop.time()
        with kafwire.Producer(self.world.bootstrap, engine=self.world.engine, **self._sends()) as producer:
            while loop.time() < until_s or not self._is_read(producer, writer, pending):
                try:
                    options = self.readers.options("reader", isolation)
                    with kafwire.Consumer(
                        self.world.bootstrap, topics=[MAIN], engine=self.world.engine, **options
                    ) as consumer:
                        for (_, where), offset in self.readers.seen.items():
                            consumer.seek(where, offset)
                        while loop.time() < until_s or not self._is_read(producer, writer, pending):
                            if next_s <= loop.time() < until_s:
                                next_s = loop.time() + 1 / self.load.bursts_per_s
                                self._send_blocking(producer, writer, pending)
                            for batch in consumer.poll(1 / self.load.bursts_per_s):
                                self.readers.note(view, batch, known)
                            for where in consumer.assignment:
                                self.readers.seen["reader", where] = consumer.position(where)
                            if loop.time() > until_s + LONGEST_S:
                                self.problems.append(
                                    f"the blocking clients do not come to an end within {LONGEST_S:g} s"
                                )
                                return
                except KafkaError as error:
                    self.readers.note_error("reader", error)
                    self.world.pass_time(0.5)

    def _send_blocking(self, producer: kafwire.Producer, writer: Writer, pending: deque[list[Sent]]) -> None:
        sent: list[Sent] = []
        for sequence, value in writer.invoke(self._keys(self._burst)):
            try:
                sent.append((sequence, producer.send(MAIN, value, key=b"%d" % (sequence % KEYS))))
            except KafkaError as error:
                self._failed(writer, sequence, error, certain=True)
        pending.append(sent)
        while pending and all(delivery.done() for _, delivery in pending[0]):
            self._settle(writer, pending.popleft())

    def _is_read(self, producer: kafwire.Producer, writer: Writer, pending: deque[list[Sent]]) -> bool:
        """True if every record has an outcome, and the consumer has read all committed records."""
        producer.flush(CALL_S)
        while pending:
            self._settle(writer, pending.popleft())
        ends = {
            TopicPartition(MAIN, p.index): p.last_stable_offset
            for p in self.world.state.topics.by_name[MAIN].partitions
        }
        return all(self.readers.seen.get(("reader", where), 0) >= end for where, end in ends.items())

    async def finish(self, timeout_s: float) -> None:
        """Stop the load, and wait at most this long for all outcomes. A client that does not end in time is a problem
        (I6).
        """
        self.is_over = True
        _, left = await asyncio.wait(self._tasks, timeout=timeout_s)
        self.problems += [f"a client did not end within {timeout_s:g} s after all faults" for _ in left]

    async def stop(self) -> None:
        """Close all clients."""
        await self.readers.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- producers

    def _sends(self, **options: Any) -> dict[str, Any]:
        return {
            "linger_ms": self.load.linger_ms,
            "compression_type": self.load.options["compression_type"],
            "batch_size": self.load.options.get("batch_size", 1 << 20),
            "delivery_timeout_ms": self.load.options.get("delivery_timeout_ms", 30_000),
            "request_timeout_ms": 5_000,
            **options,
        }

    def _producer(self, **options: Any) -> kafwire.AsyncProducer:
        return kafwire.AsyncProducer(self.world.bootstrap, engine=self.world.engine, **self._sends(**options))

    def _writer(self, number: int, name: str) -> Writer:
        promises = PROMISES if self.load.is_durable else ("duplicated",)
        return self.history.producer(number, name, promises=promises)

    @property
    def _burst(self) -> int:
        return max(1, round(self.load.records_per_s / self.load.bursts_per_s))

    async def _send(self, number: int) -> None:
        """Send in bursts by one idempotent producer after the other; the history judges the order of each, by key.

        A record in doubt of one producer may be stored after the next producer has sent: brokers do not know that they
        belong together.
        """
        for life in itertools.count():
            if self.is_over:
                return
            writer = self._writer(number + LIVES * life, f"sender {life}")
            async with self._producer(client_id="sender") as producer:
                ends_s = self.world.loop.time() + self.chance.uniform(5.0, 60.0)
                await self._send_until(ends_s, writer, producer)

    async def _send_until(self, ends_s: float, writer: Writer, producer: kafwire.AsyncProducer) -> None:
        pending: deque[list[Sent]] = deque()
        while not self.is_over and self.world.loop.time() < ends_s:
            await asyncio.sleep(1 / self.load.bursts_per_s)
            sent: list[Sent] = []
            for sequence, value in writer.invoke(self._keys(self._burst)):
                try:
                    sent.append((sequence, await producer.send(MAIN, value, key=b"%d" % (sequence % KEYS))))
                except KafkaError as error:
                    self._failed(writer, sequence, error, certain=True)
            pending.append(sent)
            while pending and all(delivery.done() for _, delivery in pending[0]):
                self._settle(writer, pending.popleft())
        for sent in pending:
            for _, delivery in sent:
                await _ended(delivery)
            self._settle(writer, sent)

    def _keys(self, count: int) -> list[int]:
        return self.chance.choices(range(KEYS), k=count)

    def _settle(self, writer: Writer, sent: Sequence[Sent]) -> None:
        """Write the outcome of settled records to the history."""
        acknowledged: defaultdict[tuple[str, int], tuple[list[int], list[int | None]]]
        acknowledged = defaultdict(lambda: ([], []))
        for sequence, delivery in sent:
            error = delivery.exception()
            if error is None:
                meta = delivery.result()
                sequences, offsets = acknowledged[meta.topic, meta.partition]
                sequences.append(sequence)
                offsets.append(meta.offset)
            else:
                self._failed(writer, sequence, error, certain=not getattr(error, "in_doubt", True))
        for (topic, partition), (sequences, offsets) in acknowledged.items():
            writer.ok_all(sequences, topic, partition, offsets)
            self.counts["acknowledged"] += len(sequences)

    def _failed(self, writer: Writer, sequence: int, error: Exception | str, *, certain: bool) -> None:
        name = error if isinstance(error, str) else getattr(error, "name", type(error).__name__)
        (writer.fail if certain else writer.unknown)([sequence], str(error))
        self.counts["failed" if certain else "in doubt"] += 1
        self.counts[f"error {name}"] += 1

    # --- transactions

    @property
    def _call_s(self) -> float:
        return CALL_S if self.load.is_patient else HASTY_S

    async def _transact(self, number: int, topic: str) -> None:
        """Run transactions of one burst each over all partitions, and abort some on purpose."""
        writer = self._writer(number, "transactions")
        producer = await self._fresh("transactions")
        while not self.is_over:
            await asyncio.sleep(1 / self.load.bursts_per_s)
            count = self._burst
            if await self._transaction(writer, producer, [(topic, None)] * count, None) is None:
                await self._close(producer)
                producer = await self._fresh("transactions")
        await self._close(producer)

    async def _fresh(self, identity: str) -> kafwire.AsyncProducer:
        while True:
            timeout_ms = PATIENT_MS if self.load.is_patient else TRANSACTION_MS
            producer = self._producer(transactional_id=identity, transaction_timeout_ms=timeout_ms, client_id=identity)
            try:
                await producer.init_transactions(self._call_s)
            except TransactionError as error:
                self.counts[f"error init {type(error).__name__}"] += 1
                await self._close(producer)
                await asyncio.sleep(0.5)
            else:
                return producer

    async def _close(self, producer: kafwire.AsyncProducer) -> None:
        try:
            await producer.close(0.0)
        except KafkaError as error:
            self.counts[f"error close {type(error).__name__}"] += 1

    async def _transaction(
        self,
        writer: Writer,
        producer: kafwire.AsyncProducer,
        places: Sequence[tuple[str, int | None]],
        offsets: tuple[str, dict[TopicPartition, int]] | None,
    ) -> bool | None:
        """Run a transaction. Return True if it was committed; None: that is unknown, and the producer is unusable."""
        transaction = writer.begin()
        sent: list[Sent] = []
        committed: bool | None
        try:
            async with producer.transaction(self._call_s):
                if offsets is not None:
                    group, upto = offsets
                    writer.offsets(transaction, group, upto)
                    await producer.send_offsets(upto, group, self._call_s)
                made = writer.invoke(self._keys(len(places)), transaction=transaction)
                left = [sequence for sequence, _ in made]
                try:
                    for (topic, partition), (sequence, value) in zip(places, made, strict=True):
                        delivery = await producer.send(topic, value, key=b"%d" % (sequence % KEYS), partition=partition)
                        sent.append((sequence, delivery))
                        del left[0]
                finally:
                    if left:
                        writer.fail(left, "not sent")
                if self.load.is_slow and self.chance.random() < SLOW:
                    await asyncio.sleep(self.chance.uniform(*SLOW_S))
                if self.chance.random() < ABORTED:
                    raise _Planned
            committed = True
        except (_Planned, KafkaError) as error:
            committed = await self._decide(producer, error)
        self._settle(writer, [each for each in sent if each[1].done()])
        for sequence, delivery in sent:
            if not delivery.done():
                self._failed(writer, sequence, "open", certain=False)
        writer.end(transaction, {True: "commit", False: "abort", None: "unknown"}[committed])
        self.counts[{True: "committed", False: "aborted", None: "undecided"}[committed]] += 1
        return committed

    async def _decide(self, producer: kafwire.AsyncProducer, error: Exception) -> bool | None:
        if not isinstance(error, _Planned):
            self.counts[f"error {type(error).__name__}"] += 1
        if hasattr(error, "__notes__"):  # the transaction could not be aborted
            return None
        if not isinstance(error, TransactionTimeoutError):
            return None if getattr(error, "fatal", False) else False
        try:
            await producer.commit_transaction(self._call_s)
        except KafkaError as again:
            self.counts[f"error again {type(again).__name__}"] += 1
            return None
        return True

    async def _pass_on(self, number: int) -> None:
        """Read the main topic, and write as many records to the second, with the offsets in the transaction."""
        writer = self._writer(number, CHAIN)
        places = [TopicPartition(MAIN, index) for index in range(self.load.partitions)]
        while not self.is_over:
            producer = await self._fresh(CHAIN)
            consumer = self.readers.consumer(
                CHAIN, "read_committed", assign=places, group_id=CHAIN, enable_auto_commit=False
            )
            try:
                async with consumer:
                    while not self.is_over and await self._pass_on_once(writer, producer, consumer):
                        pass
            except KafkaError as error:
                self.counts[f"error chain {type(error).__name__}"] += 1
                await asyncio.sleep(0.2)
            await self._close(producer)

    async def _pass_on_once(
        self, writer: Writer, producer: kafwire.AsyncProducer, consumer: kafwire.AsyncConsumer
    ) -> bool:
        batches = [batch for batch in await consumer.poll(0.5) if len(batch)]
        if not batches:
            return True
        upto = {TopicPartition(batch.topic or "", batch.partition or 0): batch.next_offset for batch in batches}
        count = min(sum(map(len, batches)), 2 * self._burst)
        committed = await self._transaction(writer, producer, [(SECOND, None)] * count, (CHAIN, upto))
        # The consumer restarts at the committed offsets.
        return committed is True

    # --- a topic that is recreated and cut short

    async def _try_side_topic(self) -> None:
        """Send to a topic whose records may be lost: its clients get errors in time, and can go on, without other
        promises.
        """
        async with self._producer(client_id="side", delivery_timeout_ms=15_000) as producer:
            await self.readers.side.send(producer)


async def _ended(delivery: Any) -> None:
    try:
        await delivery
    except KafkaError:
        return
