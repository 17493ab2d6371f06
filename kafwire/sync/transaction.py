"""`Producer.transaction()`: a block of code whose records are committed at its end, or aborted."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from kafwire.errors import KafkaError, TransactionAbortableError
from kafwire.handles import refuse_copy
from kafwire.producer.transactions.state import OPEN

if TYPE_CHECKING:
    from kafwire.producer.transactions.manager import Transactions

# An interrupted program must end soon, and not wait for a coordinator that cannot be reached.
INTERRUPTED_S = 5.0


class Transactional(Protocol):
    """The calls of a producer that a block makes."""

    def begin_transaction(self, timeout: float | None) -> None:
        """Begin a transaction."""

    def commit_transaction(self, timeout: float | None) -> None:
        """Commit the transaction."""

    def abort_transaction(self, timeout: float | None) -> None:
        """Abort the transaction."""


_ProducerT = TypeVar("_ProducerT", bound=Transactional)


class TransactionBlock(Generic[_ProducerT]):
    """A context manager that commits a transaction at its end, or aborts it. `Producer.transaction` makes it.

    Example:
        >>> with kafwire.Producer(bootstrap, transactional_id=new_topic) as producer:
        ...     with producer.transaction(timeout=30) as same_producer:
        ...         delivery = same_producer.send(topic, b"EWR-IAH")
    """

    __reduce_ex__ = refuse_copy

    def __init__(self, producer: _ProducerT, transactions: Transactions, timeout: float | None) -> None:
        self._producer = producer
        self._transactions = transactions
        self._timeout = timeout
        self._number = 0

    def __enter__(self) -> _ProducerT:
        self._producer.begin_transaction(self._timeout)
        self._number = self._transactions.number
        return self._producer

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._transactions.number != self._number or self._transactions.state not in OPEN:
            return  # the transaction was ended in the block, or cannot be ended
        if error is None:
            try:
                self._producer.commit_transaction(self._timeout)
            except TransactionAbortableError as problem:
                self._abort(problem)
                raise
        else:
            self._abort(error)

    def _abort(self, error: BaseException) -> None:
        """Abort because of `error`, which the caller raises; a failure to abort is added to it as a note."""
        try:
            self._producer.abort_transaction(self._timeout if isinstance(error, Exception) else INTERRUPTED_S)
        except KafkaError as problem:
            error.add_note(f"The transaction could not be aborted: {problem}")
