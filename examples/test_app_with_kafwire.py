"""An app that uses kafwire, and its tests: orders become bills, each exactly once, whatever the brokers do."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

import kafwire
from kafwire.testing import EmbeddedKafka
from kafwire.testing.strategies import BrokerEvent, fault_scripts

# --- the app


def bill_orders(servers: str, *, idle: float) -> int:
    """Write a bill for each order that has none yet; return when there was no order for `idle` seconds."""
    orders = kafwire.TopicPartition("orders", 0)
    billed = 0
    with kafwire.Producer(servers, transactional_id="billing-orders-0", client_id="billing") as producer:
        producer.init_transactions()  # what a predecessor left open ends before its offsets are looked up
        with kafwire.Consumer(
            servers,
            assign=[orders],
            group_id="billing",
            client_id="billing",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        ) as consumer:
            for batch in consumer.batches(timeout=idle):
                try:
                    with producer.transaction():
                        for order in batch:
                            producer.send("bills", b"bill of " + (order.value or b""))
                        producer.send_offsets({orders: batch.next_offset}, consumer.group_metadata())
                    billed += len(batch)
                except kafwire.errors.TransactionAbortableError:
                    consumer.seek(orders, batch[0].offset)  # it was aborted: once more
    return billed


# --- its tests


def bills(kafka: EmbeddedKafka) -> list[bytes | None]:
    return [record.value for record in kafka.records("bills", committed=True)]


def test_each_order_has_a_bill(kafka: EmbeddedKafka) -> None:
    kafka.create_topic("orders")
    kafka.append("orders", ["2 books", "a lamp"])
    assert bill_orders(kafka.bootstrap, idle=0.3) == 2
    assert bills(kafka) == [b"bill of 2 books", b"bill of a lamp"]
    assert kafka.committed("billing") == {("orders", 0): 2}


def test_a_second_run_bills_only_new_orders(kafka: EmbeddedKafka) -> None:
    kafka.create_topic("orders")
    kafka.append("orders", ["2 books"])
    bill_orders(kafka.bootstrap, idle=0.3)
    kafka.append("orders", ["a lamp"])
    assert bill_orders(kafka.bootstrap, idle=0.3) == 1
    assert bills(kafka) == [b"bill of 2 books", b"bill of a lamp"]


def test_a_lost_response_bills_no_customer_twice(kafka: EmbeddedKafka) -> None:
    kafka.create_topic("orders")
    kafka.append("orders", ["2 books"])
    lost = kafka.drop_response("Produce", topic="bills")  # the bill is written, and the response is lost
    bill_orders(kafka.bootstrap, idle=1.0)
    assert lost.times == 1
    assert len(kafka.requests("Produce", topic="bills")) == 2
    assert bills(kafka) == [b"bill of 2 books"]


def test_an_aborted_transaction_bills_no_customer_twice(kafka: EmbeddedKafka) -> None:
    kafka.create_topic("orders")
    kafka.append("orders", ["2 books", "a lamp"])  # one batch, of which a predecessor has billed the first record
    orders = kafwire.TopicPartition("orders", 0)
    with (
        kafwire.Producer(kafka.bootstrap, transactional_id="billing-orders-0") as predecessor,
        predecessor.transaction(),
    ):
        predecessor.send("bills", b"bill of 2 books")
        predecessor.send_offsets({orders: 1}, "billing")
    kafka.fail_next("TxnOffsetCommit", "TRANSACTION_ABORTABLE")
    assert bill_orders(kafka.bootstrap, idle=1.0) == 1
    assert bills(kafka) == [b"bill of 2 books", b"bill of a lamp"]


def test_offsets_are_committed_in_the_transaction(kafka: EmbeddedKafka) -> None:
    kafka.create_topic("orders")
    kafka.append("orders", ["2 books"])
    bill_orders(kafka.bootstrap, idle=0.3)
    assert kafka.requests("OffsetCommit") == []
    (commit,) = kafka.requests("TxnOffsetCommit")
    assert (commit.client_id, commit.partitions) == ("billing", [("orders", 0)])


@pytest.mark.kafka(nodes=3)
def test_brokers_may_go(kafka: EmbeddedKafka) -> None:
    kafka.create_topic("orders", replicas=3)
    kafka.create_topic("bills", replicas=3)
    for number, order in enumerate(["2 books", "a lamp", "3 pens"], start=1):
        kafka.append("orders", [order])
        kafka.stop_node(number)
        bill_orders(kafka.bootstrap, idle=1.0)
        kafka.start_node(number)
    assert bills(kafka) == [b"bill of 2 books", b"bill of a lamp", b"bill of 3 pens"]


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(script=fault_scripts(apis=["Produce", "Fetch", "FindCoordinator", "EndTxn", "TxnOffsetCommit"], max_times=1))
def test_each_order_has_one_bill_whatever_happens(script: list[BrokerEvent]) -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("orders")
        kafka.append("orders", ["2 books", "a lamp"])
        for event in script:
            event.play(kafka)
        bill_orders(kafka.bootstrap, idle=1.0)
        assert bills(kafka) == [b"bill of 2 books", b"bill of a lamp"], kafka.last_requests()
