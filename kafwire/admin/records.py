"""Records and offsets of partitions, at their leaders: delete records, list offsets."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, TypeAlias

from kafwire import protocol
from kafwire.admin.arguments import partition_of, timeout_ms_of
from kafwire.admin.asking import error_of
from kafwire.admin.outcomes import Outcomes
from kafwire.admin.requests import BROKER_TIMEOUT_MS, AdminRequests
from kafwire.cluster.list_offsets import LogEnd, Partition, Place, request_of
from kafwire.cluster.offset_requests import by_topic
from kafwire.cluster.offset_spec import isolation_number, place_of
from kafwire.errors import ConfigError, KafkaError, ProtocolError
from kafwire.integers import natural
from kafwire.lazy_dataclass import dataclass
from kafwire.protocol import ListOffsetsRequest
from kafwire.runtime.interfaces import Work
from kafwire.types import TopicPartition

__all__ = ["ListedOffset", "RecordCalls"]

HIGH_WATERMARK = -1

# A place in a partition's log: a name, a datetime with a time zone, or milliseconds since the epoch.
Spec: TypeAlias = str | int | dt.datetime
PLACES = {each.name.lower().replace("_", "-"): each for each in LogEnd}
# By place: the version of ListOffsets that has it, and the release of Kafka with that version.
SINCE: dict[Place, tuple[int, str]] = {
    LogEnd.MAX_TIMESTAMP: (ListOffsetsRequest.MAX_TIMESTAMP, "3.0"),
    LogEnd.EARLIEST_LOCAL: (ListOffsetsRequest.EARLIEST_LOCAL, "3.4"),
    LogEnd.LATEST_TIERED: (ListOffsetsRequest.LATEST_TIERED, "3.8"),
    LogEnd.EARLIEST_PENDING_UPLOAD: (ListOffsetsRequest.EARLIEST_PENDING_UPLOAD, "4.2"),
}


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """An offset that `Admin.list_offsets` found.

    Args:
        offset: the offset; -1 if there is none, for example no record as late as the time.
        timestamp_ms: the record's time in milliseconds since the epoch, for a time or "max-timestamp"; None otherwise.
        leader_epoch: the epoch of the leader that wrote the record; None if the broker does not report it.

    Example:
        >>> from kafwire.admin import ListedOffset
        >>> ListedOffset(42, 1_700_000_000_000, 5).offset
        42
    """

    __module__ = "kafwire.admin"
    offset: int
    timestamp_ms: int | None
    leader_epoch: int | None


class RecordCalls(AdminRequests):
    """The calls about records and offsets."""

    def delete_records(
        self, offsets: Mapping[TopicPartition, int | str], *, timeout: float | None
    ) -> Work[Outcomes[TopicPartition, int]]:
        """Delete the records of partitions before an offset."""
        if not isinstance(offsets, Mapping):
            raise ConfigError(f"offsets={offsets!r}: write a dict: {{TopicPartition(topic, partition): offset}}")
        asked = {partition_of(where): _before(where, offset) for where, offset in offsets.items()}
        request: Any = protocol.DeleteRecordsRequest

        async def send(broker: int, keys: list[TopicPartition]) -> Mapping[TopicPartition, int | KafkaError]:
            topics = [
                request.DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        request.DeleteRecordsPartition(
                            partition_index=number, offset=asked[TopicPartition(topic, number)]
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(keys).items()
            ]
            response = await route.call(broker, request(topics=topics, timeout_ms=BROKER_TIMEOUT_MS))
            found: dict[TopicPartition, int | KafkaError] = {}
            for topic in response.topics:
                for part in topic.partitions:
                    key = TopicPartition(topic.name, part.partition_index)
                    what = f"deleting records of {key.topic}-{key.partition}"
                    error = error_of(part, what, "DeleteRecords", topic=key.topic)
                    found[key] = part.low_watermark if error is None else error
            return found

        route = self._leaders(_itself)
        return self._work(asked, route, send, "deleting records", timeout_ms_of(timeout))

    def list_offsets(
        self, offsets: Mapping[TopicPartition, Spec], *, isolation_level: str, timeout: float | None
    ) -> Work[Outcomes[TopicPartition, ListedOffset]]:
        """Find the offset of a place in each partition."""
        if not isinstance(offsets, Mapping):
            raise ConfigError(f'offsets={offsets!r}: write a dict: {{TopicPartition(topic, partition): "latest"}}')
        places = {partition_of(where): _place(spec) for where, spec in offsets.items()}
        level = isolation_number(isolation_level)

        async def send(broker: int, keys: list[TopicPartition]) -> Mapping[TopicPartition, ListedOffset | KafkaError]:
            version = await route.version_of(broker, ListOffsetsRequest)
            found: dict[TopicPartition, ListedOffset | KafkaError] = {}
            for key in keys:
                since, kafka = SINCE.get(places[key], (0, ""))
                if version < since:
                    text = f"{_name(places[key])!r} needs Kafka {kafka} or newer, which broker {broker} is not"
                    found[key] = ProtocolError(text, api="ListOffsetsRequest")
            wanted: dict[Partition, Place] = {key: places[key] for key in keys if key not in found}
            if wanted:
                found |= _listed(await route.call(broker, request_of(self._cluster, wanted, level)))
            return found

        route = self._leaders(_itself)
        return self._work(places, route, send, "listing offsets", timeout_ms_of(timeout))


def _itself(where: TopicPartition) -> tuple[str, int]:
    return where


def _before(where: Any, offset: Any) -> int:
    """Return the offset as DeleteRecords has it."""
    if offset == "latest":
        return HIGH_WATERMARK
    number = natural(offset)
    if number is None:
        name = "{}-{}".format(*partition_of(where))
        raise ConfigError(f'{name}: {offset!r}: an offset of 0 or more is needed, or "latest"')
    return number


def _place(spec: Any) -> Place:
    """Return the place that a text or a time names."""
    if isinstance(spec, str):
        if spec not in PLACES:
            raise ConfigError(f"{spec!r} is not one of {', '.join(PLACES)}, a datetime or milliseconds since the epoch")
        return PLACES[spec]
    return place_of(spec)


def _name(place: Place) -> str:
    return next((name for name, each in PLACES.items() if each == place), str(place))


def _listed(response: Any) -> dict[TopicPartition, ListedOffset | KafkaError]:
    found: dict[TopicPartition, ListedOffset | KafkaError] = {}
    for topic in response.topics:
        for part in topic.partitions:
            key = TopicPartition(topic.name, part.partition_index)
            what = f"listing offsets of {key.topic}-{key.partition}"
            found[key] = error_of(part, what, "ListOffsets", topic=key.topic) or ListedOffset(
                part.offset,
                part.timestamp if part.timestamp >= 0 else None,
                part.leader_epoch if part.leader_epoch >= 0 else None,
            )
    return found
