"""What the I/O thread queues of answers before the engine looks at them (`native/fast_path.h`), for one connection.

The records are no news to the queue then, but to their cursors.
"""

from __future__ import annotations

from collections.abc import Callable

from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.consumer._fetch_buffer import FetchBuffer, FetchFastPath
from kafwire.consumer.fetch_session import Plan
from kafwire.consumer.partition_cursor import FetchCursor

# Of records that the I/O thread has queued: generation, start, next offset, leader epoch of the last batch, bytes.
Taken = tuple[int, int, int, int, int]


class FastPath:
    """Tells the I/O thread what is expected, and the cursors what has come of it."""

    def __init__(self, queue: FetchBuffer, on_arrival: Callable[[], object]) -> None:
        """`on_arrival` is called for records that came apart from an answer."""
        self._native = FetchFastPath(queue)
        self._on_arrival = on_arrival
        self._token = 0
        self._fed_by: object = None  # the connection whose answers it sees

    def prepare(self, plan: Plan[FetchCursor], token: int, version: int, connection: BrokerConnection) -> None:
        """Let the I/O thread queue what the answer to this request brings, as far as it needs no decision."""
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
        """The answer in flight is none for this cursor any more; what it has brought already counts."""
        taken = self._native.forget(cursor.topic_id.bytes, cursor.partition, cursor.number)
        if taken is not None:
            before = cursor.last_epoch
            if _absorb(cursor, taken):
                _, start, next_offset, epoch, _ = taken
                # Epochs only rise: if the last is that of what came before, all are.
                cursor.epochs.note(start, next_offset, epoch if epoch == before else -1)
            self._on_arrival()

    def absorbed(self, numbered: Callable[[int], FetchCursor | None]) -> dict[FetchCursor, Taken]:
        """What the answer in flight has brought by now, by cursor; `numbered` finds those of places in the queue."""
        return {
            cursor: taken
            for number, taken in self._native.taken(self._token).items()
            if (cursor := numbered(number)) is not None and _absorb(cursor, taken)
        }

    def detach(self) -> None:
        """Queue nothing more."""
        self._native.detach()


def _absorb(cursor: FetchCursor, taken: Taken) -> bool:
    """Move the cursor behind records that are queued; False if they are not what it has to read."""
    generation, start, next_offset, epoch, size = taken
    if generation != cursor.generation or start != cursor.position:
        return False  # it was sought in since, and the queue has dropped them
    cursor.advance(next_offset, epoch)
    cursor.fetches += 1
    cursor.bytes += size
    return True
