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
- but a batch whose answer was lost may be in the log (*in doubt*), and under a new number, or sent to a broker that has
  forgotten the producer, it would be there twice. A broker that restarts remembers one batch of each producer, or up to
  five; none once `producer.id.expiration.ms` has passed since the last record's timestamp. It then takes any number, or
  calls what it has out of order. So the fate of such a batch is read, not tried out: before it is sent again, the
  leader is asked what it remembers of the producer (`evidence`). Where it knows the batch's epoch, sending again
  is safe: it recognises the batch, takes it, or calls it out of order. Where it knows nothing, or has called
  the batch out of order, the log itself is searched (`doubts`, `settle`): found, the batch is delivered; not found, it
  goes again; where neither can be told, it fails, and says that it may be in the log;
- the log is searched from the last offset that was acknowledged before the first doubt (`floor`): what is in doubt can
  only lie behind it;
- before the move to another epoch, what is in doubt is sent once more under its old number, or searched for;
- a batch that is out of order with none before it, and not in doubt, shows that the broker has lost records, or has
  forgotten the producer: the partition moves to the next epoch, and the batch goes again (KIP-360). A transactional
  producer may not move by itself: there the batch fails, and the transaction with it;
- a batch that is too large goes on as parts, which share its numbers: what follows it still fits. If an earlier attempt
  has stored it whole, the broker calls the parts out of order, and the search finds them inside of the whole.
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
# The broker did not take the batch, and misses one before it.
OUT_OF_ORDER = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
# The broker does not take the producer id, or knows a later epoch of it: the batch was not stored, and goes again under
# another producer id.
FOREIGN_ID = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
# Not a broker's: the answer was lost, or the batch never left this process.
LOST = -2
NOT_SENT = -3
# Errors that no retry mends say that nothing was stored, but for UNKNOWN_SERVER_ERROR. These say so and may be mended;
# of a topic that is not known, as a log that had the batch would be gone with it. All others may come after the leader
# has stored the batch.
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


class Fate(Enum):
    """What is known of a batch in doubt."""

    STORED = auto()
    ABSENT = auto()
    UNKNOWN = auto()


class BatchOutcome(Enum):
    """What to do with a batch that came back."""

    DELIVERED = auto()
    RETRY = auto()
    FAILED = auto()  # it is not in the log
    DOUBTFUL = auto()  # it failed, and may be in the log
    DIVIDE = auto()  # `Sequencer.replace` it by its parts


def add(sequence: int, count: int) -> int:
    """The sequence `count` records later; it wraps to 0."""
    return (sequence + count) % SEQUENCE_LIMIT


def evidence(batch: Sendable, remembered: tuple[int, int] | None) -> Fate:
    """What a leader's memory of the producer says of a batch.

    `remembered` is the producer's epoch there and the last sequence taken under it (-1: none), as DescribeProducers
    tells (KIP-664); None: the leader does not know the producer. STORED means that the batch's number was taken.
    """
    if remembered is None or batch.producer is None or remembered[0] > batch.producer[1]:
        return Fate.UNKNOWN
    epoch, last = remembered
    if epoch < batch.producer[1] or last < 0 or (batch.sequence - last - 1) % SEQUENCE_LIMIT < SEQUENCE_LIMIT // 2:
        return Fate.ABSENT
    return Fate.STORED


def conclude(said: Fate, found: bool | None) -> Fate:
    """What `evidence` and a search of the log (None: it could not be read as a whole) say together."""
    if found is None:
        return Fate.STORED if said is Fate.STORED else Fate.UNKNOWN
    if not found:  # its number was taken, but not by what is in the log: whoever is wrong, it is not to be stored twice
        return Fate.UNKNOWN if said is Fate.STORED else Fate.ABSENT
    return Fate.STORED


