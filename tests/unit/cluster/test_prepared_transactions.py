"""Transactions ended from outside of their producers, in a simulated world."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafwire.cluster.prepared_transactions import PreparedTransactions
from kafwire.error_codes import ErrorCode
from kafwire.testing.simulation.calls import Call, Response
from kafwire.types import TransactionHandle
from tests.support.simulated.world import World
from tests.support.transactional_producer import Transacting, lose, refuse


@pytest.fixture(params=[0, 1, 2])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with World(brokers=3) as it:
        it.transaction_version = request.param
        it.create_topic("t", partitions=3)
        for number in range(3):
            it.move_coordinator(f"x{number}", 1 + number)
        yield it


def detached(world: World, name: str) -> tuple[Transacting, TransactionHandle]:
    work = Transacting(world, transactional_id=name)
    work.begin()
    work.send("t", name.encode())
    return work, world.run(work.transactions.detach())


def test_many_are_ended_by_their_coordinators_whatever_goes_wrong(world: World) -> None:
    versions: list[int] = []

    def note(call: Call) -> Response:
        versions.append(call.version)
        return None

    works = [detached(world, f"x{number}") for number in range(3)]
    world.on("EndTxn", note)
    left = refuse(world, "EndTxn", ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS)
    lose(world, "EndTxn")
    prepared = PreparedTransactions(works[0][0].core.cluster)
    assert world.run(prepared.end([handle for _, handle in works], commit=True)) == [0, 0, 0]
    assert not left
    assert {version == 5 for version in versions} == {world.transaction_version == 2}
    assert sorted(filter(None, works[0][0].seen)) == [b"x0", b"x1", b"x2"]


def test_a_coordinator_gets_them_over_several_connections(world: World) -> None:
    for number in range(6):
        world.move_coordinator(f"y{number}", 1)
    works = [detached(world, f"y{number}") for number in range(6)]
    cluster = works[0][0].core.cluster
    handles = [handle for _, handle in works]
    assert world.run(PreparedTransactions(cluster).end(handles, commit=True)) == [0] * 6
    roles = {role for role in cluster._nodes[1]._connections if role.startswith("coordinator")}
    assert roles == {"coordinator", "coordinator:1", "coordinator:2", "coordinator:3"}
    assert len(list(filter(None, works[0][0].seen))) == 6


def test_a_code_that_no_retry_mends_is_returned(world: World) -> None:
    work, handle = detached(world, "x0")
    prepared = PreparedTransactions(work.core.cluster)
    stale = handle._replace(producer_epoch=handle.producer_epoch + 7)
    assert world.run(prepared.end([stale, handle], commit=False)) == [ErrorCode.PRODUCER_FENCED, 0]
