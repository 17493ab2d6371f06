"""`admin.hanging_transactions`: open transactions that no coordinator will end, in both faces."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire.admin import HangingTransaction
from kafwire.errors import AdminError, BrokerError, ErrorCode, KafkaError
from kafwire.testing.simulation.calls import Call, Response
from kafwire.types import TopicPartition
from tests.support.simulated.flavours import Flavour
from tests.support.transactional_producer import Transacting, refuse

QUARTER_S = 900


def opened(flavour: Flavour, name: str, *topics: str, timeout_ms: int = 10_000_000) -> Transacting:
    """A producer with an open transaction in the first partition of each topic."""
    flavour.world.state.configs["transaction.max.timeout.ms"] = str(timeout_ms)
    work = Transacting(flavour.world, transactional_id=name, transaction_timeout_ms=timeout_ms)
    work.begin()
    for topic in topics:
        work.world.run(work.core.ensure_metadata([topic], 60_000))
        work.send(topic, name.encode())
    work.flush()
    return work


def forget(flavour: Flavour, name: str) -> None:
    """Let the coordinator lose a transactional id, as a broker's defect does."""
    del flavour.world.transactions.by_id[name]


@pytest.fixture
def topics(flavour: Flavour) -> list[str]:
    """Two topics, led by brokers 1 and 2."""
    flavour.world.create_topic("t", partitions=2)
    flavour.world.create_topic("u", replicas=2)
    return ["t", "u"]


def found(flavour: Flavour, *topics: str, **options: Any) -> list[HangingTransaction]:
    hanging: list[HangingTransaction] = flavour.get(
        flavour.admin().find_hanging_transactions(list(topics) or None, **options)
    )
    return hanging


def places(flavour: Flavour, *topics: str, **options: Any) -> list[tuple[str, int]]:
    return [each.partition for each in found(flavour, *topics, **options)]


def test_a_transaction_hangs_that_its_coordinator_does_not_know(flavour: Flavour, topics: list[str]) -> None:
    lost = opened(flavour, "x", *topics)
    opened(flavour, "y", *topics)
    forget(flavour, "x")
    assert not found(flavour), "its producer may still write"
    flavour.world.pass_time(QUARTER_S + 1)
    one, other = found(flavour)
    assert (one.partition, other.partition) == (("t", 0), ("u", 0))
    assert (one.producer_id, one.producer_epoch) == (lost.identity.producer_id, lost.identity.epoch)
    assert (one.coordinator_epoch, one.start_offset) == (None, 0)
    assert places(flavour, "u") == [("u", 0)]
    assert places(flavour, broker=2) == [("u", 0)]


def test_the_time_limit_may_be_another(flavour: Flavour, topics: list[str]) -> None:
    opened(flavour, "x", "t")
    forget(flavour, "x")
    flavour.world.pass_time(10)
    assert places(flavour, *topics, longer_than_ms=5_000) == [("t", 0)]
    assert not found(flavour, *topics, longer_than_ms=20_000)


def test_a_partition_hangs_that_the_transaction_lacks(flavour: Flavour, topics: list[str]) -> None:
    opened(flavour, "x", *topics)
    flavour.world.transactions.by_id["x"].coordinator.partitions.discard(("t", 0))
    flavour.world.pass_time(QUARTER_S + 1)
    assert places(flavour) == [("t", 0)]


def test_an_open_transaction_does_not_hang(flavour: Flavour, topics: list[str]) -> None:
    opened(flavour, "x", *topics)
    flavour.world.pass_time(QUARTER_S + 1)
    assert not found(flavour)
    assert flavour.world.made("DescribeTransactions")


