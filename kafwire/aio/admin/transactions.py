"""The calls of `AsyncAdmin` about producers and transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafwire.admin.hanging_transactions import HangingTransaction, sorted_hanging
from kafwire.admin.transactions import (
    FencedProducer,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    sorted_listings,
)
from kafwire.aio.admin.face import AsyncAdminFace
from kafwire.errors import KafkaError
from kafwire.types import TopicPartition

OnPartitionError = Callable[[TopicPartition, KafkaError], object]
OnBrokerError = Callable[[int, KafkaError], object]
OnIdError = Callable[[str, KafkaError], object]


class AsyncTransactionAdmin(AsyncAdminFace):
    """A part of `AsyncAdmin`."""

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker: int | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: OnPartitionError | None = None,
    ) -> dict[TopicPartition, list[ProducerState]]:
        """Describe the producers of partitions, as `Admin.describe_producers` does."""
        work = self._calls.describe_producers(partitions, broker=broker, timeout=timeout)
        return await self._by_key(work, on_error)

    async def list_transactions(
        self,
        *,
        states: Iterable[str] | None = None,
        producer_ids: Iterable[int] | None = None,
        longer_than_ms: int | None = None,
        pattern: str | None = None,
        prefix: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: OnBrokerError | None = None,
    ) -> list[TransactionListing]:
        """List transactional ids, as `Admin.list_transactions` does."""
        work = self._calls.list_transactions(
            states=states,
            producer_ids=producer_ids,
            longer_than_ms=longer_than_ms,
            pattern=pattern,
            prefix=prefix,
            timeout=timeout,
        )
        return sorted_listings(await self._by_key(work, on_error))

    async def describe_transactions(
        self,
        transactional_ids: Iterable[str],
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: OnIdError | None = None,
    ) -> dict[str, TransactionDescription]:
        """Describe transactional ids, as `Admin.describe_transactions` does."""
        return await self._by_key(self._calls.describe_transactions(transactional_ids, timeout=timeout), on_error)

    async def find_hanging_transactions(
        self,
        topics: Iterable[str] | None = None,
        *,
        broker: int | None = None,
        longer_than_ms: int = 900_000,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: OnPartitionError | None = None,
    ) -> list[HangingTransaction]:
        """Find transactions that no coordinator will end, as `Admin.find_hanging_transactions` does."""
        work = self._calls.find_hanging_transactions(
            topics, broker=broker, longer_than_ms=longer_than_ms, timeout=timeout
        )
        return sorted_hanging(await self._by_key(work, on_error))

    async def abort_transaction(
        self,
        partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> None:
        """Abort a hanging transaction in one partition, as `Admin.abort_transaction` does."""
        work = self._calls.abort_transaction(
            partition,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timeout=timeout,
        )
        await self._by_key(work, None)

    async def fence_producers(
        self,
        transactional_ids: Iterable[str],
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: OnIdError | None = None,
    ) -> dict[str, FencedProducer]:
        """Fence the producers with these transactional ids, as `Admin.fence_producers` does."""
        return await self._by_key(self._calls.fence_producers(transactional_ids, timeout=timeout), on_error)

    async def force_terminate_transaction(
        self,
        transactional_id: str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> None:
        """Abort the open transaction of a transactional id, as `Admin.force_terminate_transaction` does."""
        await self._by_key(self._calls.force_terminate_transaction(transactional_id, timeout=timeout), None)
