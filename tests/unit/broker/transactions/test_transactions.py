"""Transactions through requests: the time of their markers, timeouts, and permissions; see `test_scenarios.py`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.log.partition import Partition
from kafwire.broker.state import ClusterState
from kafwire.broker.transactions.transactions import Transactions
from kafwire.errors import ErrorCode
from kafwire.records import encode_batch
from tests.support.broker.driver import BrokerDriver
from tests.support.broker.transactions import Place, TransactionalClient

LOOK_MS = 10_000  # transaction.abort.timed.out.transaction.cleanup.interval.ms
T0, T1 = ("t", 0), ("t", 1)


def cluster(nodes: Sequence[int] = (1,), replicas: int = 1, partitions: int = 2, **configs: str) -> BrokerDriver:
    state = ClusterState(nodes, configs={key.replace("_", "."): value for key, value in configs.items()})
    state.topics.create("t", partitions, replicas)
    for name in ("x", "y", "g"):
        state.move_coordinator(name, 1)
    return BrokerDriver(state)


@pytest.fixture
def driver() -> BrokerDriver:
    return cluster()


def began(
    driver: BrokerDriver, *, timeout_ms: int = 60_000, name: str = "x", places: Iterable[Place] = (T0,)
) -> TransactionalClient:
    client = TransactionalClient(driver, name, timeout_ms=timeout_ms)
    assert client.init() == 0
    for place in places:
        assert client.produce(0, to=place)[0] == 0
    return client


def partition(driver: BrokerDriver, index: int = 0) -> Partition:
    found = driver.state.topics.partition("t", index)
    assert found is not None
    return found


def markers(driver: BrokerDriver, index: int = 0) -> list[int]:
    log = partition(driver, index).log
    return [header.base_offset for header in log.headers(0) if header.is_control]


# --- markers


def test_markers_are_written_some_time_after_the_decision(driver: BrokerDriver) -> None:
    transactions = driver.state.part(Transactions)
    transactions.marker_delay_ms = 50
    client = began(driver, places=(T0, T1))
    assert client.end() == 0
    driver.pass_ms(49)
    assert client.state == "PrepareCommit"
    assert markers(driver) == markers(driver, 1) == []
    assert partition(driver).last_stable_offset == 0
    driver.pass_ms(1)
    assert client.state == "CompleteCommit"
    assert markers(driver) == markers(driver, 1) == [1]
    assert partition(driver).last_stable_offset == 2


def test_a_marker_is_owed_until_there_is_a_leader(driver: BrokerDriver) -> None:
    client = began(driver, places=(T0, T1))
    driver.state.move_leader("t", 0, -1)
    client.end()
    driver.pass_ms(500)
    assert client.state == "PrepareCommit"
    assert [topic.partitions for topic in client.describe().topics] == [[0]], "the other one has its marker"
    assert markers(driver, 1) == [1]
    driver.state.move_leader("t", 0, 1)
    driver.pass_ms(25)
    assert client.state == "CompleteCommit"
    assert markers(driver) == [1]


def test_a_marker_is_owed_until_it_is_replicated() -> None:
    driver = cluster((1, 2), 2)
    client = began(driver)
    driver.state.replication.hold(2)
    client.end()
    driver.pass_ms(500)
    assert client.state == "PrepareCommit"
    assert markers(driver) == [1], "it is written once"
    assert partition(driver).last_stable_offset == 0, "readers may not see what may be undone"
    driver.state.replication.release(2)
    driver.pass_ms(25)
    assert client.state == "CompleteCommit"
    assert partition(driver).last_stable_offset == 2


def test_a_marker_that_was_lost_is_written_again() -> None:
    driver = cluster((1, 2), 2)
    client = began(driver)
    driver.state.replication.hold(2)
    client.end()
    driver.pass_ms(5)
    driver.state.move_leader("t", 0, 2)
    assert markers(driver) == []
    driver.pass_ms(25)
    assert markers(driver) == [1]
    assert client.state == "CompleteCommit"
    assert partition(driver).last_stable_offset == 2


def test_a_marker_needs_the_replicas_that_the_topic_asks_for() -> None:
    driver = cluster((1, 2), 2)
    partition(driver).topic.configs["min.insync.replicas"] = "2"
    client = began(driver)
    driver.state.stop(2)
    client.end()
    driver.pass_ms(500)
    assert markers(driver) == []
    driver.state.start(2)
    driver.pass_ms(25)
    assert client.state == "CompleteCommit"


def test_no_marker_is_owed_to_a_topic_that_is_gone(driver: BrokerDriver) -> None:
    driver.state.topics.create("gone")
    client = began(driver, places=(T0, ("gone", 0)))
    driver.state.topics.delete(driver.state.topics.by_name["gone"])
    client.end()
    driver.pass_ms(5)
    assert client.state == "CompleteCommit"


def test_markers_wait_for_a_coordinator(driver: BrokerDriver) -> None:
    client = began(driver)
    client.end()
    driver.state.move_coordinator("x", -1)
    driver.pass_ms(100)
    assert markers(driver) == []
    driver.state.move_coordinator("x", 1)
    driver.pass_ms(25)
    assert client.state == "CompleteCommit"


@pytest.mark.parametrize("version", [11, 12])
def test_a_batch_that_comes_before_the_markers(driver: BrokerDriver, version: int) -> None:
    """Older clients would give up; a producer with an old epoch gets the error of the older check only."""
    driver.state.part(Transactions).marker_delay_ms = 1000
    client = began(driver)
    before = TransactionalClient(driver, "x", client.producer_id, client.epoch)
    client.end()
    by_leader = version == 12
    busy = ErrorCode.CONCURRENT_TRANSACTIONS if by_leader else ErrorCode.NOT_ENOUGH_REPLICAS
    assert client.produce(0, to=T1, version=version)[0] == busy
    late = ErrorCode.CONCURRENT_TRANSACTIONS if by_leader else ErrorCode.INVALID_PRODUCER_EPOCH
    assert before.produce(0, to=T1, version=version)[0] == late


def test_a_transactional_batch_needs_a_transactional_id(driver: BrokerDriver) -> None:
    client = began(driver)
    request = protocol.ProduceRequest(acks=1, timeout_ms=1000, transactional_id=None)
    data = encode_batch([b"v"], producer_id=client.producer_id, producer_epoch=0, base_sequence=1, transactional=True)
    part = request.PartitionProduceData(index=0, records=data)
    request.topic_data = [request.TopicProduceData(name="t", partition_data=[part])]
    (response,) = driver.ask(request, 12).responses[0].partition_responses
    assert response.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


# --- time


def test_a_transaction_that_takes_too_long_is_aborted(driver: BrokerDriver) -> None:
    client = began(driver, timeout_ms=15_000)
    driver.pass_ms(LOOK_MS)
    assert client.state == "Ongoing"
    driver.pass_ms(LOOK_MS)
    assert client.state == "PrepareAbort"
    driver.pass_ms(5)
    assert client.state == "CompleteAbort"
    assert client.produce(1)[0] == ErrorCode.INVALID_PRODUCER_EPOCH
    assert client.end() == ErrorCode.INVALID_TXN_STATE
    assert client.init(current=(client.producer_id, client.epoch)) == 0, (
        "no other producer has come: it may go on (KIP-588)"
    )


def test_nothing_is_due_when_no_transaction_is_open() -> None:
    driver = cluster(transactional_id_expiration_ms="1")
    client = TransactionalClient(driver)
    client.init()
    client.add(T0)
    client.end(version=4)
    driver.pass_ms(3 * 3_600_000)
    assert driver.state.next_due_ms is None
    assert client.describe().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_ids_that_are_not_used_are_forgotten() -> None:
    day_ms = 86_400_000
    driver = cluster(transactional_id_expiration_ms=str(day_ms))
    old, new = began(driver, places=()), began(driver, name="y", places=())
    driver.pass_ms(day_ms - 3_600_000)
    assert new.init() == 0
    driver.pass_ms(2 * 3_600_000)
    assert old.describe().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert new.state == "Empty"
    assert old.add(T0) == {T0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert old.init() == 0
    assert old.epoch == 0


# --- permissions


def test_other_brokers_do_not_coordinate() -> None:
    driver = cluster((1, 2))
    client = began(driver)
    driver.state.move_coordinator("x", 2)
    not_it = ErrorCode.NOT_COORDINATOR
    assert client.init() == not_it
    assert client.add(T0) == {T0: not_it}
    assert client.end() == not_it
    assert client.describe().error_code == not_it
    driver.state.move_coordinator("x", 1)
    driver.state.part(Transactions).loading.add("x")
    assert client.end() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_unknown_ids(driver: BrokerDriver) -> None:
    nobody = TransactionalClient(driver, "x")
    unknown = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert nobody.end() == unknown
    assert nobody.add(T0) == {T0: unknown}
    assert nobody.commit_offset(1) == unknown
    assert nobody.describe().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert driver.state.part(Transactions).by_id == {}


def test_an_id_without_letters(driver: BrokerDriver) -> None:
    nobody = TransactionalClient(driver, "")
    invalid = ErrorCode.INVALID_REQUEST
    assert nobody.init() == invalid
    assert nobody.end() == invalid
    assert nobody.add(T0) == {T0: invalid}
    assert nobody.describe().error_code == invalid


@pytest.mark.parametrize(("pid", "epoch"), [(5, -1), (-1, 5)])
@pytest.mark.parametrize("name", ["x", "", None])
def test_half_an_identity_is_none(driver: BrokerDriver, name: str | None, pid: int, epoch: int) -> None:
    assert TransactionalClient(driver, name).init(current=(pid, epoch)) == ErrorCode.INVALID_REQUEST


def test_older_clients_get_the_fencing_codes_of_their_version(driver: BrokerDriver) -> None:
    client = began(driver, places=())
    old = TransactionalClient(driver, "x", client.producer_id, client.epoch)
    assert client.init() == 0
    fenced, before = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
    stranger = (999, 0)
    assert [old.init(current=stranger, version=version) for version in (3, 4)] == [before, fenced]
    assert [old.add(T0, version=version)[T0] for version in (1, 2)] == [before, fenced]
    assert [old.end(version=version) for version in (1, 2)] == [before, fenced]


# --- brokers' versions of AddPartitionsToTxn


def batched(
    driver: BrokerDriver, *transactions: tuple[TransactionalClient, bool, list[Place]], version: int = 5
) -> list[list[tuple[str, int, int]]]:
    request = protocol.AddPartitionsToTxnRequest()
    for client, verify_only, places in transactions:
        request.transactions.append(
            request.AddPartitionsToTxnTransaction(
                transactional_id=client.transactional_id or "",
                producer_id=client.producer_id,
                producer_epoch=client.epoch,
                verify_only=verify_only,
                topics=[request.AddPartitionsToTxnTopic(name=name, partitions=[index]) for name, index in places],
            )
        )
    response = driver.ask(request, version)
    return [
        [
            (topic.name, part.partition_index, part.partition_error_code)
            for topic in each.topic_results
            for part in topic.results_by_partition
        ]
        for each in response.results_by_transaction
    ]


def test_several_transactions_at_once(driver: BrokerDriver) -> None:
    one, other = began(driver, places=()), began(driver, name="y", places=(T1,))
    verified = ErrorCode.TRANSACTION_ABORTABLE
    assert batched(driver, (one, False, [T0]), (other, True, [T0, T1])) == [
        [("t", 0, 0)],
        [("t", 0, verified), ("t", 1, 0)],
    ]
    assert one.state == "Ongoing"
    assert [topic.partitions for topic in other.describe().topics] == [[1]]


def test_a_missing_partition_comes_first_and_nothing_is_added(driver: BrokerDriver) -> None:
    client = began(driver, places=())
    unknown, left = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
    assert batched(driver, (client, False, [T0, ("t", 7)]), version=4) == [[("t", 7, unknown), ("t", 0, left)]]
    assert client.state == "Empty"


# --- markers by hand


def write_marker(
    driver: BrokerDriver,
    client: TransactionalClient,
    *,
    epoch: int | None = None,
    to: Place = T0,
    coordinator_epoch: int = 0,
    version: int = 1,
    node: int = 1,
) -> int:
    request = protocol.WriteTxnMarkersRequest()
    marker = request.WritableTxnMarker(
        producer_id=client.producer_id,
        producer_epoch=client.epoch if epoch is None else epoch,
        transaction_result=False,
        coordinator_epoch=coordinator_epoch,
        transaction_version=2 if version >= 2 else 0,
    )
    marker.topics = [request.WritableTxnMarkerTopic(name=to[0], partition_indexes=[to[1]])]
    request.markers = [marker]
    return int(driver.ask(request, version, node=node).markers[0].topics[0].partitions[0].error_code)


def test_a_transaction_is_aborted_by_hand(driver: BrokerDriver) -> None:
    client = began(driver)
    assert write_marker(driver, client, coordinator_epoch=4) == 0
    assert markers(driver) == [1]
    assert partition(driver).last_stable_offset == 2
    assert partition(driver).producers.entries[client.producer_id].coordinator_epoch == 4
    assert write_marker(driver, client, coordinator_epoch=3) == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_markers_that_may_not_be_written() -> None:
    driver = cluster((1, 2), 2)
    client = began(driver, places=())
    client.init()
    assert client.produce(0)[0] == 0
    assert write_marker(driver, client, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert write_marker(driver, client, epoch=-1) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert write_marker(driver, client, to=("t", 9)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert write_marker(driver, client, node=2) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert markers(driver) == []


def test_in_version_2_a_marker_that_ends_something_has_a_later_epoch(driver: BrokerDriver) -> None:
    client = began(driver)
    assert write_marker(driver, client, version=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert write_marker(driver, client, version=2, epoch=client.epoch + 1) == 0
    assert write_marker(driver, client, version=2, epoch=client.epoch + 1) == 0, "as it may come again"


# --- descriptions


def listed(driver: BrokerDriver, **filters: Any) -> tuple[list[str], list[str]]:
    response = driver.ask(protocol.ListTransactionsRequest(**filters), 2)
    return [each.transactional_id for each in response.transaction_states], response.unknown_state_filters


def test_transactions_are_listed(driver: BrokerDriver) -> None:
    began(driver, places=())
    driver.pass_ms(1000)
    client = began(driver, name="y")
    driver.pass_ms(50)
    assert listed(driver) == (["x", "y"], [])
    assert listed(driver, state_filters=["Ongoing", "Odd"]) == (["y"], ["Odd"])
    assert listed(driver, producer_id_filters=[client.producer_id]) == (["y"], [])
    assert listed(driver, duration_filter=49) == (["x", "y"], []), "one that never began has an infinite duration"
    assert listed(driver, duration_filter=50) == (["x"], [])
    assert listed(driver, transactional_id_pattern="[y-z]") == (["y"], [])
    assert listed(driver, transactional_id_pattern="") == (["x", "y"], [])
    bad = protocol.ListTransactionsRequest(transactional_id_pattern="(")
    assert driver.ask(bad, 2).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_no_pattern_of_transactions_takes_exponential_time(driver: BrokerDriver) -> None:
    began(driver, places=(), name="a" * 60 + "!")
    began(driver, places=(), name="a" * 60)
    for pattern in ("(a+)+$", "(a|a)*$", "(a|aa)+"):
        assert listed(driver, transactional_id_pattern=pattern) == (["a" * 60], [])


def test_a_transaction_has_a_beginning(driver: BrokerDriver) -> None:
    client = began(driver, places=(), timeout_ms=7000)
    assert client.describe().transaction_start_time_ms == -1
    driver.pass_ms(100)
    begun_ms = driver.state.wall_ms
    client.produce(0)
    driver.pass_ms(100)
    found = client.describe()
    assert (found.transaction_start_time_ms, found.transaction_timeout_ms) == (begun_ms, 7000)
    client.end()
    driver.pass_ms(5)
    assert client.describe().transaction_start_time_ms == begun_ms
    client.init()
    assert client.describe().transaction_start_time_ms == -1