def test_a_transaction_that_just_ended_does_not_hang(flavour: Flavour, topics: list[str]) -> None:
    lost = opened(flavour, "x", *topics)
    flavour.world.pass_time(QUARTER_S + 1)
    log = flavour.world.log("t")

    def end(_: Call) -> Response:
        if log.last_stable_offset < log.end:
            producer = lost.identity
            log.write_marker(producer.producer_id, producer.epoch, flavour.world.state.wall_ms, commit=True)
            flavour.world.transactions.by_id["x"].coordinator.partitions.clear()
        return None

    flavour.world.on("ListTransactions", end)
    assert places(flavour) == [("u", 0)]


def test_it_can_be_aborted(flavour: Flavour, topics: list[str]) -> None:
    opened(flavour, "x", "t")
    forget(flavour, "x")
    flavour.world.pass_time(QUARTER_S + 1)
    admin = flavour.admin()
    (hanging,) = flavour.get(admin.find_hanging_transactions(topics))
    flavour.get(
        admin.abort_transaction(
            hanging.partition,
            producer_id=hanging.producer_id,
            producer_epoch=hanging.producer_epoch,
            coordinator_epoch=hanging.coordinator_epoch,
        )
    )
    assert not flavour.get(admin.find_hanging_transactions(topics))
    log = flavour.world.log("t")
    assert log.last_stable_offset == log.end


@pytest.mark.parametrize("api", ["ListTransactions", "DescribeTransactions"])
def test_without_all_coordinators_no_transaction_hangs(flavour: Flavour, topics: list[str], api: str) -> None:
    opened(flavour, "x", *topics)
    flavour.world.pass_time(QUARTER_S + 1)
    errors: dict[TopicPartition, KafkaError] = {}
    if api == "ListTransactions":
        refuse(flavour.world, api, *[ErrorCode.UNKNOWN_SERVER_ERROR] * 9, when=lambda call: call.node == 1)
    else:
        flavour.world.unreadable.clear()
        flavour.world.on(api, lambda call: _refused(call, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    with pytest.raises((AdminError, BrokerError), match="UNKNOWN_SERVER_ERROR|TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        found(flavour, on_error=errors.__setitem__)
    assert not errors


def _refused(call: Call, code: int) -> Response:
    kind = type(call.message).response
    states = [kind.TransactionState(transactional_id=each, error_code=code) for each in call.message.transactional_ids]
    return kind(transaction_states=states)


def test_a_partition_without_a_leader_does_not_hide_others(flavour: Flavour, topics: list[str]) -> None:
    opened(flavour, "x", "t")
    forget(flavour, "x")
    flavour.world.pass_time(QUARTER_S + 1)
    flavour.world.log("u").lead(-1)
    errors: dict[TopicPartition, KafkaError] = {}
    started_ms = flavour.engine.now_ms()
    assert places(flavour, *topics, on_error=errors.__setitem__, timeout=10) == [("t", 0)]
    assert list(errors) == [("u", 0)]
    assert flavour.engine.now_ms() - started_ms < 6_000, "coordinators have the rest of the time"


def test_a_partition_that_is_not_described_twice_is_an_error(flavour: Flavour, topics: list[str]) -> None:
    opened(flavour, "x", *topics)
    forget(flavour, "x")
    flavour.world.pass_time(QUARTER_S + 1)
    errors: dict[TopicPartition, KafkaError] = {}
    flavour.world.on("ListTransactions", lambda _: flavour.world.unreadable.add("t"))
    assert places(flavour, on_error=errors.__setitem__) == [("u", 0)]
    assert list(errors) == [("t", 0)]


def test_the_metadata_of_all_topics_is_not_kept(flavour: Flavour, topics: list[str]) -> None:
    admin = flavour.admin()
    flavour.get(admin.find_hanging_transactions())
    flavour.get(admin.describe_producers([TopicPartition("t", 0)]))
    assert [topic.name for topic in flavour.world.made("Metadata")[-1].message.topics] == ["t"]
    assert len(topics) == 2


def test_a_topic_that_does_not_exist_is_an_error(flavour: Flavour) -> None:
    with pytest.raises(BrokerError, match="'none' does not exist"):
        found(flavour, "none")
