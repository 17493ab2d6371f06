"""Acknowledgements of a share partition's records: all of one request for a partition apply, or none.

The rules are those of Kafka's `SharePartition`. See KIP-932, KIP-1222 (renewal of locks).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kafwire.broker.share.in_flight import NOBODY, Delivery, InFlightBatch, RecordState
from kafwire.broker.share.share_partition import SharePartition
from kafwire.broker.share.share_states import Run
from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)  # the types of acknowledgements
_STATES = {
    GAP: RecordState.ARCHIVED,
    ACCEPT: RecordState.ACKNOWLEDGED,
    RELEASE: RecordState.AVAILABLE,
    REJECT: RecordState.ARCHIVED,
}


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """An acknowledgement of records from `first` to `last`. `types`: one for all of them, or one for each."""

    first: int
    last: int
    types: Sequence[int]

    def type_of(self, offset: int) -> int:
        """Return the acknowledgement type of one record."""
        return self.types[0] if len(self.types) == 1 else self.types[offset - self.first]


def acknowledge(
    partition: SharePartition,
    member_id: str,
    acknowledgements: Sequence[Acknowledgement],
    *,
    limit: int,
    lock_ends_ms: float | None,
) -> None:
    """Apply a member's acknowledgements: it is done with records, or renews locks.

    `limit`: the most deliveries of a record. `lock_ends_ms`: the end of a renewed lock; None: renewal is not allowed.

    Raises:
        Refusal: all records keep their states. Locks that were renewed first stay renewed, as in Kafka.
    """
    change = _Change(partition, member_id, limit, lock_ends_ms)
    try:
        for each in acknowledgements:
            if each.last >= partition.start:
                for batch in _batches_of(partition, each):
                    change.apply(each, batch)
    except Refusal:
        change.undo()
        raise
    if change.runs:
        partition.write(change.runs)


def _batches_of(partition: SharePartition, said: Acknowledgement) -> list[InFlightBatch]:
    """Return the batches in flight that an acknowledgement is for."""
    at = partition.floor(said.first)
    if at < 0 and said.first < partition.start <= said.last:
        at = partition.floor(partition.start)
    if at < 0:
        raise Refusal(
            ErrorCode.INVALID_RECORD_STATE,
            "Batch record not found. The request batch offsets are not found in the cache.",
        )
    found = partition.between(partition.batches[at].first, said.last)
    for name, offset in (("first", said.first), ("last", said.last)):
        if offset > found[-1].last:
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"Batch record not found. The {name} offset in request is past acquired records.",
            )
    return found


class _Change:
    """The changes of one request. `runs`: the new states."""

    def __init__(self, partition: SharePartition, member_id: str, limit: int, lock_ends_ms: float | None) -> None:
        self.runs: list[Run] = []
        self._partition = partition
        self._member_id = member_id
        self._limit = limit
        self._lock_ends_ms = lock_ends_ms
        self._before: list[tuple[Delivery, Delivery]] = []

    def apply(self, said: Acknowledgement, batch: InFlightBatch) -> None:
        start = self._partition.start
        if batch.last < start:
            return
        whole = batch.whole
        if whole is not None:
            self._check_whole(whole)
        is_per_record = len(said.types) > 1 or batch.first < start
        if whole is not None and batch.is_within(said.first, said.last) and not is_per_record:
            self._end(batch.first, batch.last, whole, said.types[0])
            return
        for offset, each in batch.split().items():
            if max(said.first, start) <= offset <= said.last:
                self._check_one(each)
                self._end(offset, offset, each, said.type_of(offset))

    def _check_whole(self, whole: Delivery) -> None:
        if whole.member_id == NOBODY:
            message = "The batch cannot be acknowledged. The batch is not in the acquired state."
            raise Refusal(ErrorCode.INVALID_RECORD_STATE, message)
        if whole.member_id != self._member_id:
            raise Refusal(ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of batch record")

    def _check_one(self, each: Delivery) -> None:
        if each.state is not RecordState.ACQUIRED:
            message = "The offset cannot be acknowledged. The offset is not acquired."
            raise Refusal(ErrorCode.INVALID_RECORD_STATE, message)
        if each.member_id != self._member_id:
            raise Refusal(ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of offset")

    def _end(self, first: int, last: int, delivery: Delivery, kind: int) -> None:
        if kind == RENEW:
            if self._lock_ends_ms is None:
                message = "Renewing acquisition locks is not enabled for the group."
                raise Refusal(ErrorCode.INVALID_RECORD_STATE, message)
            delivery.lock_ends_ms = self._lock_ends_ms
            return
        self._before.append((delivery, replace(delivery)))
        delivery.end(_STATES[kind], self._limit)
        self.runs.append(Run(first, last, delivery.state, delivery.count))

    def undo(self) -> None:
        for delivery, before in self._before:
            delivery.state, delivery.member_id = before.state, before.member_id
            delivery.lock_ends_ms = before.lock_ends_ms
