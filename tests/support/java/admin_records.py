"""Calls about records and offsets, by Java's `Admin` and by kafwire's."""

from __future__ import annotations

from typing import Any

import kafwire
from kafwire.admin import ListedOffset
from kafwire.types import TopicPartition
from tests.support.java.admin_comparison import Comparison, OnError, Scene

FIRST_MS = 1_700_000_000_000
PLACES = {
    "earliest": "earliest",
    "latest": "latest",
    "maxTimestamp": "max-timestamp",
    "earliestLocal": "earliest-local",
    "latestTiered": "latest-tiered",
    "earliestPendingUpload": "earliest-pending-upload",
}
*OLDER, NEWEST = PLACES
SPECS = [*OLDER, FIRST_MS + 2500, FIRST_MS + 99_000]


def with_records(scene: Scene) -> None:
    """A topic with a partition for each place, and ten records in each."""
    topic = scene.topic(partitions=len(SPECS))
    with kafwire.Producer(scene.bootstrap) as producer:
        for partition in range(len(SPECS)):
            for number in range(10):
                producer.send(topic, b"x", partition=partition, timestamp_ms=FIRST_MS + 1000 * number)


def lists_of_offsets(*wanted: Any, aspect: str = "") -> Comparison:
    def specs(scene: Scene) -> dict[TopicPartition, Any]:
        return {TopicPartition(scene.existing, number): spec for number, spec in enumerate(wanted)}

    return Comparison(
        "listOffsets",
        lambda scene: {"specs": [[*where, spec] for where, spec in specs(scene).items()]},
        lambda admin, scene, on_error: admin.list_offsets(
            {where: PLACES.get(spec, spec) for where, spec in specs(scene).items()}, on_error=on_error
        ),
        ours=offset,
        aspect=aspect,
        prepare=with_records,
    )


def offset(found: ListedOffset) -> dict[str, Any]:
    timestamp = -1 if found.timestamp_ms is None else found.timestamp_ms
    return {"offset": found.offset, "timestamp": timestamp, "leaderEpoch": found.leader_epoch}


def deletions(scene: Scene) -> dict[TopicPartition, int]:
    """The first offsets to keep; -1: none."""
    return {TopicPartition(scene.existing, number): before for number, before in enumerate((4, -1, 0, 10, 11))}


def deleted(admin: kafwire.Admin, scene: Scene, on_error: OnError) -> dict[TopicPartition, int]:
    wanted: dict[TopicPartition, int | str] = {
        where: "latest" if before < 0 else before for where, before in deletions(scene).items()
    }
    return admin.delete_records(wanted, on_error=on_error)


def starts(admin: kafwire.Admin, scene: Scene) -> list[int]:
    return [each.offset for each in admin.list_offsets(dict.fromkeys(deletions(scene), "earliest")).values()]


COMPARISONS = [
    lists_of_offsets(*SPECS),
    lists_of_offsets(NEWEST, aspect="pending"),
    Comparison(
        "deleteRecords",
        lambda scene: {"offsets": [[*where, before] for where, before in deletions(scene).items()]},
        deleted,
        ours=lambda low_watermark: {"lowWatermark": low_watermark},
        prepare=with_records,
        twins=True,
        after=starts,
    ),
]
