"""A producer's transactions: which request its coordinators get next, and what a response means (KIP-98).

There are two versions of the protocol. In version 1 the coordinator must learn of each partition and group before
records or offsets are written there, and a producer keeps its epoch from transaction to transaction. In version 2
(KIP-890) brokers add partitions and groups themselves, and every transaction ends with a new epoch.

- Only one request is in flight: a response always belongs to the last request.
- A request whose response was lost is sent again, and may be executed twice, the second time late: a late EndTxn would
  decide the *next* transaction (KAFKA-17754), a late AddPartitionsToTxn would begin one that no producer ends. With
  version 1 such a producer takes a new epoch before its next transaction, and late requests are refused.
- The same after a batch with a sequence number was given up: it may arrive late too (KIP-360).
- The epoch is raised by naming the current one, after the transaction's end: so a producer that was fenced meanwhile
  learns of it, and fences no other.
- A transaction ends only when nothing of it is in flight any more (`settled`).
- Leaders and group coordinators refuse a stale epoch, and cannot say why it is stale: another producer has the id, the
  transaction timed out, or a late marker raised the epoch. The transaction is then abortable, and EndTxn(abort)
  decides: only the transaction coordinator reports fencing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from enum import Enum

from kafwire.error_codes import ErrorCode
from kafwire.errors import (
    BrokerError,
    KafkaError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionError,
    TransactionFatalError,
    TransactionStateError,
    broker_error,
)
from kafwire.producer.outcome.sequencer import Identity
from kafwire.producer.transactions.actions import (
    API,
    Action,
    AddOffsets,
    AddPartitions,
    CommitOffsets,
    End,
    Initialize,
    Partition,
)
from kafwire.producer.transactions.error_meanings import (
    FATAL_FOR_BATCHES,
    REFUSED_EPOCH,
    UNKNOWN_THERE,
    Meaning,
    meaning_of,
)
from kafwire.protocol.versions import TRANSACTION_V2

NO_PRODUCER = Identity(-1, -1)


class State(Enum):
    """State of a producer's transactions."""

    UNINITIALIZED = "not initialized"
    INITIALIZING = "getting its producer id"
    READY = "between transactions"
    IN_TRANSACTION = "in a transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    DETACHING = "detaching its transaction"
    DETACHED = "without its transaction, which was detached"
    ABORTABLE_ERROR = "in a transaction that failed"
    FATAL_ERROR = "unusable after a fatal error"


# A transaction has begun, and can be ended.
OPEN = (State.IN_TRANSACTION, State.ABORTABLE_ERROR)
# Records and offsets of the transaction are being sent.
SENDING = (State.IN_TRANSACTION, State.COMMITTING, State.DETACHING)


