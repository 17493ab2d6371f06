"""`kafwire offsets` on an embedded broker: by time and by name, as a table and as JSON, unknown topics."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

import kafwire
from kafwire.cli import main
from kafwire.testing import EmbeddedKafka


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        running.create_topic("orders", partitions=3)
        running.create_topic("empty", partitions=1)
        with kafwire.Producer(running.bootstrap) as producer:
            for number in range(30):
                producer.send("orders", b"%d" % number, partition=number % 2, timestamp_ms=1_000 * (1 + number))
        yield running


def run(kafka: EmbeddedKafka, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["offsets", "-b", kafka.bootstrap, *arguments])


def rows(result: Result) -> list[list[str]]:
    return [line.split() for line in result.stdout.splitlines()[1:]]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["orders"], [("orders", 0, 15), ("orders", 1, 15), ("orders", 2, 0)]),
        (["orders:0,2", "empty"], [("empty", 0, 0), ("orders", 0, 15), ("orders", 2, 0)]),
        (["orders", "--at", "earliest"], [("orders", 0, 0), ("orders", 1, 0), ("orders", 2, 0)]),
        (["orders", "--at", "beginning"], [("orders", 0, 0), ("orders", 1, 0), ("orders", 2, 0)]),
        (["-t", "orders:1", "--at", "end"], [("orders", 1, 15)]),
        (["orders", "--at", "11000"], [("orders", 0, 5), ("orders", 1, 5), ("orders", 2, None)]),
        (["orders:0", "orders:0", "--at", "1970-01-01T00:00:12Z"], [("orders", 0, 6)]),
        (["orders:1", "--at", "99999999"], [("orders", 1, None)]),
    ],
    ids=str,
)
def test_offsets_at_a_time(
    kafka: EmbeddedKafka, arguments: list[str], expected: list[tuple[str, int, int | None]]
) -> None:
    result = run(kafka, *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[0].split() == ["TOPIC", "PARTITION", "OFFSET"]
    shown = [[topic, str(number), "-" if offset is None else str(offset)] for topic, number, offset in expected]
    assert rows(result) == shown
    lines = run(kafka, *arguments, "-J").stdout.splitlines()
    assert [tuple(json.loads(line).values()) for line in lines] == expected
    assert list(json.loads(lines[0])) == ["topic", "partition", "offset"]


def test_unknown_topics_are_errors_beside_the_others(kafka: EmbeddedKafka) -> None:
    result = run(kafka, "orders:0,7", "größe", "none:3")
    assert (result.exit_code, rows(result)) == (1, [["orders", "0", "15"]])
    said = result.stderr.splitlines()
    assert "kafwire offsets: none: the topic does not exist" in said
    assert "kafwire offsets: orders-7: the partition does not exist" in said
    assert any("größe" in line for line in said)
    assert len(said) == 3


def test_the_last_stable_offset_is_that_of_committed_reads(kafka: EmbeddedKafka) -> None:
    with kafwire.Producer(kafka.bootstrap, transactional_id="t") as producer:
        producer.begin_transaction()
        producer.send("empty", b"open")
        producer.flush()
        assert rows(run(kafka, "empty")) == [["empty", "0", "1"]]
        assert rows(run(kafka, "empty", "-X", "isolation.level=read_committed")) == [["empty", "0", "0"]]
        producer.abort_transaction()


def test_a_time_that_looks_like_seconds_gets_a_warning(kafka: EmbeddedKafka) -> None:
    result = run(kafka, "orders:0", "--at", "1764331200")
    assert (result.exit_code, "If 1764331200 is in seconds, write --at 1764331200000" in result.stderr) == (0, True)


def test_a_partition_without_a_leader_hides_no_other_offset() -> None:
    with EmbeddedKafka(nodes=3) as kafka:
        kafka.create_topic("orders", partitions=3, replicas=1)
        with kafwire.Client(kafka.bootstrap) as client:
            leaders = {number: info.leader for number, info in client.topic("orders").partitions.items()}
        kafka.stop_node(leaders[2])
        result = run(kafka, "orders", "-X", "default.api.timeout.ms=5000")
        assert (result.exit_code, rows(result)) == (1, [["orders", "0", "0"], ["orders", "1", "0"]])
        assert "orders-2: LEADER_NOT_AVAILABLE" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "no topic is given"),
        (["orders:"], "orders:: expected TOPIC, or TOPIC:0,3"),
        (["orders:x"], "orders:x: expected TOPIC, or TOPIC:0,3"),
        ([":1"], ":1: the topic has no name"),
        (["orders", "--at", "noon"], "--at noon: expected milliseconds"),
        (["orders", "--at", "2026-01-31T12:00:00"], "the time has no zone"),
    ],
    ids=str,
)
def test_wrong_usage(kafka: EmbeddedKafka, arguments: list[str], reason: str) -> None:
    result = run(kafka, *arguments)
    assert (result.exit_code, reason in result.stderr) == (2, True)