class Sequencer(Generic[B]):
    """One partition's numbers. Without `idempotent` batches stay unnumbered, and a retry comes after its followers.

    `may_move`: whether the partition may move to another epoch or producer id to mend its sequence.
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
        self._uncertain: set[int] = set()  # ordinals of batches that an earlier attempt may have put into the log
        self._unasked: set[int] = set()  # of these, those to ask the leader about before they go again
        self._disowned: set[int] = set()  # and those that it called out of order: they are in the log, or never will be
        self._acknowledged: tuple[int, int] | None = None
        self._floor: tuple[int, int] | None = None
        self._first_here = 0  # the first batch whose offset can only be one of this log
        self._draining = False
        self._needs_epoch = False
        self._needs_id = False
        self._known = False  # the broker took a batch under this identity
        self._via: object = None

    @property
    def in_flight(self) -> Sequence[B]:
        """Batches that are owed an outcome, oldest first."""
        return self._in_flight

    @property
    def retries(self) -> Sequence[B]:
        """Batches to be sent again, oldest first."""
        return self._retries

    @property
    def needs_id(self) -> bool:
        """Whether the epoch that it wants has to be of another producer id."""
        return self._needs_id

    @property
    def doubts(self) -> list[B]:
        """What may be in the log, if some of it may not go again before the leader was asked; oldest first.

        `consult` is to be called. Empty while anything is in flight.
        """
        if self._in_flight or not (self._unasked or self._disowned):
            return []
        return [batch for batch in self._retries if batch.ordinal in self._uncertain]

    @property
    def floor(self) -> tuple[int, int] | None:
        """An offset below which nothing in doubt is, and the leader epoch known there; None: not known."""
        return self._floor

    def acknowledged(self, ordinal: int, end: int, leader_epoch: int | None = None) -> None:
        """A delivered batch ends at the offset `end`; `leader_epoch` was the newest known (None: as before)."""
        if ordinal < self._first_here:
            return
        if leader_epoch is None:
            leader_epoch = -1 if self._acknowledged is None else self._acknowledged[1]
        self._acknowledged = (end, leader_epoch)

    def wants_epoch(self, current: Identity | None) -> bool:
        """Whether nothing more can be sent until the producer has moved on from its identity `current`."""
        waits = self._in_flight or any(batch.ordinal in self._uncertain for batch in self._retries)
        return self._needs_epoch and not waits and self._is_stuck_with(current)

    def anew(self) -> Sequencer[B]:
        """For another log of the same name, as of a topic made anew: it knows nothing of the producer.

        The numbers go on all the same: should it be the log that was known, as brokers that lag may have it, then
        numbers that came again could be taken for the batches that had them before.
        """
        other = Sequencer[B](idempotent=self._idempotent, limit=self._limit, may_move=self._may_move)
        other._identity = self._identity
        other._next = self._next
        return other

    def is_doubtful(self, batch: B) -> bool:
        """Whether a batch that was sent may be in the log: it is in flight, or an attempt was not answered."""
        return batch in self._in_flight or batch.ordinal in self._uncertain

    def lease(self, current: Identity | None) -> tuple[tuple[int, int] | None, int, int] | None:
        """Let somebody else number and send, one batch at a time, while nothing is under way and all is well.

        Answers who sends, and the numbers of the next record and batch; None: not now. Before anything else is asked of
        this sequencer, `resume` must give them back.
        """
        if self._in_flight or self._retries or self._needs_epoch:
            return None
        if not self._idempotent:
            return None, self._next, self._sent
        if not self._known or self._identity is None or self._identity != current:
            return None
        return (self._identity.producer_id, self._identity.epoch), self._next, self._sent

    def resume(self, sequence: int, ordinal: int, in_flight: B | None) -> None:
        """Go on from the numbers that whoever was leased them has come to; one batch may be in flight."""
        self._next = sequence
        self._sent = ordinal
        if in_flight is not None:
            self._in_flight.append(in_flight)

    def send(self, fresh: deque[B], current: Identity | None, via: object = None) -> B | None:
        """Take the next batch to send: a retry, or the first of `fresh`. None: nothing may go now.

        `current` is the producer's newest identity; the partition takes it over once nothing of an older one is left.
        `via` is the connection that it would go by. Behind another one than before may be a broker that has forgotten
        what was known of it.
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
        if self._needs_epoch:  # not moved yet: see what became of those that may be in the log
            batch = next(b for b in self._retries if b.ordinal in self._uncertain)
            self._retries.remove(batch)
        elif self._is_too_far(self._retries[0].ordinal if self._retries else self._sent):
            # A retry is on its way whose followers were taken. Had it been stored the first time, its answer lost, then
            # one batch more after it would make the broker forget it, and take the retry for out of order: not stored.
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
        """Move to `current` if the partition is free to, or must; False: nothing can be sent for now."""
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
            raise AssertionError("a batch is numbered only under an identity")
        batch.producer = (self._identity.producer_id, self._identity.epoch)
        batch.sequence = self._next
        self._next = add(self._next, batch.count)

    def outcome(self, batch: B, error_code: int, *, retriable: bool, divisible: bool = False) -> BatchOutcome:
        """A batch in flight came back, with an error code of the broker's (0: none), LOST or NOT_SENT.

        `divisible`: the broker refused it, and would take parts of it. The verdict DIVIDE leaves the batch in flight
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
            if has_earlier:  # that itself did not arrive: this one will fit once it is settled
                return BatchOutcome.RETRY
            if not self._may_move:
                return BatchOutcome.RETRY if self._needs_epoch else BatchOutcome.FAILED
            self._needs_epoch = self._idempotent
            if batch.sequence == 0:  # refused at the start of an epoch: the next epoch would be refused as well
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
        """Take in what the leader remembers of the producer, as `evidence` has it; `asked`: whether it could be asked.

        `via` is the connection that was there before it was asked: on another one the answer does not count.
        Of each batch in the answer `settle` is to be called: at once if it is ABSENT, else after a search of the log.
        What is not in it may be sent again.
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
            self._known = False  # it would take any number: the next batch goes alone
        return left

    def settle(self, batch: B, fate: Fate) -> BatchOutcome:
        """What the log says of a batch in doubt. ABSENT, it goes again, unless a transaction's was out of order."""
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
        """Go on with `parts` of a batch for which the verdict was DIVIDE, in their order.

        They share its numbers. If records are missing among them, what follows is numbered anew.
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
        """Shift the ordinals behind `ordinal`: the broker remembers batches, so each part of one counts."""
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
        """A batch among the retries ran out of time, and its number stays used: FAILED or DOUBTFUL."""
        verdict = BatchOutcome.DOUBTFUL if batch.ordinal in self._uncertain else BatchOutcome.FAILED
        self._retries.remove(batch)
        self._settle(batch)
        self._needs_epoch = self._idempotent
        return verdict


def _ordinal(batch: Sendable) -> int:
    return batch.ordinal
