"""A claim: one reader's exclusive hold of a partition, released even if the reader is garbage-collected."""

from __future__ import annotations

from collections.abc import Callable

from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.consumer.ownership import PartitionOwnership
from kafwire.errors import KafkaError
from kafwire.runtime.interfaces import Engine
from kafwire.types import TopicPartition


class StreamEnded(KafkaError):
    """The end of a partition's own stream, as the partition is given up. Only that stream sees this error."""


def not_explicit(topic: str, partition: int) -> KafkaError:
    """Return the error of `complete` in a stream that is not explicit."""
    return KafkaError(
        f"the stream of {topic}-{partition} is not explicit: a batch counts as processed when the next one is taken; "
        "to complete records yourself, in any order, make it with explicit=True"
    )


class Claim:
    """One reader's hold of a partition: made and closed in the reader's thread, taken on the engine.

    The call that takes it (`Assignment.claim`) may be cancelled or interrupted and yet have run. So the call returns
    nothing: the maker of a claim closes or drops it without knowing if it was taken. A closed claim is never taken.
    """

    def __init__(
        self,
        where: TopicPartition,
        engine: Engine,
        release: Callable[[FetchCursor], object],
        ownership: PartitionOwnership | None = None,
    ) -> None:
        """`release` gives the partition back, on the engine; `ownership` belongs to its assignment, if it has one."""
        self.where = where
        self.cursor: FetchCursor | None = None  # set while the claim is taken
        self.number = -1  # of the partition's place in the queue, once the claim was taken
        self.closed = False
        self.is_read = False  # the reader has begun
        self.is_ending = False  # no more records of the partition are delivered
        self.on_change: Callable[[], object] | None = None  # called on the engine if the claim ends, or the partition
        self.ownership = ownership
        self._engine = engine
        self._release = release

    def take(self, cursor: FetchCursor) -> None:
        """Hold this cursor. On the engine."""
        self.cursor, self.number, self.ownership = cursor, cursor.number, cursor.ownership

    def tell(self) -> None:
        """Call `on_change`: the claim ends, or the partition was dropped. On the engine."""
        if self.on_change is not None:
            self.on_change()

    @property
    def is_over(self) -> bool:
        """True if the consumer does not own the partition any more. Any thread."""
        return self.ownership is not None and not self.ownership.is_owned

    @property
    def is_lost(self) -> bool:
        """True if another member processes the records in hand. Any thread."""
        return self.ownership is not None and self.ownership.is_lost

    def close(self) -> None:
        """Release the partition for other readers. Any thread; a second close does nothing."""
        self.closed = True
        self._engine.start(self._give_back)

    def _give_back(self) -> None:
        cursor, self.cursor = self.cursor, None
        if cursor is not None:
            self._release(cursor)

    def __del__(self) -> None:
        if self.cursor is not None:
            self._engine.start(self._release, self.cursor)
