"""The coordinator of one transactional id, beyond what the scenarios of real Kafka say (`test_scenarios.py`)."""

from __future__ import annotations

import itertools

import pytest

from kafwire.broker.transactions.transaction_coordinator import LAST_EPOCH, Coordinator, Place, State
from kafwire.errors import ErrorCode
from kafwire.producer.outcome.sequencer import Identity
from kafwire.producer.transactions.state import NO_PRODUCER

T0 = ("t", 0)


class Its:
    """A coordinator, and ids for it."""

    def __init__(self, *, before_4: bool = False, epoch: int | None = None) -> None:
        self.ids = itertools.count(1)
        self.coordinator = Coordinator(before_4)
        self.init()
        if epoch is not None:
            self.coordinator.epoch = epoch

    def new_id(self) -> int:
        return next(self.ids)

    @property
    def producer(self) -> Identity:
        return Identity(self.coordinator.producer_id, self.coordinator.epoch)

    def init(self, current: Identity = NO_PRODUCER) -> tuple[int, Identity]:
        return self.coordinator.initialize(current, new_id=self.new_id)

    def add(self, producer: Identity | None = None, place: Place = T0) -> int:
        return self.coordinator.add(producer or self.producer, {place})

    def end(self, producer: Identity | None = None, *, commit: bool = True, version: int = 2) -> tuple[int, Identity]:
        return self.coordinator.end(producer or self.producer, commit=commit, version=version, new_id=self.new_id)


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_goes_through_its_states(version: int) -> None:
    its = Its()
    assert its.producer == Identity(1, 0)
    states = [its.coordinator.state]
    assert its.add() == 0
    states.append(its.coordinator.state)
    assert its.end(version=version) == (0, Identity(1, version - 1))
    states.append(its.coordinator.state)
    assert its.coordinator.partitions == {T0}
    its.coordinator.complete()
    states.append(its.coordinator.state)
    assert states == [State.EMPTY, State.ONGOING, State.PREPARE_COMMIT, State.COMPLETE_COMMIT]
    assert its.coordinator.partitions == set()


def test_no_request_is_served_while_it_prepares() -> None:
    its = Its()
    its.add()
    before = its.producer
    its.end()
    busy = ErrorCode.CONCURRENT_TRANSACTIONS
    assert its.init() == (busy, NO_PRODUCER)
    assert its.init(Identity(99, 3)) == (busy, NO_PRODUCER)
    assert its.add() == busy
    assert its.add(before) == busy
    assert its.end(before) == (busy, NO_PRODUCER)


def test_kafka_3_9_checks_the_producer_first_while_it_prepares() -> None:
    its = Its(before_4=True)
    its.add()
    its.end(version=1)
    assert its.add(Identity(99, 0)) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert its.add(Identity(1, 7)) == ErrorCode.PRODUCER_FENCED
    assert its.add() == ErrorCode.CONCURRENT_TRANSACTIONS


def test_verifying_adds_nothing() -> None:
    its = Its()
    assert its.coordinator.verify(its.producer, T0) == ErrorCode.TRANSACTION_ABORTABLE
    assert its.coordinator.state is State.EMPTY
    its.add()
    assert its.coordinator.verify(its.producer, T0) == 0
    assert its.coordinator.verify(its.producer, ("t", 1)) == ErrorCode.TRANSACTION_ABORTABLE
    assert its.coordinator.verify(Identity(1, 5), T0) == ErrorCode.PRODUCER_FENCED


def test_the_last_epoch_is_followed_by_another_producer_id() -> None:
    its = Its(epoch=LAST_EPOCH)
    assert its.init() == (0, Identity(2, 0))
    # The request named no producer, so a request that names the one before is unknown.
    assert its.init(Identity(1, LAST_EPOCH)) == (ErrorCode.PRODUCER_FENCED, NO_PRODUCER)


def test_a_lost_response_about_another_producer_id_is_given_again() -> None:
    its = Its(epoch=LAST_EPOCH)
    assert its.init(Identity(1, LAST_EPOCH)) == (0, Identity(2, 0))
    assert its.init(Identity(1, LAST_EPOCH)) == (0, Identity(2, 0))
    assert its.init(Identity(1, LAST_EPOCH - 1)) == (ErrorCode.PRODUCER_FENCED, NO_PRODUCER)
    assert its.init(Identity(2, 0)) == (0, Identity(2, 1))
    assert its.init(Identity(1, LAST_EPOCH)) == (ErrorCode.PRODUCER_FENCED, NO_PRODUCER)


def test_an_older_epoch_of_a_producer_id_that_is_used_up() -> None:
    its = Its(epoch=LAST_EPOCH)
    assert its.init(Identity(1, LAST_EPOCH - 1)) == (ErrorCode.UNKNOWN_SERVER_ERROR, NO_PRODUCER)


@pytest.mark.parametrize("commit", [True, False])
def test_the_end_of_the_last_epoch_brings_another_producer_id(commit: bool) -> None:
    its = Its(epoch=LAST_EPOCH)
    its.add()
    last = its.producer
    assert its.end(commit=commit) == (0, Identity(2, 0))
    assert its.producer == Identity(1, LAST_EPOCH + 1), "the markers have an epoch that no producer has"
    its.coordinator.complete()
    assert its.producer == Identity(2, 0)
    assert its.end(last, commit=commit) == (0, Identity(2, 0)), "the response was lost"
    assert its.end(last, commit=not commit) == (ErrorCode.INVALID_TXN_STATE, NO_PRODUCER)
    assert its.init(last) == (0, Identity(2, 0))
    assert its.end(last, commit=commit) == (ErrorCode.INVALID_PRODUCER_ID_MAPPING, NO_PRODUCER)


def test_a_producer_fenced_at_the_last_epoch() -> None:
    its = Its(epoch=LAST_EPOCH)
    its.add()
    assert its.init() == (ErrorCode.CONCURRENT_TRANSACTIONS, NO_PRODUCER)
    assert its.producer == Identity(1, LAST_EPOCH + 1)
    its.coordinator.complete()
    assert its.producer == Identity(2, 0)
    assert its.init() == (0, Identity(2, 1))


def test_kafka_3_9_gives_a_producer_fenced_at_the_last_epoch_another_producer_id_when_it_asks() -> None:
    its = Its(before_4=True, epoch=LAST_EPOCH)
    its.add()
    its.init()
    its.coordinator.complete()
    assert its.producer == Identity(1, LAST_EPOCH + 1)
    assert its.init() == (0, Identity(2, 0))


def test_fencing_where_nothing_is_open_changes_nothing() -> None:
    its = Its()
    its.coordinator.fence(its.new_id)
    assert its.coordinator.state is State.EMPTY
    assert its.producer == Identity(1, 0)
