"""`kafwire letters` on an embedded broker: letters are listed by filters, and sent back once each."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

import kafwire
from kafwire.cli import letter_requests, main
from kafwire.cluster import list_offsets
from kafwire.errors import KafkaError
from kafwire.records import Record
from kafwire.stream import MemorySource, Pipeline, TopicSink
from kafwire.testing import EmbeddedKafka

COUNT = 30


def charge(order: Record) -> bytes:
    number = int(order.value)
    if number % 3 == 0:
        raise ValueError(f"{number} has no price")
    if number % 3 == 1:
        raise KeyError("card")
    return bytes(order.value)


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    """Orders of which two thirds are dead letters."""
    with EmbeddedKafka() as running:
        for topic in ("orders", "dead", "elsewhere"):
            running.create_topic(topic, partitions=2)
        fill(running)
        yield running


def fill(kafka: EmbeddedKafka) -> None:
    async def main() -> None:
        source = MemorySource()
        for partition in (0, 1):
            orders = [(b"key %d" % (one % 4), b"%d" % one) for one in range(COUNT) if one % 2 == partition]
            source.append("orders", orders, partition=partition)
        async with kafwire.AsyncProducer(kafka.bootstrap) as producer:
            await Pipeline().map(charge).dead_letters("dead").run_async(source, TopicSink(producer, "elsewhere"))

    asyncio.run(main())


def run(kafka: EmbeddedKafka, *arguments: str) -> Result:
    first, *rest = arguments
    return CliRunner().invoke(main, ["letters", first, "dead", "-b", kafka.bootstrap, *rest])


def listed(kafka: EmbeddedKafka, *arguments: str) -> list[dict[str, Any]]:
    result = run(kafka, "list", "-J", *arguments)
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def values(kafka: EmbeddedKafka, topic: str) -> list[int]:
    with kafwire.scan(kafka.bootstrap, topic, isolation_level="read_committed") as found:
        return sorted(int(record.value) for batch in found.batches() for record in batch)


def test_letters_are_listed(kafka: EmbeddedKafka) -> None:
    result = run(kafka, "list", "--limit", "3")
    assert result.exit_code == 0, result.stderr
    header, *rows, last = result.stdout.splitlines()
    assert header.split() == [
        "LETTER",
        "WRITTEN",
        "TOPIC",
        "PARTITION",
        "OFFSET",
        "KEY",
        "STEP",
        "ERROR",
        "MESSAGE",
        "ATTEMPTS",
    ]
    assert len(rows) == 3
    assert last == "3 letter(s)"
    found = listed(kafka)
    assert len(found) == 20
    assert Counter(one["error"] for one in found) == {"ValueError": 10, "KeyError": 10}
    first = next(one for one in found if one["message"] == "0 has no price")
    assert first["origin"] == {"topic": "orders", "partition": 0, "offset": 0}
    assert (first["key"], first["step"], first["attempts"], first["sent"]) == ("key 0", "map(charge)", 1, False)


def test_letters_are_sent_back_once_by_filters_in_any_order(kafka: EmbeddedKafka) -> None:
    assert run(kafka, "send", "--error", "ValueError", "--dry-run").stdout == "would send 10 letter(s) to orders\n"
    assert values(kafka, "orders") == []
    assert len(listed(kafka)) == 20
    assert run(kafka, "send", "--error", "ValueError", "--partition", "1").stdout == "sent 5 letter(s) to orders\n"
    assert run(kafka, "send", "--error", "ValueError").stdout == "sent 5 letter(s) to orders\n"
    assert run(kafka, "send", "--error", "ValueError").stdout == "sent no letters\n"
    assert values(kafka, "orders") == [one for one in range(COUNT) if one % 3 == 0]
    assert {one["error"] for one in listed(kafka)} == {"KeyError"}
    assert Counter(one["sent"] for one in listed(kafka, "--all")) == {True: 10, False: 10}
    assert run(kafka, "send", "--limit", "4").stdout == "sent 4 letter(s) to orders\n"
    assert run(kafka, "send").stdout == "sent 6 letter(s) to orders\n"
    assert values(kafka, "orders") == [one for one in range(COUNT) if one % 3 != 2]


def test_a_letter_that_was_sent_back_is_the_record_in_its_partition(kafka: EmbeddedKafka) -> None:
    run(kafka, "send")
    with kafwire.scan(kafka.bootstrap, "orders") as found:
        records = [record for batch in found.batches() for record in batch]
    assert {int(record.value) % 2 == record.partition for record in records} == {True}
    assert {record.key for record in records if record.value == b"4"} == {b"key 0"}
    assert {name for record in records for name, _ in record.headers} == {
        "kafwire.origin.topic",
        "kafwire.origin.partition",
        "kafwire.origin.offset",
    }


def test_a_letter_that_fails_again_is_a_new_letter(kafka: EmbeddedKafka) -> None:
    run(kafka, "send", "--error", "KeyError")
    fill(kafka)
    assert len(listed(kafka, "--error", "KeyError")) == 10


def test_letters_go_to_another_topic(kafka: EmbeddedKafka) -> None:
    before = values(kafka, "elsewhere")
    assert run(kafka, "send", "--key", "key 0", "--to", "elsewhere").exit_code == 0
    assert values(kafka, "orders") == []
    assert len(values(kafka, "elsewhere")) > len(before)
    assert run(kafka, "send", "--key", "key 0").stdout == "sent no letters\n"


def test_a_command_that_ends_in_between_sends_nothing_twice(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letter_requests, "CHUNK", 6)
    real, calls = letter_requests.write, Counter[str]()

    def fail(producer: Any, message: Any) -> None:
        calls["send"] += 1
        if calls["send"] == 12:  # within the second transaction
            raise KafkaError("the cable")
        real(producer, message)

    monkeypatch.setattr(letter_requests, "write", fail)
    result = run(kafka, "send")
    assert (result.exit_code, "the cable" in result.stderr) == (1, True)
    assert len(values(kafka, "orders")) == 6
    assert run(kafka, "send").stdout == "sent 14 letter(s) to orders\n"
    assert values(kafka, "orders") == [one for one in range(COUNT) if one % 3 != 2]


def test_of_two_commands_at_once_the_first_is_fenced(kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    real = letter_requests.write
    others: list[str | None] = []

    def send(producer: Any, message: Any) -> None:
        if not others:
            others.append(None)
            others.append(run(kafka, "send").stdout)
        real(producer, message)

    monkeypatch.setattr(letter_requests, "write", send)
    result = run(kafka, "send")
    assert result.exit_code == 1
    assert others[1] == "sent 20 letter(s) to orders\n"
    assert values(kafka, "orders") == [one for one in range(COUNT) if one % 3 != 2]


def test_an_open_transaction_of_a_stream_hides_no_receipt(kafka: EmbeddedKafka) -> None:
    """A stream's transaction that began before the receipt holds the last stable offset back: the command waits."""
    with kafwire.Producer(kafka.bootstrap, transactional_id="stream") as stream:
        stream.init_transactions()
        stream.begin_transaction()
        for partition in (0, 1):
            stream.send("dead", b"99", partition=partition)
        stream.flush()
        with kafwire.Producer(kafka.bootstrap, transactional_id="kafwire.letters.dead") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for partition in (0, 1):
                sent = [("kafwire.letters.sent", b"0-1000")]
                producer.send("dead", None, key=b"k", headers=sent, partition=partition)
            producer.commit_transaction()
        found: list[Result] = []
        command = threading.Thread(target=lambda: found.append(run(kafka, "send")), daemon=True)
        command.start()
        command.join(0.5)
        assert command.is_alive(), "it waits for the receipt"
        stream.commit_transaction()
        command.join(60)
    assert found[0].stdout == "sent no letters\n", found[0].stderr


