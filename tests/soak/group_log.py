"""The stored commits of a group's coordinator, as they stand in `__consumer_offsets`, in order."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import kafwire
from kafwire.protocol import FetchRequest
from kafwire.records import RecordBatch, decode_batches
from kafwire.types import TopicPartition
from tests.soak.group_judgement import Commit

_TOPIC = "__consumer_offsets"
_SHORT, _OFFSET, _TIME = struct.Struct(">h"), struct.Struct(">hqi"), struct.Struct(">q")
_FEW = 8  # the records of a batch that is written down whole
_KEYS_OF_COMMITS = (0, 1)
_FIRST_VERSION, _FIRST_FLEXIBLE_VERSION = 3, 4  # of values with one time


def commits_of(bootstrap: str, group: str) -> list[Commit]:
    """All commits of a group, those of transactions once they are committed; deleted ones are left out."""
    found = []
    with kafwire.Consumer(
        bootstrap, assign=[TopicPartition(_TOPIC, 0)], start="earliest", isolation_level="read_committed"
    ) as consumer:
        (end,) = consumer.end_offsets().values()
        while consumer.position(TopicPartition(_TOPIC, 0)) < end:
            for batch in consumer.poll(1.0):
                for record in batch:
                    if record.key is not None and record.value is not None:
                        commit = commit_of(group, record.key, record.value)
                        found += [] if commit is None else [commit]
    return found


def write_batches(bootstrap: str, topic: str, partition: int, file: Path) -> None:
    """All batches and markers of a partition, a line each, and then which transactions brokers call aborted, by fetch.

    It shows whether records that committed readers miss were aborted, or are hidden from them.
    """
    with kafwire.Client(bootstrap) as client, file.open("w") as out:
        for level in (0, 1):
            at = 0
            while part := _fetched(client, topic, partition, at, level):
                batches = decode_batches(part.records or b"")
                if not batches:
                    break
                if level:
                    aborted = [(each.producer_id, each.first_offset) for each in part.aborted_transactions or ()]
                    print(f"fetch from {at}: aborted {aborted}", file=out)
                for batch in () if level else batches:
                    print(_line(batch), file=out)
                at = batches[-1].last_offset + 1


def _fetched(client: kafwire.Client, topic: str, partition: int, offset: int, isolation_level: int) -> Any:
    request = FetchRequest
    info = client.topic(topic)
    wanted = request.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    message = request(
        max_wait_ms=0,
        min_bytes=0,
        isolation_level=isolation_level,
        topics=[request.FetchTopic(topic=topic, topic_id=info.topic_id, partitions=[wanted])],
    )
    response = client.call(message, broker=info.partitions[partition].leader)
    return response.responses[0].partitions[0]


def _line(batch: RecordBatch) -> str:
    shown = [(each.key, each.value) for each in (batch if len(batch) <= _FEW else (batch[0], batch[-1]))]
    what = f"{len(batch)} records {shown}" if not batch.is_control else f"marker {batch[0].key!r}"
    producer = f"producer {batch.producer_id} epoch {batch.producer_epoch} sequence {batch.base_sequence}"
    written = f"leader epoch {batch.partition_leader_epoch}, at {batch.max_timestamp_ms}"
    return f"{batch.base_offset} to {batch.last_offset}, {producer}, {written}: {what}"


def commit_of(group: str, key: bytes, value: bytes) -> Commit | None:
    """The commit that a record of that topic is; None for one of another kind or group."""
    (kind,) = _SHORT.unpack_from(key)
    if kind not in _KEYS_OF_COMMITS:
        return None
    name, at = _text(key, 2)
    _, at = _text(key, at)
    if name != group:
        return None
    partition = int.from_bytes(key[at : at + 4], "big")
    version, offset, _ = _OFFSET.unpack_from(value)
    assert version >= _FIRST_VERSION, f"a commit of version {version}"
    if version >= _FIRST_FLEXIBLE_VERSION:  # the metadata of clients here are short: their length is one byte
        at = _OFFSET.size + max(1, value[_OFFSET.size])
    else:
        _, at = _text(value, _OFFSET.size)
    return Commit(partition, offset, _TIME.unpack_from(value, at)[0])


def _text(data: bytes, at: int) -> tuple[str, int]:
    (size,) = _SHORT.unpack_from(data, at)
    return data[at + 2 : at + 2 + size].decode(), at + 2 + size
