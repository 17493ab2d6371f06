"""What a group's coordinator has stored: its commits, as they stand in `__consumer_offsets`, in order."""

from __future__ import annotations

import struct

import kafwire
from kafwire.types import TopicPartition
from tests.soak.group_judgement import Commit

_TOPIC = "__consumer_offsets"
_SHORT, _OFFSET, _TIME = struct.Struct(">h"), struct.Struct(">hqi"), struct.Struct(">q")
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
