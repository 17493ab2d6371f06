"""Idempotence of one partition: which batch goes next, with which sequence number, and what an outcome means.

The broker remembers a producer's last five batches per partition and takes a batch only if its sequence follows. So:

- at most `limit` batches are in flight, whatever leaders do;
- only one until the first of an identity is taken: a partition that has never heard of a producer takes any number from
  it, so were the first batch refused (its leader not ready yet, too few replicas) and the second taken, the first could
  never follow;
- a batch gets its sequence when it is first sent and keeps it for life: a retry is recognised as such;
- once a batch has to be sent again, nothing new goes out until all in flight came back, then all go again in order;
- when a batch is given up whose sequence was used, the numbers after it may never follow: the partition moves to the
  next epoch of the producer (KIP-360), where what is left is numbered from 0;
- but a batch whose answer was lost may be in the log, and under a new number it would be there twice. So before the
  move each such batch is sent once more under its old number: the broker then recognises it, or says that it is out of
  order, which proves that it is not there.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Generic, Protocol, TypeVar

SEQUENCE_LIMIT = 2**31
LAST_EPOCH = 2**15 - 1

DUPLICATE_SEQUENCE_NUMBER = 46
# OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID: the broker did not take the batch, and misses one before it.
OUT_OF_ORDER = frozenset({45, 59})


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the broker thinks we are."""

    producer_id: int
    epoch: int

    @property
    def next_epoch(self) -> Identity | None:
        """The same producer an epoch later; None when a new producer id is needed."""
        return Identity(self.producer_id, self.epoch + 1) if self.epoch < LAST_EPOCH else None


class Sendable(Protocol):
    """What a sequencer needs of a batch."""

    producer: tuple[int, int] | None
    sequence: int
    ordinal: int

    @property
    def count(self) -> int:
        """Records in it, at least one."""


B = TypeVar("B", bound=Sendable)


class Verdict(Enum):
    """What to do with a batch that came back."""

    DELIVERED = auto()
    RETRY = auto()
    FAILED = auto()


def add(sequence: int, count: int) -> int:
    """The sequence `count` records later; it wraps to 0."""
    return (sequence + count) % SEQUENCE_LIMIT


class Sequencer(Generic[B]):
    """One partition's numbers. Without `idempotent` batches stay unnumbered, and a retry comes after its followers."""

    def __init__(self, *, idempotent: bool, limit: int) -> None:
        self._idempotent = idempotent
        self._limit = limit
        self._identity: Identity | None = None
        self._next = 0
        self._sent = 0
        self._in_flight: list[B] = []
        self._retries: list[B] = []
        self._uncertain: set[int] = set()  # ordinals of retries that may be in the log
        self._draining = False
        self._needs_epoch = False
        self._known = False  # the broker took a batch under this identity

    @property
    def in_flight(self) -> Sequence[B]:
        """Batches that are owed an outcome, oldest first."""
        return self._in_flight

    @property
    def retries(self) -> Sequence[B]:
        """Batches to be sent again, oldest first."""
        return self._retries

    def wants_epoch(self, current: Identity | None) -> bool:
        """Whether nothing more can be sent until the producer has moved on from its identity `current`."""
        settled = not self._in_flight and not self._uncertain
        return self._needs_epoch and settled and self._identity == current

    def send(self, fresh: deque[B], current: Identity | None) -> B | None:
        """Take the next batch to send: a retry, or the first of `fresh`. None: nothing may go now.

        `current` is the producer's newest identity; the partition takes it over once nothing of an older one is left.
        """
        if len(self._in_flight) >= self._limit or self._draining or not (self._retries or fresh):
            return None
        if self._idempotent and not self._take_over(current):
            return None
        if self._idempotent and self._in_flight and not self._known:
            return None
        if self._needs_epoch:  # not moved yet: see what became of those that may be in the log
            batch = next(b for b in self._retries if b.ordinal in self._uncertain)
            self._retries.remove(batch)
        elif self._retries:
            batch = self._retries.pop(0)
        elif self._in_flight and self._sent - self._in_flight[0].ordinal >= self._limit:
            # A retry is on its way whose followers were taken. Had it been stored the first time, its answer lost, then
            # one batch more after it would make the broker forget it, and take the retry for out of order: not stored.
            return None
        else:
            batch = fresh.popleft()
            batch.ordinal = self._sent
            self._sent += 1
            if self._idempotent:
                self._number(batch)
        self._in_flight.append(batch)
        return batch

    def _take_over(self, current: Identity | None) -> bool:
        """Move to `current` if the partition is free to, or must; False: nothing can be sent for now."""
        if current is None:
            return False
        if self._uncertain and any(batch.ordinal in self._uncertain for batch in self._retries):
            return True  # these keep their numbers, under the epoch they were sent with
        if self._needs_epoch:
            if self._in_flight or self._identity == current:
                return False
        elif self._identity == current or self._retries:
            return True
        elif self._in_flight:
            return False
        self._identity = current
        self._next = 0
        self._needs_epoch = False
        self._known = False
        for batch in self._retries:
            self._number(batch)
        return True

    def _number(self, batch: B) -> None:
        if self._identity is None:
            raise AssertionError("a batch is numbered only under an identity")
        batch.producer = (self._identity.producer_id, self._identity.epoch)
        batch.sequence = self._next
        self._next = add(self._next, batch.count)

    def outcome(self, batch: B, error_code: int, *, retriable: bool) -> Verdict:
        """A batch in flight came back: with an error code of the broker's (0: none), or lost (-1, retriable)."""
        self._in_flight.remove(batch)
        verdict = self._judge(batch, error_code, retriable=retriable)
        if verdict is Verdict.RETRY:
            insort(self._retries, batch, key=lambda other: other.ordinal)
            self._draining = True
            if self._idempotent and error_code not in OUT_OF_ORDER:
                self._uncertain.add(batch.ordinal)
            else:
                self._uncertain.discard(batch.ordinal)
        else:
            self._uncertain.discard(batch.ordinal)
        if verdict is Verdict.DELIVERED:
            self._known = True
        if verdict is Verdict.FAILED:
            self._needs_epoch = self._idempotent
            self._draining = True
        if not self._in_flight:
            self._draining = False
        return verdict

    def _judge(self, batch: B, error_code: int, *, retriable: bool) -> Verdict:
        if error_code in (0, DUPLICATE_SEQUENCE_NUMBER):
            return Verdict.DELIVERED
        if error_code in OUT_OF_ORDER:
            # Only the follower of a batch that itself did not arrive: it will fit once that one is settled.
            earlier = any(b.ordinal < batch.ordinal for b in (*self._in_flight, *self._retries))
            return Verdict.RETRY if earlier or self._needs_epoch else Verdict.FAILED
        return Verdict.RETRY if retriable else Verdict.FAILED

    def give_up(self, batch: B) -> None:
        """A batch among the retries ran out of time: its number stays used."""
        self._retries.remove(batch)
        self._uncertain.discard(batch.ordinal)
        self._needs_epoch = self._idempotent
