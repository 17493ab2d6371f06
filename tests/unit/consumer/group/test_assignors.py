"""`consumer.group.assignors`: the partitions of each member. tests/conformance compares the results with Java's."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from kafwire.consumer.group.assignors import ASSIGNORS, sticky
from kafwire.consumer.group.assignors.user_data import CooperativeStickyUserData, StickyUserData
from kafwire.consumer.group.member import Assignment, GroupMember, Partition
from tests.support import seeds
from tests.support.group.made_groups import draw_members, draw_topics, evenness, moved, problems

EAST, WEST = frozenset({"east"}), frozenset({"west"})


def topics_of(**counts: int) -> dict[str, list[frozenset[str]]]:
    return {name: [frozenset()] * count for name, count in counts.items()}


def members_of(*names: str, topics: str = "t") -> list[GroupMember]:
    return [GroupMember(name, topics.split()) for name in names]


def owning(members: list[GroupMember], found: Assignment, generation: int = 1) -> list[GroupMember]:
    return [replace(each, owned=tuple(found[each.member_id]), generation=generation) for each in members]


@pytest.mark.parametrize("name", list(ASSIGNORS))
def test_every_partition_has_exactly_one_owner(name: str) -> None:
    chance = random.Random(seeds.of_test())
    for _ in range(seeds.examples(200)):
        topics = draw_topics(chance, ("a", "b", "c"))
        members = draw_members(chance, topics, ("a", "b", "c"))
        assert problems(topics, members, ASSIGNORS[name].assign(topics, members)) == []


def test_static_members_come_first_whatever_their_member_ids() -> None:
    members = [GroupMember("a", ["t"]), GroupMember("b", ["t"], "z"), GroupMember("c", ["t"], "y")]
    for name in ("range", "roundrobin"):
        assert ASSIGNORS[name].assign(topics_of(t=3), members) == {"c": [("t", 0)], "b": [("t", 1)], "a": [("t", 2)]}


def test_names_are_sorted_as_java_sorts_them() -> None:
    """Names are sorted by units of UTF-16, where U+FF5E comes after the halves of a character beyond U+FFFF."""
    members = [GroupMember("\uff5e", ["t"]), GroupMember("\U00010000", ["t"])]
    assert ASSIGNORS["range"].assign(topics_of(t=1), members)["\U00010000"] == [("t", 0)]


def test_racks_are_matched_as_far_as_shares_stay_even() -> None:
    members = [GroupMember("m0", ["t"], rack="west"), GroupMember("m1", ["t"], rack="east")]
    found = ASSIGNORS["range"].assign({"t": [EAST, EAST, EAST, WEST]}, members)
    assert found == {"m0": [("t", 2), ("t", 3)], "m1": [("t", 0), ("t", 1)]}


def test_topics_of_one_size_are_cut_together() -> None:
    """Their partitions of one number stay with one member, or a join of the two would need the network."""
    members = [GroupMember("m0", ["t", "u"], rack="west"), GroupMember("m1", ["t", "u"], rack="east")]
    found = ASSIGNORS["range"].assign({"t": [EAST, WEST], "u": [EAST, WEST]}, members)
    assert found == {"m0": [("t", 1), ("u", 1)], "m1": [("t", 0), ("u", 0)]}


def test_a_new_member_takes_from_the_largest_owners_and_no_more_than_needed() -> None:
    members = members_of("a", "b", "c")
    before = sticky.assign(topics_of(t=12), members)
    after = sticky.assign(topics_of(t=12), [*owning(members, before), GroupMember("d", ["t"])])
    assert {who: len(has) for who, has in after.items()} == {"a": 3, "b": 3, "c": 3, "d": 3}
    assert moved(owning(members, before), after) == 3


def test_loads_are_levelled_by_chains_of_members() -> None:
    """a can give only to b, and b only to c."""
    members = [GroupMember("a", ["t"]), GroupMember("b", ["t", "u"]), GroupMember("c", ["u"])]
    owned: dict[str, list[Partition]] = {
        "a": [("t", number) for number in range(4)],
        "b": [("u", 0), ("u", 1)],
        "c": [],
    }
    found = sticky.assign(topics_of(t=4, u=2), owning(members, owned))
    assert evenness(found) == 3 * 2**2


@pytest.mark.parametrize(("generations", "keeper"), [((4, 5), "b"), ((5, 4), "a"), ((5, 5), None)])
def test_of_two_owners_of_a_partition_the_later_generation_keeps_it(
    generations: tuple[int, int], keeper: str | None
) -> None:
    members = [
        GroupMember(name, ["t"], owned=(("t", 1),), generation=generation)
        for name, generation in zip("ab", generations, strict=True)
    ]
    found = sticky._owners(topics_of(t=2), members)
    assert found == ({} if keeper is None else {("t", 1): keeper})


def test_a_missing_or_unwanted_partition_is_not_kept() -> None:
    members = [GroupMember("a", ["t"], owned=(("t", 0), ("t", 9), ("gone", 0), ("u", 0)), generation=1)]
    assert sticky.assign(topics_of(t=1, u=1), members) == {"a": [("t", 0)]}


def test_cooperative_members_give_up_first_and_are_given_then() -> None:
    assign = ASSIGNORS["cooperative-sticky"].assign
    members = owning(members_of("a"), {"a": [("t", 0), ("t", 1)]})
    both = [*members, GroupMember("b", ["t"])]
    first = assign(topics_of(t=2), both)
    assert (len(first["a"]), first["b"]) == (1, [])
    second = assign(topics_of(t=2), owning(both, first, 2))
    assert (second["a"], len(second["b"])) == (first["a"], 1)


def test_the_user_data_of_sticky_members_has_their_partitions() -> None:
    """They give everything up before they join, so they own nothing any more."""
    it = ASSIGNORS["sticky"]
    a, b = owning(members_of("a", "b"), {"a": [("t", 1)], "b": [("t", 0)]}, generation=3)
    said = [replace(each, user_data=it.user_data(each), owned=()) for each in (a, b)]
    assert it.assign(topics_of(t=2), said) == {"a": [("t", 1)], "b": [("t", 0)]}
    assert it.user_data(GroupMember("a", ["t"])) is None


@pytest.mark.parametrize("data", [None, b"", b"\0", b"\xff" * 9])
def test_user_data_that_cannot_be_read_say_nothing(data: bytes | None) -> None:
    for name in ("sticky", "cooperative-sticky"):
        found = ASSIGNORS[name].assign(topics_of(t=2), [GroupMember("a", ["t"], user_data=data)])
        assert sorted(found["a"]) == [("t", 0), ("t", 1)]


def test_older_user_data_have_no_generation() -> None:
    previous = [StickyUserData.TopicAssignment(topic="t", partitions=[1])]
    old = GroupMember("a", ["t"], user_data=bytes(StickyUserData(previous_assignment=previous).encode(0)))
    new = replace(
        old, member_id="b", user_data=bytes(StickyUserData(previous_assignment=previous, generation=4).encode(1))
    )
    assert ASSIGNORS["sticky"].assign(topics_of(t=2), [old, new]) == {"a": [("t", 0)], "b": [("t", 1)]}


def test_an_older_subscription_has_its_generation_in_the_user_data() -> None:
    owned = (("t", 0), ("t", 1))
    early, late = (
        GroupMember(who, ["t"], owned=owned, user_data=bytes(CooperativeStickyUserData(generation=number).encode(0)))
        for who, number in (("a", 4), ("b", 5))
    )
    found = ASSIGNORS["cooperative-sticky"].assign(topics_of(t=2), [early, late])
    assert len(found["b"]) == 1  # it keeps one of the two that are its own; the other is a's, which owned it too
    assert len(found["a"]) == 1
