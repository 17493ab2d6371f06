"""The records in a partition's log, for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.broker.log.log import FileSpan, read_span
from kafwire.records import Record, decode_batches

if TYPE_CHECKING:
    from kafwire.broker.log.partition import Partition


def stored_records(partition: Partition, *, committed: bool = False) -> list[Record]:
    """Return all records of a partition. `committed`: without records of aborted and open transactions."""
    log = partition.log
    data = log.read(log.start_offset, log.size)
    data = read_span(data) if isinstance(data, FileSpan) else data
    producers = partition.producers
    open_from = {
        producer_id: entry.first_offset
        for producer_id, entry in producers.entries.items()
        if entry.first_offset is not None
    }
    found: list[Record] = []
    for batch in decode_batches(data):
        if batch.is_control:
            continue
        if committed and batch.is_transactional:
            first = open_from.get(batch.producer_id)
            if first is not None and batch.base_offset >= first:
                continue
            if any(
                each.producer_id == batch.producer_id and each.first_offset <= batch.base_offset <= each.last_offset
                for each in producers.aborted
            ):
                continue
        found.extend(
            Record(
                topic=partition.topic.name,
                partition=partition.index,
                offset=record.offset,
                timestamp_ms=record.timestamp_ms,
                timestamp_type=record.timestamp_type,
                key=record.key,
                value=record.value,
                headers=record.headers,
            )
            for record in batch
            if record.offset >= log.start_offset
        )
    return found
