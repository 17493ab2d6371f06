"""Hanging transactions: open in a partition, and unknown to the coordinator that would end them. See KIP-664.

A partition with one hides all later records from readers of committed records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kafwire import protocol
from kafwire.admin.arguments import names_of, timeout_ms_of
from kafwire.admin.outcomes import Outcomes
from kafwire.admin.transactions import (
    ProducerState,
    TransactionCalls,
    TransactionDescription,
    broker_of,
    whole_number,
)
from kafwire.cluster.metadata import TopicInfo, info_of
from kafwire.error_codes import ErrorCode
from kafwire.errors import BrokerError
from kafwire.lazy_dataclass import dataclass
from kafwire.runtime.interfaces import Work
from kafwire.types import TopicPartition

__all__ = ["HangingTransaction", "HangingTransactionCalls", "open_transactions", "sorted_hanging"]


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A hanging transaction in one partition. `Admin.abort_transaction` takes the first four values.

    Args:
        partition: the partition.
        producer_id: the id of the producer that began it.
        producer_epoch: the producer's epoch.
        coordinator_epoch: the coordinator's epoch in the producer's last marker; None if no marker was written.
        start_offset: the transaction's first offset in the partition.
        last_timestamp_ms: the timestamp of its last record, in milliseconds since the epoch.

    Example:
        >>> import kafwire
        >>> from kafwire.admin import HangingTransaction
        >>> HangingTransaction(kafwire.TopicPartition("flights", 0), 1000, 0, None, 17, 1374883200000).start_offset
        17
    """

    __module__ = "kafwire.admin"
    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int | None
    start_offset: int
    last_timestamp_ms: int


Found = Outcomes[TopicPartition, list[HangingTransaction]]


class HangingTransactionCalls(TransactionCalls):
    """The call about hanging transactions."""

    def find_hanging_transactions(
        self, topics: Iterable[str] | None, *, broker: int | None, longer_than_ms: int, timeout: float | None
    ) -> Work[Found]:
        """Find hanging transactions, by partition."""
        names = None if topics is None else names_of("topics", topics, 'find_hanging_transactions(["flights"])')
        node, least_ms = broker_of(broker), whole_number("longer_than_ms", longer_than_ms)
        timeout_ms = timeout_ms_of(timeout)

        async def find() -> Found:
            left_ms = self._time_limit(timeout_ms)
            partitions = await self._partitions(names, node, left_ms())
            # Half of the time: a partition without a leader would use all of it.
            described = await self._producers(partitions, node, left_ms() / 2)()
            before_ms = self._cluster.engine.clock.time_ns() // 1_000_000 - least_ms
            old = {
                where: [each for each in open_transactions(where, producers) if each.last_timestamp_ms < before_ms]
                for where, producers in described.results.items()
            }
            hanging = await self._unknown_to_coordinators(old, left_ms)
            if hanging:
                # A transaction may have ended since its partition was described.
                again = await self._producers(sorted({each.partition for each in hanging}), node, left_ms())()
                described.errors.update(again.errors)
                hanging &= {
                    each for where, producers in again.results.items() for each in open_transactions(where, producers)
                }
            if names is None:
                self._cluster.forget({where.topic for where in partitions})  # later calls need not refresh all topics
            results = {where: [each for each in its if each in hanging] for where, its in old.items()}
            return Outcomes(
                {where: its for where, its in results.items() if where not in described.errors}, described.errors
            )

        return find

    async def _partitions(
        self, names: Sequence[str] | None, broker: int | None, timeout_ms: float
    ) -> list[TopicPartition]:
        """Return the partitions of topics, or of all; only those with a replica on `broker`."""
        infos: list[TopicInfo]
        if names is None:
            request = protocol.MetadataRequest(topics=None, allow_auto_topic_creation=False)
            response = await self._cluster.call(request, timeout_ms=timeout_ms)
            infos = [info_of(topic) for topic in response.topics if topic.name]
        else:
            infos = await self._cluster.topics(names, timeout_ms=timeout_ms, fresh=True) if names else []
        return [
            TopicPartition(info.name, number)
            for info in infos
            for number, partition in sorted(info.partitions.items())
            if broker is None or broker in partition.replicas
        ]

    async def _unknown_to_coordinators(
        self, found: Mapping[TopicPartition, list[HangingTransaction]], left_ms: Callable[[], float]
    ) -> set[HangingTransaction]:
        """Return the transactions that no coordinator will end. Without the responses of all, this is not known."""
        suspects = {each for its in found.values() for each in its}
        if not suspects:
            return set()
        request = protocol.ListTransactionsRequest(
            producer_id_filters=sorted({each.producer_id for each in suspects}),
        )
        listed = await self._listings(request, "", left_ms())()
        if listed.errors:
            raise listed.error()
        ids = {each.producer_id: each.transactional_id for its in listed.results.values() for each in its}
        described = await self._descriptions(sorted(set(ids.values())), left_ms())()
        for error in described.errors.values():
            if not (isinstance(error, BrokerError) and error.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
                raise error
        return {each for each in suspects if _hangs(each, ids, described.results)}


def _hangs(
    transaction: HangingTransaction, ids: Mapping[int, str], described: Mapping[str, TransactionDescription]
) -> bool:
    """True if the transaction's coordinator does not have its partition: it writes no marker there."""
    known = described.get(ids.get(transaction.producer_id, ""))
    return known is None or transaction.partition not in known.partitions


def open_transactions(where: TopicPartition, producers: Iterable[ProducerState]) -> list[HangingTransaction]:
    """Return the open transactions of a partition, which may hang."""
    return [
        HangingTransaction(
            where,
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.start_offset,
            each.last_timestamp_ms,
        )
        for each in producers
        if each.start_offset is not None
    ]


def sorted_hanging(found: Mapping[Any, list[HangingTransaction]]) -> list[HangingTransaction]:
    """Return the transactions of all partitions, by partition and offset."""
    return sorted(
        (each for its in found.values() for each in its), key=lambda each: (each.partition, each.start_offset)
    )
