"""Lost records of a stream or a batch read: the partition, the cause, and the error.

Pure. The conditions have the names of Spark's own Kafka source, so that a search for an error finds both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafwire.errors import KafkaError
from kafwire.spark.stream_offsets import names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafwire.types import TopicPartition

_PREFIX = "KAFKA_DATA_LOSS"
START_OFFSET_RESET = "START_OFFSET_RESET"
COULD_NOT_READ_OFFSET_RANGE = "COULD_NOT_READ_OFFSET_RANGE"


class DataLossError(KafkaError):
    """Records that the query requested are no longer in the topic, or not yet."""


class AvailableNowError(KafkaError):
    """A partition changed while a query with the trigger AvailableNow was running; restart the query."""


@dataclass(frozen=True, slots=True)
class Loss:
    """One loss: Spark's name of the condition, and what happened to which partition."""

    condition: str
    what: str

    def __str__(self) -> str:
        return f"[{_PREFIX}.{self.condition}] {self.what}" if self.condition else self.what


def data_loss(what: object) -> DataLossError:
    """The error for records that are gone, with the way out."""
    return DataLossError(
        f"{what}. Records may have been deleted by retention, or the topic recreated; set the option failOnDataLoss to "
        "false to read the records that remain, or correct the offsets"
    )


def recreated(topic: str) -> Loss:
    """A topic that was deleted and created again: its id changed while the stream was reading it."""
    return Loss(
        "PARTITIONS_RECREATED",
        f"topic {topic} was deleted and created again while the stream was reading it: unread records of the old topic "
        "are gone",
    )


def losses_of_batch(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], first: Mapping[TopicPartition, int]
) -> list[Loss]:
    """The losses between two offsets of a stream. `first` has the earliest offsets of partitions not in `start`."""
    losses = []
    vanished = {place for place in end if place not in start and place not in first}
    if vanished:
        losses.append(
            Loss(
                "INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS",
                f"the new partitions {names(vanished)} have no first offset: they may have been deleted",
            )
        )
    losses += [
        Loss(
            "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
            f"the new partition {place.topic}-{place.partition} starts from offset {first[place]} instead of 0",
        )
        for place in sorted(first)
        if place in end and first[place] != 0
    ]
    deleted = {place for place in start if place not in end}
    if deleted:
        losses.append(Loss("PARTITIONS_DELETED", f"the partitions {names(deleted)} have been deleted"))
    for place in sorted(end):
        begin = start.get(place, first.get(place))
        if begin is not None and end[place] < begin:
            losses.append(
                Loss(
                    "PARTITION_OFFSET_CHANGED",
                    f"the latest offset of {place.topic}-{place.partition} went from {begin} back to {end[place]}",
                )
            )
    return losses


def check_pinned(pinned: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> None:
    """Raise `AvailableNowError` unless a batch ends within the ends that AvailableNow pinned."""
    if pinned.keys() != end.keys():
        odd = names(set(pinned) ^ set(end))
        raise _unpinned(
            "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED",
            f"only one of the batch's end and the ends pinned at the start of the query has {odd}",
        )
    passed = {place for place in end if end[place] > pinned[place]}
    if passed:
        raise _unpinned(
            "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED",
            f"the batch ends after the end pinned at the start of the query: {_both(passed, end, pinned)}",
        )


def check_there(end: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> None:
    """Raise `AvailableNowError` if a partition of a batch is gone or has become shorter than the batch's end."""
    gone = {place for place in end if place not in latest}
    if gone:
        raise _unpinned(
            "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW",
            f"the partitions {names(gone)} were deleted while the query was running, or their topic was recreated",
        )
    shrunk = {place for place in end if end[place] > latest[place]}
    if shrunk:
        raise _unpinned(
            "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW",
            f"partitions end before the end of the batch: {_both(shrunk, end, latest)}",
        )


def _unpinned(condition: str, what: str) -> AvailableNowError:
    return AvailableNowError(f"[{condition}] {what}. The cause may have passed: restart the query")


def _both(places: set[TopicPartition], end: Mapping[TopicPartition, int], other: Mapping[TopicPartition, int]) -> str:
    shown = sorted(places)[:5]
    text = ", ".join(f"{place.topic}-{place.partition} {end[place]} against {other[place]}" for place in shown)
    return text if len(places) <= len(shown) else f"{text} and {len(places) - len(shown)} more"
