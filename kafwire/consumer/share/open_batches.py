"""`OpenBatches`: the batches of a share consumer whose records can still be acknowledged, found by a record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire.consumer.share.held_batch import HeldBatch, kind_of
from kafwire.errors import KafkaError

if TYPE_CHECKING:
    from kafwire.records._records import Record


class OpenBatches:
    """The open batches of one share consumer. Batches leave once all their records are acknowledged or locks expired.

    User threads look up records while another thread adds batches, without a lock: a list is replaced, never changed.
    """

    def __init__(self) -> None:
        self._batches: dict[tuple[str | None, int | None], list[HeldBatch]] = {}

    def add(self, batch: HeldBatch) -> None:
        """Add a batch of acquired records."""
        place = (batch.topic, batch.partition)
        open_ones = [each for each in self._batches.get(place, ()) if not each.is_acknowledged and each.lock_ms > 0]
        self._batches[place] = [*open_ones, batch]

    def acknowledge(self, record: Record, kind: Any) -> None:
        """Acknowledge a record in its newest batch, as it may have been delivered again."""
        self._batch_of(record).say(record, kind_of(kind))

    def _batch_of(self, record: Record) -> HeldBatch:
        for batch in reversed(self._batches.get((record.topic, record.partition), ())):
            if batch.holds(record.offset):
                return batch
        raise KafkaError(
            f"{record.topic}-{record.partition}, offset {record.offset}: this consumer does not hold the record: it is "
            "acknowledged, its lock expired, or another consumer has it"
        )
