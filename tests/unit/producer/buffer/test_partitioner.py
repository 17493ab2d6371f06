"""`producer.buffer.partitioner`: rules by name, weights by backlog, and which brokers are slow."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.config import PARTITIONERS
from kafwire.producer.buffer.partitioner import RULES, Balance, Rule, Split, even, rule_of, weighted
from tests.support.java.reference_partitions import HASHED


def chances(split: Split) -> dict[int, Fraction]:
    """The chance of each partition to be drawn."""
    partitions, ends = split
    assert len(partitions) == len(ends)
    begins = [0, *ends]
    return {
        partition: Fraction(end - begin, ends[-1])
        for partition, begin, end in zip(partitions, begins, ends, strict=False)
    }


def test_every_name_has_a_rule() -> None:
    assert set(RULES) == set(PARTITIONERS)


@pytest.mark.parametrize("name", HASHED)
def test_a_rule_says_which_keys_are_hashed_and_by_what(name: str) -> None:
    rule = rule_of(name, ignore_keys=False)
    assert (rule.hash, rule.hashed_from, rule.spread) == (*HASHED[name], "sticky")


@pytest.mark.parametrize("name", PARTITIONERS)
def test_keys_may_be_ignored(name: str) -> None:
    rule = rule_of(name, ignore_keys=True)
    assert (rule.hash, rule.spread) == (None, RULES[name].spread)


def test_a_function_is_a_rule() -> None:
    def choose(topic: str, key: bytes | None, partitions: int, available: tuple[int, ...]) -> int:
        return 0

    assert rule_of(choose, ignore_keys=False) == Rule(None, -1, "function", choose)


@given(st.lists(st.integers(0, 99), min_size=1, unique=True))
def test_even_weights_are_all_the_same(partitions: list[int]) -> None:
    assert chances(even(partitions)) == dict.fromkeys(partitions, Fraction(1, len(partitions)))


def test_the_example_of_the_kip() -> None:
    """Queues of 0, 3 and 1: 4, 1 and 3 parts of 8."""
    assert weighted([0, 1, 2], {1: 3, 2: 1}, []) == ([0, 1, 2], [4, 5, 8])


@given(
    st.lists(st.integers(0, 30), min_size=1, unique=True),
    st.dictionaries(st.integers(0, 30), st.integers(1, 1000)),
    st.sets(st.integers(0, 30)),
)
def test_a_share_is_what_the_longest_queue_has_more(
    partitions: list[int], backlog: dict[int, int], slow: set[int]
) -> None:
    found = chances(weighted(partitions, backlog, slow))
    fast = [partition for partition in partitions if partition not in slow]
    if not fast:
        assert found == chances(even(partitions))
        return
    longest = max(backlog.get(partition, 0) for partition in fast)
    tickets = Counter({partition: longest + 1 - backlog.get(partition, 0) for partition in fast})
    assert found == {partition: Fraction(count, tickets.total()) for partition, count in tickets.items()}


# ---- a producer's topics


def test_partitions_without_a_leader_have_no_share_while_others_have_one() -> None:
    balance = Balance(timeout_ms=0)
    assert chances(balance.lead("t", [1, -1, 0, -1])) == {0: Fraction(1, 2), 2: Fraction(1, 2)}
    assert chances(balance.lead("t", [-1, -1])) == {0: Fraction(1, 2), 1: Fraction(1, 2)}


def test_weights_are_returned_when_they_change() -> None:
    balance = Balance(timeout_ms=0)
    balance.lead("t", [1, 1, -1])
    assert balance.weights("t", {}) is None
    split = balance.weights("t", {1: 2})
    assert split is not None
    assert chances(split) == {0: Fraction(3, 4), 1: Fraction(1, 4)}
    assert list(balance.uneven) == ["t"]
    assert balance.weights("t", {1: 2}) is None
    split = balance.weights("t", {})
    assert split is not None
    assert chances(split) == {0: Fraction(1, 2), 1: Fraction(1, 2)}
    assert not balance.uneven


def test_new_leaders_change_nothing_about_what_waits() -> None:
    balance = Balance(timeout_ms=0)
    balance.lead("t", [1, 1, -1, 2])
    assert balance.weights("t", {1: 2}, frozenset({3})) is not None
    assert chances(balance.lead("t", [1, 2, 1, 2])) == {0: Fraction(3, 7), 1: Fraction(1, 7), 2: Fraction(3, 7)}
    assert balance.weights("t", {1: 2}, frozenset({3})) is None
    assert chances(balance.lead("t", [-1, -1, 1, 2])) == {2: Fraction(1)}


def test_topics_have_weights_of_their_own() -> None:
    balance = Balance(timeout_ms=0)
    balance.lead("t", [1, 1])
    balance.lead("u", [1, 1, 1])
    assert balance.weights("t", {1: 2}) is not None
    assert balance.weights("u", {1: 2}) is not None
    assert set(balance.uneven) == {"t", "u"}


def test_a_broker_that_takes_nothing_for_longer_than_the_time_out_is_slow() -> None:
    balance = Balance(timeout_ms=100)
    assert not balance.is_slow(1)
    balance.note(1, 5_000, taken=False)
    balance.note(1, 5_050, taken=False)
    balance.note(1, 5_100, taken=False)
    assert not balance.is_slow(1)
    balance.note(1, 5_101, taken=False)
    assert balance.is_slow(1)
    assert not balance.is_slow(2)
    balance.note(1, 5_150, taken=True)
    assert not balance.is_slow(1)
    balance.note(1, 5_200, taken=False)
    assert not balance.is_slow(1)


def test_a_broker_that_was_idle_is_not_slow() -> None:
    balance = Balance(timeout_ms=100)
    balance.note(1, 0, taken=True)
    balance.note(1, 9_000, taken=False)
    assert not balance.is_slow(1)


def test_without_a_time_out_no_broker_is_slow() -> None:
    balance = Balance(timeout_ms=0)
    balance.note(1, 0, taken=False)
    balance.note(1, 1e9, taken=False)
    assert not balance.is_slow(1)
