"""`_rows`: threads that fill batches at the same time, one step after the other in an order that the test says.

A pass of `append_rows` encodes without the GIL. When it has ended, and its batches are not in their places yet, the
accumulator reads the clock, which holds the thread there.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import pyarrow as pa
import pytest

from kafwire.producer.buffer._batch import ProducerBatch
from kafwire.producer.buffer._partitioner import PartitionWeights
from kafwire.records._arrow_rows import RowsReader
from kafwire.runtime._interfaces import Clock
from tests.support import seeds
from tests.support.accumulator_store import Store
from tests.support.deadlines import ended

PATIENCE_S = 60.0


class Sender:
    """A thread that goes on when the test lets it, and stops behind each pass and each thing sent."""

    def __init__(self, store: Store, name: int) -> None:
        self.store = store
        self.name = name
        self.sent = 0
        self.adds_rows = False
        self.in_pass = False
        self.problem: BaseException | None = None
        self._task: Callable[[], object] | None = None
        self._go = threading.Semaphore(0)
        self._stopped = threading.Semaphore(0)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while True:
            self._go.acquire(timeout=PATIENCE_S)
            if self._task is None:
                return
            try:
                self._task()
            except BaseException as problem:
                self.problem = problem
            self._stopped.release()

    def _values(self, count: int, size: int) -> list[bytes]:
        first, self.sent = self.sent, self.sent + count
        return [(b"%d:%06d:" % (self.name, number)).ljust(size, b".") for number in range(first, self.sent)]

    def send(self, *, partition: int | None = 0, size: int = 20) -> None:
        """One record, from beginning to end."""
        (value,) = self._values(1, size)
        self._task = lambda: self.store.append(value, partition=partition)
        self.step()

    def begin_rows(self, count: int, *, partition: int | None = 0, size: int = 20) -> None:
        """A table's rows, up to the end of the first pass."""
        table = pa.table({"value": self._values(count, size)})

        def task() -> None:
            parts: list[tuple[ProducerBatch, int, int]] = []
            self.adds_rows = True
            for rows in RowsReader(table):
                plan = self.store.accumulator.plan_rows("t", rows, partition, 0)
                assert plan is not None
                assert self.store.accumulator.append_rows(plan, parts)
            self.adds_rows = False

        self._task = task
        self.step()
        assert self.in_pass

    def wait(self) -> None:
        """Stop this thread until the next step."""
        self.in_pass = True
        self._stopped.release()
        assert self._go.acquire(timeout=PATIENCE_S)
        self.in_pass = False

    def step(self) -> None:
        """Let the thread run to the next stop."""
        self._go.release()
        assert self._stopped.acquire(timeout=PATIENCE_S)
        if self.problem is not None:
            raise self.problem

    def end(self) -> None:
        """Step to the end of the current pass."""
        while self.in_pass:
            self.step()

    def stop(self) -> None:
        self.end()
        self._task = None
        self._go.release()
        ended(self.thread)


class HoldingClock(Clock):
    """Holds a sender's thread that adds rows and looks at it."""

    senders: Sequence[Sender] = ()

    def monotonic(self) -> float:
        for sender in self.senders:
            if sender.adds_rows and sender.thread is threading.current_thread():
                sender.wait()
        return super().monotonic()


class Interleaving:
    """A store, and threads that send to it in turn."""

    def __init__(self, threads: int, **options: Any) -> None:
        clock = HoldingClock()
        self.store = Store(clock=clock, **options)
        self.senders = clock.senders = [Sender(self.store, name) for name in range(threads)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for sender in self.senders:
            sender.stop()

    def check(self) -> None:
        """End all, and see that everything is there, each thread's in its order."""
        for sender in self.senders:
            sender.end()
        self.store.deliver()
        for sender in self.senders:
            found = []
            for partition in self.store.logs:
                mine = [v for v in self.store.values(partition) if v and v.startswith(b"%d:" % sender.name)]
                numbers = [int(value.split(b":")[1]) for value in mine]
                assert numbers == sorted(numbers), f"thread {sender.name} in partition {partition}"
                found += numbers
            assert sorted(found) == list(range(sender.sent))
        assert self.store.used == 0


@pytest.fixture
def two() -> Iterator[Interleaving]:
    with Interleaving(2, partitions=1, batch_size=1_000) as world:
        yield world


@pytest.mark.parametrize("rows", [2, 60])
def test_rows_go_behind_a_batch_that_was_filled_by_another_thread_and_is_open_again(
    two: Interleaving, rows: int
) -> None:
    """The second thread's first row is in a batch that is away while its next rows are encoded."""
    first, second = two.senders
    second.send()
    first.begin_rows(2)
    second.begin_rows(rows)
    first.end()  # the batch is open again
    second.end()
    two.check()


def test_rows_go_behind_earlier_records_of_their_next_partition(two: Interleaving) -> None:
    with Interleaving(1, partitions=2, batch_size=1_000) as world:
        (sender,) = world.senders
        sender.send(partition=0)
        sender.send(partition=1)
        sender.begin_rows(200, partition=None)
        world.check()


def test_the_engine_gets_neither_a_batch_being_filled_nor_those_behind_it(two: Interleaving) -> None:
    first, second = two.senders
    queue = two.store.accumulator.topics["t"].queues[0]
    for _ in range(30):
        first.send(size=100)
    first.begin_rows(2)
    for _ in range(30):
        second.send(size=100)
    fresh = queue.advance()
    assert fresh
    assert not any(batch.filling for batch in fresh)
    assert queue.sealed[0].filling
    assert len(queue.sealed) > 1
    first.end()
    queue.advance()
    assert not queue.sealed
    two.check()


def test_a_batch_requested_while_it_was_filled_is_reported_when_it_comes_back(two: Interleaving) -> None:
    """The engine need not look again: the report names the batches that it can send then."""
    first, _ = two.senders
    accumulator = two.store.accumulator
    first.send()
    first.begin_rows(2)
    (queue,), _ = accumulator.collect(everything=True)
    assert not queue.advance()
    assert accumulator.collect()[0] == []
    first.end()
    assert accumulator.collect()[0] == [queue]
    assert len(queue.advance()) == 1
    first.send()
    two.check()


@seeds.several(60)
def test_any_order_of_passes_keeps_each_threads_order(seed: int) -> None:
    chance = random.Random(seed)
    with Interleaving(3, partitions=2, batch_size=chance.choice([300, 1_000]), rng_state=seed) as world:
        for _ in range(40):
            sender = chance.choice(world.senders)
            event = chance.random()
            if sender.in_pass:
                sender.step()
            elif event < 0.5:
                sender.begin_rows(chance.choice([1, 2, 5, 40, 200]), partition=chance.choice([0, 0, None]))
            else:
                sender.send(partition=chance.choice([0, 0, None]))
            if chance.random() < 0.15:
                world.store.deliver(everything=chance.random() < 0.5)
            if chance.random() < 0.1:
                world.store.accumulator.set_weights("t", PartitionWeights([chance.randrange(2)], [1]))
        world.check()
