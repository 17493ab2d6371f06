"""`TransactionIdentity`: the group metadata of a transaction's offset commit, and the partitions that refuse it.

When a transaction commits offsets (KIP-447), brokers compare the member's generation. They know only the partitions
that the commit names, and not those whose records the transaction holds. So a transaction commits as the current
member, and these rules keep it from committing records of a lost or revoked partition:

1. The member must own each named partition when the offsets are sent. The group metadata is read first
   (`group_metadata()`), the ownership after it; `consumer/ownership.py` explains the race.
2. A partition that was taken away with records in hand, or uncommitted, is *gone* until one transaction was refused for
   it, even if it was assigned again meanwhile: that transaction may hold records of the former assignment. The next
   transaction holds none.
3. Records that the consumer's own reader delivered may be in any transaction that commits, even if it does not name
   their partition (a user may name the positions of the current assignment). A stream's records are in a transaction
   that names the stream's partition.

The producer checks these rules before it sends the offsets; if one fails, the transaction must be aborted. The
coordinator's check is not enough. Up to Kafka 4.2 it refuses the whole request of an old generation, so a commit as
the earlier member is refused. From 4.3 on (KIP-1251) a coordinator of the consumer protocol compares the generation
with the epochs in which the named partitions were assigned: an old generation is valid for partitions that the member
has had since then. So it refuses only the offsets of partitions that are gone: a transaction that holds records of such
a partition, and does not name it, would be committed. A response may have errors for some partitions only; the producer
aborts the transaction for any of them (`producer/transactions/state.py`).

`processed()` keeps returning the offset of a partition that is gone, until its caller has got it and reads on.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kafwire.cluster.transaction_member import Partition, TransactionMember
from kafwire.runtime.patched import allocate_lock
from kafwire.types import ConsumerGroupMetadata, TopicPartition


class _Gone(NamedTuple):
    """A partition that was taken away while a transaction may hold its records up to `offset`."""

    offset: int
    member: ConsumerGroupMetadata  # the member before that
    is_shared: bool  # the consumer's own reader delivered its records, not a stream


class TransactionIdentity:
    """The transaction commits of one member. For any thread."""

    def __init__(
        self,
        current_member: Callable[[], ConsumerGroupMetadata],
        is_owned: Callable[[Partition], bool],
        topic_id_of: Callable[[Partition], uuid.UUID | None],
    ) -> None:
        """`current_member` returns the group metadata as the coordinator knows, or last knew, the member."""
        self._current_member = current_member
        self._is_owned = is_owned
        self._topic_id_of = topic_id_of
        self._lock = allocate_lock()
        self._gone: dict[TopicPartition, _Gone] = {}
        self._reported: set[TopicPartition] = set()  # those of `_gone` whose offsets `processed()` has returned
        self._hidden: set[TopicPartition] = set()  # those of `_reported` whose user has read on
        self._unsent: set[TopicPartition] = set()  # `processed()` has returned their offsets, no transaction has them

    def tell(self) -> TransactionMember:
        """Return the member for a transaction, which checks these rules before it commits."""
        return TransactionMember.of(self._current_member(), self)

    def processed(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Note offsets that a transaction will commit; return them with those of gone partitions, to be refused."""
        with self._lock:
            self._unsent = set(offsets)
            self._reported.update(self._gone)
            gone = {where: each.offset for where, each in self._gone.items() if where not in self._hidden}
            return {**offsets, **gone}

    def is_unsent(self, where: TopicPartition) -> bool:
        """Return True if `processed()` has returned an offset of a partition, and no transaction has got it yet."""
        with self._lock:
            return where in self._unsent

    def take_away(self, where: TopicPartition, offset: int, *, is_shared: bool) -> None:
        """Mark a partition, read up to `offset`, as gone: a transaction may hold its records."""
        with self._lock:
            first = self._gone.get(where, _Gone(offset, self._current_member(), is_shared))
            self._gone[where] = _Gone(offset, first.member, is_shared or first.is_shared)
            self._reported.discard(where)
            self._hidden.discard(where)

    def read_on(self) -> None:
        """Handle a read: `processed()` need not return again the offsets of gone partitions that it has returned."""
        if not self._reported:
            return
        with self._lock:
            self._hidden |= self._reported

    def went(self, named: Iterable[Partition]) -> list[Partition]:
        """See `TransactionMember.went`."""
        with self._lock:
            wanted = [TopicPartition(*where) for where in named]
            shared = [where for where, each in self._gone.items() if each.is_shared and where not in wanted]
            found = [where for where in wanted if where in self._gone or not self._is_owned(where)] + shared
            for where in found:
                self._gone.pop(where, None)
                self._reported.discard(where)
                self._hidden.discard(where)
            self._unsent.difference_update(wanted)
            return list(found)

    def topic_ids(self, named: Iterable[Partition]) -> dict[str, uuid.UUID]:
        """See `TransactionMember.topic_ids`."""
        return {where[0]: topic_id for where in named if (topic_id := self._topic_id_of(where)) is not None}

    def before(self) -> ConsumerGroupMetadata:
        """See `TransactionGuard`."""
        with self._lock:
            return next((each.member for each in self._gone.values()), None) or self._current_member()
