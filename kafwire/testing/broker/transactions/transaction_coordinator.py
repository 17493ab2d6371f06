"""Kafka's transaction coordinator for one transactional id: who may do what, and which identity comes next.

Both versions of the protocol (version 2 is KIP-890's): a request says which one it is of. What is decided is carried
out by `transactions.py`, which writes the markers and then says `complete`. No time, logs or other ids here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from kafwire.errors import ErrorCode
from kafwire.producer.sequencer import Identity

Place = tuple[str, int]  # a topic's name and a partition's number

NOBODY = Identity(-1, -1)
LAST_EPOCH = 32_766  # that a producer has; the one above is for the marker of its last transaction


class State(Enum):
    """Of a transaction, by Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


@dataclass(slots=True)
class Coordinator:
    """What it keeps of one transactional id; `before_4`: as Kafka 3.9 does."""

    before_4: bool = False
    producer_id: int = -1
    epoch: int = -1
    last_epoch: int = -1  # the one before, if a request of it may be a repeated one
    previous_id: int = -1  # the producer id before, whose epochs were used up
    next_id: int = -1  # the producer id after the markers, where epochs are used up (version 2)
    state: State = State.EMPTY
    partitions: set[Place] = field(default_factory=set)  # while it prepares: those without their marker

    @property
    def preparing(self) -> bool:
        """Whether it is decided, and its markers are being written."""
        return self.state in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no further epoch."""
        return self.epoch >= LAST_EPOCH

    def initialize(self, current: Identity, *, new_id: Callable[[], int]) -> tuple[int, Identity]:
        """InitProducerId: an error code, and the identity. `current`: in whose name, or `NOBODY`."""
        if self.producer_id < 0:
            self.producer_id, self.epoch = new_id(), 0
            return 0, Identity(self.producer_id, self.epoch)
        if self.preparing:
            return ErrorCode.CONCURRENT_TRANSACTIONS, NOBODY
        is_its = current.producer_id in (-1, self.producer_id)
        if not is_its and not (current.producer_id == self.previous_id and current.epoch >= LAST_EPOCH):
            return ErrorCode.PRODUCER_FENCED, NOBODY
        if self.state is State.ONGOING:
            # It is fenced with an epoch that nobody is told, so that whoever asks again gets the one after.
            self.fence(new_id)
            return ErrorCode.CONCURRENT_TRANSACTIONS, NOBODY
        if self.is_exhausted:
            return self._rotate(current, new_id)
        if current.epoch >= 0 and current.epoch != self.epoch:
            if current.epoch != self.last_epoch:
                return ErrorCode.PRODUCER_FENCED, NOBODY
            self.state = State.EMPTY  # asked again, since the answer was lost (KIP-360)
            return 0, Identity(self.producer_id, self.epoch)
        self.last_epoch = current.epoch
        self.epoch += 1
        self.state = State.EMPTY
        return 0, Identity(self.producer_id, self.epoch)

    def _rotate(self, current: Identity, new_id: Callable[[], int]) -> tuple[int, Identity]:
        if current.epoch not in (-1, self.epoch):
            return ErrorCode.UNKNOWN_SERVER_ERROR, NOBODY
        self.last_epoch = current.epoch
        self.previous_id, self.producer_id, self.epoch = self.producer_id, new_id(), 0
        self.state = State.EMPTY
        return 0, Identity(self.producer_id, self.epoch)

    def fence(self, new_id: Callable[[], int]) -> None:
        """Abort what is open, in the name of nobody: a producer came anew, or the transaction took too long."""
        if self.state is State.ONGOING:
            self._prepare(State.PREPARE_ABORT, second=not self.before_4, new_id=new_id)
            if self.before_4:
                self.last_epoch = -1
                self.epoch += 1

    def refuses(self, who: Identity) -> int:
        """The error code for a request of this producer about an open transaction."""
        if self.preparing and not self.before_4:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return self._refuses(who)

    def _refuses(self, who: Identity) -> int:
        if who.producer_id != self.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if who.epoch != self.epoch:
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.CONCURRENT_TRANSACTIONS if self.preparing else 0

    def verify(self, who: Identity, place: Place) -> int:
        """The error code for who writes to a partition that should be in its transaction. Who it is counts first."""
        return self._refuses(who) or (0 if place in self.partitions else ErrorCode.TRANSACTION_ABORTABLE)

    def add(self, who: Identity, places: set[Place]) -> int:
        """AddPartitionsToTxn, AddOffsetsToTxn, and what brokers add by themselves with version 2."""
        code = self.refuses(who)
        if not code:
            self.state = State.ONGOING
            self.partitions |= places
        return code

    def end(self, who: Identity, *, commit: bool, version: int, new_id: Callable[[], int]) -> tuple[int, Identity]:
        """EndTxn: an error code, and with version 2 the next identity."""
        second = version >= 2
        if second and self.preparing:
            return ErrorCode.CONCURRENT_TRANSACTIONS, NOBODY
        # The end has raised the epoch. Who asks for it again is known until something new has begun.
        is_complete = self.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
        before = Identity(self.producer_id, self.epoch - 1) if self.epoch else Identity(self.previous_id, LAST_EPOCH)
        repeated = second and is_complete and who == before
        if who.producer_id != self.producer_id and not repeated:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING, NOBODY
        if who.epoch != self.epoch and not repeated:
            return ErrorCode.PRODUCER_FENCED, NOBODY
        if self.preparing:
            return ErrorCode.CONCURRENT_TRANSACTIONS, NOBODY
        prepared, complete = (
            (State.PREPARE_COMMIT, State.COMPLETE_COMMIT) if commit else (State.PREPARE_ABORT, State.COMPLETE_ABORT)
        )
        if self.state is State.ONGOING:
            return self._prepare(prepared, second=second, new_id=new_id)
        if self.state is complete and (repeated or not second):
            return 0, Identity(self.producer_id, self.epoch)
        if second and not commit and not repeated:
            return self._prepare(prepared, second=second, new_id=new_id)
        return ErrorCode.INVALID_TXN_STATE, NOBODY

    def _prepare(self, state: State, *, second: bool, new_id: Callable[[], int]) -> tuple[int, Identity]:
        self.state = state
        if not second:
            return 0, Identity(self.producer_id, self.epoch)
        if self.is_exhausted:
            self.next_id = new_id()
        self.last_epoch = self.epoch
        self.epoch += 1
        return 0, Identity(self.producer_id, self.epoch) if self.next_id < 0 else Identity(self.next_id, 0)

    def complete(self) -> None:
        """All markers are written, with `producer_id` and `epoch`."""
        assert self.preparing, self.state
        self.state = State.COMPLETE_COMMIT if self.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT
        self.partitions.clear()
        if self.next_id >= 0:
            self.previous_id, self.producer_id, self.epoch, self.next_id = self.producer_id, self.next_id, 0, -1