def test_other_records_are_reported_and_left(kafka: EmbeddedKafka) -> None:
    with kafwire.Producer(kafka.bootstrap) as producer:
        producer.send("dead", b"hello")
    result = run(kafka, "send", "--limit", "1")
    assert result.stdout == "sent 1 letter(s) to orders\n"
    assert result.stderr == "kafwire letters: 1 record(s) of dead are not dead letters of a stream\n"


def test_times(kafka: EmbeddedKafka) -> None:
    written = [one["ts"] for one in listed(kafka)]
    assert len(listed(kafka, "--since", str(min(written)))) == 20
    assert listed(kafka, "--until", str(min(written))) == []
    assert run(kafka, "list", "--since", "yesterday").exit_code == 2


def test_a_topic_that_is_not_there(kafka: EmbeddedKafka) -> None:
    result = CliRunner().invoke(main, ["letters", "list", "nothing", "-b", kafka.bootstrap, "--timeout", "3"])
    assert result.exit_code == 1
    assert "nothing" in result.stderr


def test_letters_of_a_partition_without_a_leader_are_left_out(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_offsets, "PATIENCE_MS", 50)
    kafka.fail_next("ListOffsets", "LEADER_NOT_AVAILABLE", times=None, topic="dead", partition=1)
    result = run(kafka, "list", "-J")
    assert result.exit_code == 1
    assert result.stderr.startswith("kafwire letters: dead-1 is skipped: LEADER_NOT_AVAILABLE")
    sent = run(kafka, "send")
    assert sent.exit_code == 1
    first = values(kafka, "orders")
    assert sent.stdout == f"sent {len(first)} letter(s) to orders\n"
    kafka.clear_faults()
    assert run(kafka, "send").exit_code == 0
    assert 0 < len(first) < 20
    assert values(kafka, "orders") == [one for one in range(COUNT) if one % 3 != 2]
