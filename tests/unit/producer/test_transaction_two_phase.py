"""Transactions without a time-out (KIP-939): the request that asks for them, and brokers that do not offer it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafwire.errors import ErrorCode, TransactionError, TransactionFatalError
from kafwire.testing.simulation.calls import Call, Response
from tests.support.simulated.world import World
from tests.support.transactional_producer import Transacting, refuse


@pytest.fixture
def world() -> Iterator[World]:
    with World(brokers=1) as it:
        it.create_topic("t")
        yield it


def offer(world: World, highest: int) -> None:
    world.nodes[1].versions["InitProducerId"] = (0, highest)


def test_the_request_asks_for_two_phase_commit(world: World) -> None:
    offer(world, 6)
    asked: list[tuple[int, bool]] = []

    def record(call: Call) -> Response:
        asked.append((call.version, call.message.enable2_pc))
        return None

    world.on("InitProducerId", record)
    Transacting(world, transaction_two_phase_commit_enable=True).initialize()
    Transacting(world, "y").initialize()
    assert asked == [(6, True), (5, False)]


def test_a_broker_that_does_not_offer_it_is_named(world: World) -> None:
    offer(world, 5)
    work = Transacting(world, transaction_two_phase_commit_enable=True)
    with pytest.raises(TransactionFatalError, match="does not offer version 6 of InitProducerId") as caught:
        work.initialize()
    assert "or omit the option" in str(caught.value)


def test_a_broker_that_refuses_it_is_explained(world: World) -> None:
    offer(world, 6)
    refuse(world, "InitProducerId", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    with pytest.raises(TransactionError) as caught:
        Transacting(world, transaction_two_phase_commit_enable=True).initialize()
    assert any("transaction.two.phase.commit.enable=true" in note for note in caught.value.__notes__)
    refuse(world, "InitProducerId", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    with pytest.raises(TransactionError) as caught:
        Transacting(world, "y").initialize()
    assert not getattr(caught.value, "__notes__", ())
