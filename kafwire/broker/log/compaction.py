"""Log compaction as in Kafka's cleaner: the last record of each key stays, at its offset. See KIP-98, KIP-534.

`compact` is pure: batches in, batches out. It cleans all its input. Kafka leaves out the active segment, and records
from the last stable offset on, so the caller decides where to stop.

A tombstone, and the marker of an emptied transaction, get a date at the first compaction, `delete.retention.ms` later,
and are removed when it has passed. Batches keep their offsets and the producers' fields. An empty batch stays if it has
the last sequence of a producer, or the last offset.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from kafwire.broker.log.batch_header import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND,
    TRANSACTIONAL,
    BatchHeader,
)
from kafwire.broker.log.batch_writer import pack_batch, write_batch
from kafwire.broker.log.log import FileSpan, read_span
from kafwire.broker.topics.config_def import elements
from kafwire.records import Record, decode_batches

if TYPE_CHECKING:
    from kafwire.broker.log.partition import Partition
    from kafwire.broker.log.producer_state import Aborted
    from kafwire.broker.state import ClusterState

_KIND = struct.Struct(">hh")


class Active(NamedTuple):
    """The last batch of an active producer: its last record's offset (-1: no records), and its epoch."""

    last_offset: int
    epoch: int


@dataclass(slots=True)
class Compacted:
    """The compacted batches. `aborted`: the transactions that Fetch responses must still list."""

    data: bytearray = field(default_factory=bytearray)
    headers: list[BatchHeader] = field(default_factory=list)
    aborted: list[Aborted] = field(default_factory=list)


def compact(
    batches: Iterable[tuple[BatchHeader, bytes]],
    *,
    now_ms: int,
    delete_retention_ms: int,
    aborted: Iterable[Aborted] = (),
    active: Mapping[int, Active] | None = None,
) -> Compacted:
    """Compact consecutive batches of magic 2.

    Args:
        batches: headers, and their bytes.
        now_ms: the time.
        delete_retention_ms: the time that tombstones stay after their first compaction.
        aborted: the aborted transactions.
        active: producers whose last batch must stay, even if it is empty.
    """
    found = list(batches)
    run = _Run(now_ms, delete_retention_ms, sorted(aborted, key=lambda each: each.first_offset), dict(active or {}))
    run.learn(found)
    for number, (header, data) in enumerate(found):
        run.clean(header, data, is_last=number == len(found) - 1)
    return run.result


class _Run:
    """One pass over batches."""

    def __init__(
        self, now_ms: int, delete_retention_ms: int, aborted: list[Aborted], active: dict[int, Active]
    ) -> None:
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self._all_aborted = aborted
        self._active = active
        self._last: dict[bytes, int] = {}  # the offset of the last record of each key
        self.begin()

    def begin(self) -> None:
        """Begin a pass: without transactions so far."""
        self.result = Compacted()
        self._waiting = list(self._all_aborted)
        self._aborting: dict[int, tuple[Aborted, bool]] = {}  # by producer; whether a batch of it came
        self._committed: set[int] = set()  # producers with batches of a transaction that is not aborted

    def learn(self, batches: list[tuple[BatchHeader, bytes]]) -> None:
        """Note the last offset of each key; records of aborted transactions do not count."""
        for header, data in batches:
            if self._meets(header, data) or header.is_control:
                continue
            for record in _records(header, data):
                if record.key is not None:
                    self._last[record.key] = record.offset
        self.begin()

    # --- transactions

    def _meets(self, header: BatchHeader, data: bytes) -> bool:
        """Note a batch. Return True if it may be removed, as far as transactions decide."""
        while self._waiting and self._waiting[0].first_offset <= header.last_offset:
            each = self._waiting.pop(0)
            self._aborting.setdefault(each.producer_id, (each, False))
        if header.is_control:
            return self._meets_marker(header, data)
        if not header.is_transactional:
            return False
        ongoing = self._aborting.get(header.producer_id)
        if ongoing is not None:
            self._aborting[header.producer_id] = (ongoing[0], True)
            return True
        self._committed.add(header.producer_id)
        return False

    def _meets_marker(self, header: BatchHeader, data: bytes) -> bool:
        if not header.count:
            return True
        (record,) = _records(header, data)
        _, commits = _KIND.unpack_from(record.key or b"")
        if commits:
            is_empty = header.producer_id not in self._committed
            self._committed.discard(header.producer_id)
            return is_empty
        ongoing = self._aborting.pop(header.producer_id, None)
        if ongoing is not None and ongoing[1]:
            self.result.aborted.append(ongoing[0])
            return False
        return True

    # --- batches

    def clean(self, header: BatchHeader, data: bytes, *, is_last: bool) -> None:
        """Keep the rest of a batch."""
        need_not_stay = self._meets(header, data)
        horizon = header.base_timestamp if header.attributes & DELETE_HORIZON else None
        discards = need_not_stay and (not header.is_control or (horizon is not None and horizon <= self._now_ms))
        keeps_empty = is_last or self._is_last_of_producer(header)
        records = [] if discards else [r for r in _records(header, data) if self._stays(header, r, horizon)]
        if records:
            dated = (header.is_control and need_not_stay) or any(record.value is None for record in records)
            if dated and horizon is None:
                data, header = _rewritten(header, records, self._now_ms + self._delete_retention_ms)
            elif len(records) < header.count:
                data, header = _rewritten(header, records, horizon)
        elif keeps_empty:
            data, header = _emptied(header)
        else:
            return
        self.result.data += data
        self.result.headers.append(header)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._active.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_offset >= 0:
            return header.last_offset == last.last_offset
        return header.is_control and header.producer_epoch == last.epoch

    def _stays(self, header: BatchHeader, record: Record, horizon: int | None) -> bool:
        if header.is_control:
            return True
        if record.key is None or record.offset < self._last.get(record.key, -1):
            return False
        return record.value is not None or horizon is None or self._now_ms < horizon


