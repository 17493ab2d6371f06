"""The topic `__consumer_offsets`: records of committed offsets and of classic groups, in Kafka's own format.

The broker writes the topic, but reads its state from `offsets.py` and `group_coordinator.py`. The first record creates
it. A group's records are in the same partition as in Kafka. Groups of the other protocols have no records of their
members here. See OffsetCommitKey.json, OffsetCommitValue.json, GroupMetadataKey.json and GroupMetadataValue.json of
Kafka.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafwire.broker.log.batch_header import read_header
from kafwire.broker.state import java_hash
from kafwire.records import encode_batch

if TYPE_CHECKING:
    from kafwire.broker.groups.classic_member import Member
    from kafwire.broker.log.partition import Partition
    from kafwire.broker.state import ClusterState

OFFSETS_TOPIC: Final = "__consumer_offsets"
_OFFSET_KEY, _GROUP_KEY = 1, 2  # versions of keys, which tell readers the type of a record
_OFFSET_VALUE, _GROUP_VALUE = 4, 3
_MOST_REPLICAS = 3  # offsets.topic.replication.factor

Place = tuple[str, int]  # a topic's name and a partition's number


class Committed(NamedTuple):
    """A committed offset; -1: there is none."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""
    at_ms: int = 0  # the broker's time


class Stored(NamedTuple):
    """The group's record in `__consumer_offsets`, from which another coordinator loads it."""

    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    since_ms: int = -1
    members: Sequence[Member] = ()


class OffsetsTopic:
    """Writes the topic's records: `state.part(OffsetsTopic)`."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._created = 0  # times that this broker created the topic

    def partition_of(self, group: str) -> int:
        """Return the number of the partition that has a group's records."""
        found = self._state.topics.by_name.get(OFFSETS_TOPIC)
        count = len(found.partitions) if found is not None else self._state.config_int("offsets.topic.num.partitions")
        return java_hash(group) % count

    # --- records

    def commit(self, group: str, place: Place, committed: Committed) -> None:
        """Write a committed offset."""
        self._write(group, [(offset_key(group, place), self._offset_value(place, committed))])

    def commit_pending(self, group: str, producer_id: int, epoch: int, place: Place, committed: Committed) -> None:
        """Write an offset that an open transaction is about to commit."""
        record = offset_key(group, place), self._offset_value(place, committed)
        partition = self._write(group, [record], producer_id=producer_id, producer_epoch=epoch, transactional=True)
        header = list(partition.log.headers(partition.log.end_offset - 1))[-1]
        partition.producers.add(header)

    def end_transaction(self, index: int, producer_id: int, epoch: int, *, commit: bool) -> None:
        """Write the marker of a transaction with offsets in a partition, if the partition exists."""
        partition = self._state.topics.partition(OFFSETS_TOPIC, index)
        if partition is not None and producer_id in partition.producers.entries:
            partition.write_marker(producer_id, epoch, self._state.wall_ms, commit=commit)

    def forget(self, group: str, places: Iterable[Place]) -> None:
        """Write tombstones of committed offsets."""
        if records := [(offset_key(group, place), None) for place in places]:
            self._write(group, records)

    def write_group(self, group: str, stored: Stored) -> None:
        """Write the state of a classic group that another coordinator needs."""
        self._write(group, [(group_key(group), group_value(stored))])

    def forget_group(self, group: str) -> None:
        """Write the tombstone of a group, if the topic exists."""
        if OFFSETS_TOPIC in self._state.topics.by_name:
            self._write(group, [(group_key(group), None)])

    # --- the log

    def _write(self, group: str, records: Sequence[tuple[bytes, bytes | None]], **batch: Any) -> Partition:
        partition = self._partitions()[self.partition_of(group)]
        now_ms = self._state.wall_ms
        made: list[Any] = [{"key": key, "value": value, "timestamp_ms": now_ms} for key, value in records]
        data = encode_batch(made, base_sequence=0, **batch)
        partition.append(data, [read_header(data)])
        return partition

    def _partitions(self) -> Sequence[Partition]:
        topics, found = self._state.topics, self._state.topics.by_name.get(OFFSETS_TOPIC)
        if found is None:
            nodes = [*self._state.nodes]
            replicas = min(_MOST_REPLICAS, len(nodes))
            count = self._state.config_int("offsets.topic.num.partitions")
            placed = [[nodes[(index + i) % len(nodes)] for i in range(replicas)] for index in range(count)]
            configs = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
            # This does not use the state's random numbers, so its decisions are the same with and without this topic.
            self._created += 1
            name = f"{self._state.cluster_id} {self._state.wall_ms} {self._created}"  # a recreated topic has another id
            topic_id = uuid.uuid5(uuid.NAMESPACE_OID, name)
            found = topics.create(OFFSETS_TOPIC, count, assignments=placed, configs=configs, topic_id=topic_id)
        return found.partitions

    def _offset_value(self, place: Place, committed: Committed) -> bytes:
        topic = self._state.topics.by_name.get(place[0])
        return offset_value(committed, None if topic is None else topic.topic_id)


def offset_key(group: str, place: Place) -> bytes:
    """Return an OffsetCommitKey."""
    return struct.pack(">h", _OFFSET_KEY) + _text(group) + _text(place[0]) + struct.pack(">i", place[1])


def offset_value(committed: Committed, topic_id: uuid.UUID | None) -> bytes:
    """Return an OffsetCommitValue; a topic's id is its tagged field 0."""
    metadata = (committed.metadata or "").encode()
    tags = b"\0" if topic_id is None else b"\1\0\x10" + topic_id.bytes
    return (
        struct.pack(">hqi", _OFFSET_VALUE, committed.offset, committed.leader_epoch)
        + _uvarint(len(metadata) + 1)
        + metadata
        + struct.pack(">q", committed.at_ms)
        + tags
    )


def group_key(group: str) -> bytes:
    """Return a GroupMetadataKey."""
    return struct.pack(">h", _GROUP_KEY) + _text(group)


def group_value(stored: Stored) -> bytes:
    """Return a GroupMetadataValue."""
    out = struct.pack(">h", _GROUP_VALUE) + _text(stored.protocol_type or "") + struct.pack(">i", stored.generation)
    out += _text(stored.protocol_name) + _text(stored.leader) + struct.pack(">qi", stored.since_ms, len(stored.members))
    for member in stored.members:
        out += _text(member.member_id) + _text(member.instance_id) + _text(member.client_id) + _text(member.host)
        out += struct.pack(">ii", member.rebalance_timeout_ms, member.session_timeout_ms)
        subscription = member.metadata(stored.protocol_name) if stored.protocol_name is not None else b""
        out += _sized(subscription) + _sized(member.assignment)
    return out


def _text(text: str | None) -> bytes:
    data = b"" if text is None else text.encode()
    return struct.pack(">h", -1 if text is None else len(data)) + data


def _sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
