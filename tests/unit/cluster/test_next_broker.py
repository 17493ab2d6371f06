"""`next_broker`: the order in which brokers are asked."""

from __future__ import annotations

import random
from dataclasses import dataclass

from kafwire.cluster.next_broker import NextBroker
from tests.support import seeds


@dataclass
class Candidate:
    node: int
    is_ready: bool = True
    failures: int = 0
    in_flight: int = 0


OVERDUE = 4
IDLE, BUSY, LOST, FAILED = Candidate(0), Candidate(1, in_flight=3), Candidate(2, False), Candidate(3, False, 2)
ALL = [Candidate(OVERDUE), FAILED, LOST, BUSY, IDLE]


def nodes(connections: list[Candidate]) -> list[int]:
    return [connection.node for connection in connections]


def chooser() -> NextBroker:
    return NextBroker(random.Random(seeds.of_test()), lambda node: node == OVERDUE)


def test_a_connected_idle_broker_is_next_and_an_overdue_one_last() -> None:
    assert nodes(chooser().order(ALL)) == [0, 1, 2, 3, OVERDUE]


def test_a_broker_may_be_put_first() -> None:
    assert nodes(chooser().order(ALL, first=3)) == [3, 0, 1, 2, OVERDUE]
    assert nodes(chooser().order(ALL, first=99)) == [0, 1, 2, 3, OVERDUE]


def test_equal_brokers_take_turns() -> None:
    next_broker, equal = chooser(), [Candidate(node) for node in range(3)]
    assert {next_broker.order(equal)[0].node for _ in range(50)} == {0, 1, 2}


def test_elsewhere_is_where_metadata_came_from_longest_ago() -> None:
    next_broker, known = chooser(), [Candidate(node) for node in (0, 1, 2, OVERDUE)]
    for node in (1, 0, 2, 1):
        next_broker.note_metadata(node)
    assert nodes(next_broker.elsewhere(known)) == [0, 2, 1, OVERDUE]
    assert nodes(next_broker.elsewhere([*known, Candidate(5), FAILED])) == [5, 0, 2, 1, 3, OVERDUE]


def test_a_connected_bootstrap_server_is_next() -> None:
    assert nodes(NextBroker.seeds([LOST, IDLE, FAILED])) == [0, 2, 3]
