"""`Ledger`: the one owner of each partition's processed offset.

A record is *processed* once the user has read on after it, completed it (`explicit=True`), or committed it. Readers
write the first of these into the partition's place in the fetch queue, in C and without the GIL (`native/queue.c`:
`position` follows the delivered records, `processed` the reader's next read). The ledger has the others, and combines
them. Code that commits, revokes, or passes offsets to a transaction gets them here, and keeps no offset itself.

The states of a partition's records, kept once, by cursor; a partition that is assigned again has a new cursor:

    delivered -> in hand -> processed -> committed, or handed over to a transaction

A dropped cursor has no entry here, so an offset of a former assignment cannot pass as one of the current assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from weakref import WeakSet

from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.consumer.fetch.engine import Fetcher
from kafwire.consumer.offsets.hand import Hand, Handed
from kafwire.consumer.offsets.partition_progress import PartitionProgress
from kafwire.runtime.log import consumer_log as log
from kafwire.types import TopicPartition


class Ledger:
    """The offsets of one consumer. Reads are for any thread, writes for the engine or the thread that reads."""

    def __init__(self, fetcher: Fetcher, *, is_automatic: bool) -> None:
        """`is_automatic`: the consumer commits processed offsets by itself."""
        self.is_automatic = is_automatic
        self._fetcher = fetcher
        self._queue = fetcher.queue
        self._progress: dict[FetchCursor, PartitionProgress] = {}  # of explicit streams
        self._committed: dict[FetchCursor, int] = {}
        self._handed_over: dict[FetchCursor, int] = {}  # the offset that a transaction got
        self._hands: WeakSet[Hand] = WeakSet()
        self._left: dict[FetchCursor, Handed] = {}  # rows that a closed stream left in hand
        self._asks_processed = False  # the user calls `processed` for transactions
        self._has_warned = False

    # --- in hand ----------------------------------------------------------------------------------------------------

    def join(self, hand: Hand) -> Hand:
        """Count the rows of a reader's hand as in hand."""
        self._hands.add(hand)
        return hand

    def part(self, hand: Hand) -> None:
        """Remove the hand of a closed stream; the consumer's `close` still reports its rows."""
        self._left.update((handed.cursor, handed) for handed in hand.in_hand())
        self._hands.discard(hand)

    def holds(self, cursor: FetchCursor) -> bool:
        """Return True if a user may have records of a partition that are not processed yet."""
        progress = self._progress.get(cursor)
        if progress is not None:
            progress.is_awaited = True
            if progress.is_abandoned:
                return False
        return self._queue.in_hand(cursor.number) or (progress is not None and progress.uncommitted > 0)

    def left_over(self) -> list[Handed]:
        """Return the rows in hand, or left in hand, that are neither committed nor handed over to a transaction."""
        found = [*self._left.values(), *(handed for hand in list(self._hands) for handed in hand.in_hand())]
        return [
            handed
            for handed in found
            if self._is_read(handed.cursor)
            and handed.next_offset > max(self.processed(handed.cursor), self._handed_over.get(handed.cursor, -1))
        ]

    def warn_not_covered(self, handed: Iterable[Handed], reader: str) -> None:
        """Warn once that a commit without arguments leaves out rows in hand of another thread or task."""
        rows = sum(each.rows for each in handed)
        if rows and not self._has_warned:
            self._has_warned = True
            log.warning(
                "commit() leaves out %d rows in hand, as another %s reads them: give commit() the batches to commit",
                rows,
                reader,
                rows=rows,
            )

    # --- processed --------------------------------------------------------------------------------------------------

    def processed(self, cursor: FetchCursor) -> int:
        """Return the offset after the processed records of a partition; -1 without any."""
        # Read the queue before the progress: a batch that is delivered in between is not in `processed`.
        processed = self._queue.processed(cursor.number)
        progress = self._progress.get(cursor)
        if progress is None or progress.committable < 0:  # no record was delivered
            return processed
        return max(processed, progress.committable) if progress.is_finished else progress.committable

    def advance(self, handed: Iterable[Handed]) -> None:
        """Count rows in hand as processed, unless a seek or the loss of the partition came meanwhile."""
        for cursor, next_offset, _ in handed:
            if self._is_read(cursor) and self._covers(cursor, next_offset):
                self._queue.process(cursor.number, next_offset, cursor.generation)

    def process(self, cursor: FetchCursor, next_offset: int) -> None:
        """Set the processed offset to one that the user gives, which may be lower than before."""
        self._queue.process(cursor.number, next_offset, cursor.generation)
        progress = self._progress.get(cursor)
        if progress is not None:
            progress.commit(next_offset)

    def processed_of_all(self, handed: Iterable[Handed] = ()) -> dict[FetchCursor, int]:
        """Return the processed offset of each partition that has one; the rows `handed` count as processed."""
        self._asks_processed = True
        found = {cursor: self.processed(cursor) for cursor in list(self._fetcher.cursors.values())}
        for cursor, next_offset, _ in handed:
            if cursor in found and cursor not in self._progress and self._covers(cursor, next_offset):
                found[cursor] = next_offset
        self._handed_over = {cursor: offset for cursor, offset in found.items() if offset >= 0}
        return self._handed_over

    def _covers(self, cursor: FetchCursor, next_offset: int) -> bool:
        """Return True if an offset lies among the delivered records of this cursor that are not processed."""
        return self._queue.processed(cursor.number) < next_offset <= self._queue.position(cursor.number)

    def _is_read(self, cursor: FetchCursor) -> bool:
        return self._fetcher.numbered(cursor.number) is cursor

    # --- explicit streams -------------------------------------------------------------------------------------------

    def follow(self, cursor: FetchCursor, on_advance: Callable[[], object]) -> PartitionProgress:
        """Return the progress through which a stream's user completes records. Records left open stay open."""
        self._drop_finished(cursor)
        progress = self._progress.setdefault(cursor, PartitionProgress(on_advance))
        progress.is_left = progress.is_abandoned = False
        return progress

    def leave(self, cursor: FetchCursor) -> None:
        """Handle the close of a partition's stream."""
        progress = self._progress.get(cursor)
        if progress is not None:
            progress.is_left = True
            self._drop_finished(cursor)

    def _drop_finished(self, cursor: FetchCursor) -> None:
        """Drop the progress of a closed stream once all its records are completed: from then on, reads count."""
        progress = self._progress.get(cursor)
        if progress is not None and progress.is_finished:
            self._queue.process(cursor.number, self.processed(cursor), cursor.generation)
            del self._progress[cursor]

    # --- committed --------------------------------------------------------------------------------------------------

    def to_commit(self, only: Iterable[FetchCursor] | None) -> dict[FetchCursor, int]:
        """Return the processed offsets of partitions (None: all) that differ from the committed ones."""
        chosen = list(self._fetcher.cursors.values() if only is None else only)
        for cursor in chosen:
            self._drop_finished(cursor)
        processed = {cursor: self.processed(cursor) for cursor in chosen}
        return {c: offset for c, offset in processed.items() if offset >= 0 and self._committed.get(c) != offset}

    def note_committed(self, offsets: Mapping[FetchCursor, int]) -> None:
        """Note offsets that the group has committed."""
        self._committed.update(offsets)

    def commit_again(self) -> None:
        """Make the next commit name every partition, also unchanged ones."""
        self._committed.clear()

    def hand_over(self) -> None:
        """Hand all delivered records over to a transaction, unless the user takes its offsets from `processed`."""
        if not self._asks_processed:
            self._handed_over = {c: self._queue.position(c.number) for c in list(self._fetcher.cursors.values())}

    def seek(self, cursor: FetchCursor) -> None:
        """Handle a user's seek: a transaction that had more records of the partition was aborted."""
        self._handed_over.pop(cursor, None)

    def is_uncommitted(self, cursor: FetchCursor) -> bool:
        """Return True if a partition was read beyond the offset that is committed or handed over to a transaction."""
        processed = self.processed(cursor)
        if self.is_automatic or (processed < 0 and not self._queue.in_hand(cursor.number)):
            return False
        read = processed if self._asks_processed else self._queue.position(cursor.number)
        return read > max(self._handed_over.get(cursor, -1), self._committed.get(cursor, -1))

    def uncommitted(self, cursor: FetchCursor) -> int | None:
        """Return the number of delivered offsets beyond the last commit; None without a commit."""
        committed = self._committed.get(cursor)
        return None if committed is None else max(0, self._queue.position(cursor.number) - committed)

    def forget(self, cursor: FetchCursor) -> None:
        """Drop the entries of a dropped cursor."""
        for facts in (self._committed, self._progress, self._handed_over, self._left):
            facts.pop(cursor, None)


def by_partition(offsets: Mapping[FetchCursor, int]) -> dict[TopicPartition, int]:
    """Return the offsets by partition, for users."""
    return {TopicPartition(cursor.topic, cursor.partition): offset for cursor, offset in offsets.items()}
