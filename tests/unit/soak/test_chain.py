"""The judgement of a chain: nothing where it is right, and each planted mistake as what it is."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from kafwire.testing.history.tokens import encode
from tests.soak.chain import Row, broken

Topic = dict[int, list[Row]]


def made(chance: random.Random) -> Topic:
    return {
        partition: [
            Row(
                encode(1, n % 7, 1_000 * partition + n),
                b"%d" % (n % 7),
                (("n", b"1"),) if n % 3 else (),
                1_760_000_000_000 + n,
            )
            for n in range(chance.randint(5, 40))
        ]
        for partition in range(3)
    }


def lose(chance: random.Random, last: Topic) -> str:
    rows = last[chance.randrange(3)]
    rows.remove(chance.choice(rows))
    return "1 lost"


def repeat(chance: random.Random, last: Topic) -> str:
    """Write records twice, like a hop killed between its commits of records and of offsets."""
    rows = last[chance.randrange(3)]
    at = chance.randint(0, len(rows) - 2)
    rows[at + 2 : at + 2] = rows[at : at + 2]
    return "2 twice"


def swap(chance: random.Random, last: Topic) -> str:
    rows = last[chance.randrange(3)]
    at = chance.randint(0, len(rows) - 2)
    rows[at], rows[at + 1] = rows[at + 1], rows[at]
    return f"another order from record {at} on"


def invent(chance: random.Random, last: Topic) -> str:
    last[chance.randrange(3)].append(Row(encode(2, 0, 5), None, (), None))
    return "1 never sent, as p2 #5"


def move(_chance: random.Random, last: Topic) -> str:
    last[1].append(last[0].pop())
    return "partition 1: 1 never sent"


def change_a_key(_chance: random.Random, last: Topic) -> str:
    last[0][2] = last[0][2]._replace(key=None)
    return "1 lost, as p1 #2; partition 0: 1 never sent, as p1 #2"


def change_a_time(_chance: random.Random, last: Topic) -> str:
    last[0][2] = last[0][2]._replace(timestamp_ms=7)
    return "1 never sent, as p1 #2"


def drop_the_headers(_chance: random.Random, last: Topic) -> str:
    last[0][2] = last[0][2]._replace(headers=())
    return "1 never sent, as p1 #2"


def test_records_through_the_chain_are_judged() -> None:
    chance = random.Random(1)
    for _ in range(20):
        first = made(chance)
        assert broken(first, {partition: list(rows) for partition, rows in first.items()}) == []
    assert broken({}, {}) == []
    assert broken({0: []}, {}) == []


@pytest.mark.parametrize("mistake", [lose, repeat, swap, invent, move, change_a_key, change_a_time, drop_the_headers])
def test_a_mistake_is_reported(mistake: Callable[[random.Random, Topic], str]) -> None:
    chance = random.Random(2)
    for _ in range(20):
        first = made(chance)
        last = {partition: list(rows) for partition, rows in first.items()}
        expected = mistake(chance, last)
        found = broken(first, last)
        assert expected in "; ".join(found)
        assert len(found) <= 2
