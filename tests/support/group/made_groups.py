"""Groups that chance makes, and what can be said of any assignment to them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from kafwire.consumer.group.member import Assignment, GroupMember

MadeTopics = dict[str, list[frozenset[str]]]


def draw_topics(chance: random.Random, racks: Sequence[str] = ()) -> MadeTopics:
    """Up to five topics; half of the time some of them have as many partitions, and replicas, as others."""
    made: MadeTopics = {}
    for number in range(chance.randint(1, 5)):
        if made and chance.random() < 0.5:
            made[f"t{number}"] = list(chance.choice(list(made.values())))
            continue
        count = chance.choice((0, 1, 2, 3, 5, 8, 13))
        replicas = chance.randint(0, len(racks))
        made[f"t{number}"] = [frozenset(chance.sample(list(racks), replicas)) for _ in range(count)]
    return made


def draw_members(
    chance: random.Random, topics: MadeTopics, racks: Sequence[str] = (), *, alike: bool = False
) -> list[GroupMember]:
    """Up to seven members, some of them static, subscribed to all topics, or some, or one that is not there."""
    members = []
    every = [*topics, "missing"]
    for number in range(chance.randint(1, 7)):
        wanted = list(topics) if alike or chance.random() < 0.5 else chance.sample(every, chance.randint(0, len(every)))
        instance = f"i{chance.randrange(1_000)}-{number}" if chance.random() < 0.3 else None
        rack = chance.choice([None, *racks])
        name = f"m{chance.randrange(1_000)}-{number}"
        members.append(GroupMember(name, wanted, instance, rack=rack))
    return members


def problems(topics: MadeTopics, members: Sequence[GroupMember], found: Assignment, *, whole: bool = True) -> list[str]:
    """The faults of an assignment. `whole`: no wanted partition is left over."""
    wants = {member.member_id: set(member.topics) for member in members}
    counts = Counter(each for given in found.values() for each in given)
    wrong = [f"{each} is given {count} times" for each, count in counts.items() if count > 1]
    wrong += [
        f"{member_id} did not ask for {each}"
        for member_id, given in found.items()
        for each in given
        if each[0] not in wants[member_id]
    ]
    wrong += [f"{each} does not exist" for each in counts if each[1] >= len(topics.get(each[0], ()))]
    if set(found) != set(wants):
        wrong.append("not all members are there")
    if whole:
        wanted = {topic for of in wants.values() for topic in of}
        every = {(topic, number) for topic in wanted & topics.keys() for number in range(len(topics[topic]))}
        wrong += [f"{each} has no owner" for each in every - counts.keys()]
    return wrong


def evenness(found: Assignment) -> int:
    """The sum of the squares of what members have: the smaller, the more even."""
    return sum(len(given) ** 2 for given in found.values())


def moved(members: Sequence[GroupMember], found: Assignment) -> int:
    """The number of owned partitions that members which are still there do not have any more."""
    return sum(len(set(member.owned) - set(found[member.member_id])) for member in members)
