"""The fast path of one connection: the I/O thread queues records before the engine reads the response.

`native/fast_path.h` has the rules. The queue has the records then; this module moves their cursors past them.
"""

from __future__ import annotations

from collections.abc import Callable

from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.consumer.fetch._fetch_buffer import FetchBuffer, FetchFastPath
from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.consumer.fetch.session import Plan

# Records that the I/O thread has queued: generation, start, next offset, leader epoch of the last batch, bytes.
Taken = tuple[int, int, int, int, int]


class FastPath:
    """The expected partitions of the I/O thread, and the cursors of the records that it queued."""

    def __init__(self, queue: FetchBuffer, on_arrival: Callable[[], object]) -> None:
        """`on_arrival` is called when `withdraw` finds records that were already queued."""
        self._native = FetchFastPath(queue)
        self._on_arrival = on_arrival
        self._token = 0
        self._fed_by: object = None  # the connection that has the filter

    def prepare(self, plan: Plan[FetchCursor], token: int, version: int, connection: BrokerConnection) -> None:
        """Let the I/O thread queue those records of this request's response that need no decision of the engine."""
        if plan.full:
            self._native.clear()
        for cursor, asked in plan.add:
            self._native.expect(
                cursor.topic_id.bytes,
                cursor.partition,
                cursor.number,
                cursor.generation,
                asked.offset,
                connection.where,
            )
        for cursor in plan.forget:
            self.withdraw(cursor)
        self._token = token
        self._native.arm(token, version, 0 if plan.full else plan.session_id)
        if self._fed_by is not connection.socket:
            self._fed_by = connection.socket
            connection.set_response_filter(self._native)

    def withdraw(self, cursor: FetchCursor) -> None:
        """Stop expecting a cursor in the response in flight. Records of it that are queued already count."""
        taken = self._native.forget(cursor.topic_id.bytes, cursor.partition, cursor.number)
        if taken is not None:
            before = cursor.last_epoch
            if _absorb(cursor, taken):
                _, start, next_offset, epoch, _ = taken
                # Epochs only rise: if the last epoch equals the one before these records, all batches have it.
                cursor.epochs.note(start, next_offset, epoch if epoch == before else -1)
            self._on_arrival()

    def absorbed(self, numbered: Callable[[int], FetchCursor | None]) -> dict[FetchCursor, Taken]:
        """Return the queued records of the response in flight, by cursor; `numbered` maps a place to its cursor."""
        return {
            cursor: taken
            for number, taken in self._native.taken(self._token).items()
            if (cursor := numbered(number)) is not None and _absorb(cursor, taken)
        }

    def detach(self) -> None:
        """Stop the fast path."""
        self._native.detach()


def _absorb(cursor: FetchCursor, taken: Taken) -> bool:
    """Move the cursor past queued records; return False if they are not from its position and generation."""
    generation, start, next_offset, epoch, size = taken
    if generation != cursor.generation or start != cursor.position:
        return False  # a seek came since, and the queue has dropped the records
    cursor.advance(next_offset, epoch)
    cursor.fetches += 1
    cursor.bytes += size
    return True