class Transaction:
    """The transaction state machine of one producer."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = State.UNINITIALIZED
        self.identity: Identity | None = None
        self.version = 1  # protocol version of the last transaction
        self.error: TransactionError | None = None  # the cause of an error state, or of a lack of a producer id
        self.number = 0  # transactions begun
        self.ended = 0  # number of the last transaction that ended as its user wished
        self._added: set[Partition] = set()
        self._pending: dict[Partition, None] = {}
        self._groups: set[str] = set()
        self._offsets: deque[CommitOffsets] = deque()
        self._is_open = False  # the coordinator may have a transaction of this producer
        self._is_certain = False  # the coordinator confirmed it
        self._is_unknown = False  # the coordinator does not know the producer id
        self._needs_epoch = False

    # -- the user's calls

    def initialize(self) -> None:
        """Get a producer id; producers that used the transactional id before are fenced."""
        if self.state is State.UNINITIALIZED:
            self.error = None
            self.state = State.INITIALIZING
        if self.state in (State.DETACHING, State.DETACHED):
            raise self._wrong("initialize")
        self._check_fatal()

    def begin(self, version: int) -> bool:
        """Begin a transaction in this version of the protocol; False: a new epoch is needed first.

        Raises `TransactionStateError`, `TransactionError`.
        """
        self._check_fatal()
        if self.state is State.ABORTABLE_ERROR and self.ended == self.number and self.error is not None:
            raise self.error  # the error of a request between transactions
        if self.state is not State.READY:
            raise self._wrong("begin a transaction")
        if version != self.version:  # late requests were sent in the other version
            self.version = version
            if self.number:
                self.state = State.INITIALIZING
                return False
        self.number += 1
        self.state = State.IN_TRANSACTION
        return True

    def add_offsets(self, commit: CommitOffsets) -> None:
        """Commit offsets of a group with the transaction; `is_done(commit)` is True when the coordinators have them."""
        self.check_open("send offsets")
        self._offsets.append(commit)

    def is_done(self, commit: CommitOffsets) -> bool:
        """True if the coordinators have these offsets, or never will."""
        return commit not in self._offsets

    def commit(self) -> None:
        """Commit once all is settled, or continue a commit. Raises `TransactionStateError`, `TransactionError`."""
        if self.state is not State.COMMITTING:
            self.check_open("commit")
            self.state = State.COMMITTING

    def abort(self) -> None:
        """Abort once all is settled, or continue an abort. Raises `TransactionStateError`, `TransactionError`."""
        self._check_fatal()
        if self.state is State.ABORTING:
            return
        if self.state not in (State.IN_TRANSACTION, State.ABORTABLE_ERROR, State.DETACHING):
            raise self._wrong("abort")
        self.state = State.ABORTING
        self._pending.clear()
        self._offsets.clear()

    def detach(self) -> None:
        """Send the rest, and leave the transaction open. Raises `TransactionStateError`, `TransactionError`."""
        if self.state not in (State.DETACHING, State.DETACHED):
            self.check_open("detach")
            self.state = State.DETACHING

    def check_open(self, what: str) -> None:
        """Raise unless records and offsets may be added now."""
        self._check_fatal()
        if self.state is State.ABORTABLE_ERROR and self.error is not None:
            raise self.error
        if self.state is not State.IN_TRANSACTION:
            raise self._wrong(what)

    def _check_fatal(self) -> None:
        if self.state is State.FATAL_ERROR and self.error is not None:
            raise self.error

    def _wrong(self, what: str) -> TransactionStateError:
        """Return the error for a call that is not allowed in this state."""
        return TransactionStateError(
            f"cannot {what}: the producer with transactional_id {self.transactional_id!r} is {self.state.value}; "
            f"{_ADVICE[self.state]}"
        )

    # -- batches

    def admits(self, where: Partition) -> bool:
        """True if a batch may be sent to a partition now; if not, the partition is added to the transaction first."""
        if self.state not in SENDING:
            return False
        if self.version >= TRANSACTION_V2:
            self._is_open = True
            return True
        if where in self._added:
            return True
        self._pending[where] = None
        return False

    @property
    def has_pending(self) -> bool:
        """True if partitions wait to be added."""
        return bool(self._pending)

    def batch_failed(self, error: KafkaError, *, numbered: bool) -> KafkaError:
        """Note that a batch failed for good, and whether it had a sequence number; return its deliveries' error."""
        if numbered:
            self._needs_epoch = True
        meaning = FATAL_FOR_BATCHES.get(error.code, Meaning.ABORT) if isinstance(error, BrokerError) else Meaning.ABORT
        if self.state in SENDING:
            self._fail(meaning, error, "a batch was not delivered")
        if not isinstance(error, BrokerError) or error.code not in REFUSED_EPOCH:
            return error
        if isinstance(self.error, ProducerFencedError):
            meaning = Meaning.FENCED
        return _made(meaning, self.transactional_id, "a batch was not delivered", error)

    # -- requests

    def next(self, *, settled: bool) -> Action | None:
        """Return the next request; None: none is needed. `settled`: no record of the transaction is unfinished."""
        if self.state is State.INITIALIZING:
            return Initialize(self.identity)
        if self.state in SENDING:
            if self._pending:
                return AddPartitions(tuple(self._pending))
            if self._offsets:
                group_id = self._offsets[0].group.group_id
                if self.version < TRANSACTION_V2 and group_id not in self._groups:
                    return AddOffsets(group_id)
                return self._offsets[0]
        if settled and self.state is State.DETACHING:
            self._leave_open()
        if not settled or self.state not in (State.COMMITTING, State.ABORTING):
            return None
        if self._is_open and (self.state is State.COMMITTING or not self._is_unknown):
            return End(self.state is State.COMMITTING)
        self._end(None)  # the coordinator knows of no transaction
        return self.next(settled=True)

    def lost(self, action: Action) -> None:
        """Note that a request may have been sent, but got no response: brokers may execute it, now or later."""
        if isinstance(action, Initialize):
            return  # a repeated one returns the same epoch, or a newer one
        self._is_open = True
        self._needs_epoch = True

    def on_response(
        self, action: Action, codes: Mapping[Partition, int] | int, identity: Identity | None = None
    ) -> Meaning:
        """Take in a response: one code, or one per partition; and the identity in it."""
        by_place: dict[Partition | None, int] = {None: codes} if isinstance(codes, int) else dict(codes.items())
        kind = type(action)
        meaning, code, where = max(
            ((self.meaning(action, code), code, where) for where, code in by_place.items()),
            key=lambda found: found[0],
            default=(Meaning.DONE, 0, None),
        )
        if isinstance(action, AddPartitions):
            self._on_partitions_added([p for p, c in by_place.items() if c == 0 and p is not None])
        elif not isinstance(action, Initialize | End) and (meaning is Meaning.DONE or self.version >= TRANSACTION_V2):
            self._is_open = True
        if meaning is Meaning.DONE:
            self._on_done(action, identity)
        elif isinstance(action, End) and self._has_nothing_to_end(action, code):
            self._needs_epoch = True
            self._end(None)
            meaning = Meaning.DONE
        elif meaning > Meaning.FIND_COORDINATOR:
            if code in UNKNOWN_THERE and not isinstance(action, Initialize):  # Initialize concerns no transaction
                self._is_unknown = self._needs_epoch = True
            place = "" if where is None else f" of {where[0]}-{where[1]}"
            hint = ""
            if code == ErrorCode.INVALID_TXN_STATE and meaning is Meaning.ABORT:
                hint = ": aborted by its coordinator; did it take longer than transaction_timeout_ms?"
            self.refused(action, self.error_of(action, code, f"{API[kind]}{place}{hint}", where), meaning)
        return meaning

    def meaning(self, action: Action, code: int) -> Meaning:
        """The meaning of an error code in the response to a request of this transaction."""
        found = meaning_of(type(action), code)
        if not isinstance(action, End):
            return found
        if action.committed and self.version >= TRANSACTION_V2 and code == ErrorCode.INVALID_TXN_STATE:
            # A commit of this epoch would be recognised, and another producer's epoch reported: so the coordinator has
            # aborted, and an abort returns the next epoch.
            return Meaning.ABORT
        if not action.committed and found is Meaning.ABORT:
            return Meaning.RETRY  # "abort it" does not refuse an abort: the abort continues
        return found

    def error_of(self, action: Action, code: int, context: str, where: Partition | None = None) -> BrokerError:
        """Return the error for a code in a response, perhaps of one partition."""
        group: str | None = None
        if isinstance(action, AddOffsets):
            group = action.group_id
        elif isinstance(action, CommitOffsets):
            group = action.group.group_id
        return broker_error(
            code,
            context,
            api=API[type(action)],
            topic=None if where is None else where[0],
            group=group,
            transactional_id=self.transactional_id,
        )

    def refused(self, action: Action, error: KafkaError, meaning: Meaning) -> None:
        """Note that a request cannot succeed. The user may request the first producer id again."""
        if isinstance(action, Initialize):
            if action.current is None:
                self.state = State.UNINITIALIZED
                self.error = _without_id(meaning, self.transactional_id, error)
                return
            self._needs_epoch = True  # the abort requests it once more
        if self.state is State.ABORTING and meaning is Meaning.ABORT:
            return  # its failure no longer matters
        self._fail(meaning, error, f"{API[type(action)]} was refused")

    def break_off(self, error: KafkaError) -> None:
        """Make the state fatal: the task that sends the requests failed."""
        self._fail(Meaning.FATAL, error, "because of a defect")

    def _has_nothing_to_end(self, action: End, code: int) -> bool:
        """True if an abort's error means that there is no transaction, when there may be none."""
        if action.committed:
            return False
        if code == ErrorCode.INVALID_TXN_STATE:
            # Version 2: the coordinator would recognise the abort of an open transaction, and of one that it aborted.
            return self.version >= TRANSACTION_V2 or not self._is_certain
        return code in UNKNOWN_THERE

    def _on_partitions_added(self, partitions: Iterable[Partition]) -> None:
        for where in partitions:
            self._is_open = self._is_certain = True
            self._added.add(where)
            self._pending.pop(where, None)

    def _on_done(self, action: Action, identity: Identity | None) -> None:
        if isinstance(action, Initialize):
            if self.state is State.INITIALIZING:
                self.identity = identity
                self._needs_epoch = False
                self.state = State.READY
        elif isinstance(action, AddOffsets):
            self._is_certain = True
            self._groups.add(action.group_id)
        elif isinstance(action, CommitOffsets):
            self._is_certain = True
            if action in self._offsets:
                self._offsets.remove(action)
        elif isinstance(action, End):
            self._end(identity)

    def _leave_open(self) -> None:
        """Detach the complete transaction: another process ends it. An empty one cannot be ended from there."""
        if self._is_open:
            self.state = State.DETACHED
        else:
            self.state = State.IN_TRANSACTION

    def _end(self, identity: Identity | None) -> None:
        """End the transaction; with version 2 the coordinator has returned the next one's identity."""
        fresh = identity is not None and identity not in {NO_PRODUCER, self.identity}
        if fresh:
            self.identity = identity
        self.state = State.INITIALIZING if self._needs_epoch and not fresh else State.READY
        self.ended = self.number
        self.error = None
        self._needs_epoch = False
        self._forget()

    def _fail(self, meaning: Meaning, cause: KafkaError, what: str) -> None:
        self.error = _made(meaning, self.transactional_id, what, cause)
        self.state = State.ABORTABLE_ERROR if meaning is Meaning.ABORT else State.FATAL_ERROR
        self._pending.clear()
        self._offsets.clear()

    def _forget(self) -> None:
        self._added.clear()
        self._pending.clear()
        self._groups.clear()
        self._offsets.clear()
        self._is_open = self._is_certain = self._is_unknown = False


