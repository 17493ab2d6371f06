"""`ShareBatch`: acquired records of a share group's member, and their acknowledgement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from kafwire.consumer.share.acquired import ACCEPT, OPEN, REJECT, RELEASE, RENEW
from kafwire.errors import ConfigError, KafkaError
from kafwire.handles import refuse_copies
from kafwire.records._records import Batch, Record

if TYPE_CHECKING:
    import pyarrow as pa

    from kafwire.cluster.cluster import Cluster
    from kafwire.consumer.share.acquired import AcquiredRange
    from kafwire.consumer.share.share_fetcher import FetchedRange

_KINDS: dict[Any, int] = {ACCEPT: ACCEPT, RELEASE: RELEASE, REJECT: REJECT, RENEW: RENEW}
_KINDS |= {"accept": ACCEPT, "release": RELEASE, "reject": REJECT, "renew": RENEW}


class AcquiringMember(Protocol):
    """The member of the share group that acquired the records of a batch."""

    cluster: Cluster

    def is_over(self, acquired: AcquiredRange) -> bool:
        """Return True if the lock of a range has expired."""
        ...

    def expire_rest(self, acquired: AcquiredRange) -> None:
        """Drop the undelivered rest of a range whose lock expired. In the thread that reads."""
        ...

    def watch(self, acquired: AcquiredRange) -> None:
        """Renew the locks of a range's undelivered part, which waits for the user. Any thread."""
        ...

    def said(self, *ranges: AcquiredRange) -> None:
        """Send new acknowledgements of these ranges. Any thread."""
        ...


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

    def __init__(self, core: AcquiringMember, batch: Batch, fetched: FetchedRange) -> None:
        acquired = fetched.acquired
        self._core = core
        self._batch = batch
        self._fetched = fetched
        self._acquired = acquired
        self._offsets = offsets_of(batch)
        acquired.mark_gaps(self._offsets)
        self.topic = batch.topic
        self.partition = batch.partition
        self.base_offset = self._offsets[0]
        self.next_offset = self._offsets[-1] + 1
        self.delivery_count = acquired.delivery_count

    @property
    def lock_ms(self) -> float:
        """The remaining time of these records' locks, in ms; negative once they have expired."""
        return self._acquired.until_ms - self._core.cluster.engine.now_ms()

    @property
    def is_acknowledged(self) -> bool:
        """True if every record is accepted, released or rejected."""
        return OPEN not in self._acquired.said

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._batch)

    def __getitem__(self, index: int) -> Record:
        return self._batch[index]

    def to_arrow(self) -> pa.RecordBatch:
        """Return the records as Arrow data, as `Batch.to_arrow` does.

        Returns:
            A `pyarrow.RecordBatch`.
        """
        return self._batch.to_arrow()

    def __arrow_c_schema__(self) -> object:
        return self._batch.__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        return self._batch.__arrow_c_array__(requested_schema)

    def accept(self, record: Record | None = None) -> None:
        """Accept a record: it is processed. None: all records of the batch that are not acknowledged yet.

        Args:
            record: a record of this batch.

        Raises:
            KafkaError: the record is acknowledged already, or it is not of this batch.
        """
        self._say(record, ACCEPT)

    def release(self, record: Record | None = None) -> None:
        """Release a record, for delivery to this member or another. None: all that are not acknowledged yet.

        Args:
            record: a record of this batch.

        Raises:
            KafkaError: as `accept` does.
        """
        self._say(record, RELEASE)

    def reject(self, record: Record | None = None) -> None:
        """Reject a record: it is never delivered again. None: all of the batch that are not acknowledged yet.

        Args:
            record: a record of this batch.

        Raises:
            KafkaError: as `accept` does.
        """
        self._say(record, REJECT)

    def renew(self, record: Record | None = None) -> None:
        """Renew the lock of a record, for long processing (KIP-1222). None: of all that are not acknowledged yet.

        Args:
            record: a record of this batch.

        Raises:
            KafkaError: as `accept` does.
        """
        self._say(record, RENEW)

    def acknowledge(self, kinds: Any) -> None:
        """Acknowledge each record, by a column.

        Args:
            kinds: one entry for each record, in order: 1 accept, 2 release, 3 reject, 4 renew, 0 or None for no
                acknowledgement yet. An Arrow array, a numpy array, or any sequence.

        Raises:
            ConfigError: the column has another length, or another value in it. Then no record is acknowledged.
            KafkaError: one of the records is acknowledged already.
        """
        column = bytes_of(kinds)
        if column is not None and self._acquired.say_all(column):
            self._core.said(self._acquired)
            return
        values: Sequence[Any] = kinds.to_pylist() if hasattr(kinds, "to_pylist") else list(kinds)
        if len(values) != len(self._offsets):
            raise ConfigError(f"acknowledge: {len(values)} entries for {len(self._offsets)} records")
        wanted = [None if value is None or value == 0 else kind_of(value) for value in values]
        try:
            for offset, kind in zip(self._offsets, wanted, strict=True):
                if kind is not None:
                    self._say_offset(offset, kind)
        finally:
            self._core.said(self._acquired)

    def _say(self, record: Record | None, kind: int) -> None:
        acquired = self._acquired
        if record is None:
            if not acquired.say_rest(kind):
                return
        else:
            if record.topic != self.topic or record.partition != self.partition:
                raise KafkaError(f"this record is of {record.topic}-{record.partition}, not of this batch")
            self._say_offset(record.offset, kind)
        if not acquired.is_noted:
            self._core.said(acquired)

    def _say_offset(self, offset: int, kind: int) -> None:
        if not self._acquired.first <= offset <= self._acquired.last:
            raise KafkaError(f"offset {offset} is not in this batch of {self.topic}-{self.partition}")
        if not self._acquired.say(offset, kind):
            raise KafkaError(f"{self.topic}-{self.partition}, offset {offset}: it is acknowledged already")

    def _cut(self) -> FetchedRange | None:
        """Cut off the records that were not delivered one by one, as a range of their own; None without any."""
        rest = self._acquired.cut()
        if rest is None:
            return None
        self._core.watch(rest)
        return replace(self._fetched, acquired=rest)

    def __repr__(self) -> str:
        return (
            f"<ShareBatch of {self.topic}-{self.partition}, {len(self)} records from {self.base_offset} on, "
            f"delivery {self.delivery_count}>"
        )


