"""`admin.transactions`: producers and transactions are listed, described, aborted and fenced, in both faces."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kafwire import protocol
from kafwire.admin.transactions import pattern_of
from kafwire.errors import AdminError, BrokerError, ConfigError, ErrorCode, KafkaError, ProtocolError
from kafwire.testing.simulation.calls import HANGUP, Call, Response
from kafwire.types import TopicPartition
from tests.support.simulated.flavours import Flavour
from tests.support.simulated.producer import committed_values
from tests.support.transactional_producer import Transacting, refuse

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def open_one(flavour: Flavour) -> Transacting:
    """The producer "x" with an open transaction in the only partition of "t"."""
    flavour.world.create_topic("t", replicas=2)
    return opened(flavour, "x")


def opened(flavour: Flavour, name: str, topic: str = "t") -> Transacting:
    work = Transacting(flavour.world, transactional_id=name)
    work.begin()
    work.send(topic, name.encode())
    work.flush()
    return work


# --- producers


def test_producers_are_described_by_the_leader(flavour: Flavour, open_one: Transacting) -> None:
    (state,) = flavour.get(flavour.admin().describe_producers([T0]))[T0]
    identity = open_one.identity
    assert (state.producer_id, state.producer_epoch) == (identity.producer_id, identity.epoch)
    assert (state.last_sequence, state.coordinator_epoch, state.start_offset) == (0, None, 0)
    assert state.last_timestamp_ms == flavour.world.log("t").batches[0].header.max_timestamp
    open_one.commit()
    flavour.world.pass_time(1)
    (state,) = flavour.get(flavour.admin().describe_producers([T0]))[T0]
    assert (state.coordinator_epoch, state.start_offset) == (0, None)


def test_each_leader_describes_its_partitions(flavour: Flavour) -> None:
    flavour.world.create_topic("t", partitions=2)
    opened(flavour, "x")
    found = flavour.get(flavour.admin().describe_producers([T1, T0]))
    assert [len(found[where]) for where in (T0, T1)] == [1, 0]
    assert sorted(call.node for call in flavour.world.made("DescribeProducers")) == [1, 2]


def test_a_given_replica_describes_producers(flavour: Flavour, open_one: Transacting) -> None:
    found = flavour.get(flavour.admin().describe_producers([T0], broker=2))
    assert [state.start_offset for state in found[T0]] == [0]
    assert [call.node for call in flavour.world.made("DescribeProducers")] == [2]
    open_one.abort()


def test_a_broker_without_a_replica_is_an_error(flavour: Flavour) -> None:
    flavour.world.create_topic("t")
    with pytest.raises(BrokerError, match="describing the producers of t-0") as caught:
        flavour.get(flavour.admin().describe_producers([T0], broker=2))
    assert caught.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(flavour.world.made("DescribeProducers")) == 1


def test_a_broker_that_does_not_exist_is_an_error(flavour: Flavour) -> None:
    flavour.world.create_topic("t")
    with pytest.raises(ConfigError, match=r"broker 9 is not in the cluster \(its brokers: 1, 2\)"):
        flavour.get(flavour.admin().describe_producers([T0], broker=9))


def test_producers_are_found_after_the_leader_moved(flavour: Flavour, open_one: Transacting) -> None:
    admin = flavour.admin()
    flavour.get(admin.describe_producers([T0]))
    left = refuse_partitions(flavour, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    flavour.world.move_leader("t", 0, 2)
    assert flavour.get(admin.describe_producers([T0]))[T0][0].start_offset == 0
    assert not left
    assert flavour.world.made("DescribeProducers")[-1].node == 2
    open_one.abort()


def refuse_partitions(flavour: Flavour, *codes: int) -> list[int]:
    """The next DescribeProducers requests get these codes for each partition; returns those left."""
    left = list(codes)

    def respond(call: Call) -> Response:
        if not left:
            return None
        code, kind = left.pop(0), protocol.DescribeProducersResponse
        return kind(
            topics=[
                kind.TopicResponse(
                    name=topic.name,
                    partitions=[
                        kind.PartitionResponse(partition_index=index, error_code=code)
                        for index in topic.partition_indexes
                    ],
                )
                for topic in call.message.topics
            ]
        )

    flavour.world.on("DescribeProducers", respond)
    return left


def test_a_new_topic_may_not_have_reached_a_replica(flavour: Flavour) -> None:
    flavour.world.create_topic("t")
    left = refuse_partitions(flavour, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert flavour.get(flavour.admin().describe_producers([T0], broker=1)) == {T0: []}
    assert not left


def test_one_partition_does_not_hide_the_producers_of_others(flavour: Flavour, open_one: Transacting) -> None:
    errors: dict[TopicPartition, KafkaError] = {}
    unknown = TopicPartition("t", 7)
    found = flavour.get(flavour.admin().describe_producers([unknown, T0], on_error=errors.__setitem__))
    assert (list(found), list(errors)) == ([T0], [unknown])
    open_one.abort()


def test_large_requests_are_split(flavour: Flavour) -> None:
    flavour.world.create_topic("t", partitions=1001)
    partitions = [TopicPartition("t", number) for number in range(0, 1001, 1)]
    assert len(flavour.get(flavour.admin().describe_producers(partitions))) == 1001
    sizes = [
        len(topic.partition_indexes)
        for call in flavour.world.made("DescribeProducers")
        for topic in call.message.topics
    ]
    assert sorted(sizes) == [1, 500, 500]


# --- lists


def listed(flavour: Flavour, admin: Any, **filters: Any) -> list[tuple[str, str, int]]:
    found = flavour.get(admin.list_transactions(**filters))
    return [(each.transactional_id, each.state, each.coordinator) for each in found]


def test_all_coordinators_list_their_transactions(flavour: Flavour, open_one: Transacting) -> None:
    flavour.world.move_coordinator("y", 2)
    second = opened(flavour, "y")
    second.abort()
    flavour.world.pass_time(1)
    admin = flavour.admin()
    assert listed(flavour, admin) == [("x", "Ongoing", 1), ("y", "CompleteAbort", 2)]
    assert listed(flavour, admin, states=["CompleteAbort", "Empty"]) == [("y", "CompleteAbort", 2)]
    assert listed(flavour, admin, producer_ids=[open_one.identity.producer_id]) == [("x", "Ongoing", 1)]
    assert listed(flavour, admin, pattern="[y-z]") == [("y", "CompleteAbort", 2)]
    assert listed(flavour, admin, prefix="x") == [("x", "Ongoing", 1)]
    flavour.world.pass_time(10)
    assert len(listed(flavour, admin, longer_than_ms=10_000)) == 2
    assert not listed(flavour, admin, longer_than_ms=20_000)


def test_a_prefix_is_no_pattern(flavour: Flavour) -> None:
    flavour.world.create_topic("t")
    for name in ("a.b", "axb"):
        opened(flavour, name)
    assert [each[0] for each in listed(flavour, flavour.admin(), prefix="a.")] == ["a.b"]
    assert {call.message.transactional_id_pattern for call in flavour.world.made("ListTransactions")} == {r"a\..*"}


@pytest.mark.parametrize("character", "\\.+*?()|[]{}^$ -/a")
def test_a_prefix_is_itself_in_a_pattern(character: str) -> None:
    pattern = re.compile(pattern_of(f"a{character}b"))
    assert pattern.fullmatch(f"a{character}bc")
    assert not pattern.fullmatch("abc")
    assert not pattern.fullmatch("a")


def test_an_old_broker_has_fewer_filters(flavour: Flavour, open_one: Transacting) -> None:
    for node in flavour.world.nodes.values():
        node.versions = {"ListTransactions": (0, 0)}
    admin = flavour.admin()
    assert listed(flavour, admin, prefix="x", states=["Ongoing"]) == [("x", "Ongoing", 1)]
    assert not listed(flavour, admin, prefix="y")
    for filters, said in (
        ({"pattern": "x"}, "pattern: Kafka 4.1"),
        ({"longer_than_ms": 1}, "longer_than_ms: Kafka 3.8"),
    ):
        made = len(flavour.world.made("ListTransactions"))
        with pytest.raises(AdminError, match=f"broker 1 cannot filter by {said} or newer can") as caught:
            flavour.get(admin.list_transactions(**filters))
        assert {type(error) for error in caught.value.errors.values()} == {ProtocolError}
        assert len(flavour.world.made("ListTransactions")) == made, "no broker lists without the filter"
    open_one.abort()


def test_one_broker_does_not_hide_the_transactions_of_others(flavour: Flavour, open_one: Transacting) -> None:
    refuse(flavour.world, "ListTransactions", *[ErrorCode.COORDINATOR_NOT_AVAILABLE] * 9, when=lambda c: c.node == 2)
    admin = flavour.admin()
    errors: dict[int, KafkaError] = {}
    assert listed(flavour, admin, on_error=errors.__setitem__) == [("x", "Ongoing", 1)]
    assert list(errors) == [2]
    with pytest.raises(AdminError, match="listing the transactions of broker 2") as caught:
        flavour.get(admin.list_transactions())
    assert list(caught.value.results) == [1]
    open_one.abort()


def test_a_coordinator_that_loads_is_asked_again(flavour: Flavour, open_one: Transacting) -> None:
    left = refuse(flavour.world, "ListTransactions", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert listed(flavour, flavour.admin()) == [("x", "Ongoing", 1)]
    assert not left
    open_one.abort()


def test_a_broker_that_restarts_is_waited_for(flavour: Flavour, open_one: Transacting) -> None:
    admin = flavour.admin()
    node = flavour.world.nodes[2]
    killed: list[float] = []

    def respond(call: Call) -> Response:
        if call.node != 2 or killed:
            return None
        killed.append(call.at_ms)
        flavour.world.kill(2)
        flavour.world.loop.call_later(3, setattr, node, "down", False)
        return HANGUP

    flavour.world.on("ListTransactions", respond)
    assert listed(flavour, admin) == [("x", "Ongoing", 1)]
    assert flavour.world.made("ListTransactions")[-1].at_ms >= killed[0] + 3_000
    open_one.abort()


def test_a_state_that_a_broker_does_not_know_is_an_error(flavour: Flavour) -> None:
    kind = protocol.ListTransactionsResponse
    flavour.world.on("ListTransactions", lambda _: kind(unknown_state_filters=["PrepareEpochFence"]))
    with pytest.raises(AdminError, match="does not know the states PrepareEpochFence"):
        flavour.get(flavour.admin().list_transactions(states=["PrepareEpochFence"]))


# --- descriptions


def test_transactions_are_described_by_their_coordinators(flavour: Flavour, open_one: Transacting) -> None:
    flavour.world.move_coordinator("y", 2)
    idle = Transacting(flavour.world, transactional_id="y", transaction_timeout_ms=7_000)
    idle.initialize()
    found = flavour.get(flavour.admin().describe_transactions(["y", "x"]))
    assert list(found) == ["y", "x"]
    one, other = found["x"], found["y"]
    assert (one.coordinator, one.state, one.partitions) == (1, "Ongoing", (T0,))
    assert (one.producer_id, one.producer_epoch) == (open_one.identity.producer_id, open_one.identity.epoch)
    assert one.started_ms is not None
    assert (other.coordinator, other.state, other.partitions) == (2, "Empty", ())
    assert (other.timeout_ms, other.started_ms) == (7_000, None)
    open_one.abort()


def test_an_unknown_id_is_an_error(flavour: Flavour, open_one: Transacting) -> None:
    with pytest.raises(AdminError, match="none: TRANSACTIONAL_ID_NOT_FOUND") as caught:
        flavour.get(flavour.admin().describe_transactions(["x", "none"]))
    assert list(caught.value.results) == ["x"]
    open_one.abort()


def test_a_transaction_is_found_after_its_coordinator_moved(flavour: Flavour, open_one: Transacting) -> None:
    admin = flavour.admin()
    flavour.get(admin.describe_transactions(["x"]))
    flavour.world.move_coordinator("x", 2)
    assert flavour.get(admin.describe_transactions(["x"]))["x"].coordinator == 2
    open_one.abort()


# --- changes


def abort(flavour: Flavour, work: Transacting, **changed: Any) -> None:
    identity = {"producer_id": work.identity.producer_id, "producer_epoch": work.identity.epoch}
    flavour.get(flavour.admin().abort_transaction(T0, **identity | changed))


def test_a_transaction_is_aborted_in_one_partition(flavour: Flavour, open_one: Transacting) -> None:
    abort(flavour, open_one)
    log = flavour.world.log("t")
    assert log.last_stable_offset == log.end == 2
    assert not committed_values(log)
    (call,) = flavour.world.made("WriteTxnMarkers")
    assert call.message.markers[0].coordinator_epoch == 0
    open_one.abort()


def test_a_marker_that_is_refused_is_an_error(flavour: Flavour, open_one: Transacting) -> None:
    abort(flavour, open_one, coordinator_epoch=4)
    for changed, name in (
        ({"coordinator_epoch": 3}, "TRANSACTION_COORDINATOR_FENCED"),
        ({}, "TRANSACTION_COORDINATOR_FENCED"),
    ):
        with pytest.raises(BrokerError, match=f"{name}.*aborting the transaction of producer .* in t-0"):
            abort(flavour, open_one, **changed)
    assert len(flavour.world.made("WriteTxnMarkers")) == 3
    open_one.abort()


def test_a_marker_goes_to_the_new_leader(flavour: Flavour, open_one: Transacting) -> None:
    admin = flavour.admin()
    flavour.get(admin.describe_producers([T0]))
    flavour.world.move_leader("t", 0, 2)
    identity = open_one.identity
    flavour.get(admin.abort_transaction(T0, producer_id=identity.producer_id, producer_epoch=identity.epoch))
    assert [call.node for call in flavour.world.made("WriteTxnMarkers")] == [1, 2]
    open_one.abort()


def test_producers_are_fenced(flavour: Flavour, open_one: Transacting) -> None:
    flavour.world.move_coordinator("y", 2)
    fenced = flavour.get(flavour.admin().fence_producers(["x", "y"]))
    assert list(fenced) == ["x", "y"]
    assert fenced["x"].producer_id == open_one.identity.producer_id
    assert fenced["x"].producer_epoch > open_one.identity.epoch
    assert fenced["y"].producer_epoch == 0, "a new id"
    with pytest.raises(KafkaError):
        open_one.commit()
    flavour.world.pass_time(1)
    assert not open_one.seen


def test_one_id_does_not_hide_the_fencing_of_others(flavour: Flavour) -> None:
    refuse(
        flavour.world,
        "InitProducerId",
        *[ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 9,
        when=lambda call: call.message.transactional_id == "y",
    )
    with pytest.raises(
        AdminError, match=r"permits Write on TransactionalId 'y' \[fencing the producers of 'y'"
    ) as caught:
        flavour.get(flavour.admin().fence_producers(["x", "y"]))
    assert list(caught.value.results) == ["x"]


def test_an_id_is_fenced_once_if_the_request_of_another_is_lost(flavour: Flavour) -> None:
    lost = [True]

    def respond(call: Call) -> Response:
        return HANGUP if call.message.transactional_id == "y" and lost and lost.pop() else None

    flavour.world.on("InitProducerId", respond)
    fenced = flavour.get(flavour.admin().fence_producers(["x", "y"]))
    assert not lost
    assert fenced["x"].producer_epoch == fenced["y"].producer_epoch == 0


def test_a_transaction_is_terminated(flavour: Flavour, open_one: Transacting) -> None:
    left = refuse(flavour.world, "InitProducerId", ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR)
    admin = flavour.admin()
    assert flavour.get(admin.force_terminate_transaction("x")) is None
    assert not left
    assert flavour.get(admin.describe_transactions(["x"]))["x"].state == "Empty"
    flavour.world.pass_time(1)
    assert not open_one.seen


MARKER = {"producer_id": 1, "producer_epoch": 0}
WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("describe_producers", (T0,), {}, "write a list of partitions"),
    ("describe_producers", (["t"],), {}, "TopicPartition"),
    ("describe_producers", ([T0],), {"broker": "1"}, "broker='1'"),
    ("list_transactions", (), {"states": "Ongoing"}, "write a list of names"),
    ("list_transactions", (), {"states": ["ongoing"]}, "is not one of Empty, Ongoing"),
    ("list_transactions", (), {"producer_ids": 3}, "write a list of numbers"),
    ("list_transactions", (), {"producer_ids": [-1]}, "from 0"),
    ("list_transactions", (), {"longer_than_ms": -1}, "from 0"),
    ("list_transactions", (), {"pattern": ""}, "at least one character"),
    ("list_transactions", (), {"pattern": "a", "prefix": "b"}, "exclude each other"),
    ("list_transactions", (), {"timeout": "1"}, "seconds"),
    ("describe_transactions", ("x",), {}, "write a list of names"),
    ("abort_transaction", ("t",), MARKER, "TopicPartition"),
    ("abort_transaction", (T0,), MARKER | {"producer_epoch": 1 << 15}, "from 0 to 32767"),
    ("abort_transaction", (T0,), MARKER | {"producer_id": None}, "from 0"),
    ("abort_transaction", (T0,), MARKER | {"coordinator_epoch": -1}, "from 0"),
    ("fence_producers", ("x",), {}, "write a list of names"),
    ("force_terminate_transaction", ("",), {}, "at least one character"),
    ("find_hanging_transactions", ("t",), {}, "write a list of names"),
    ("find_hanging_transactions", (), {"longer_than_ms": None}, "from 0"),
]


@pytest.mark.parametrize(("method", "args", "options", "text"), WRONG)
def test_wrong_arguments(
    flavour: Flavour, method: str, args: tuple[Any, ...], options: dict[str, Any], text: str
) -> None:
    admin = flavour.admin()
    with pytest.raises(ConfigError, match=text):
        flavour.get(getattr(admin, method)(*args, **options))
    assert not flavour.world.calls
