"""Who a member of a group is when a transaction commits what it has read (KIP-447).

Brokers compare a member's generation alone when a transaction commits offsets, and do not look whether the partitions
are the member's. So while a transaction may hold records of a partition that was taken away, this is who the member was
before that: the coordinator refuses it before others begin to read. Who was told that, and reads on, is who the member
is now.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from kafwire.types import ConsumerGroupMetadata, TopicPartition


class TransactionIdentity:
    """Of one member. For any thread."""

    def __init__(self, known_as: Callable[[], ConsumerGroupMetadata]) -> None:
        """`known_as` is who the member is to the coordinator, or was last."""
        self._known_as = known_as
        self._lock = threading.Lock()
        self._kept: ConsumerGroupMetadata | None = None
        self._is_told = True
        self._taken: dict[TopicPartition, int] = {}

    @property
    def taken(self) -> dict[TopicPartition, int]:
        """How far partitions were read that were taken away: the offsets that are to be refused."""
        with self._lock:
            return dict(self._taken)

    def tell(self) -> ConsumerGroupMetadata:
        """Who commits."""
        with self._lock:
            self._is_told = True
            return self._now()

    def hold(self) -> None:
        """Who commits what is processed now, until the user reads on, is who the member is now."""
        with self._lock:
            self._kept, self._is_told = self._now(), True

    def take_away(self, where: TopicPartition, offset: int) -> None:
        """A partition goes that is read up to there: a transaction may hold records of it."""
        with self._lock:
            self._kept, self._is_told = self._now(), False
            self._taken[where] = offset

    def read_on(self) -> None:
        """The user begins to read. If he was told of what was taken away, the transaction that had it is over."""
        with self._lock:
            if self._is_told:
                self._kept = None
                self._taken.clear()

    def _now(self) -> ConsumerGroupMetadata:
        return self._known_as() if self._kept is None else self._kept
