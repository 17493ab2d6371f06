"""A partition that one reader has for itself, and that is given back whatever becomes of him."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from kafwire.consumer.core import ConsumerCore
    from kafwire.consumer.partition_cursor import FetchCursor


class Claim:
    """One reader's hold of a partition: made in his thread, taken on the engine (`ConsumerCore.claim`), closed by him.

    The call that takes it may be cancelled or interrupted and yet have run. So it hands nothing out: whoever makes a
    claim closes it, or drops it, without knowing whether it was taken, and what is closed is not taken any more.
    """

    def __init__(self, core: ConsumerCore, where: TopicPartition) -> None:
        self.where = where
        self.cursor: FetchCursor | None = None  # once it is taken
        self.closed = False
        self._core = core

    def close(self) -> None:
        """Let others read the partition. From any thread; a second close does nothing."""
        self.closed = True
        self._core.cluster.engine.start(self._give_back)

    def _give_back(self) -> None:
        cursor, self.cursor = self.cursor, None
        if cursor is not None:
            self._core.release(cursor)

    def __del__(self) -> None:
        if self.cursor is not None:
            self._core.cluster.engine.start(self._core.release, self.cursor)
