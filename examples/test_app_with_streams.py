"""An app that uses kafwire's streams, and its tests: orders are charged, in order for each customer, many at once.

Its tests come in two kinds. Those of what it decides run in memory, on a clock that jumps: they need no broker, and no
time. Those of how it works with Kafka run on a broker in the test's own process.
"""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any, Protocol

import pytest

import kafwire
from kafwire.stream import (
    ConsumerSource,
    MemorySink,
    MemorySource,
    Message,
    Pipeline,
    RetryTopic,
    StopRequest,
    StreamSummary,
    TopicSink,
)
from kafwire.testing import EmbeddedKafka, run_in_simulated_time

# --- the app


class BankAwayError(Exception):
    """The bank does not respond: try again later."""


class CardRefusedError(Exception):
    """The bank refused the card: trying again would not help."""


class Bank(Protocol):
    """Takes money."""

    async def charge(self, customer: str, amount: int) -> str:
        """Take an amount, and return a receipt."""


def charging(bank: Bank) -> Pipeline:
    """A pipeline from orders to receipts; orders that cannot be charged become dead letters."""

    async def charge(order: kafwire.Record) -> Message:
        wanted = json.loads(order.value)
        receipt = await bank.charge(wanted["customer"], wanted["amount"])
        return Message(receipt.encode(), key=order.key)

    return (
        Pipeline()
        .filter(lambda order: order.value is not None)
        .for_each(charge, workers=32, by="key", timeout_s=10.0)
        .retry(3, backoff_s=0.5, on=(BankAwayError, TimeoutError))
        .retry_topics(RetryTopic("orders.retry", 600))
        .dead_letters("orders.dead")
        .commit(every=1000, within=1.0)
    )


