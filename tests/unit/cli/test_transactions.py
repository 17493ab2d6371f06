"""`kafwire transactions` on an embedded broker: lists, states, hanging transactions, and their end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

import kafwire
from kafwire.broker.transactions.transactions import Transactions
from kafwire.cli import main
from kafwire.testing import EmbeddedKafka
from kafwire.types import TopicPartition

T0 = TopicPartition("orders", 0)


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        running.create_topic("orders", partitions=2)
        yield running


@pytest.fixture
def producer(kafka: EmbeddedKafka) -> Iterator[kafwire.Producer]:
    """The producer "billing", with an open transaction in `T0`."""
    with kafwire.Producer(kafka.bootstrap, transactional_id="billing", linger_ms=0) as made:
        made.init_transactions()
        made.begin_transaction()
        made.send("orders", b"v", partition=0).result(30)
        yield made


def hang(kafka: EmbeddedKafka) -> None:
    """Leave an open transaction in `T0`, of a producer that no coordinator knows."""
    with kafwire.Producer(kafka.bootstrap, transactional_id="lost", linger_ms=0) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"v", partition=0).result(30)
        kafka.ask(lambda state: state.part(Transactions).by_id.pop("lost"))


def is_open(kafka: EmbeddedKafka) -> bool:
    with kafwire.Admin(kafka.bootstrap) as admin:
        return any(each.start_offset is not None for each in admin.describe_producers([T0])[T0])


def run(kafka: EmbeddedKafka, *arguments: str) -> Result:
    first, *rest = arguments
    return CliRunner().invoke(main, ["transactions", first, "-b", kafka.bootstrap, *rest])


def lines(result: Result) -> list[list[str]]:
    return [line.split() for line in result.stdout.splitlines()]


def objects(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_transactional_ids_are_listed(kafka: EmbeddedKafka, producer: kafwire.Producer) -> None:
    with kafwire.Admin(kafka.bootstrap) as admin:
        admin.fence_producers(["idle"])
    result = run(kafka, "list")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line[:2] for line in lines(result)] == [
        ["TRANSACTIONAL-ID", "STATE"],
        ["billing", "Ongoing"],
        ["idle", "Empty"],
    ]
    (found,) = objects(run(kafka, "list", "-J", "--state", "Ongoing"))
    assert found["transactionalId"] == "billing"
    assert (found["state"], found["coordinator"]) == ("Ongoing", 1)
    assert [each["transactionalId"] for each in objects(run(kafka, "list", "-J", "--prefix", "id"))] == ["idle"]
    assert not objects(run(kafka, "list", "-J", "--state", "Ongoing", "--longer-than", "600"))
    number = str(found["producerId"])
    assert len(objects(run(kafka, "list", "-J", "--producer", number, "--pattern", "b.*"))) == 1
    wrong = run(kafka, "list", "--state", "Odd")
    assert wrong.exit_code == 1
    assert "'Odd' is not one of Empty, Ongoing" in wrong.stderr
    assert run(kafka, "list", "--pattern", "(").exit_code == 1


def test_transactional_ids_are_described(kafka: EmbeddedKafka, producer: kafwire.Producer) -> None:
    result = run(kafka, "describe", "billing", "none")
    assert result.exit_code == 1
    assert "TRANSACTIONAL_ID_NOT_FOUND" in result.stderr
    assert lines(result)[1][:2] == ["billing", "Ongoing"]
    assert lines(result)[1][-1] == "orders:0"
    assert lines(result)[1][-2].endswith("Z")
    (found,) = objects(run(kafka, "describe", "billing", "-J"))
    assert found["partitions"] == [{"topic": "orders", "partition": 0}]
    assert found["timeoutMs"] == 60_000


def test_nothing_hangs(kafka: EmbeddedKafka, producer: kafwire.Producer) -> None:
    result = run(kafka, "hanging", "--longer-than", "0")
    assert (result.exit_code, len(lines(result))) == (0, 1)
    refused = run(kafka, "abort", "orders:0", "--longer-than", "0", "--execute")
    assert refused.exit_code == 1
    assert "no transaction hangs in orders:0" in refused.stderr
    assert run(kafka, "hanging", "none").exit_code == 1


def test_hanging_transactions_are_found_and_aborted(kafka: EmbeddedKafka) -> None:
    hang(kafka)
    result = run(kafka, "hanging", "orders", "--longer-than", "0")
    assert result.exit_code == 1
    assert lines(result)[1][:3] == ["orders", "0", "0"]
    (found,) = objects(run(kafka, "hanging", "-J", "--broker", "1", "--longer-than", "0"))
    assert (found["topic"], found["partition"], found["startOffset"]) == ("orders", 0, 0)
    assert found["coordinatorEpoch"] is None
    assert not lines(run(kafka, "hanging", "orders"))[1:], "it is too young"
    plan = run(kafka, "abort", "orders:0", "--longer-than", "0")
    assert (plan.exit_code, lines(plan)) == (0, lines(result))
    assert "add --execute" in plan.stderr
    assert is_open(kafka)
    assert run(kafka, "abort", "orders:1", "--longer-than", "0", "--execute").exit_code == 1
    done = run(kafka, "abort", "orders:0", "--longer-than", "0", "--execute", "-J")
    assert done.exit_code == 0
    assert objects(done) == [found]
    assert not is_open(kafka)
    assert run(kafka, "hanging", "--longer-than", "0").exit_code == 0


def test_an_open_transaction_is_aborted_by_its_offset(kafka: EmbeddedKafka, producer: kafwire.Producer) -> None:
    assert run(kafka, "abort", "orders:0", "--start-offset", "7", "--execute").exit_code == 1
    assert is_open(kafka)
    assert run(kafka, "abort", "orders:0", "--start-offset", "0", "--execute").exit_code == 0
    assert not is_open(kafka)


def test_a_timestamp_beyond_the_years_of_dates_is_shown_as_its_number(kafka: EmbeddedKafka) -> None:
    ms = 1_764_374_400_000_000  # a producer's mistake: microseconds
    kafka.create_topic("wide", message_timestamp_after_max_ms=1 << 62)
    with kafwire.Producer(kafka.bootstrap, transactional_id="wide", linger_ms=0) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("wide", b"v", timestamp_ms=ms).result(30)
        result = run(kafka, "abort", "wide:0", "--start-offset", "0")
    assert (result.exit_code, lines(result)[1][-1]) == (0, str(ms))


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1"])
@pytest.mark.parametrize("command", [["list"], ["hanging"], ["abort", "orders:0"]], ids=" ".join)
def test_times_must_be_numbers(kafka: EmbeddedKafka, command: list[str], seconds: str) -> None:
    result = run(kafka, *command, "--longer-than", seconds)
    assert (result.exit_code, "--longer-than" in result.stderr) == (2, True)


@pytest.mark.parametrize("text", ["orders", "orders:", "orders:0,1", ":0"])
def test_a_partition_is_needed(kafka: EmbeddedKafka, text: str) -> None:
    assert run(kafka, "abort", text).exit_code == 2
