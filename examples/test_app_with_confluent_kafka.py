"""An app that uses confluent-kafka, and its tests: it mails customers whose orders were shipped, at least once each."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from kafwire.testing import EmbeddedKafka

# --- the app


def mail_customers(servers: str, send_mail: Callable[[str], None], *, until: Callable[[], bool]) -> None:
    """Send a mail for each shipped order, and commit behind it."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "client.id": "mailer",
            "group.id": "mailer",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["shipped"])
    try:
        while not until():
            message = consumer.poll(0.1)
            if message is None or message.error():
                continue  # librdkafka tries again
            send_mail((message.value() or b"").decode())
            try:
                consumer.commit(message=message, asynchronous=False)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise  # a retriable one: a later commit covers it, or the mail is sent twice
    finally:
        consumer.close()


def ship(producer: Producer, order: str) -> str | None:
    """Report that an order was shipped; returns why that is not possible."""
    outcome: list[KafkaError | None] = []
    producer.produce("shipped", order.encode(), on_delivery=lambda error, _: outcome.append(error))
    producer.flush(30)
    return str(outcome[0].name()) if outcome and outcome[0] else None


# --- its tests


def test_each_customer_gets_a_mail(kafka: EmbeddedKafka) -> None:
    kafka.create_topic("shipped", partitions=2)
    kafka.append("shipped", ["2 books"], partition=0)
    kafka.append("shipped", ["a lamp"], partition=1)
    mails: list[str] = []
    mail_customers(kafka.bootstrap, mails.append, until=lambda: len(mails) == 2)
    assert sorted(mails) == ["2 books", "a lamp"]
    assert kafka.committed("mailer") == {("shipped", 0): 1, ("shipped", 1): 1}


def test_a_commit_that_fails_is_made_again(kafka: EmbeddedKafka) -> None:
    kafka.create_topic("shipped")
    kafka.append("shipped", ["2 books", "a lamp"])
    failed = kafka.fail_next("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", client_id="mailer")
    mails: list[str] = []
    mail_customers(kafka.bootstrap, mails.append, until=lambda: len(mails) == 2)
    assert failed.times == 1
    assert mails == ["2 books", "a lamp"]
    assert kafka.committed("mailer") == {("shipped", 0): 2}


def test_a_fetch_that_breaks_off_loses_no_mail(kafka: EmbeddedKafka) -> None:
    kafka.create_topic("shipped")
    kafka.append("shipped", ["2 books"])
    kafka.fail_next("Fetch", "NOT_LEADER_OR_FOLLOWER")
    broken = kafka.drop_response("Fetch")
    mails: list[str] = []
    mail_customers(kafka.bootstrap, mails.append, until=lambda: len(mails) == 1)
    assert broken.times == 1
    assert mails == ["2 books"]


def test_the_producer_reports_refused_records(kafka: EmbeddedKafka) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "client.id": "shop"})
    assert ship(producer, "2 books") is None
    kafka.fail_next("Produce", "INVALID_RECORD", topic="shipped")
    assert ship(producer, "a lamp") == "INVALID_RECORD"
    kafka.fail_next("Produce", "NOT_ENOUGH_REPLICAS", times=2)  # it tries again by itself
    assert ship(producer, "3 pens") is None
    assert [record.value for record in kafka.records("shipped")] == [b"2 books", b"3 pens"]


@pytest.mark.kafka(nodes=2)
def test_the_coordinator_may_move(kafka: EmbeddedKafka) -> None:
    kafka.create_topic("shipped", replicas=2)
    kafka.append("shipped", ["2 books"])
    mails: list[str] = []

    def send_mail(text: str) -> None:
        mails.append(text)
        if len(mails) == 1:
            (before,) = {request.node for request in kafka.requests("JoinGroup")}
            kafka.move_coordinator("mailer", 3 - before)
            kafka.append("shipped", ["a lamp"])

    mail_customers(kafka.bootstrap, send_mail, until=lambda: kafka.committed("mailer") == {("shipped", 0): 2})
    assert set(mails) == {"2 books", "a lamp"}
