"""Who commits in transactions: who the member is, and who it was while records are held of what was taken away."""

from __future__ import annotations

from kafwire.consumer.transaction_identity import TransactionIdentity
from kafwire.types import ConsumerGroupMetadata, TopicPartition

WHERE = TopicPartition("t", 0)


class Member:
    """One whose generation rises."""

    def __init__(self) -> None:
        self.generation = 1
        self.identity = TransactionIdentity(lambda: ConsumerGroupMetadata("g", self.generation, "m"))

    def told(self) -> int:
        return self.identity.tell().generation_id


def test_it_is_who_the_member_is() -> None:
    member = Member()
    assert member.told() == 1
    member.generation = 2
    assert member.told() == 2


def test_it_is_who_the_member_was_until_he_who_was_told_reads_on() -> None:
    member = Member()
    member.identity.take_away(WHERE, 7)
    member.generation = 2
    member.identity.read_on()  # he does not know yet
    assert member.identity.taken == {WHERE: 7}
    assert member.told() == 1
    assert member.told() == 1
    member.identity.read_on()
    assert member.identity.taken == {}
    assert member.told() == 2


def test_of_two_that_were_taken_away_the_first_counts() -> None:
    member = Member()
    member.identity.take_away(WHERE, 7)
    member.generation = 2
    member.identity.take_away(TopicPartition("t", 1), 8)
    member.generation = 3
    assert member.told() == 1
    assert len(member.identity.taken) == 2


def test_what_is_taken_away_after_it_was_told_is_told_again() -> None:
    member = Member()
    assert member.told() == 1
    member.identity.take_away(WHERE, 7)
    member.generation = 2
    member.identity.read_on()
    assert member.told() == 1


def test_what_is_processed_is_committed_by_who_the_member_was_then() -> None:
    member = Member()
    member.identity.hold()
    member.generation = 2
    assert member.told() == 1
    member.identity.read_on()
    assert member.told() == 2