async def charge_orders(
    servers: str, bank: Bank, *, stop: StopRequest | None = None, idle_s: float | None = None
) -> StreamSummary:
    """Charge orders until a stop is requested: each receipt is written with its order's offset, or not at all.

    Processes that do so share the orders as a group. Each needs a transactional id of its own.
    """
    consumer = kafwire.AsyncConsumer(
        servers,
        topics=["orders", "orders.retry"],
        group_id="charging",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    async with kafwire.AsyncProducer(servers, transactional_id="charging-0") as producer:
        return await charging(bank).run_async(
            ConsumerSource(consumer, idle_s=idle_s),
            TopicSink(producer, "receipts"),
            guarantee="exactly_once",
            stop=stop,
        )


# --- its tests in memory


class TestBank:
    """Takes its time for each charge; is away, hangs or refuses as its attributes say."""

    __test__ = False

    def __init__(self, *, away: int = 0, hangs: int = 0, refuses: str = "") -> None:
        self.away = away
        self.hangs = hangs
        self.refuses = refuses
        self.charged: list[tuple[str, int]] = []
        self.seconds = 1.0
        self.busy = self.most = 0

    async def charge(self, customer: str, amount: int) -> str:
        """Take its time."""
        self.busy += 1
        self.most = max(self.most, self.busy)
        try:
            await self._respond(customer)
        finally:
            self.busy -= 1
        self.charged.append((customer, amount))
        return f"{customer} paid {amount}"

    async def _respond(self, customer: str) -> None:
        if self.hangs:
            self.hangs -= 1
            await asyncio.Event().wait()
        await asyncio.sleep(self.seconds)
        if self.away:
            self.away -= 1
            raise BankAwayError("no response")
        if customer == self.refuses:
            raise CardRefusedError(f"the card of {customer}")


def order(customer: str, amount: int) -> tuple[bytes, bytes]:
    return customer.encode(), json.dumps({"customer": customer, "amount": amount}).encode()


ORDERS = [order(customer, amount) for amount in (1, 2) for customer in ("Ada", "Bob", "Cyd")]


def run(source: MemorySource, bank: TestBank) -> tuple[MemorySink, float]:
    """The app on a source in memory: what it wrote, and how many seconds it would have taken."""

    async def main(clock: Any) -> tuple[MemorySink, float]:
        began, sink = clock.monotonic(), MemorySink(source)
        await charging(bank).run_async(source, sink, guarantee="exactly_once", clock=clock, random=random.Random(1))
        return sink, clock.monotonic() - began

    return run_in_simulated_time(main)


def test_customers_are_charged_at_once_and_each_in_order() -> None:
    source, bank = MemorySource({"orders": ORDERS}), TestBank()
    sink, seconds = run(source, bank)
    assert len(sink.values) == 6
    assert bank.most == 3
    assert seconds == pytest.approx(2, abs=0.5)
    for customer in ("Ada", "Bob", "Cyd"):
        assert [amount for name, amount in bank.charged if name == customer] == [1, 2]
    assert source.committed == {("orders", 0): 6}


def test_a_bank_that_comes_back_is_asked_again() -> None:
    source, bank = MemorySource({"orders": ORDERS}), TestBank(away=4)
    sink, _ = run(source, bank)
    assert len([one for one in sink.values if one.topic is None]) == 6
    assert len(bank.charged) == 6


def test_a_bank_that_hangs_is_asked_again() -> None:
    source, bank = MemorySource({"orders": ORDERS[:1]}), TestBank(hangs=1)
    sink, seconds = run(source, bank)
    assert [receipt.value for receipt in sink.values] == [b"Ada paid 1"]
    assert seconds > 10


def test_a_bank_that_stays_away_is_asked_in_ten_minutes() -> None:
    source, bank = MemorySource({"orders": ORDERS[:1]}), TestBank(away=3)
    sink, _ = run(source, bank)
    (later,) = sink.values
    assert later.topic == "orders.retry"
    sink, seconds = run(MemorySource({"orders.retry": [later]}), bank)
    assert [receipt.value for receipt in sink.values] == [b"Ada paid 1"]
    assert seconds == pytest.approx(600, abs=20)


def test_an_order_that_cannot_be_charged_is_a_dead_letter() -> None:
    source = MemorySource({"orders": [*ORDERS, (b"Dan", b"no order"), (b"Eve", None)]})
    sink, _ = run(source, TestBank(refuses="Bob"))
    letters = [(letter.key, dict(letter.headers)["kafwire.error.class"]) for letter in sink.written("orders.dead")]
    assert sorted(letters) == [
        (b"Bob", f"{__name__}.CardRefusedError".encode()),
        (b"Bob", f"{__name__}.CardRefusedError".encode()),
        (b"Dan", b"json.decoder.JSONDecodeError"),
    ]
    assert len([one for one in sink.values if one.topic is None]) == 4
    assert source.committed == {("orders", 0): 8}


# --- its tests with a broker


@pytest.fixture
def shop(kafka: EmbeddedKafka) -> EmbeddedKafka:
    for topic in ("orders", "orders.retry", "orders.dead", "receipts"):
        kafka.create_topic(topic, partitions=2)
    for number in range(2):
        kafka.append("orders", [{"key": key, "value": value} for key, value in ORDERS], partition=number)
    return kafka


def charge_all(kafka: EmbeddedKafka, bank: TestBank) -> StreamSummary:
    """Run the app until there is nothing left to charge."""
    bank.seconds = 0.01
    return asyncio.run(asyncio.wait_for(charge_orders(kafka.bootstrap, bank, idle_s=1.0), 30))


def receipts(kafka: EmbeddedKafka) -> list[bytes | None]:
    return sorted(record.value or b"" for record in kafka.records("receipts", committed=True))


EXPECTED = sorted(2 * [f"{name} paid {amount}".encode() for name in ("Ada", "Bob", "Cyd") for amount in (1, 2)])


def test_each_order_has_a_receipt(shop: EmbeddedKafka) -> None:
    charge_all(shop, TestBank())
    assert receipts(shop) == EXPECTED
    assert {where: at for where, at in shop.committed("charging").items() if at} == {("orders", 0): 6, ("orders", 1): 6}


def test_a_transaction_that_is_aborted_writes_no_receipt_twice(shop: EmbeddedKafka) -> None:
    refused = shop.fail_next("TxnOffsetCommit", "ILLEGAL_GENERATION")
    summary = charge_all(shop, TestBank())
    assert (refused.times, summary.aborts) == (1, 1)
    assert receipts(shop) == EXPECTED


def test_dead_letters_say_where_they_come_from(shop: EmbeddedKafka) -> None:
    shop.append("orders", [{"key": b"Dan", "value": b"no order"}], partition=1)
    charge_all(shop, TestBank())
    (letter,) = shop.records("orders.dead", committed=True)
    headers = dict(letter.headers)
    assert (headers["kafwire.origin.topic"], headers["kafwire.origin.partition"]) == (b"orders", b"1")
    assert headers["kafwire.origin.offset"] == b"6"
    assert receipts(shop) == EXPECTED
