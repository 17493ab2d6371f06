"""A model of Kafka's transaction coordinator and its markers, for one transactional id.

Requests name their version of the protocol; the model has both. `complete` writes the markers, some time after the
decision.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from kafwire.errors import ErrorCode
from kafwire.producer.outcome.sequencer import Identity
from kafwire.protocol.versions import TRANSACTION_V2

Partition = tuple[str, int]


class State(Enum):
    """The state of a transaction."""

    EMPTY = "empty"
    ONGOING = "ongoing"
    PREPARE_COMMIT = "prepare commit"
    PREPARE_ABORT = "prepare abort"
    COMPLETE_COMMIT = "complete commit"
    COMPLETE_ABORT = "complete abort"


@dataclass
class Coordinator:
    """The coordinator's state of one transactional id; `before_4`: with the rules of Kafka 3.9."""

    before_4: bool = False
    producer_id: int = -1
    epoch: int = -1
    last_epoch: int = -1  # the epoch before, if a request with it may be a retry
    state: State = State.EMPTY
    partitions: set[Partition] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)

    @property
    def preparing(self) -> bool:
        """True if the transaction is decided, and its markers are being written."""
        return self.state in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    def initialize(self, current: Identity, *, new_id: int) -> tuple[int, Identity]:
        """Handle InitProducerId: return an error code and the identity."""
        nobody = Identity(-1, -1)
        if self.producer_id < 0:
            self.producer_id, self.epoch = new_id, 0
            return 0, Identity(self.producer_id, self.epoch)
        if current.producer_id >= 0 and current.producer_id != self.producer_id:
            return ErrorCode.PRODUCER_FENCED, nobody
        if self.preparing:
            return ErrorCode.CONCURRENT_TRANSACTIONS, nobody
        if self.state is State.ONGOING:
            self.fence()
            return ErrorCode.CONCURRENT_TRANSACTIONS, nobody
        if current.epoch >= 0 and current.epoch != self.epoch:
            if current.epoch != self.last_epoch:
                return ErrorCode.PRODUCER_FENCED, nobody
            self.state = State.EMPTY
            return 0, Identity(self.producer_id, self.epoch)
        self.last_epoch = current.epoch
        self.epoch += 1
        self.state = State.EMPTY
        return 0, Identity(self.producer_id, self.epoch)

    def fence(self) -> None:
        """Abort the open transaction for a new producer, or because it took too long."""
        if self.state is State.ONGOING:
            self.last_epoch = -1 if self.before_4 else self.epoch
            self.epoch += 1
            self.state = State.PREPARE_ABORT

    def refuses(self, who: Identity) -> int:
        """Return the error code for a request of this producer about an open transaction, or 0."""
        if self.preparing and not self.before_4:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if who.producer_id != self.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if who.epoch != self.epoch:
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.CONCURRENT_TRANSACTIONS if self.preparing else 0

    def add(self, who: Identity, partitions: set[Partition], groups: set[str]) -> int:
        """Add partitions and groups: AddPartitionsToTxn, AddOffsetsToTxn, and the implicit additions of version 2."""
        code = self.refuses(who)
        if not code:
            self.state = State.ONGOING
            self.partitions |= partitions
            self.groups |= groups
        return code

    def end(self, who: Identity, *, commit: bool, version: int) -> tuple[int, Identity]:
        """Handle EndTxn: return an error code, and with version 2 the next identity."""
        second = version >= TRANSACTION_V2
        if second and self.preparing:
            return ErrorCode.CONCURRENT_TRANSACTIONS, Identity(-1, -1)
        if who.producer_id != self.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING, Identity(-1, -1)
        # The end raised the epoch. A retry with the old one is known until a new transaction begins.
        is_complete = self.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
        repeated = second and is_complete and who.epoch + 1 == self.epoch
        if who.epoch != self.epoch and not repeated:
            return ErrorCode.PRODUCER_FENCED, Identity(-1, -1)
        prepared, complete = (
            (State.PREPARE_COMMIT, State.COMPLETE_COMMIT) if commit else (State.PREPARE_ABORT, State.COMPLETE_ABORT)
        )
        if self.preparing:
            return ErrorCode.CONCURRENT_TRANSACTIONS, Identity(-1, -1)
        if self.state is State.ONGOING:
            return self._prepare(prepared, second=second)
        if self.state is complete and (repeated or not second):
            return 0, Identity(self.producer_id, self.epoch)
        if second and not commit and not repeated:
            return self._prepare(prepared, second=second)
        return ErrorCode.INVALID_TXN_STATE, Identity(-1, -1)

    def _prepare(self, state: State, *, second: bool) -> tuple[int, Identity]:
        self.state = state
        if second:
            self.last_epoch = self.epoch
            self.epoch += 1
        return 0, Identity(self.producer_id, self.epoch)

    def complete(self) -> tuple[bool, set[Partition], set[str]] | None:
        """End the transaction. Return for its markers if they commit, partitions and groups; None: nothing to end."""
        if not self.preparing:
            return None
        committed = self.state is State.PREPARE_COMMIT
        self.state = State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT
        found = committed, self.partitions, self.groups
        self.partitions, self.groups = set(), set()
        return found
