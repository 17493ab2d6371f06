"""What is kept of a segment with a violation: reports, histories, the nodes' logs, and the partitions' segments."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from kafwire.structs import TopicPartition
from kafwire.testing.cluster import KafkaCluster
from kafwire.testing.history import Report
from kafwire.testing.kafka import class_path, java
from soak.cluster import CONSUMER_OFFSETS, TRANSACTION_STATE
from soak.matrix import Topic

_DUMP_S = 120.0


def keep(folder: Path, cluster: KafkaCluster, reports: dict[str, Report], topics: tuple[Topic, ...]) -> None:
    """Put into the segment's folder, where the histories are already, what else tells how it came.

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
        _dump(copy, cluster.version)


def _dump(partition: Path, version: str) -> None:
    files = ",".join(str(file) for file in sorted(partition.glob("*.log")))
    command = [java(), "-cp", class_path(version), "kafka.tools.DumpLogSegments", "--deep-iteration"]
    if partition.name.startswith(TRANSACTION_STATE):
        command.append("--transaction-log-decoder")
    elif partition.name.startswith(CONSUMER_OFFSETS):
        command.append("--offsets-decoder")
    with (partition.parent / f"{partition.name}.txt").open("w") as out:
        subprocess.run([*command, "--files", files], stdout=out, stderr=subprocess.STDOUT, check=False, timeout=_DUMP_S)
