"""Assignors of consumer groups: everything is assigned, evenly, with few moves, and in the order of Kafka's tables."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.broker.groups.assignors import ASSIGNORS, Assignment, GroupSpec, Subscriber, range_, uniform
from kafwire.broker.groups.hash_order import hash_of_number, hash_of_text, in_hash_order

IDS = [uuid.UUID(int=number << 64 | 7) for number in range(1, 6)]
A, B, C, *_ = IDS


def spec(
    wanted: Mapping[str, str],
    counts: Mapping[str, int],
    before: Assignment | None = None,
    instance_ids: Mapping[str, str] | None = None,
) -> GroupSpec:
    """Members that want the topics of these letters."""
    members = {
        name: Subscriber(
            frozenset(IDS["abcde".index(letter)] for letter in letters),
            (before or {}).get(name, frozenset()),
            (instance_ids or {}).get(name),
        )
        for name, letters in wanted.items()
    }
    is_even = len({*map(frozenset, wanted.values())}) < 2
    return GroupSpec(members, {IDS["abcde".index(letter)]: count for letter, count in counts.items()}, is_even)


def shown(made: Assignment) -> dict[str, str]:
    """Partitions as letters and numbers."""
    return {
        name: " ".join(f"{'abcde'[IDS.index(topic)]}{index}" for topic, index in sorted(its))
        for name, its in made.items()
    }


def test_uniform_gives_members_in_the_tables_order_their_shares() -> None:
    made = uniform(spec({"m1": "a", "m2": "a", "m3": "a"}, {"a": 7}))
    assert shown(made) == {"m1": "a0 a1", "m2": "a2 a3", "m3": "a4 a5 a6"}, "the last ones have to take the rest"


def test_uniform_moves_as_few_partitions_as_possible() -> None:
    before = uniform(spec({"m1": "ab", "m2": "ab"}, {"a": 4, "b": 4}))
    after = uniform(spec({"m1": "ab", "m2": "ab", "m3": "ab"}, {"a": 4, "b": 4}, before))
    assert sorted(map(len, after.values())) == [2, 3, 3]
    assert all(after[name] < before[name] for name in ("m1", "m2"))


def test_uniform_for_members_that_want_different_topics() -> None:
    made = uniform(spec({"m1": "a", "m2": "ab", "m3": "b"}, {"a": 4, "b": 2}))
    assert shown(made) == {"m1": "a0 a2", "m2": "a1 a3", "m3": "b0 b1"}
    again = uniform(spec({"m1": "a", "m2": "ab", "m3": "b"}, {"a": 4, "b": 2}, made))
    assert again == made
    fewer = uniform(spec({"m2": "ab", "m3": "b"}, {"a": 4, "b": 2}, made))
    assert shown(fewer) == {"m2": "a0 a1 a2 a3", "m3": "b0 b1"}


def test_a_member_with_too_much_gives_to_others() -> None:
    everything = frozenset((topic, index) for topic, count in ((A, 6), (B, 1)) for index in range(count))
    made = uniform(spec({"m1": "ab", "m2": "a"}, {"a": 6, "b": 1}, {"m1": everything}))
    assert shown(made) == {"m1": "a0 a1 a2 b0", "m2": "a3 a4 a5"}


def test_the_largest_owner_may_have_nothing_that_others_want() -> None:
    had = {"m1": frozenset({(B, 0), (C, 0)}), "m2": frozenset({(A, 0), (A, 1)})}
    made = uniform(spec({"m0": "c", "m1": "bc", "m2": "ac"}, {"a": 2, "b": 1, "c": 1}, had))
    assert shown(made) == {"m0": "c0", "m1": "b0", "m2": "a0 a1"}


def test_range_as_if_all_wanted_the_same() -> None:
    """Kafka does so for a member without topics, when nothing else has changed."""
    members = {"m1": Subscriber(frozenset({A})), "m2": Subscriber(frozenset())}
    assert shown(range_(GroupSpec(members, {A: 3}, is_even=True))) == {"m1": "a0 a1", "m2": "a2"}


def test_range_gives_partitions_of_the_same_numbers_to_the_same_members() -> None:
    made = range_(spec({"m1": "ab", "m2": "ab"}, {"a": 3, "b": 3}))
    assert shown(made) == {"m1": "a0 a1 b0 b1", "m2": "a2 b2"}


def test_range_begins_with_static_members_by_their_instance_ids() -> None:
    wanted = {"m1": "a", "m2": "a", "m3": "a"}
    made = range_(spec(wanted, {"a": 3}, instance_ids={"m3": "i1", "m2": "i2"}))
    assert shown(made) == {"m3": "a0", "m2": "a1", "m1": "a2"}


def test_range_for_members_that_want_different_topics() -> None:
    made = range_(spec({"m1": "a", "m2": "ab", "m3": "b"}, {"a": 3, "b": 1}))
    assert shown(made) == {"m1": "a0 a1", "m2": "a2 b0", "m3": ""}


@pytest.mark.parametrize("name", ASSIGNORS)
def test_no_member_wants_anything(name: str) -> None:
    assert not any(ASSIGNORS[name](spec({"m1": "", "m2": ""}, {"a": 1})).values())


@given(st.data())
def test_all_wanted_partitions_have_one_owner_that_wants_them(data: st.DataObject) -> None:
    chance = data.draw(st.randoms(use_true_random=False))
    counts = {letter: chance.randint(1, 5) for letter in "abc"}
    before: Assignment = {}
    for _ in range(3):
        wanted = {f"m{number}": drawn(chance) for number in chance.sample(range(6), chance.randint(1, 4))}
        name = chance.choice([*ASSIGNORS])
        asked = spec(wanted, counts, before)
        before = ASSIGNORS[name](asked)
        owned = [place for its in before.values() for place in its]
        topics = {topic for each in asked.members.values() for topic in each.topics}
        assert sorted(owned) == sorted((t, i) for t in topics for i in range(asked.partitions[t]))
        assert all(topic in asked.members[each].topics for each, its in before.items() for topic, _ in its)
        if name == "uniform" and asked.is_even and topics:
            sizes = [len(its) for its in before.values()]
            assert max(sizes) - min(sizes) <= 1


def drawn(chance: random.Random) -> str:
    return "".join(letter for letter in "abc" if chance.random() < 0.6)


def test_the_order_of_a_table() -> None:
    assert in_hash_order(["b", "a", "q"], hash_of_text) == ["a", "q", "b"], "a and q are in the same bucket"
    assert in_hash_order([17, 2, 16], hash_of_number) == [16, 17, 2]
    assert in_hash_order(range(20), hash_of_number) == [*range(20)], "it has grown"
    assert in_hash_order([17, 2, 16], hash_of_number, buckets=32) == [2, 16, 17]
    assert in_hash_order([17, 2, 16, 33], hash_of_number, computed=True) == [16, 33, 17, 2], "the last comes first"
    assert in_hash_order([16, *range(12)], hash_of_number, computed=True) == [0, 16, *range(1, 12)], "not yet grown"
    assert in_hash_order([16, *range(13)], hash_of_number, computed=True) == [*range(13), 16]
    assert hash_of_text("uniform") == 4008040884