def offsets_of(batch: Batch) -> Sequence[int]:
    """Return the offsets of a batch's records."""
    first, last = batch[0].offset, batch[-1].offset
    if last - first + 1 == len(batch):
        return range(first, last + 1)
    return [record.offset for record in batch]


def bytes_of(kinds: Any) -> bytes | None:
    """Return an int8 or uint8 column without nulls as bytes; None for any other column."""
    if hasattr(kinds, "buffers"):  # Arrow
        if str(kinds.type) not in ("int8", "uint8") or kinds.null_count:
            return None
        return bytes(memoryview(kinds.buffers()[1])[kinds.offset : kinds.offset + len(kinds)])
    try:
        view = memoryview(kinds)
    except TypeError:
        return None
    return view.tobytes() if view.itemsize == 1 and view.ndim == 1 and view.format in ("b", "B") else None


def kind_of(value: Any) -> int:
    """Return the number of an acknowledgement type, given by number or name; `ConfigError` for anything else."""
    plain: Any = value.item() if hasattr(value, "item") else value
    takes = isinstance(plain, int | float | str) and not isinstance(plain, bool)
    found = _KINDS.get(plain) if takes else None
    if found is None:
        raise ConfigError(f"acknowledge: {value!r} is none of 1 (accept), 2 (release), 3 (reject), 4 (renew), 0")
    return found
