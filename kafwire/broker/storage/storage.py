"""The storage of a cluster whose records, topics, offsets and transactions are on disk: `Storage(state, path)`.

It creates the partitions' logs, saves changes, and restores everything at the next start. `stored_parts.py` saves and
restores other parts of the broker.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafwire.broker.log.cleaner import segment_ms
from kafwire.broker.log.log import PartitionLog
from kafwire.broker.log.partition import Partition
from kafwire.broker.log.producer_state import REMEMBERED
from kafwire.broker.storage.data_folder import DataFolder
from kafwire.broker.storage.file_log import FileLog, LogOptions
from kafwire.broker.storage.files import FilePool
from kafwire.broker.storage.journal import Journal, Key
from kafwire.broker.storage.segment import remove
from kafwire.broker.storage.stored_parts import dump_parts, load_parts
from kafwire.broker.topics.topics import Topic

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

_NEVER = (1 << 63) - 1


class Storage:
    """Opens a folder for a new state, or restores the state in it.

    Raises:
        FolderError: the folder is not a broker's, or is in use; it is unchanged.
        DamagedError: the journal is damaged.
    """

    def __init__(self, state: ClusterState, path: Path) -> None:
        self._state = state
        # Random ids must differ from those of the state that used the folder before.
        state.random.seed(os.urandom(32))
        self.folder = DataFolder(path, state.make_cluster_id())
        self.pool = FilePool(self.folder.files)
        self.recovered_bytes = 0  # cut off after a crash
        self._logs: dict[Partition, tuple[FileLog, dict[str, int]]] = {}
        self._flushes: set[Partition] = set()
        self._starts: dict[tuple[str, int], int] = {}
        try:
            self.journal = Journal(self.folder.files, str(path / "journal"))
            state.cluster_id = self.folder.cluster_id
            state.topics.make_log = self._make_log
            self._remove_strays()
            self._load_topics()
            load_parts(state, self.journal)
            self.journal.syncs = state.config_int("log.flush.interval.messages") == 1
            self.journal.begin(self._entries())
        except BaseException:
            self.folder.close(clean=False)
            raise
        state.journal = self.journal
        state.topics.on_change = self._on_topic
        state.topics.watchers.append(self._watch)

    # --- topics

    def _place(self, topic: str, index: int) -> str:
        return f"{self.folder.path}/{topic}-{index}"

    def _make_log(self, topic: Topic, index: int) -> PartitionLog:
        return FileLog(
            self.pool,
            self._place(topic.name, index),
            lambda: self._options(topic),
            is_clean=self.folder.is_clean,
            topic_id=topic.topic_id,
            start_offset=self._starts.pop((topic.name, index), 0),
        )

    def _options(self, topic: Topic) -> LogOptions:
        def number(name: str) -> int:
            return int(self._state.topic_config(topic, name))

        return LogOptions(
            number("segment.bytes"),
            segment_ms(self._state, topic),
            number("index.interval.bytes"),
            number("flush.messages"),
            number("flush.ms"),
        )

    def _remove_strays(self) -> None:
        """Delete folders whose deletion was interrupted; rename logs of unknown topics to `-stray`, as Kafka does."""
        files, path = self.folder.files, str(self.folder.path)
        known = {
            f"{name}-{index}" for name, value in self.journal.of("topic") for index in range(len(value["partitions"]))
        }
        for name in files.listdir(path):
            if not (self.folder.path / name).is_dir() or name.endswith("-stray"):
                continue
            if name.endswith("-delete"):
                remove(self.pool, f"{path}/{name}")
            elif name not in known:
                files.rename(f"{path}/{name}", f"{path}/{name}.{uuid.uuid4().hex}-stray")

    def _load_topics(self) -> None:
        state = self._state
        for (name, index), start in ((tuple(key), value) for key, value in self.journal.of("log-start")):
            self._starts[name, index] = start
        for name, value in self.journal.of("topic"):
            # Brokers that no longer exist have no replicas.
            placed = [[n for n in its[0] if n in state.nodes] or [min(state.nodes)] for its in value["partitions"]]
            topic = state.topics.create(
                name,
                len(placed),
                assignments=placed,
                configs=value["configs"],
                topic_id=uuid.UUID(value["id"]),
            )
            topic.is_internal = value.get("internal", False)
            for partition, its in zip(topic.partitions, value["partitions"], strict=True):
                self._load_partition(partition, its[1])
                self._watch(partition)

    def _load_partition(self, partition: Partition, leader_epoch: int) -> None:
        log = self._file_log(partition)
        self.recovered_bytes += log.cut_off
        # There is an election, as when a Kafka broker restarts.
        partition.leader_epoch = max([leader_epoch, *(epoch for epoch, _ in log.epochs)]) + 1
        partition.epochs = [*(log.epochs or [(0, log.start_offset)]), (partition.leader_epoch, log.end_offset)]
        if log.end_offset > log.start_offset:
            partition.replay_producers()
            partition.producers.restart(partition.leader, 1 if self.folder.is_clean else REMEMBERED, log.end_offset)

    def _watch(self, partition: Partition) -> None:
        log = self._file_log(partition)
        self._logs[partition] = log, {"start": log.start_offset, "epoch": partition.leader_epoch}
        partition.watchers.add(self._on_log)

    @staticmethod
    def _file_log(partition: Partition) -> FileLog:
        if not isinstance(partition.log, FileLog):
            raise TypeError(f"{partition.topic.name}-{partition.index} is not on disk")
        return partition.log

    def _on_log(self, partition: Partition, grown: int) -> None:
        del grown
        log, known = self._logs[partition]
        if log.unflushed and partition not in self._flushes:
            self._flush_later(partition, log)
        if log.start_offset != known["start"]:
            known["start"] = log.start_offset
            self.journal.write("log-start", [partition.topic.name, partition.index], log.start_offset)
        if partition.leader_epoch != known["epoch"]:
            known["epoch"] = partition.leader_epoch
            self._on_topic(partition.topic.name)

    def _flush_later(self, partition: Partition, log: FileLog) -> None:
        ms = int(self._state.topic_config(partition.topic, "flush.ms"))
        if ms >= _NEVER:
            return

        def flush() -> None:
            self._flushes.discard(partition)
            if partition in self._logs and log.unflushed:
                log.flush()

        self._flushes.add(partition)
        self._state.after(ms, flush)

    def _on_topic(self, name: str) -> None:
        topic = self._state.topics.by_name.get(name)
        if topic is None:
            for partition in [each for each in self._logs if each.topic.name == name]:
                del self._logs[partition]
                self._flushes.discard(partition)
                partition.watchers.discard(self._on_log)
                if partition.log.start_offset:
                    self.journal.write("log-start", [name, partition.index], None)
        self.journal.write("topic", name, None if topic is None else _dump_topic(topic))

    # --- whole state

    def _entries(self) -> Iterator[tuple[str, Key, Any]]:
        yield "cluster", "id", self._state.cluster_id
        for topic in self._state.topics:
            yield "topic", topic.name, _dump_topic(topic)
            for partition in topic.partitions:
                if partition.log.start_offset:
                    yield "log-start", [topic.name, partition.index], partition.log.start_offset
        yield from dump_parts(self._state)

    def close(self) -> None:
        """Flush and close everything, so that the next start need not check logs."""
        for log, _ in self._logs.values():
            log.close()
        self.journal.close()
        self.folder.close(clean=True)

    def abandon(self) -> None:
        """Release the folder as a crash does; the next start checks the logs."""
        self.journal.close()
        self.folder.close(clean=False)


def _dump_topic(topic: Topic) -> dict[str, Any]:
    partitions = [[partition.replicas, partition.leader_epoch] for partition in topic.partitions]
    found = {"id": topic.topic_id.hex, "configs": topic.configs, "partitions": partitions}
    return {**found, "internal": True} if topic.is_internal else found
