"""`_rows`: a thread adds rows while the transaction that they were sent in ends: none gets into the next one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kafwire.errors import KafkaError, TransactionStateError
from kafwire.producer.buffer._rows import RowPlan
from kafwire.records._arrow_rows import RowsReader
from tests.support.accumulator_store import Store
from tests.support.pass_clock import PassClock

Parts = list[tuple[Any, int, int]]


@pytest.fixture
def clock() -> PassClock:
    return PassClock()


@pytest.fixture
def store(clock: PassClock) -> Store:
    return Store(clock=clock, batch_size=1_000, buffer_memory=4_000)


def plan(store: Store, rows: int) -> RowPlan:
    (chunk,) = RowsReader(pa.table({"value": [b"%05d" % n * 20 for n in range(rows)]}))
    made = store.accumulator.plan_rows("t", chunk, 0, 0)
    assert made is not None
    return made


def rows_in(parts: Parts) -> int:
    return sum(count for _, _, count in parts)


def test_a_table_is_not_continued_in_the_next_transaction_generation(store: Store) -> None:
    table, parts = plan(store, 100), Parts()
    assert not store.accumulator.append_rows(table, parts)  # the buffer is full
    store.deliver()
    added = rows_in(parts)
    store.accumulator.transaction_generation += 1
    with pytest.raises(TransactionStateError, match="the transaction ended while rows were added to it"):
        store.accumulator.append_rows(table, parts)
    assert rows_in(parts) == added > 0
    assert len(store.values(0)) == added
    assert store.used == 0


def test_a_table_of_the_transaction_generation_before_is_not_begun(store: Store) -> None:
    table, parts = plan(store, 3), Parts()
    store.accumulator.transaction_generation += 1
    with pytest.raises(TransactionStateError):
        store.accumulator.append_rows(table, parts)
    assert parts == []
    assert store.used == 0


def test_a_thread_that_adds_rows_is_counted_meanwhile(store: Store, clock: PassClock) -> None:
    """The end of a transaction waits for them."""
    seen: list[int] = []
    with clock.behind_passes(store.accumulator, lambda: seen.append(store.accumulator.passes)):
        assert store.accumulator.append_rows(plan(store, 3), Parts())
    assert seen == [1]
    assert store.accumulator.passes == 0


def test_a_thread_that_fails_to_add_rows_is_no_longer_counted_and_the_end_is_notified(store: Store) -> None:
    def refuse() -> Exception:
        return KafkaError("no transaction was begun")

    store.accumulator.send_gate = refuse
    assert not store.notifier.take()
    with pytest.raises(KafkaError, match="no transaction"):
        store.accumulator.append_rows(plan(store, 3), Parts())
    assert store.accumulator.passes == 0
    assert store.notifier.take()


def test_the_gate_closes_between_two_passes(store: Store, clock: PassClock) -> None:
    """Rows that were added by then are in the transaction; the rest is refused."""

    def close_gate() -> None:
        store.accumulator.send_gate = lambda: KafkaError("the transaction is being committed")

    table, parts = plan(store, 100), Parts()
    closed = pytest.raises(KafkaError, match="is being committed")
    with clock.behind_passes(store.accumulator, close_gate), closed:
        store.accumulator.append_rows(table, parts)
    assert rows_in(parts) > 0
    assert store.accumulator.passes == 0
    store.deliver()
    assert len(store.values(0)) == rows_in(parts)
