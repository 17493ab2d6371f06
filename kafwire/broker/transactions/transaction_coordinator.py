"""Kafka's transaction coordinator for one transactional id: checks of requests, and the producer's next identity.

It follows both versions of the protocol (version 2 is KIP-890's); each request names its version. `transactions.py`
carries out the decisions: it writes the markers, then calls `complete`. There is no time, log or other id here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from kafwire.errors import ErrorCode
from kafwire.producer.outcome.sequencer import Identity
from kafwire.producer.transactions.state import NO_PRODUCER
from kafwire.protocol.versions import TRANSACTION_V2

Place = tuple[str, int]  # a topic's name and a partition's number

LAST_EPOCH = 32_766  # the last one of a producer; the epoch above it is for the marker of its last transaction


class State(Enum):
    """The states of a transaction, with Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


@dataclass(slots=True)
class Coordinator:
    """The state of one transactional id; `before_4`: behave as Kafka 3.9."""

    before_4: bool = False
    producer_id: int = -1
    epoch: int = -1
    last_epoch: int = -1  # the epoch before, if a request with it may be a repetition
    previous_id: int = -1  # the producer id before, whose epochs are used up
    next_id: int = -1  # the producer id after the markers, if the epochs are used up (version 2)
    state: State = State.EMPTY
    # In the state PrepareCommit or PrepareAbort: those without a marker yet.
    partitions: set[Place] = field(default_factory=set)

    @property
    def preparing(self) -> bool:
        """True if commit or abort is decided and the markers are not all written."""
        return self.state in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def is_exhausted(self) -> bool:
        """True if the producer id has no further epoch."""
        return self.epoch >= LAST_EPOCH

    def initialize(self, current: Identity, *, new_id: Callable[[], int]) -> tuple[int, Identity]:
        """Handle InitProducerId: returns an error code and the identity. `current`: the request's, or `NO_PRODUCER`."""
        if self.producer_id < 0:
            self.producer_id, self.epoch = new_id(), 0
            return 0, Identity(self.producer_id, self.epoch)
        if self.preparing:
            return ErrorCode.CONCURRENT_TRANSACTIONS, NO_PRODUCER
        is_its = current.producer_id in (-1, self.producer_id)
        if not is_its and not (current.producer_id == self.previous_id and current.epoch >= LAST_EPOCH):
            return ErrorCode.PRODUCER_FENCED, NO_PRODUCER
        if self.state is State.ONGOING:
            # The abort uses an epoch that no producer gets, so a repeated request gets the one after it.
            self.fence(new_id)
            return ErrorCode.CONCURRENT_TRANSACTIONS, NO_PRODUCER
        if self.is_exhausted:
            return self._rotate(current, new_id)
        if current.epoch >= 0 and current.epoch != self.epoch:
            if current.epoch != self.last_epoch:
                return ErrorCode.PRODUCER_FENCED, NO_PRODUCER
            self.state = State.EMPTY  # a repetition, because the response was lost (KIP-360)
            return 0, Identity(self.producer_id, self.epoch)
        self.last_epoch = current.epoch
        self.epoch += 1
        self.state = State.EMPTY
        return 0, Identity(self.producer_id, self.epoch)

    def _rotate(self, current: Identity, new_id: Callable[[], int]) -> tuple[int, Identity]:
        if current.epoch not in (-1, self.epoch):
            return ErrorCode.UNKNOWN_SERVER_ERROR, NO_PRODUCER
        self.last_epoch = current.epoch
        self.previous_id, self.producer_id, self.epoch = self.producer_id, new_id(), 0
        self.state = State.EMPTY
        return 0, Identity(self.producer_id, self.epoch)

    def fence(self, new_id: Callable[[], int]) -> None:
        """Abort the open transaction on the broker's side: a producer started again, or the transaction timed out."""
        if self.state is State.ONGOING:
            self._prepare(State.PREPARE_ABORT, second=not self.before_4, new_id=new_id)
            if self.before_4:
                self.last_epoch = -1
                self.epoch += 1

    def refuses(self, producer: Identity) -> int:
        """Return the error code of a producer's request about an open transaction."""
        if self.preparing and not self.before_4:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return self._refuses(producer)

    def _refuses(self, producer: Identity) -> int:
        if producer.producer_id != self.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if producer.epoch != self.epoch:
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.CONCURRENT_TRANSACTIONS if self.preparing else 0

    def verify(self, producer: Identity, place: Place) -> int:
        """Return the error code of a write to a partition, which must be in the transaction. The identity is checked
        first.
        """
        return self._refuses(producer) or (0 if place in self.partitions else ErrorCode.TRANSACTION_ABORTABLE)

    def add(self, producer: Identity, places: set[Place]) -> int:
        """Handle AddPartitionsToTxn and AddOffsetsToTxn, and the partitions that brokers add in version 2."""
        code = self.refuses(producer)
        if not code:
            self.state = State.ONGOING
            self.partitions |= places
        return code

    def end(self, producer: Identity, *, commit: bool, version: int, new_id: Callable[[], int]) -> tuple[int, Identity]:
        """Handle EndTxn: returns an error code, and with version 2 the next identity."""
        second = version >= TRANSACTION_V2
        if second and self.preparing:
            return ErrorCode.CONCURRENT_TRANSACTIONS, NO_PRODUCER
        # EndTxn has raised the epoch. A repetition with the old epoch is accepted until a new transaction begins.
        is_complete = self.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
        before = Identity(self.producer_id, self.epoch - 1) if self.epoch else Identity(self.previous_id, LAST_EPOCH)
        repeated = second and is_complete and producer == before
        if producer.producer_id != self.producer_id and not repeated:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING, NO_PRODUCER
        if producer.epoch != self.epoch and not repeated:
            return ErrorCode.PRODUCER_FENCED, NO_PRODUCER
        if self.preparing:
            return ErrorCode.CONCURRENT_TRANSACTIONS, NO_PRODUCER
        prepared, complete = (
            (State.PREPARE_COMMIT, State.COMPLETE_COMMIT) if commit else (State.PREPARE_ABORT, State.COMPLETE_ABORT)
        )
        if self.state is State.ONGOING:
            return self._prepare(prepared, second=second, new_id=new_id)
        if self.state is complete and (repeated or not second):
            return 0, Identity(self.producer_id, self.epoch)
        if second and not commit and not repeated:
            return self._prepare(prepared, second=second, new_id=new_id)
        return ErrorCode.INVALID_TXN_STATE, NO_PRODUCER

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
        """Note that all markers are written, with `producer_id` and `epoch`."""
        assert self.preparing, self.state
        self.state = State.COMPLETE_COMMIT if self.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT
        self.partitions.clear()
        if self.next_id >= 0:
            self.previous_id, self.producer_id, self.epoch, self.next_id = self.producer_id, self.next_id, 0, -1
