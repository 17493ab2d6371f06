"""`TransactionMember`: a consumer's group metadata, linked to the records that its transaction holds."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any, Protocol, Self

from kafwire.types import ConsumerGroupMetadata

Partition = tuple[str, int]


class TransactionGuard(Protocol):
    """A consumer's view of its transactions."""

    def went(self, named: Iterable[Partition]) -> list[Partition]:
        """See `TransactionMember.went`."""

    def topic_ids(self, named: Iterable[Partition]) -> dict[str, uuid.UUID]:
        """See `TransactionMember.topic_ids`."""

    def before(self) -> ConsumerGroupMetadata:
        """Return the member that owned all partitions whose records an open transaction may hold."""


class TransactionMember(ConsumerGroupMetadata):
    """The current member of a consumer. A producer asks it about the partitions whose offsets it commits."""

    _guard: TransactionGuard

    @classmethod
    def of(cls, member: ConsumerGroupMetadata, guard: TransactionGuard) -> Self:
        """Return a member linked to the consumer's guard."""
        made = cls(*member)
        made._guard = guard
        return made

    def went(self, named: Iterable[Partition]) -> list[Partition]:
        """Return the partitions whose offsets a transaction must not commit. From any thread.

        They belong to another member, or did since their records were read. Each former assignment is returned once:
        its transaction is aborted, and the next one holds none of its records.
        """
        return self._guard.went(named)

    def topic_ids(self, named: Iterable[Partition]) -> dict[str, uuid.UUID]:
        """Return the ids of the topics whose records the consumer reads; a producer's own metadata may be older."""
        return self._guard.topic_ids(named)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process cannot ask the consumer: there, the coordinator has to refuse the former member.
        return ConsumerGroupMetadata, tuple(self._guard.before())

    def __copy__(self) -> Self:
        return self  # immutable; a copy in this process asks the same consumer

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __repr__(self) -> str:
        return repr(ConsumerGroupMetadata(*self))
