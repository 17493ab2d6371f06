"""`cli.reassignment_plan`: replicas are divided evenly, and few of them move."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.cli.reassignment_plan import plan


@pytest.mark.parametrize(
    ("current", "brokers", "factor", "expected"),
    [
        ([[1, 2], [2, 1]], [1, 2], None, [[1, 2], [2, 1]]),
        ([[1], [1]], [1, 2], None, [[1], [2]]),
        ([[1], [2]], [3], None, [[3], [3]]),
        ([[1], [2]], [1, 2], 2, [[1, 2], [2, 1]]),
        ([[1, 2, 3]], [3, 1], 2, [[1, 3]]),
        ([[1, 2]], [1, 2, 3], 1, [[1]]),
    ],
)
def test_plans(current: list[list[int]], brokers: list[int], factor: int | None, expected: list[list[int]]) -> None:
    assert list(plan(dict(enumerate(current)), brokers, factor).values()) == expected


BROKERS = st.lists(st.integers(0, 5), min_size=3, max_size=6, unique=True)
REPLICAS = st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True)


@given(st.lists(REPLICAS, min_size=1, max_size=12), BROKERS)
def test_every_partition_has_as_many_replicas_on_wanted_brokers(current: list[list[int]], brokers: list[int]) -> None:
    planned = plan(dict(enumerate(current)), brokers)
    load = Counter(broker for replicas in planned.values() for broker in replicas)
    for place, replicas in planned.items():
        assert len(set(replicas)) == len(replicas) == len(current[place])
        assert set(replicas) <= set(brokers)
    fair = sum(map(len, current)) / len(brokers)
    assert max(load.values()) <= fair + len(brokers)
