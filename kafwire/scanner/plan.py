"""A bounded read: which partitions to ask next, how far each is, and when all is read."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafwire.errors import ProtocolError


@dataclass(slots=True)
class Cursor:
    """One partition's part of a read: the offsets [position, end) are still to come."""

    number: int
    topic: str
    topic_id: uuid.UUID
    partition: int
    position: int
    end: int
    # Where the records end that were received, which may be before `end` although nothing more comes.
    received: int = -1
    # Since when it has failed without progress, in the engine's milliseconds; None while all is well.
    failing_since_ms: float | None = None
    failures: int = 0  # in a row

    @property
    def done(self) -> bool:
        """Whether everything below `end` was received, or is known not to exist."""
        return self.position >= self.end

    @property
    def identity(self) -> tuple[str, bytes, int]:
        """The topic's name and id, and the partition: what a request names it by."""
        return self.topic, self.topic_id.bytes, self.partition

    @property
    def name(self) -> str:
        """As errors name it."""
        return f"{self.topic}-{self.partition}"

    def advance(self, next_offset: int) -> None:
        """Records up to `next_offset` arrived; an answer that does not get us forward would be asked for for ever."""
        if next_offset <= self.position:
            raise ProtocolError(
                f"the broker answered {self.name} from offset {self.position} with batches that end before it",
                api="FetchResponse",
            )
        self.position = self.received = next_offset
        self.recover()

    def recover(self) -> None:
        """All is well: the next failure is a first one again."""
        self.failing_since_ms = None
        self.failures = 0

    def fail(self, now_ms: float) -> float:
        """It could not be read now; for how many milliseconds that has been so."""
        if self.failing_since_ms is None:
            self.failing_since_ms = now_ms
        self.failures += 1
        return now_ms - self.failing_since_ms


class Rotation:
    """One broker's cursors in the order to ask for them: who got data goes to the back, so nobody waits for ever.

    A broker fills an answer in the request's order until `fetch_max_bytes` is reached, and gives the first partition
    that has data one batch at least. So of n cursors with data none waits for more than n answers.
    """

    def __init__(self, cursors: Iterable[Cursor] = ()) -> None:
        self._cursors = [cursor for cursor in cursors if not cursor.done]

    def __len__(self) -> int:
        return len(self._cursors)

    @property
    def order(self) -> list[Cursor]:
        """The cursors to ask for, most urgent first."""
        return list(self._cursors)

    def add(self, cursors: Iterable[Cursor]) -> None:
        """More to read from this broker."""
        self._cursors.extend(cursor for cursor in cursors if not cursor.done)

    def settle(self, served: set[int], lost: set[int]) -> list[Cursor]:
        """After an answer: `served` got data and go to the back, `lost` and finished ones leave; returns the lost."""
        gone = [c for c in self._cursors if c.number in lost]
        stay = [c for c in self._cursors if c.number not in lost and not c.done]
        self._cursors = [c for c in stay if c.number not in served] + [c for c in stay if c.number in served]
        return gone


def finish_invisible(cursors: Iterable[Cursor], readable: Mapping[int, int]) -> list[Cursor]:
    """After an answer without any records or errors: cursors whose end the broker has passed are done.

    `readable` is the offset below which the broker may answer, by cursor number: the high watermark, or for committed
    records the last stable offset. An answer is empty only when no asked partition has data at its position, and below
    that offset there is always a batch unless its offsets were taken away (compaction, deletion); what is left below
    `end` does not exist.
    """
    finished = [c for c in cursors if readable.get(c.number, -1) >= c.end]
    for cursor in finished:
        cursor.position = cursor.end
    return finished
