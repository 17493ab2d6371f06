"""Idempotence of one partition: which batch is sent next, its sequence number, and the meaning of an outcome.

The broker remembers a producer's last five batches per partition and appends a batch only if its sequence follows. So:

- at most `limit` batches are in flight, even when leaders change;
- only one until the first of an identity is acknowledged: a partition without state of a producer accepts any number
  from it, so if the first batch were refused (its leader not ready yet, too few replicas) and the second accepted, the
  first could never follow;
- a batch gets its sequence when it is first sent and keeps it: the broker recognises a retry by it;
- once a batch has to be sent again, no new one is sent until all in flight returned, then all are sent again in order;
- when a batch is given up whose sequence was used, the numbers after it may never follow: the partition moves to the
  next epoch of the producer (KIP-360), where the remaining batches are numbered from 0;
- but a batch whose response was lost may be in the log (*in doubt*), and under a new number, or sent to a broker that
  has forgotten the producer, it would be there twice. A broker that restarts remembers one batch of each producer, or
  up to five; none once `producer.id.expiration.ms` has passed since the last record's timestamp. It then accepts any
  number, or reports a batch that it has as out of order. So the fate of such a batch is read, not tried out: before it
  is sent again, the leader is asked for its state of the producer (`evidence`). If the leader knows the batch's epoch,
  sending again is safe: the leader recognises the batch, appends it, or reports it out of order. If the leader knows
  nothing, or has reported the batch out of order, the log itself is searched (`doubts`, `settle`): found, the batch is
  delivered; not found, it is sent again; if the search cannot decide, the batch fails, and its error says that it may
  be in the log;
- the search begins at the last offset acknowledged before the first doubt (`floor`): batches in doubt can only lie
  after it;
- before the move to another epoch, batches in doubt are sent once more under their old number, or searched for;
- a batch that is out of order with none before it, and not in doubt, shows that the broker has lost records, or has
  forgotten the producer: the partition moves to the next epoch, and the batch is sent again (KIP-360). A transactional
  producer must not move by itself: there the batch fails, and the transaction with it;
- a batch that is too large continues as parts, which share its numbers: later batches still fit. If an earlier attempt
  stored it whole, the broker reports the parts as out of order, and the search finds them inside the whole.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Sequence
from enum import Enum, auto
from typing import Generic, Protocol, TypeVar

from kafwire.error_codes import ErrorCode
from kafwire.lazy_dataclass import dataclass

SEQUENCE_LIMIT = 2**31
LAST_EPOCH = 2**15 - 1

WRITTEN = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
# The broker did not append the batch, because one before it is missing.
OUT_OF_ORDER = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
# The broker rejects the producer id, or knows a later epoch of it: the batch was not stored, and is sent again under
# another producer id.
FOREIGN_ID = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
# Not a broker's codes: the response was lost, or the batch never left this process.
LOST = -2
NOT_SENT = -3
# Permanent errors mean that nothing was stored, except UNKNOWN_SERVER_ERROR. The codes below mean the same,
# but may be mended; the two of an unknown topic, because a log with the batch would be gone with the topic. All other
# codes may come after the leader has stored the batch.
REFUSED = (
    OUT_OF_ORDER
    | FOREIGN_ID
    | {
        *(ErrorCode.CORRUPT_MESSAGE, ErrorCode.NOT_ENOUGH_REPLICAS),
        *(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID),
        NOT_SENT,
    }
)


@dataclass(frozen=True, slots=True)
class Identity:
    """The producer id and epoch that the broker assigned."""

    producer_id: int
    epoch: int

    @property
    def next_epoch(self) -> Identity | None:
        """The same producer id with the next epoch; None when a new producer id is needed."""
        return Identity(self.producer_id, self.epoch + 1) if self.epoch < LAST_EPOCH else None


class Sendable(Protocol):
    """The part of a batch that a sequencer uses."""

    producer: tuple[int, int] | None
    sequence: int
    ordinal: int

    @property
    def count(self) -> int:
        """Number of records, at least one."""


B = TypeVar("B", bound=Sendable)


class Fate(Enum):
    """The known fate of a batch in doubt."""

    STORED = auto()
    ABSENT = auto()
    UNKNOWN = auto()


class BatchOutcome(Enum):
    """What happens to a batch that returned."""

    DELIVERED = auto()
    RETRY = auto()
    FAILED = auto()  # it is not in the log
    DOUBTFUL = auto()  # it failed, and may be in the log
    DIVIDE = auto()  # replace it by its parts with `Sequencer.replace`


def add(sequence: int, count: int) -> int:
    """Return the sequence `count` records later; it wraps to 0."""
    return (sequence + count) % SEQUENCE_LIMIT


def evidence(batch: Sendable, remembered: tuple[int, int] | None) -> Fate:
    """Return a batch's fate by the leader's state of the producer.

    `remembered` is the producer's epoch there and the last sequence appended under it (-1: none), as DescribeProducers
    reports (KIP-664); None: the leader does not know the producer. STORED means that the batch's number was used.
    """
    if remembered is None or batch.producer is None or remembered[0] > batch.producer[1]:
        return Fate.UNKNOWN
    epoch, last = remembered
    if epoch < batch.producer[1] or last < 0 or (batch.sequence - last - 1) % SEQUENCE_LIMIT < SEQUENCE_LIMIT // 2:
        return Fate.ABSENT
    return Fate.STORED


def conclude(said: Fate, found: bool | None) -> Fate:
    """Combine `evidence` with the result of a log search (None: the log could not be read as a whole)."""
    if found is None:
        return Fate.STORED if said is Fate.STORED else Fate.UNKNOWN
    if not found:  # another batch has its number: whichever side is wrong, it must not be stored twice
        return Fate.UNKNOWN if said is Fate.STORED else Fate.ABSENT
    return Fate.STORED


class Sequencer(Generic[B]):
    """The sequence numbers of one partition.

    Without `idempotent`, batches stay unnumbered, and a retry comes after its followers. `may_move`: the partition may
    move to another epoch or producer id to repair its sequence.
    """

    def __init__(self, *, idempotent: bool, limit: int, may_move: bool = True) -> None:
        self._idempotent = idempotent
        self._limit = limit
        self._may_move = may_move
        self._identity: Identity | None = None
        self._next = 0
        self._sent = 0
        self._in_flight: list[B] = []
        self._retries: list[B] = []
        self._uncertain: set[int] = set()  # ordinals of batches that an earlier attempt may have appended
        self._unasked: set[int] = set()  # of these, batches to ask the leader about before they are sent again
        # of these, batches that it reported out of order: they are in the log, or never will be
        self._disowned: set[int] = set()
        self._acknowledged: tuple[int, int] | None = None
        self._floor: tuple[int, int] | None = None
        self._first_here = 0  # ordinal of the first batch whose offset can only belong to this log
        self._draining = False
        self._needs_epoch = False
        self._needs_id = False
        self._known = False  # the broker appended a batch under this identity
        self._via: object = None

    @property
    def in_flight(self) -> Sequence[B]:
        """Batches without a response, oldest first."""
        return self._in_flight

    @property
    def retries(self) -> Sequence[B]:
        """Batches to send again, oldest first."""
        return self._retries

    @property
    def needs_id(self) -> bool:
        """True if the wanted epoch must belong to another producer id."""
        return self._needs_id

    @property
    def doubts(self) -> list[B]:
        """Batches that may be in the log, oldest first, if the leader must be asked before some are sent again.

        The caller calls `consult`. Empty while a batch is in flight.
        """
        if self._in_flight or not (self._unasked or self._disowned):
            return []
        return [batch for batch in self._retries if batch.ordinal in self._uncertain]

    @property
    def floor(self) -> tuple[int, int] | None:
        """An offset below which no batch in doubt lies, and the leader epoch known there; None: not known."""
        return self._floor

    def acknowledged(self, ordinal: int, end: int, leader_epoch: int | None = None) -> None:
        """Note that a delivered batch ends at offset `end`; `leader_epoch`: the newest known then (None: unchanged)."""
        if ordinal < self._first_here:
            return
        if leader_epoch is None:
            leader_epoch = -1 if self._acknowledged is None else self._acknowledged[1]
        self._acknowledged = (end, leader_epoch)

    def wants_epoch(self, current: Identity | None) -> bool:
        """True if nothing more can be sent until the producer has moved on from its identity `current`."""
        waits = self._in_flight or any(batch.ordinal in self._uncertain for batch in self._retries)
        return self._needs_epoch and not waits and self._is_stuck_with(current)

    def restarted(self) -> Sequencer[B]:
        """Return a sequencer for another log of the same name, as of a recreated topic, without state of the producer.

        The numbers go on nevertheless: if it is the same log, which lagging brokers may report, repeated numbers would
        be taken for the batches that had them before.
        """
        other = Sequencer[B](idempotent=self._idempotent, limit=self._limit, may_move=self._may_move)
        other._identity = self._identity
        other._next = self._next
        return other

    def is_doubtful(self, batch: B) -> bool:
        """True if a batch that was sent may be in the log: it is in flight, or an attempt got no response."""
        return batch in self._in_flight or batch.ordinal in self._uncertain

    def lease(self, current: Identity | None) -> tuple[tuple[int, int] | None, int, int] | None:
        """Lend the numbering to direct sends, one batch at a time, while no batch is unfinished and no epoch is needed.

        Returns the producer, and the numbers of its next record and batch; None: not now. The caller must give them
        back with `resume` before it calls anything else here.
        """
        if self._in_flight or self._retries or self._needs_epoch:
            return None
        if not self._idempotent:
            return None, self._next, self._sent
        if not self._known or self._identity is None or self._identity != current:
            return None
        return (self._identity.producer_id, self._identity.epoch), self._next, self._sent

    def resume(self, sequence: int, ordinal: int, in_flight: B | None) -> None:
        """Take the numbering back from direct sends, at the numbers they reached; one batch may be in flight."""
        self._next = sequence
        self._sent = ordinal
        if in_flight is not None:
            self._in_flight.append(in_flight)

    def send(self, fresh: deque[B], current: Identity | None, via: object = None) -> B | None:
        """Take the next batch to send: a retry, or the first of `fresh`. None: no batch may be sent now.

        `current` is the producer's newest identity; the partition adopts it once no batch of an older one is left.
        `via` is the connection to send on. A new connection may lead to a broker that has forgotten the producer's
        state.
        """
        if via is not self._via and not self._reconnect(via):
            return None
        if len(self._in_flight) >= self._limit or self._draining or not (self._retries or fresh):
            return None
        if self._unasked or self._disowned:
            return None
        if self._idempotent and not self._take_over(current):
            return None
        if self._idempotent and self._in_flight and not self._known:
            return None
        if self._needs_epoch:  # not moved yet: first find out about those that may be in the log
            batch = next(b for b in self._retries if b.ordinal in self._uncertain)
            self._retries.remove(batch)
        elif self._is_too_far(self._retries[0].ordinal if self._retries else self._sent):
            # A retry is in flight whose followers were appended. If it was stored the first time and only the response
            # was lost, one more batch after it would make the broker forget it, and report the retry as out of order
            # without storing it.
            return None
        elif self._retries:
            batch = self._retries.pop(0)
        else:
            batch = fresh.popleft()
            batch.ordinal = self._sent
            self._sent += 1
            if self._idempotent:
                self._number(batch)
        self._in_flight.append(batch)
        return batch

    def _reconnect(self, via: object) -> bool:
        if self._in_flight:
            return False
        self._via = via
        self._known = False
        if self._idempotent:
            self._unasked |= self._uncertain
        return True

    def _is_too_far(self, ordinal: int) -> bool:
        return bool(self._in_flight) and ordinal - self._in_flight[0].ordinal >= self._limit

    def _take_over(self, current: Identity | None) -> bool:
        """Adopt `current` if the partition may or must; False: no batch can be sent for now."""
        if current is None:
            return False
        if any(batch.ordinal in self._uncertain for batch in self._retries):
            return True  # these keep their numbers, under the epoch they were sent with
        if self._needs_epoch:
            if self._in_flight or self._is_stuck_with(current):
                return False
        elif self._identity == current or self._retries:
            return True
        elif self._in_flight:
            return False
        self._identity = current
        self._next = 0
        self._needs_epoch = self._needs_id = False
        self._known = False
        for batch in self._retries:
            self._number(batch)
        return True

    def _is_stuck_with(self, current: Identity | None) -> bool:
        if self._needs_id and current is not None and self._identity is not None:
            return current.producer_id == self._identity.producer_id
        return current == self._identity

    def _number(self, batch: B) -> None:
        if self._identity is None:
            raise AssertionError("a batch needs an identity to be numbered")
        batch.producer = (self._identity.producer_id, self._identity.epoch)
        batch.sequence = self._next
        self._next = add(self._next, batch.count)

    def outcome(self, batch: B, error_code: int, *, retriable: bool, divisible: bool = False) -> BatchOutcome:
        """Take in the outcome of a batch in flight: an error code of the broker (0: none), LOST or NOT_SENT.

        `divisible`: the broker refused it, and may accept parts of it. The verdict DIVIDE leaves the batch in flight
        until `replace`.
        """
        verdict = self._judge(batch, error_code, retriable=retriable, divisible=divisible)
        if verdict is BatchOutcome.DIVIDE:
            return verdict
        self._in_flight.remove(batch)
        if verdict is BatchOutcome.RETRY:
            insort(self._retries, batch, key=_ordinal)
            self._draining = True
            if error_code not in REFUSED:
                self._doubt(batch)
        else:
            self._settle(batch)
        if verdict is BatchOutcome.DELIVERED:
            self._known = True
        elif verdict is not BatchOutcome.RETRY:
            self._needs_epoch = self._idempotent
            self._draining = True
        self._end_draining()
        return verdict

    def _judge(self, batch: B, error_code: int, *, retriable: bool, divisible: bool) -> BatchOutcome:
        if error_code in WRITTEN:
            return BatchOutcome.DELIVERED
        uncertain = batch.ordinal in self._uncertain
        if error_code in OUT_OF_ORDER:
            has_earlier = any(b.ordinal < batch.ordinal for b in (*self._in_flight, *self._retries))
            if uncertain and (self._needs_epoch or not has_earlier):
                self._disowned.add(batch.ordinal)
                return BatchOutcome.RETRY
            if has_earlier:  # the earlier batch is missing: this one will fit once that is settled
                return BatchOutcome.RETRY
            if not self._may_move:
                return BatchOutcome.RETRY if self._needs_epoch else BatchOutcome.FAILED
            self._needs_epoch = self._idempotent
            if batch.sequence == 0:  # refused at the start of an epoch: the next epoch would be refused too
                self._needs_id = self._idempotent
            return BatchOutcome.RETRY
        if error_code in FOREIGN_ID and self._idempotent and self._may_move:
            self._needs_epoch = self._needs_id = True
            if uncertain:
                self._disowned.add(batch.ordinal)
            return BatchOutcome.RETRY
        if divisible:
            return BatchOutcome.DIVIDE
        if retriable:
            return BatchOutcome.RETRY
        uncertain = uncertain or error_code in (LOST, ErrorCode.UNKNOWN_SERVER_ERROR)
        return BatchOutcome.DOUBTFUL if uncertain else BatchOutcome.FAILED

    def _doubt(self, batch: B) -> None:
        if not self._uncertain:
            self._floor = self._acknowledged
        self._uncertain.add(batch.ordinal)
        if self._idempotent:
            self._unasked.add(batch.ordinal)

    def consult(
        self, remembered: tuple[int, int] | None, via: object = None, *, asked: bool = True
    ) -> list[tuple[B, Fate]]:
        """Take in the leader's state of the producer, as `evidence` has it.

        `asked` is False if the leader cannot be asked.

        `via` is the connection before the request: on another one the response does not count. The caller calls
        `settle` for each batch that is returned: at once if it is ABSENT, else after a search of the log. Other batches
        may be sent again.
        """
        left = []
        if via is not self._via:
            self._reconnect(via)
        for batch in self.doubts:
            fate = evidence(batch, remembered) if asked else Fate.UNKNOWN
            if batch.ordinal not in self._disowned and (fate is not Fate.UNKNOWN or not asked):
                self._unasked.discard(batch.ordinal)
            else:
                left.append((batch, fate))
        if asked and remembered is None:
            self._known = False  # the leader would accept any number: the next batch is sent alone
        return left

    def settle(self, batch: B, fate: Fate) -> BatchOutcome:
        """Settle a batch in doubt. An ABSENT one is sent again, unless it is transactional and was out of order."""
        disowned = batch.ordinal in self._disowned
        self._settle(batch)
        verdict = BatchOutcome.RETRY
        if fate is Fate.STORED:
            verdict = BatchOutcome.DELIVERED
        elif fate is Fate.UNKNOWN:
            verdict = BatchOutcome.DOUBTFUL
        elif disowned and not self._may_move and not self._needs_epoch:
            verdict = BatchOutcome.FAILED
        if verdict is not BatchOutcome.RETRY:
            self._retries.remove(batch)
        if fate is Fate.UNKNOWN or (disowned and fate is Fate.ABSENT):
            self._needs_epoch = self._idempotent
        return verdict

    def replace(self, batch: B, parts: Sequence[B]) -> None:
        """Replace a batch with the verdict DIVIDE by its `parts`, in order.

        They share its numbers. If records are missing among them, later batches are renumbered.
        """
        uncertain = batch.ordinal in self._uncertain
        self._in_flight.remove(batch)
        self._settle(batch)
        self._make_room(batch.ordinal, len(parts) - 1)
        sequence = batch.sequence
        for ordinal, part in enumerate(parts, batch.ordinal):
            part.ordinal = ordinal
            if self._idempotent:
                part.producer = batch.producer
                part.sequence = sequence
                sequence = add(sequence, part.count)
            if uncertain:
                self._uncertain.add(ordinal)
            insort(self._retries, part, key=_ordinal)
        if sum(part.count for part in parts) != batch.count:
            self._needs_epoch = self._idempotent
        self._draining = True
        self._end_draining()

    def _make_room(self, ordinal: int, more: int) -> None:
        """Shift the ordinals after `ordinal`: the broker counts batches, so each part counts."""
        for batch in (*self._in_flight, *self._retries):
            if batch.ordinal > ordinal:
                batch.ordinal += more
        for kept in (self._uncertain, self._unasked, self._disowned):
            shifted = {o + more if o > ordinal else o for o in kept}
            kept.clear()
            kept.update(shifted)
        self._sent += more
        if ordinal < self._first_here:
            self._first_here += more

    def _settle(self, batch: B) -> None:
        for kept in (self._uncertain, self._unasked, self._disowned):
            kept.discard(batch.ordinal)

    def _end_draining(self) -> None:
        if not self._in_flight:
            self._draining = False

    def give_up(self, batch: B) -> BatchOutcome:
        """Give up a batch among the retries; its number stays used. Returns FAILED or DOUBTFUL."""
        verdict = BatchOutcome.DOUBTFUL if batch.ordinal in self._uncertain else BatchOutcome.FAILED
        self._retries.remove(batch)
        self._settle(batch)
        self._needs_epoch = self._idempotent
        return verdict


def _ordinal(batch: Sendable) -> int:
    return batch.ordinal