def _records(header: BatchHeader, data: bytes) -> list[Record]:
    if not header.count:
        return []
    (batch,) = decode_batches(data, verify_crc=False)
    return list(batch)


def _rewritten(header: BatchHeader, records: list[Record], horizon: int | None) -> tuple[bytes, BatchHeader]:
    """Return a batch with some of its records; `horizon`: the time at which its tombstones may be removed.

    The horizon takes the place of the first timestamp. The timestamps of records are relative to it, as in Kafka.
    """
    stamps = [-1 if record.timestamp_ms is None else record.timestamp_ms for record in records]
    largest = header.max_timestamp if header.attributes & LOG_APPEND else max(stamps)
    attributes = header.attributes & ~DELETE_HORIZON | (0 if horizon is None else DELETE_HORIZON)
    base = stamps[0] if horizon is None else horizon
    return write_batch(replace(header, attributes=attributes, base_timestamp=base, max_timestamp=largest), records)


def _emptied(header: BatchHeader) -> tuple[bytes, BatchHeader]:
    """Return a batch without records, with the sequences of its producer and its last offset."""
    kept = header.attributes & (LOG_APPEND | TRANSACTIONAL | CONTROL)
    return pack_batch(replace(header, attributes=kept, base_timestamp=-1, count=0), b"")


class Compaction:
    """Compacts the logs of a cluster on demand: `state.part(Compaction).run("topic")`."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    def run(self, topic: str | None = None) -> int:
        """Compact the compacted partitions of a topic, or of all. Return the freed bytes."""
        freed = 0
        for each in list(self._state.topics):
            if topic in (None, each.name) and "compact" in elements(self._state.topic_config(each, "cleanup.policy")):
                for partition in each.partitions:
                    freed += self.run_partition(partition)
        return freed

    def run_partition(self, partition: Partition, end: int | None = None) -> int:
        """Compact one partition up to `end`, or its last stable offset. Return the freed bytes."""
        log, size = partition.log, partition.log.size
        batches = self._batches(partition, end)
        if not batches:
            return 0
        retention_ms = int(self._state.topic_config(partition.topic, "delete.retention.ms"))
        left = compact(
            batches,
            now_ms=self._state.wall_ms,
            delete_retention_ms=retention_ms,
            aborted=partition.producers.aborted,
            active=_active(partition),
        )
        end = batches[-1][0].next_offset
        log.replace(bytes(left.data), left.headers, end)
        partition.producers.aborted = [
            each for each in partition.producers.aborted if each in left.aborted or each.last_offset >= end
        ]
        partition.notify(-1)
        return size - log.size

    def _batches(self, partition: Partition, end: int | None) -> list[tuple[BatchHeader, bytes]]:
        """Return the batches to compact: no open transaction; without `end` none within `min.compaction.lag.ms`."""
        log, stable = partition.log, partition.last_stable_offset
        lag_ms = int(self._state.topic_config(partition.topic, "min.compaction.lag.ms")) if end is None else 0
        end = stable if end is None else min(end, stable)
        youngest = self._state.wall_ms - lag_ms
        found: list[tuple[BatchHeader, bytes]] = []
        for header in list(log.headers(log.start_offset, end)):
            if header.magic < 2 or header.next_offset > end or (lag_ms > 0 and header.max_timestamp > youngest):
                break
            data = log.read(header.base_offset, header.size)
            found.append((header, read_span(data) if isinstance(data, FileSpan) else bytes(data)))
        return found


def _active(partition: Partition) -> dict[int, Active]:
    return {
        producer_id: Active(entry.batches[-1].last_offset if entry.batches else -1, entry.epoch)
        for producer_id, entry in partition.producers.entries.items()
    }
