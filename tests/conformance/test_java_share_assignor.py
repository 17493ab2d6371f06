"""Kafka's assignor of share groups and the embedded broker's give the same, as members come and go."""

from __future__ import annotations

import base64
import json
import random
import uuid

import pytest

from kafwire.broker.groups.consumer_member import TopicPartition
from kafwire.broker.groups.hash_order import hash_of_id
from kafwire.broker.groups.share_assignor import Assignment, ShareSpec, simple
from tests.support import seeds
from tests.support.java.oracle import Oracle

GROUPS = seeds.examples(200)
CHANGES = 4
SIZES = ((5, 3, 1), (4,), (7, 2), (14, 3), (1, 1, 1))


def text_of(topic_id: uuid.UUID) -> str:
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def draw_topics(chance: random.Random) -> dict[uuid.UUID, int]:
    """Partitions by ids, each of which has a bucket of its own in a table: the order in one follows no rule."""
    found: dict[int, uuid.UUID] = {}
    sizes = chance.choice(SIZES)
    while len(found) < len(sizes):
        topic_id = uuid.UUID(int=chance.getrandbits(128))
        value = hash_of_id(topic_id)
        found.setdefault((value ^ value >> 16) & 15, topic_id)
    return dict(zip(found.values(), sizes, strict=True))


class Group:
    """Members, what they want, and what they had."""

    def __init__(self, chance: random.Random, *, is_even: bool) -> None:
        self._chance = chance
        self._is_even = is_even
        self.topics = draw_topics(chance)
        self.wanted: dict[str, frozenset[uuid.UUID]] = {}
        self.before: dict[str, frozenset[TopicPartition]] = {}
        for _ in range(chance.randint(1, 5)):
            self.add()

    def add(self) -> None:
        name = f"m{self._chance.randrange(20)}"
        some = [topic for topic in self.topics if self._chance.random() < 0.6]
        self.wanted[name] = frozenset(self.topics if self._is_even else some or self.topics)
        self.before.setdefault(name, frozenset())

    def change(self, given: Assignment) -> None:
        """They have what they were given; one of them goes, or one comes."""
        self.before = {name: given[name] for name in self.wanted}
        if len(self.wanted) > 1 and self._chance.random() < 0.5:
            name = self._chance.choice([*self.wanted])
            del self.wanted[name], self.before[name]
        else:
            self.add()

    def ours(self) -> Assignment:
        partitions = {topic: range(count) for topic, count in self.topics.items()}
        return simple(ShareSpec(self.wanted, self.before, partitions, is_even=self._is_even))

    def theirs(self, oracle: Oracle) -> Assignment:
        ids = {text_of(topic): topic for topic in self.topics}
        members = {
            name: {
                "wanted": [text for text, topic in ids.items() if topic in wanted],
                "before": {
                    text: [index for its, index in self.before[name] if its == topic]
                    for text, topic in ids.items()
                    if topic in {its for its, _ in self.before[name]}
                },
            }
            for name, wanted in self.wanted.items()
        }
        topics = {text: self.topics[topic] for text, topic in ids.items()}
        (result,) = oracle.one("share", json.dumps({"even": self._is_even, "topics": topics, "members": members}))
        return {name: frozenset((ids[text], index) for text, index in its) for name, its in json.loads(result).items()}


@pytest.mark.parametrize("is_even", [True, False], ids=["alike", "each its own topics"])
def test_the_same_is_given(oracle: Oracle, is_even: bool) -> None:
    chance = random.Random(seeds.of_test())
    for _ in range(GROUPS):
        group = Group(chance, is_even=is_even)
        for _ in range(CHANGES):
            ours, theirs = group.ours(), group.theirs(oracle)
            assert ours == theirs, (group.topics, group.wanted, group.before)
            group.change(theirs)
