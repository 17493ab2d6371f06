"""`HeldBatch`: acquired records of a share group's member in this process, and their acknowledgement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from kafwire.consumer.share.acquired import ACCEPT, OPEN, REJECT, RELEASE, RENEW
from kafwire.errors import ConfigError, KafkaError
from kafwire.records._records import offsets_of

if TYPE_CHECKING:
    from kafwire.cluster.cluster import Cluster
    from kafwire.consumer.share.acquired import AcquiredRange
    from kafwire.consumer.share.share_fetcher import FetchedRange
    from kafwire.records._records import Batch, Record

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


class HeldBatch:
    """The decoded records of one acquired range. `RecordsInHand` delivers them, as a `ShareBatch` or one by one."""

    def __init__(self, core: AcquiringMember, batch: Batch, fetched: FetchedRange) -> None:
        self.batch = batch
        self.acquired = fetched.acquired
        self.offsets = offsets_of(batch)
        self.acquired.mark_gaps(self.offsets)
        self.topic = batch.topic
        self.partition = batch.partition
        self._core = core
        self._fetched = fetched

    @property
    def lock_ms(self) -> float:
        """The remaining time of these records' locks, in ms; negative once they have expired."""
        return self.acquired.until_ms - self._core.cluster.engine.now_ms()

    @property
    def is_acknowledged(self) -> bool:
        """True if every record is accepted, released or rejected."""
        return OPEN not in self.acquired.said

    def holds(self, offset: int) -> bool:
        """Return True if the offset is between those of the first and the last record."""
        return self.offsets[0] <= offset <= self.offsets[-1]

    # --- delivery one by one

    def in_turn(self) -> Iterator[Record]:
        """Iterate over the records; each read accepts the record before it."""
        acquired, said, first = self.acquired, self.acquired.said, self.acquired.first
        for record, offset in zip(self.batch, self.offsets, strict=True):
            index = offset - first
            acquired.unseen = index + 1
            yield record
            if said[index] == OPEN:
                said[index] = ACCEPT
            if not acquired.is_noted:
                self._core.said(acquired)
                if self._core.is_over(acquired):
                    self._core.expire_rest(acquired)
                    return
        acquired.see_all()

    def one_by_one(self) -> Iterator[Record]:
        """Iterate over the records without acknowledging any."""
        acquired, first = self.acquired, self.acquired.first
        for record, offset in zip(self.batch, self.offsets, strict=True):
            if self._core.is_over(acquired):
                self._core.expire_rest(acquired)
                return
            acquired.unseen = offset - first + 1
            yield record
        acquired.see_all()

    def accept_last(self) -> None:
        """Accept the record that was delivered last, unless it is acknowledged."""
        index = self.acquired.unseen - 1
        if index >= 0 and self.acquired.said[index] == OPEN:
            self.acquired.said[index] = ACCEPT
            self._core.said(self.acquired)

    def cut(self) -> FetchedRange | None:
        """Cut off the records that were not delivered one by one, as a range of their own; None without any."""
        rest = self.acquired.cut()
        if rest is None:
            return None
        self._core.watch(rest)
        return replace(self._fetched, acquired=rest)

    # --- acknowledgement

    def say(self, record: Record | None, kind: int) -> None:
        """Acknowledge a record; None: all that are not acknowledged yet. Raises `KafkaError` as `ShareBatch` does."""
        acquired = self.acquired
        if record is None:
            if not acquired.say_rest(kind):
                return
        else:
            if record.topic != self.topic or record.partition != self.partition:
                raise KafkaError(f"this record is of {record.topic}-{record.partition}, not of this batch")
            self._say_offset(record.offset, kind)
        if not acquired.is_noted:
            self._core.said(acquired)

    def say_each(self, kinds: Any) -> None:
        """Acknowledge each record, see `ShareBatch.acknowledge`."""
        column = bytes_of(kinds)
        if column is not None and self.acquired.say_all(column):
            self._core.said(self.acquired)
            return
        values: Sequence[Any] = kinds.to_pylist() if hasattr(kinds, "to_pylist") else list(kinds)
        if len(values) != len(self.offsets):
            raise ConfigError(f"acknowledge: {len(values)} entries for {len(self.offsets)} records")
        wanted = [None if value is None or value == 0 else kind_of(value) for value in values]
        try:
            for offset, kind in zip(self.offsets, wanted, strict=True):
                if kind is not None:
                    self._say_offset(offset, kind)
        finally:
            self._core.said(self.acquired)

    def _say_offset(self, offset: int, kind: int) -> None:
        if not self.acquired.first <= offset <= self.acquired.last:
            raise KafkaError(f"offset {offset} is not in this batch of {self.topic}-{self.partition}")
        if not self.acquired.say(offset, kind):
            raise KafkaError(f"{self.topic}-{self.partition}, offset {offset}: it is acknowledged already")


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