_ADVICE = {
    State.UNINITIALIZED: "call init_transactions() first",
    State.INITIALIZING: "wait for init_transactions()",
    State.READY: "begin a transaction first: with producer.transaction()",
    State.IN_TRANSACTION: "commit or abort it first",
    State.COMMITTING: "call commit_transaction() again to wait for its outcome",
    State.ABORTING: "call abort_transaction() again to wait for its outcome",
    State.DETACHING: "call detach() again to wait for its handle",
    State.DETACHED: "the handle that detach() returned ends it; close this producer",
    State.ABORTABLE_ERROR: "abort it first",
    State.FATAL_ERROR: "close it and make a new one",
}


def _without_id(meaning: Meaning, transactional_id: str, cause: KafkaError) -> TransactionError:
    """Return the error of a call that got no first producer id: there is no transaction to abort."""
    what = "there is no producer id"
    if meaning is not Meaning.ABORT:
        return _made(meaning, transactional_id, what, cause)
    error = TransactionError(
        f"{what} for transactional_id {transactional_id!r}: {cause}; call init_transactions() again"
    )
    error.retriable = True
    error.__cause__ = cause
    return error


def _made(meaning: Meaning, transactional_id: str, what: str, cause: KafkaError) -> TransactionError:
    """Return the error to raise from now on."""
    name = f"transactional_id {transactional_id!r}"
    error: TransactionError
    if meaning is Meaning.ABORT:
        error = TransactionAbortableError(f"the transaction of {name} can only be aborted, {what}: {cause}")
    elif meaning is Meaning.FENCED:
        error = ProducerFencedError(
            f"another producer uses {name}, or a transaction took longer than transaction_timeout_ms and was aborted: "
            f"close this producer, and make a new one unless the other one is meant to run ({what}: {cause})"
        )
    else:
        error = TransactionFatalError(f"the producer with {name} cannot go on, {what}: {cause}; close it")
    error.__cause__ = cause
    return error
