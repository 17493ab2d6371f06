"""A leader's memory of producers through restarts, failovers and truncation; more is in `test_scenarios.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.log.batch_header import BatchHeader, read_headers
from kafwire.broker.log.partition import Partition
from kafwire.broker.log.producer_state import ProducerStates
from kafwire.broker.state import ClusterState
from kafwire.errors import ErrorCode
from kafwire.records import encode_batch
from tests.support.broker.driver import BrokerDriver
from tests.support.broker.transactions import TransactionalClient

HOUR_MS = 3_600_000
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def cluster(nodes: Sequence[int] = (1,), replicas: int = 1, **configs: str) -> BrokerDriver:
    state = ClusterState(nodes, configs={key.replace("_", "."): value for key, value in configs.items()})
    state.topics.create("t", 1, replicas)
    return BrokerDriver(state)


def idempotent(driver: BrokerDriver) -> TransactionalClient:
    client = TransactionalClient(driver, None)
    assert client.init() == 0
    return client


def partition(driver: BrokerDriver) -> Partition:
    found = driver.state.topics.partition("t", 0)
    assert found is not None
    return found


def written(client: TransactionalClient, count: int) -> None:
    for sequence in range(count):
        assert client.produce(sequence) == (0, sequence)


def known_again(client: TransactionalClient, count: int) -> int:
    """How many of the last batches a leader takes for what they are: duplicates."""
    return sum(client.produce(sequence) == (0, sequence) for sequence in range(count))


def test_five_batches_are_known_again() -> None:
    driver = cluster()
    client = idempotent(driver)
    written(client, 8)
    assert known_again(client, 8) == 5


@pytest.mark.parametrize("clean", [True, False])
def test_one_batch_is_known_again_after_a_restart(clean: bool) -> None:
    driver = cluster()
    client = idempotent(driver)
    written(client, 8)
    driver.state.stop(1, clean=clean)
    driver.state.start(1)
    assert known_again(client, 8) == 1
    assert client.produce(9)[0] == OUT_OF_ORDER
    assert client.produce(8) == (0, 8)


@pytest.mark.parametrize("kept", [2, 5])
def test_up_to_five_batches_are_read_again_after_a_crash_where_no_snapshot_covers_them(kept: int) -> None:
    driver = cluster()
    driver.state.kept_after_crash = kept
    client = idempotent(driver)
    written(client, 8)
    driver.state.stop(1, clean=False)
    driver.state.start(1)
    assert known_again(client, 8) == kept


def test_an_expired_producer_may_write_anything() -> None:
    driver = cluster()
    client = idempotent(driver)
    written(client, 3)
    driver.state.forget_producers(1, 0)
    assert client.produce(2) == (0, 3), "it is stored again"
    assert client.produce(7)[0] == OUT_OF_ORDER


def test_another_broker_remembers_its_own_producers() -> None:
    driver = cluster((1, 2), 2)
    client = idempotent(driver)
    written(client, 8)
    driver.state.stop(1)
    assert partition(driver).leader == 2
    assert known_again(client, 8) == 5
    driver.state.start(1)
    driver.state.move_leader("t", 0, 1)
    assert known_again(client, 8) == 1, "it has restarted meanwhile"
    driver.state.move_leader("t", 0, 2)
    assert known_again(client, 8) == 5


def test_the_memory_grows_again_after_a_restart() -> None:
    driver = cluster()
    client = idempotent(driver)
    written(client, 4)
    driver.state.stop(1)
    driver.state.start(1)
    assert client.produce(4) == (0, 4)
    assert known_again(client, 5) == 2


def test_producers_expire_by_the_time_of_their_records() -> None:
    driver = cluster(producer_id_expiration_ms=str(HOUR_MS))
    old, new = idempotent(driver), idempotent(driver)
    written(old, 2)
    driver.pass_ms(HOUR_MS - 60_000)
    assert new.produce(0) == (0, 2)
    driver.pass_ms(20 * 60_000)
    assert set(partition(driver).producers.entries) == {new.producer_id}
    assert old.produce(5) == (0, 3), "it is not known"


def test_a_producer_with_an_open_transaction_does_not_expire() -> None:
    driver = cluster(producer_id_expiration_ms="1000", transaction_max_timeout_ms="2000000000")
    client = TransactionalClient(driver, "x", timeout_ms=2_000_000_000)
    client.init()
    assert client.produce(0) == (0, 0)
    driver.pass_ms(HOUR_MS)
    assert client.producer_id in partition(driver).producers.entries
    client.end()
    driver.pass_ms(2 * HOUR_MS)
    assert partition(driver).producers.entries == {}
    assert driver.state.next_due_ms is None or driver.state.next_due_ms > driver.state.now_ms


def test_truncated_batches_are_not_known() -> None:
    driver = cluster((1, 2), 2)
    client = idempotent(driver)
    written(client, 4)
    driver.state.lose_records("t", 0, 2, 2)
    assert partition(driver).log.end_offset == 2
    assert client.produce(3)[0] == OUT_OF_ORDER
    assert client.produce(2) == (0, 2)
    assert client.produce(1) == (0, 1), "it was not lost"


def test_truncation_brings_back_the_epoch_before() -> None:
    driver = cluster((1, 2), 2)
    client = idempotent(driver)
    written(client, 2)
    client.epoch = 1
    assert client.produce(0) == (0, 2)
    driver.state.lose_records("t", 0, 2, 2)
    client.epoch = 0
    assert client.produce(1) == (0, 1)
    assert client.produce(2) == (0, 2)


def test_truncation_opens_the_transaction_whose_marker_it_takes_away() -> None:
    driver = cluster((1, 2), 2)
    client = TransactionalClient(driver)
    client.init()
    assert client.produce(0) == (0, 0)
    client.end(commit=False)
    driver.pass_ms(5)
    found = partition(driver)
    assert found.last_stable_offset == 2
    assert len(found.producers.aborted) == 1
    driver.state.lose_records("t", 0, 2, 1)
    assert found.last_stable_offset == 0
    assert found.producers.aborted == []
    assert found.producers.is_open(client.producer_id)


def test_truncation_leaves_others_alone() -> None:
    driver = cluster((1, 2), 2)
    aborted, other = TransactionalClient(driver), idempotent(driver)
    aborted.init()
    aborted.produce(0)
    aborted.end(commit=False)
    driver.pass_ms(5)
    assert other.produce(0) == (0, 2)
    driver.state.lose_records("t", 0, 2, 2)
    assert len(partition(driver).producers.aborted) == 1
    assert other.produce(4) == (0, 2), "it is not known any more"


def test_forgotten_producer_state_ends_at_the_truncation() -> None:
    driver = cluster((1, 2), 2)
    client = idempotent(driver)
    written(client, 4)
    driver.state.forget_producers(2, 0)
    driver.state.lose_records("t", 0, 2, 2)
    assert client.produce(0) == (0, 2)
    assert client.produce(5)[0] == OUT_OF_ORDER
    assert client.produce(1) == (0, 3)


def test_a_producer_whose_remembered_batch_is_cut_off_gets_the_one_before_again() -> None:
    driver = cluster((1, 2), 2)
    client = idempotent(driver)
    written(client, 4)
    driver.state.forget_producers(1, 1)
    driver.state.lose_records("t", 0, 2, 3)
    driver.state.move_leader("t", 0, 1)
    assert client.produce(2) == (0, 2), "it is known"
    assert client.produce(4)[0] == OUT_OF_ORDER
    assert client.produce(3) == (0, 3)


def test_all_is_learnt_from_the_log() -> None:
    driver = cluster()
    client, aborted = idempotent(driver), TransactionalClient(driver)
    written(client, 2)
    aborted.init()
    aborted.produce(0)
    aborted.end(commit=False)
    driver.pass_ms(5)
    aborted.produce(0)
    found = partition(driver)
    entries, lost = dict(found.producers.entries), list(found.producers.aborted)
    assert len(entries) == 2
    assert lost
    found.producers.entries.clear()
    found.producers.aborted.clear()
    found.replay_producers()
    assert found.producers.entries == entries
    assert found.producers.aborted == lost
    assert found.last_stable_offset == 4


def test_a_refused_beginning_keeps_later_ones_out_until_another_broker_leads() -> None:
    driver = cluster((1, 2), 2)
    client = TransactionalClient(driver)
    client.init()
    assert client.produce(3, version=12)[0] == OUT_OF_ORDER
    assert client.produce(2, version=12)[0] == OUT_OF_ORDER
    driver.state.move_leader("t", 0, 2)
    assert client.produce(3, version=11) == (0, 0), "the new leader has verified nothing"


def test_a_later_epoch_is_not_kept_out_by_a_beginning_of_the_one_before() -> None:
    driver = cluster()
    old, client, plain = TransactionalClient(driver), TransactionalClient(driver), TransactionalClient(driver, None)
    old.init()
    client.init()
    assert old.produce(0)[0] == ErrorCode.INVALID_PRODUCER_EPOCH
    plain.producer_id, plain.epoch = client.producer_id, client.epoch
    assert plain.produce(0, count=2) == (0, 0), "outside of any transaction"
    assert client.produce(2) == (0, 2)


def describe_producers(driver: BrokerDriver, **place: Any) -> Any:
    request = protocol.DescribeProducersRequest()
    asked = {"name": "t", "partition_indexes": [0]} | place
    request.topics = [request.TopicRequest(**asked)]
    return driver.ask(request, 0).topics[0].partitions


def test_leaders_describe_their_producers() -> None:
    driver = cluster()
    client, plain = TransactionalClient(driver), idempotent(driver)
    client.init()
    client.produce(0)
    plain.produce(0, count=3)
    open_, idle = describe_producers(driver)[0].active_producers
    assert (open_.producer_id, open_.last_sequence, open_.current_txn_start_offset) == (client.producer_id, 0, 0)
    assert open_.coordinator_epoch == -1
    assert (idle.producer_id, idle.last_sequence, idle.current_txn_start_offset) == (plain.producer_id, 2, -1)
    assert idle.last_timestamp == driver.state.wall_ms
    client.end()
    driver.pass_ms(5)
    ended, _ = describe_producers(driver)[0].active_producers
    assert (ended.producer_epoch, ended.last_sequence, ended.coordinator_epoch) == (1, -1, 0)


def test_there_are_no_producers_where_there_is_nothing() -> None:
    driver = cluster((1, 2))
    driver.state.topics.create("other", assignments=[[2]])
    (known, unknown) = describe_producers(driver, partition_indexes=[0, 7])
    assert known.error_code == 0
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe_producers(driver, name="none")[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe_producers(driver, name="not a name")[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert describe_producers(driver, name="other")[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_followers_describe_producers_too() -> None:
    driver = cluster((1, 2), 2)
    driver.state.move_leader("t", 0, 2)
    assert describe_producers(driver)[0].error_code == 0


def header(sequence: int) -> BatchHeader:
    """The header of a transactional batch of producer 7."""
    data = encode_batch([b"v"], producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)
    (found,) = read_headers(bytes(data))
    return found


def test_a_later_batch_does_not_raise_the_lowest_verified_sequence() -> None:
    states = ProducerStates()
    for sequence in (2, 4):
        states.verify(header(sequence), from_zero=False)
    assert states.refuses(header(4)) == OUT_OF_ORDER, "the batch before it was not written"
    assert states.refuses(header(2)) == 0
