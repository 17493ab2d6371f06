"""`ShareBatch`: acquired records of a share group's member, and their acknowledgement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kafwire.consumer.share.acquired import ACCEPT, REJECT, RELEASE, RENEW
from kafwire.handles import refuse_copies

if TYPE_CHECKING:
    import pyarrow as pa

    from kafwire.consumer.share.held_batch import HeldBatch
    from kafwire.records._records import Record


class ShareBatch:
    """Consecutive records of one partition, acquired for this member. All have been delivered equally often.

    Iterate over it for `Record` objects, or take its Arrow data. Each record can be accepted (it is processed),
    released (for another delivery), or rejected (never to be delivered again). In implicit mode, reading the next batch
    accepts the records that are not acknowledged yet. An expired lock releases its record.

    `topic`, `partition`, `base_offset`, `next_offset` are those of a `Batch`. `delivery_count` is the number of
    deliveries of these records, including this one. `lock_ms` is the remaining time of the locks, in ms.
    `ShareConsumer.batches` makes it.

    Example:
        >>> with kafwire.ShareConsumer(
        ...     bootstrap, topics=topic, group_id=share_group, share_acknowledgement_mode="explicit"
        ... ) as consumer:
        ...     (batch,) = consumer.poll(timeout=30.0)
        ...     for record in batch:
        ...         batch.reject(record) if record.value == b"JFK-MIA" else batch.accept(record)
        ...     consumer.commit()
        ...     consumer.metrics()["acknowledged"]
        3
    """

    __reduce_ex__ = refuse_copies("their locks are this consumer's; hand over a list of their records, or to_arrow()")

    def __init__(self, held: HeldBatch) -> None:
        self._held = held
        self.topic = held.topic
        self.partition = held.partition
        self.base_offset = held.offsets[0]
        self.next_offset = held.offsets[-1] + 1
        self.delivery_count = held.acquired.delivery_count

    @property
    def lock_ms(self) -> float:
        """The remaining time of these records' locks, in ms; negative once they have expired."""
        return self._held.lock_ms

    @property
    def is_acknowledged(self) -> bool:
        """True if every record is accepted, released or rejected."""
        return self._held.is_acknowledged

    def __len__(self) -> int:
        return len(self._held.offsets)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._held.batch)

    def __getitem__(self, index: int) -> Record:
        return self._held.batch[index]

    def to_arrow(self) -> pa.RecordBatch:
        """Return the records as Arrow data, as `Batch.to_arrow` does.

        Returns:
            A `pyarrow.RecordBatch`.
        """
        return self._held.batch.to_arrow()

    def __arrow_c_schema__(self) -> object:
        return self._held.batch.__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        return self._held.batch.__arrow_c_array__(requested_schema)

    def accept(self, record: Record | None = None) -> None:
        """Accept a record: it is processed. None: all records of the batch that are not acknowledged yet.

        Args:
            record: a record of this batch.

        Raises:
            KafkaError: the record is acknowledged already, or it is not of this batch.
        """
        self._held.say(record, ACCEPT)

    def release(self, record: Record | None = None) -> None:
        """Release a record, for delivery to this member or another. None: all that are not acknowledged yet.

        Args:
            record: a record of this batch.

        Raises:
            KafkaError: as `accept` does.
        """
        self._held.say(record, RELEASE)

    def reject(self, record: Record | None = None) -> None:
        """Reject a record: it is never delivered again. None: all of the batch that are not acknowledged yet.

        Args:
            record: a record of this batch.

        Raises:
            KafkaError: as `accept` does.
        """
        self._held.say(record, REJECT)

    def renew(self, record: Record | None = None) -> None:
        """Renew the lock of a record, for long processing (KIP-1222). None: of all that are not acknowledged yet.

        Args:
            record: a record of this batch.

        Raises:
            KafkaError: as `accept` does.
        """
        self._held.say(record, RENEW)

    def acknowledge(self, kinds: Any) -> None:
        """Acknowledge each record, by a column.

        Args:
            kinds: one entry for each record, in order: 1 accept, 2 release, 3 reject, 4 renew, 0 or None for no
                acknowledgement yet. An Arrow array, a numpy array, or any sequence.

        Raises:
            ConfigError: the column has another length, or another value in it. Then no record is acknowledged.
            KafkaError: one of the records is acknowledged already.
        """
        self._held.say_each(kinds)

    def __repr__(self) -> str:
        return (
            f"<ShareBatch of {self.topic}-{self.partition}, {len(self)} records from {self.base_offset} on, "
            f"delivery {self.delivery_count}>"
        )
