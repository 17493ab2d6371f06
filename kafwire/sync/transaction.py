"""`Producer.transaction()`: a block of code whose records are committed at its end, or aborted."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from kafwire.errors import KafkaError, TransactionAbortableError
from kafwire.handles import refuse_copy
from kafwire.producer.transactions.state import OPEN

if TYPE_CHECKING:
    from kafwire.producer.transactions.manager import Transactions
    from kafwire.sync.producer import Producer

# An interrupted program must end soon, and not wait for a coordinator that cannot be reached.
INTERRUPTED_S = 5.0


class TransactionBlock:
    """A context manager that commits a transaction at its end, or aborts it. `Producer.transaction` makes it.

    Example:
        >>> with kafwire.Producer(bootstrap, transactional_id=new_topic) as producer:
        ...     with producer.transaction(timeout=30) as same_producer:
        ...         delivery = same_producer.send(topic, b"EWR-IAH")
    """

    __reduce_ex__ = refuse_copy

    def __init__(self, producer: Producer, timeout: float | None) -> None:
        self._producer = producer
        self._timeout = timeout
        self._number = 0

    def __enter__(self) -> Producer:
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

    @property
    def _transactions(self) -> Transactions:
        return self._producer._transactional()
