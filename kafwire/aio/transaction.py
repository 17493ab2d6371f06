"""`AsyncProducer.transaction()`: a block of code whose records are committed at its end, or aborted."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from kafwire.errors import KafkaError, TransactionAbortableError
from kafwire.handles import refuse_copy
from kafwire.producer.transactions.state import OPEN

if TYPE_CHECKING:
    from kafwire.producer.transactions.manager import Transactions

# A cancelled task must end soon, and not wait for a coordinator that cannot be reached.
CANCELLED_S = 5.0


class Transactional(Protocol):
    """The calls of a producer that a block makes."""

    async def begin_transaction(self, timeout: float | None) -> None:  # noqa: ASYNC109  # it goes on
        """Begin a transaction."""

    async def commit_transaction(self, timeout: float | None) -> None:  # noqa: ASYNC109  # it goes on
        """Commit the transaction."""

    async def abort_transaction(self, timeout: float | None) -> None:  # noqa: ASYNC109  # it goes on
        """Abort the transaction."""


_ProducerT = TypeVar("_ProducerT", bound=Transactional)


class AsyncTransactionBlock(Generic[_ProducerT]):
    """An async context manager that commits a transaction at its end, or aborts it.

    `AsyncProducer.transaction` makes it.

    Example:
        >>> async def main():
        ...     async with kafwire.AsyncProducer(bootstrap, transactional_id=new_topic) as producer:
        ...         async with producer.transaction(timeout=30) as same_producer:
        ...             return await same_producer.send_and_wait(topic, b"EWR-IAH")
        >>> asyncio.run(main()).offset
        3
    """

    __reduce_ex__ = refuse_copy

    def __init__(self, producer: _ProducerT, transactions: Transactions, timeout: float | None) -> None:
        self._producer = producer
        self._transactions = transactions
        self._timeout = timeout
        self._number = 0

    async def __aenter__(self) -> _ProducerT:
        await self._producer.begin_transaction(self._timeout)
        self._number = self._transactions.number
        return self._producer

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._transactions.number != self._number or self._transactions.state not in OPEN:
            return  # the transaction was ended in the block, or cannot be ended
        if error is None:
            try:
                await self._producer.commit_transaction(self._timeout)
            except TransactionAbortableError as problem:
                await self._abort(problem)
                raise
        else:
            await self._abort(error)

    async def _abort(self, error: BaseException) -> None:
        """Abort because of `error`, which the caller raises; a failure to abort is added to it as a note."""
        try:
            await self._producer.abort_transaction(self._timeout if isinstance(error, Exception) else CANCELLED_S)
        except KafkaError as problem:
            error.add_note(f"The transaction could not be aborted: {problem}")
