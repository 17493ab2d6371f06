"""The current member commits in transactions, and no transaction that may hold records of partitions that went."""

from __future__ import annotations

import pickle
import uuid

from kafwire.consumer.group.transaction_identity import TransactionIdentity
from kafwire.types import ConsumerGroupMetadata, TopicPartition

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


TOPIC_ID = uuid.UUID(int=7)


class Member:
    """A member whose generation rises."""

    def __init__(self) -> None:
        self.generation = 1
        self.owned = {P, Q}
        self.identity = TransactionIdentity(
            lambda: ConsumerGroupMetadata("g", self.generation, "m"),
            lambda where: where in self.owned,
            lambda where: TOPIC_ID if where in self.owned else None,
        )

    def loses(self, where: TopicPartition, offset: int = 7, *, is_shared: bool = False) -> None:
        """A partition goes with records in hand."""
        self.identity.take_away(where, offset, is_shared=is_shared)
        self.owned.discard(where)
        self.generation += 1

    def refuses(self, *named: TopicPartition) -> list[tuple[str, int]]:
        """The reasons that forbid a transaction that names these partitions."""
        return self.identity.tell().went(named)


def test_the_current_member_commits_its_partitions() -> None:
    member = Member()
    before = member.identity.tell()
    assert tuple(before) == ("g", 1, "m", None)
    assert before.went([P, Q]) == []
    member.generation = 2
    assert member.identity.tell().generation_id == 2


def test_a_partition_that_is_not_owned_is_refused_each_time() -> None:
    member = Member()
    member.owned.discard(P)  # nothing of it was in hand
    assert member.refuses(P, Q) == [P]
    assert member.refuses(P) == [P]
    assert member.refuses(Q) == []


def test_a_partition_that_came_back_is_refused_once() -> None:
    member = Member()
    member.loses(P)
    member.owned.add(P)
    assert member.refuses(P, Q) == [P]
    assert member.refuses(P, Q) == []


def test_records_of_a_stream_are_in_no_transaction_that_does_not_name_its_partition() -> None:
    member = Member()
    member.loses(P)
    assert member.refuses(Q) == []
    assert member.identity.tell().generation_id == 2
    member.owned.add(P)
    assert member.refuses(P) == [P]


def test_records_of_the_consumers_reader_may_be_in_any_transaction() -> None:
    for named in ([Q], []):
        member = Member()
        member.loses(P, is_shared=True)
        assert member.refuses(*named) == [P]
        assert member.refuses(*named) == []


def test_a_lost_partition_is_processed_until_its_offset_was_returned_and_the_next_read() -> None:
    member = Member()
    member.loses(P)
    member.identity.read_on()  # nothing was returned yet
    assert member.identity.processed({Q: 3}) == {P: 7, Q: 3}
    assert member.identity.processed({Q: 3}) == {P: 7, Q: 3}
    member.identity.read_on()
    assert member.identity.processed({Q: 3}) == {Q: 3}
    member.owned.add(P)
    assert member.refuses(P) == [P]  # no transaction was refused for it yet
    member.loses(P, 9)
    assert member.identity.processed({}) == {P: 9}


def test_a_refused_partition_is_not_processed() -> None:
    member = Member()
    member.loses(P)
    assert member.identity.processed({}) == {P: 7}
    assert member.refuses(P) == [P]
    assert member.identity.processed({}) == {}


def test_offsets_that_processed_returned_are_unsent_until_a_transaction_has_them() -> None:
    member = Member()
    member.identity.processed({P: 7, Q: 8})
    assert member.identity.is_unsent(P)
    assert member.refuses(P) == []
    assert not member.identity.is_unsent(P)
    assert member.identity.is_unsent(Q)


def test_a_metadata_that_leaves_the_process_is_that_of_the_member_before_anything_went() -> None:
    member = Member()
    assert pickle.loads(pickle.dumps(member.identity.tell())) == ("g", 1, "m", None)
    member.loses(P)
    member.loses(Q)
    member.loses(P)
    sent = pickle.loads(pickle.dumps(member.identity.tell()))
    assert type(sent) is ConsumerGroupMetadata
    assert sent.generation_id == 1
    assert repr(member.identity.tell()) == repr(ConsumerGroupMetadata("g", 4, "m"))


def test_topics_have_the_ids_that_the_consumer_reads() -> None:
    member = Member()
    assert member.identity.tell().topic_ids([P, ("unknown", 0)]) == {P.topic: TOPIC_ID}
