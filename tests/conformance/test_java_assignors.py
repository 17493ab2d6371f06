"""Java's assignors and kafwire's, asked the same with the bytes that members of a classic group send."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from kafwire.consumer.group.assignors import ASSIGNORS
from kafwire.consumer.group.member import Assignment, GroupMember
from kafwire.consumer.group.subscription import assigned, assignment, member_of, subscription
from tests.support import seeds
from tests.support.group.made_groups import draw_members, draw_topics, evenness, moved, problems
from tests.support.java.oracle import Oracle, good

CASES = seeds.examples(400)
RACKS = ("a", "b", "c")


@pytest.fixture
def chance() -> random.Random:
    return random.Random(seeds.of_test())


def question(
    name: str, topics: dict[str, list[frozenset[str]]], members: Sequence[GroupMember]
) -> tuple[str | bytes, ...]:
    known = json.dumps({topic: [sorted(racks) for racks in of] for topic, of in topics.items()})
    words: list[str | bytes] = ["assign", name, known]
    for member in members:
        words += [member.member_id, member.instance_id or "", subscription(member)]
    return tuple(words)


def given(members: Sequence[GroupMember], result: Sequence[bytes]) -> Assignment:
    return {member.member_id: assigned(data) for member, data in zip(members, result, strict=True)}


@pytest.mark.parametrize("racks", [(), RACKS], ids=["no racks", "racks"])
@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_the_same_is_given(oracle: Oracle, chance: random.Random, name: str, racks: Sequence[str]) -> None:
    cases = []
    for _ in range(CASES):
        topics = draw_topics(chance, racks)
        cases.append((topics, draw_members(chance, topics, racks)))
    results = oracle.ask(*(question(name, topics, members) for topics, members in cases))
    for (topics, members), result in zip(cases, results, strict=True):
        theirs = given(members, good(result))
        ours = ASSIGNORS[name].assign(topics, members)
        assert {who: sorted(what) for who, what in ours.items()} == {who: sorted(what) for who, what in theirs.items()}


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_the_assignment_is_as_even_and_moves_no_more(oracle: Oracle, chance: random.Random, name: str) -> None:
    """Each group is assigned by the one, then changes, and is assigned again by the one and by the other."""
    assignor = ASSIGNORS[name]
    cases = []
    for number in range(CASES):
        topics = draw_topics(chance)
        # Java's gives a member that wants no topic partitions all the same.
        members = [each for each in draw_members(chance, topics, alike=number % 2 == 0) if each.topics]
        members = members or [GroupMember("m", list(topics))]
        before = assignor.assign(topics, members)
        members = [replace(each, owned=tuple(before[each.member_id]), generation=3) for each in members]
        if len(members) > 1 and chance.random() < 0.5:
            del members[chance.randrange(len(members))]
        if chance.random() < 0.5:
            members.append(GroupMember("z", members[0].topics))
        cases.append((topics, [replace(each, user_data=assignor.user_data(each)) for each in members]))
    results = oracle.ask(*(question(name, topics, members) for topics, members in cases))
    compared = 0
    for number, ((topics, members), result) in enumerate(zip(cases, results, strict=True)):
        theirs, ours = given(members, good(result)), assignor.assign(topics, members)
        assert problems(topics, members, ours, whole=name == "sticky") == []
        if name == "sticky":  # cooperative members are not given yet what moves
            assert evenness(ours) <= evenness(theirs)
        if number % 2 == 0 and evenness(ours) == evenness(theirs):
            assert moved(members, ours) <= moved(members, theirs)
            compared += 1
    assert compared > CASES // 4


@pytest.mark.parametrize("name", list(ASSIGNORS))
def test_subscriptions_have_javas_bytes(oracle: Oracle, chance: random.Random, name: str) -> None:
    for _ in range(seeds.examples(50)):
        topics = draw_topics(chance)
        for member in draw_members(chance, topics, RACKS):
            before = ASSIGNORS[name].assign(topics, [member])[member.member_id]
            generation = chance.choice((-1, 0, 7))
            it = replace(member, owned=tuple(before) if generation >= 0 else (), generation=generation)
            it = replace(it, user_data=ASSIGNORS[name].user_data(it))
            form = {"topics": it.topics, "owned": it.owned, "generation": it.generation, "rack": it.rack}
            (theirs,) = oracle.one("subscribe", name, json.dumps(form))
            back = member_of(it.member_id, it.instance_id, theirs)
            assert (sorted(back.topics), sorted(back.owned)) == (sorted(it.topics), sorted(it.owned))
            assert (back.generation, back.rack) == (it.generation, it.rack)
            assert ASSIGNORS[name].assign(topics, [back]) == ASSIGNORS[name].assign(topics, [it])
            if list(it.topics) == sorted(it.topics) and len(it.topics) < 2:  # Java's user data has topics in any order
                assert subscription(it) == theirs
            assert assigned(assignment(it.owned)) == sorted(it.owned)
