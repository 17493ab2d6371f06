"""The evidence of a segment with a violation: reports, histories, the nodes' logs, and the partitions' segments."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import NamedTuple

from kafwire.testing.cluster import KafkaCluster
from kafwire.testing.history import Report
from kafwire.types import TopicPartition
from tests.soak.cluster import CONSUMER_OFFSETS, TRANSACTION_STATE
from tests.soak.matrix import Topic


class Head(NamedTuple):
    """A record batch's header. Attributes: 1 to 4 the codec, 16 of a transaction, 32 a control batch."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int


_HEAD = struct.Struct(">qiibIhiqqqhii")
_LENGTH = struct.Struct(">i")
_OVERHEAD = 12  # base offset and length
_LAST_LINES = 12


def keep(folder: Path, cluster: KafkaCluster, reports: dict[str, Report], topics: tuple[Topic, ...]) -> None:
    """Put into the segment's folder, where the histories are already, the further evidence.

    The partitions are those of the findings, all of the segment if they name none. The nodes go on meanwhile: a file
    that is still written may end in the middle of a batch.
    """
    for node in cluster.nodes:
        shutil.copy(node.log_file, folder / f"node-{node.id}.log")
    found = [finding.partition for report in reports.values() for finding in report.findings if finding.partition]
    places = set(found) or {TopicPartition(topic.name, place) for topic in topics for place in range(topic.partitions)}
    places |= {TopicPartition(TRANSACTION_STATE, 0), TopicPartition(CONSUMER_OFFSETS, 0)}
    for where in sorted(places):
        name = f"{where.topic}-{where.partition}"
        for node in cluster.nodes:
            if (node.data / name).is_dir():
                shutil.copytree(node.data / name, folder / "segments" / f"node-{node.id}" / name)
    for copy in sorted(folder.glob("segments/*/*")):
        _dump(copy)


def last_words(folder: Path) -> list[str]:
    """The last warnings of each process of a segment: a reader that its client set back says so there."""
    said = []
    for file in sorted(folder.glob("*.stderr")):
        lines = file.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        if lines:
            said.append("\n".join([f"{file.name} ends with:", *lines]))
    return said


def _dump(partition: Path) -> None:
    """The headers of the batches, a line for each, and the bytes behind the last whole one."""
    lines = []
    for file in sorted(partition.glob("*.log")):
        lines.append(file.name)
        data = file.read_bytes()
        at = 0
        while at + _HEAD.size <= len(data):
            (length,) = _LENGTH.unpack_from(data, at + 8)
            if length <= 0 or at + _OVERHEAD + length > len(data):
                break
            head = Head._make(_HEAD.unpack_from(data, at))
            lines.append(f"  at {at}: {head}")
            at += _OVERHEAD + length
        if at < len(data):
            lines.append(f"  at {at}: {len(data) - at} bytes that are no whole batch")
    (partition.parent / f"{partition.name}.txt").write_text("\n".join(lines) + "\n")
