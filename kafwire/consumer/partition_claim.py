"""A partition that one reader has for itself, and that is given back whatever becomes of him."""

from __future__ import annotations

from collections.abc import Callable

from kafwire.consumer.group.ownership import PartitionOwnership
from kafwire.consumer.partition_cursor import FetchCursor
from kafwire.errors import KafkaError
from kafwire.runtime.interfaces import Engine
from kafwire.types import TopicPartition


class StreamEnded(KafkaError):
    """A partition is given up: whoever has it for himself reads to here, and his stream ends. Nobody else sees it."""


def not_explicit(topic: str, partition: int) -> KafkaError:
    """What `complete` raises in a stream that counts a batch as processed when the next one is taken."""
    return KafkaError(
        f"the stream of {topic}-{partition} is not explicit: a batch counts as processed when the next one is taken; "
        "to complete records yourself, in any order, make it with explicit=True"
    )


class Claim:
    """One reader's hold of a partition: made in his thread, taken on the engine (`Assignment.claim`), closed by him.

    The call that takes it may be cancelled or interrupted and yet have run. So it hands nothing out: whoever makes a
    claim closes it, or drops it, without knowing whether it was taken, and what is closed is not taken any more.
    """

    def __init__(
        self,
        where: TopicPartition,
        engine: Engine,
        release: Callable[[FetchCursor], object],
        ownership: PartitionOwnership | None = None,
    ) -> None:
        """`release` gives the partition back, on the engine; `ownership` is that of its assignment, if it has one."""
        self.where = where
        self.cursor: FetchCursor | None = None  # while it is taken
        self.number = -1  # of the partition's place in the queue, once it was taken
        self.closed = False
        self.is_read = False  # its reader has begun
        self.is_ending = False  # nothing more of it is handed out
        self.on_change: Callable[[], object] | None = None  # called on the engine: it is ending, or the partition goes
        self.ownership = ownership
        self._engine = engine
        self._release = release

    def take(self, cursor: FetchCursor) -> None:
        """Hold this cursor. On the engine."""
        self.cursor, self.number, self.ownership = cursor, cursor.number, cursor.ownership

    def tell(self) -> None:
        """Report that the claim is ending, or that the partition is gone. On the engine."""
        if self.on_change is not None:
            self.on_change()

    @property
    def is_over(self) -> bool:
        """Whether the partition is not the consumer's any more. From any thread."""
        return self.ownership is not None and not self.ownership.is_owned

    @property
    def is_lost(self) -> bool:
        """Whether another member processes what is in hand of the partition. From any thread."""
        return self.ownership is not None and self.ownership.is_lost

    def close(self) -> None:
        """Let others read the partition. From any thread; a second close does nothing."""
        self.closed = True
        self._engine.start(self._give_back)

    def _give_back(self) -> None:
        cursor, self.cursor = self.cursor, None
        if cursor is not None:
            self._release(cursor)

    def __del__(self) -> None:
        if self.cursor is not None:
            self._engine.start(self._release, self.cursor)
