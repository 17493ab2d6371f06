"""The progress of a copy in the summaries of an Iceberg table's snapshots.

The snapshot that adds records also has the offsets behind them, under a property of the copy's name. So both become
visible in one step. Snapshots of other writers lack the property, and the search passes over them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kafwire.lake.copy_progress import Progress

_REMEDY = "roll the table back to an earlier snapshot, or copy under another name"


class Found(NamedTuple):
    """The newest progress of a name; `expired` if none was found and older snapshots are gone."""

    progress: Progress | None
    expired: bool


def property_of(name: str) -> str:
    """Return the property of a snapshot's summary that has the progress of a copy."""
    return f"kafwire.{name}.offsets"


def newest(metadata: Any, name: str) -> Found:
    """Walk back from the current snapshot of a `TableMetadata` to the newest with progress of this name.

    Raises:
        KafkaError: the property is damaged.
    """
    snapshot = metadata.current_snapshot()
    while snapshot is not None:
        properties = snapshot.summary.additional_properties if snapshot.summary else {}
        if (text := properties.get(property_of(name))) is not None:
            where = f"snapshot {snapshot.snapshot_id}: {property_of(name)}"
            return Found(Progress.parsed(text, where, _REMEDY), expired=False)
        parent = snapshot.parent_snapshot_id
        above = None if parent is None else metadata.snapshot_by_id(parent)
        if above is None and (parent is not None or not _is_first(snapshot, properties)):
            return Found(None, expired=True)
        snapshot = above
    return Found(None, expired=False)


def _is_first(snapshot: Any, properties: Mapping[str, str]) -> bool:
    """Return whether a snapshot without a parent began the table.

    pyiceberg removes the parent's id where it expires the parent. Sequence numbers count from 1 (format version 1 has
    none), and the first snapshot has all records of the table.
    """
    records = properties.get("total-records", "0"), properties.get("added-records", "0")
    return (snapshot.sequence_number or 0) <= 1 and records[0] == records[1]
