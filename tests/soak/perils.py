"""Perils: faults that may rightly remove acknowledged records, or change what a topic is; each with its own oracle.

    python -m tests.soak --perils all            # or by name, with commas

Each has topics, senders and readers of its own, and no faults of the network. The records missing in the end are
exactly those that the log lost (`soak.ledger`), and readers got an error.
"""

from __future__ import annotations

import itertools
import os
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import kafwire
from kafwire.errors import BrokerError, KafkaError, LogTruncatedError, TransactionAbortableError
from kafwire.protocol.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kafwire.protocol.api.api_versions import ApiVersionsRequest
from kafwire.protocol.api.create_partitions import CreatePartitionsRequest
from kafwire.protocol.api.delete_records import DeleteRecordsRequest
from kafwire.protocol.api.update_features import UpdateFeaturesRequest
from kafwire.testing.cluster import KafkaCluster, KafkaNode
from kafwire.testing.cluster.kafka import OLDEST_VERSION
from kafwire.testing.history.observe import read_all
from kafwire.types import TopicPartition
from tests.soak.ledger import BEGINS, CUT, HOLES, NOTHING, Acked, How, Ledger, Reading, Reported, judge, same
from tests.soak.runner import name_of

Tell = Callable[[str], None]

_RATE = 400
_WINDOW = 200
_LOOK_S = 0.05
_DEADLINE_S = 120.0
_END_S = 60.0
_LEAD_S = 3.0
_CLIENTS = ("kafwire", "confluent-kafka")
_LENGTH = struct.Struct(">qi")
_LAST_DELTA = struct.Struct(">i")
_PROPERTIES = {
    "min.insync.replicas": 2,
    "log.cleaner.backoff.ms": 500,
    "replica.lag.time.max.ms": 5_000,
    "log.segment.delete.delay.ms": 1_000,
}


@dataclass
class Result:
    """The result of a peril; `skipped` says why it could not be played."""

    name: str
    acked: int = 0
    unknown: int = 0
    missing: int = 0
    reported: int = 0
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)
    skipped: str = ""

    def as_json(self) -> dict[str, Any]:
        """The form in a saved state."""
        return asdict(self)


class Load:
    """Sends to each partition of a topic in turn, in a thread of its own, until it is stopped."""

    def __init__(self, name: str, bootstrap: str, topic: str, ledger: Ledger, **options: Any) -> None:
        self.name = name
        self.paused = threading.Event()
        self.crash: BaseException | None = None
        self.errors: dict[str, int] = {}
        self._bootstrap = bootstrap
        self._topic = topic
        self._ledger = ledger
        self._options: dict[str, Any] = {
            "request_timeout_ms": 3_000,
            "delivery_timeout_ms": 30_000,
            "client_id": name,
        } | options
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._under_way = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Send nothing more, and wait for all outcomes."""
        self._stop.set()
        self._thread.join(_DEADLINE_S)
        if self._thread.is_alive():
            raise AssertionError(f"{self.name} did not end within {_DEADLINE_S:g} s of its stop")
        if self.crash is not None:
            raise AssertionError(f"{self.name} ended by itself") from self.crash

    def acked(self) -> int:
        """How many were acknowledged."""
        with self._lock:
            return len(self._ledger.acked)

    def _run(self) -> None:
        try:
            with kafwire.Producer(self._bootstrap, **self._options) as producer:
                due = time.monotonic()
                for number in itertools.count():
                    while not self._stop.is_set() and (
                        self.paused.is_set() or self._under_way >= _WINDOW or time.monotonic() < due
                    ):
                        time.sleep(1 / _RATE)
                    if self._stop.is_set():
                        break
                    due = max(due, time.monotonic() - 1) + 1 / _RATE
                    self._send(producer, number)
                producer.flush(_DEADLINE_S)
        except BaseException as error:
            self.crash = error

    def _send(self, producer: kafwire.Producer, number: int) -> None:
        try:
            partitions = sorted(producer.partitions_for(self._topic))
            where = TopicPartition(self._topic, partitions[number % len(partitions)])
            value, key = b"%s-%d" % (self.name.encode(), number), b"%d" % (number % 40)
            self._ledger.order[self.name, where].append(value)
            delivery = producer.send(self._topic, value, key=key, partition=where.partition)
        except KafkaError as error:  # there is no such topic now, for one
            self._count(error)
            time.sleep(_LOOK_S)
            return
        with self._lock:
            self._under_way += 1
        delivery.add_done_callback(lambda done: self._on_done(done, where, value, key))

    def _on_done(self, delivery: kafwire.Delivery, where: TopicPartition, value: bytes, key: bytes) -> None:
        error = delivery.exception(0)
        with self._lock:
            self._under_way -= 1
            if error is None:
                self._ledger.acked.append(Acked(where, delivery.result(0).offset, value, key, time.monotonic()))
            elif error.in_doubt:
                self._ledger.unknown.add(value)
            else:
                self._ledger.failed.add(value)
        if error is not None:
            self._count(error)

    def _count(self, error: KafkaError) -> None:
        self.errors[name_of(error)] = self.errors.get(name_of(error), 0) + 1


class Follower:
    """Reads a topic from its beginning on, in a thread of its own; a `slow` one lags behind."""

    def __init__(self, name: str, bootstrap: str, topic: str, ledger: Ledger, *, slow: bool = False) -> None:
        self.name = name
        self.crash: BaseException | None = None
        self.reported: dict[str, int] = {}
        self.paused = threading.Event()
        self._bootstrap = bootstrap
        self._topic = topic
        self._ledger = ledger
        self._slow = slow
        self._readings: dict[TopicPartition, Reading] = {}
        self._ends: dict[TopicPartition, int] | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self, ends: dict[TopicPartition, int]) -> None:
        """Read to these ends."""
        self._slow = False
        self.paused.clear()
        self._ends = ends
        self._thread.join(_END_S)
        if self._thread.is_alive():
            raise AssertionError(f"{self.name} did not come to {ends} within {_END_S:g} s")
        if self.crash is not None:
            raise AssertionError(f"{self.name} ended by itself") from self.crash

    def position(self) -> int:
        """How many records it was given."""
        return sum(len(reading.events) for reading in self._readings.values())

    def _run(self) -> None:
        try:
            while not self._follow():
                time.sleep(_LOOK_S)
        except BaseException as error:
            self.crash = error

    def _follow(self) -> bool:
        small: dict[str, Any] = {"fetch_max_bytes": 4_096, "max_partition_fetch_bytes": 4_096} if self._slow else {}
        try:
            with kafwire.Consumer(
                self._bootstrap,
                topics=self._topic,
                start="earliest",
                auto_offset_reset="error",
                chunk_bytes=1,
                metadata_max_age_ms=1_000,
                request_timeout_ms=3_000,
                client_id=self.name,
                **small,
            ) as consumer:
                for where in consumer.assignment:
                    self._reported(where, consumer.position(where), "begins")
                return self._read(consumer)
        except BrokerError as error:
            if error.name not in ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID"):
                raise
            self._count(error)
            return False

    def _read(self, consumer: kafwire.Consumer) -> bool:
        while True:
            if self.paused.is_set():
                time.sleep(_LOOK_S)
                continue
            try:
                batches = consumer.poll(0.1)
            except LogTruncatedError as error:
                where = TopicPartition(error.topic, error.partition)
                consumer.seek(where, error.offset)
                self._reported(where, error.offset, name_of(error))
                continue
            except BrokerError as error:
                if error.name != "OFFSET_OUT_OF_RANGE":
                    raise
                for where, first in consumer.beginning_offsets().items():
                    if consumer.position(where) < first:
                        consumer.seek(where, first)
                        self._reported(where, first, name_of(error))
                continue
            for batch in batches:
                where = TopicPartition(batch.topic or "", batch.partition or 0)
                self._reading(where).events += [(record.offset, record.value) for record in batch]
            if self._slow:
                time.sleep(_LOOK_S)
            ends = self._ends
            if ends is not None and all(
                where in consumer.assignment and consumer.position(where) >= end for where, end in ends.items()
            ):
                return True

    def _reading(self, where: TopicPartition) -> Reading:
        if where not in self._readings:
            self._readings[where] = Reading(self.name)
            self._ledger.readings[where].append(self._readings[where])
        return self._readings[where]

    def _reported(self, where: TopicPartition, position: int, why: str) -> None:
        reading = self._reading(where)
        if why != "begins":
            self.reported[why] = self.reported.get(why, 0) + 1
        if reading.events or why != "begins":
            reading.events.append(Reported(position, why))

    def _count(self, error: BrokerError) -> None:
        self.reported[name_of(error)] = self.reported.get(name_of(error), 0) + 1


class Scene:
    """A topic on a cluster, with a load and readers, and what they come to."""

    def __init__(self, name: str, cluster: KafkaCluster, tell: Tell, **topic: Any) -> None:
        self.name = f"peril-{name}"
        self.cluster = cluster
        self.tell = tell
        self.ledger = Ledger()
        self.client = kafwire.Client(cluster.direct, request_timeout_ms=3_000, default_api_timeout_ms=30_000)
        self.make = {"partitions": 2, "replication_factor": len(cluster.nodes)} | topic
        self.client.create_topic(self.name, **self.make)
        self.loads: list[Load] = []
        self.followers: list[Follower] = []

    def load(self, **options: Any) -> Load:
        """A sender more."""
        self.loads.append(
            Load(f"{self.name}-{len(self.loads)}", self.cluster.direct, self.name, self.ledger, **options)
        )
        return self.loads[-1]

    def follow(self, *, slow: bool = False) -> Follower:
        """A reader more."""
        name = f"reader {len(self.followers)}"
        self.followers.append(Follower(name, self.cluster.direct, self.name, self.ledger, slow=slow))
        return self.followers[-1]

    def acknowledge(self, more: int = 300) -> None:
        """Wait until so many more were acknowledged."""
        goal = self.loads[0].acked() + more
        until(lambda: self.loads[0].acked() >= goal, f"{more} more records are acknowledged")

    def move(self, replicas: tuple[int, ...], partitions: int) -> None:
        """Move all partitions to these nodes, and wait until they are there."""
        ask = AlterPartitionReassignmentsRequest
        parts = [
            ask.ReassignablePartition(
                partition_index=number, replicas=[*replicas[number % 2 :], *replicas[: number % 2]]
            )
            for number in range(partitions)
        ]
        topic = ask.ReassignableTopic(name=self.name, partitions=parts)
        response = self.client.call(ask(topics=[topic], timeout_ms=10_000))
        _check([response.error_code, *(part.error_code for one in response.responses for part in one.partitions)])

        def moved() -> bool:
            found = self.client.metadata([self.name]).topics[0].partitions
            wanted = set(replicas)
            return all(set(part.isr_nodes) == wanted == set(part.replica_nodes) for part in found)

        until(moved, f"all partitions are on {replicas}")

    def end(self, result: Result, lost: Callable[[Acked], bool], how: How, *, needs_error: bool = False) -> None:
        """Stop, read everything, judge. `needs_error`: at least one reader must have raised one."""
        for load in self.loads:
            load.stop()
            for name, count in load.errors.items():
                result.errors[name] = result.errors.get(name, 0) + count
        places = [TopicPartition(self.name, n) for n in self.client.partitions_for(self.name)]
        ends = self.client.offsets(places, "latest")
        for follower in self.followers:
            follower.finish(ends)
        first, log = (self._log(client) for client in _CLIENTS)
        if not same(first, log, how):
            result.violations.append(f"{' and '.join(_CLIENTS)} do not read the same log")
        judgement = judge(self.ledger, log, lost, how)
        result.violations += judgement.violations
        result.acked += judgement.acked
        result.unknown += len(self.ledger.unknown)
        result.missing += judgement.missing
        said = {name: count for follower in self.followers for name, count in follower.reported.items()}
        result.reported += sum(said.values())
        if needs_error and not said:
            result.violations.append("no reader got an error")
        self.tell(
            f"{self.name}: {judgement.acked} acknowledged, {judgement.missing} gone with the log, reported to {said}"
        )

    def close(self) -> None:
        """Let go."""
        self.client.close()

    def _log(self, client: str) -> dict[TopicPartition, list[tuple[int, bytes]]]:
        found: dict[TopicPartition, list[tuple[int, bytes]]] = {}
        read = read_all(self.cluster.direct, [self.name], client=client, isolation_level="read_uncommitted")
        for topic, partition, offsets, values, _ in read:
            rows = found.setdefault(TopicPartition(topic, partition), [])
            rows += [(offset, value or b"") for offset, value in zip(offsets, values, strict=True)]
        return found


def until(condition: Callable[[], bool], what: str, seconds: float = _DEADLINE_S) -> None:
    """Wait for something. Raises `AssertionError` when it does not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(_LOOK_S)


# -- the perils


def _delete_records(cluster: KafkaCluster, result: Result, tell: Tell) -> None:
    """Records before an offset are deleted, again and again, also in front of a reader that lags."""
    with scene("delete-records", cluster, tell) as it:
        it.load()
        it.follow()
        slow = it.follow(slow=True)
        it.acknowledge()
        ask = DeleteRecordsRequest
        for _ in range(4):
            slow.paused.set()
            it.acknowledge(400)
            places = [TopicPartition(it.name, number) for number in range(2)]
            for where, end in it.client.offsets(places, "latest").items():
                part = ask.DeleteRecordsPartition(partition_index=where.partition, offset=end - 50)
                topic = ask.DeleteRecordsTopic(name=it.name, partitions=[part])
                leader = it.client.metadata([it.name]).topics[0].partitions[where.partition].leader_id
                response = it.client.call(ask(topics=[topic], timeout_ms=10_000), broker=leader)
                _check([part.error_code for one in response.topics for part in one.partitions])
            slow.paused.clear()
            it.acknowledge(100)
        first = it.client.offsets(places, "earliest")
        it.end(result, lambda one: one.offset < first[one.where], BEGINS, needs_error=True)


def _compacted(cluster: KafkaCluster, result: Result, tell: Tell) -> None:
    """Let compaction remove older records of each key, while others come."""
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "1000",
        "min.cleanable.dirty.ratio": "0.01",
        "min.compaction.lag.ms": "0",
        "max.compaction.lag.ms": "1000",
    }
    with scene("compacted", cluster, tell, config=config) as it:
        load = it.load()
        it.follow()
        it.follow(slow=True)
        it.acknowledge(1_000)

        def is_compacted() -> bool:
            return sum(map(len, it._log("kafwire").values())) < load.acked() // 2

        until(is_compacted, "half of the topic is compacted away")
        it.acknowledge(200)
        load.stop()
        last: dict[tuple[TopicPartition, bytes], int] = {}
        for one in it.ledger.acked:
            place = one.where, one.key
            last[place] = max(last.get(place, -1), one.offset)
        it.end(result, lambda one: one.offset < last[one.where, one.key], HOLES)
        if not result.missing:
            result.violations.append("nothing was compacted")


def _recreated(cluster: KafkaCluster, result: Result, tell: Tell) -> None:
    """The topic is deleted and made again under its name, under load, with another number of partitions."""
    with scene("recreated", cluster, tell) as it:
        it.load()
        it.follow()
        it.follow(slow=True)
        it.acknowledge()
        it.client.delete_topic(it.name)
        time.sleep(_LEAD_S)  # a fault's length: until then brokers may acknowledge what goes to the old one
        made = time.monotonic()
        it.client.create_topic(it.name, **it.make | {"partitions": 3})
        it.acknowledge()
        it.end(result, lambda one: one.at < made, CUT, needs_error=True)


def _grown(cluster: KafkaCluster, result: Result, tell: Tell) -> None:
    """Partitions are added, and others move from node to node, under load. Nothing may be lost."""
    with scene("grown", cluster, tell) as it:
        it.load(metadata_max_age_ms=1_000)
        it.follow()
        it.follow(slow=True)
        it.acknowledge()
        grow = CreatePartitionsRequest
        for count in (3, 5):
            topic = grow.CreatePartitionsTopic(name=it.name, count=count, assignments=None)
            response = it.client.call(grow(topics=[topic], timeout_ms=10_000, validate_only=False))
            _check([one.error_code for one in response.results])
            it.acknowledge(200)
        for replicas in ((1, 2), (2, 3), (3, 1, 2)):
            it.move(replicas, 5)
            it.acknowledge(200)
        it.end(result, lambda _: False, NOTHING)


def _all_killed(cluster: KafkaCluster, result: Result, tell: Tell) -> None:
    """All nodes are killed at once, and started again: what was acknowledged is on their disks."""
    with scene("all-killed", cluster, tell) as it:
        it.load()
        it.follow()
        it.follow(slow=True)
        for _ in range(2):
            it.acknowledge()
            for node in cluster.nodes:
                node.signal(9)
            for node in cluster.nodes:
                node.kill()
            for node in cluster.nodes:
                node.start(wait=False)
            for node in cluster.nodes:
                node.wait_ready(_DEADLINE_S)
        it.acknowledge()
        it.end(result, lambda _: False, NOTHING)


def _unclean(cluster: KafkaCluster, result: Result, tell: Tell) -> None:
    """The one replica that has everything is gone, and one that lacks some is elected: its log is the log now."""
    config = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    with scene("unclean", cluster, tell, partitions=1, config=config) as it:
        it.move((1, 2), 1)  # the third is for the quorum of controllers alone
        load = it.load()
        it.follow()
        it.acknowledge()
        where = TopicPartition(it.name, 0)

        def part() -> Any:
            return it.client.metadata([it.name]).topics[0].partitions[0]

        until(lambda: part().leader_id in (1, 2), "it has a leader")
        leader = part().leader_id
        dead, behind = cluster.node(leader), cluster.node(3 - leader)
        behind.kill()
        until(lambda: behind.id not in part().isr_nodes, f"node {behind.id} falls out")
        it.acknowledge(400)
        load.paused.set()
        until(lambda: it.followers[0].position() >= load.acked(), "the reader has read what will be lost")
        dead.kill()
        all_dead = time.monotonic()
        cut, whole = _log_end(behind, where), _log_end(dead, where)
        tell(f"{it.name}: node {behind.id} has {cut} of {whole} records")
        behind.start(timeout=_DEADLINE_S)
        until(lambda: part().leader_id == behind.id, "a leader is elected without the records", 60)
        load.paused.clear()
        it.acknowledge(400)
        dead.start(timeout=_DEADLINE_S)
        until(lambda: len(part().isr_nodes) == 2, "both are in sync again")
        it.acknowledge(100)
        it.end(result, lambda one: one.at < all_dead and one.offset >= cut, CUT, needs_error=True)
        if result.missing == 0:
            result.violations.append("the election lost nothing")


def _expired(_cluster: KafkaCluster | None, result: Result, tell: Tell) -> None:
    """Brokers forget producer ids and transactional ids of producers that were idle, which then go on."""
    properties = {
        "producer.id.expiration.ms": 2_000,
        "producer.id.expiration.check.interval.ms": 500,
        "transactional.id.expiration.ms": 3_000,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 500,
        "transaction.state.log.min.isr": 1,
    }
    with KafkaCluster(1, properties=properties) as cluster, scene("expired", cluster, tell, partitions=1) as it:
        load = it.load()
        it.follow()
        for _ in range(3):
            it.acknowledge(200)
            load.paused.set()
            time.sleep(4)  # a fault's length: until ids have expired
            load.paused.clear()
        it.acknowledge(200)
        it.client.create_topic("peril-expired-transactions", partitions=1)
        values = [b"%d" % number for number in range(4)]
        with kafwire.Producer(cluster.direct, transactional_id="expires", request_timeout_ms=3_000) as producer:
            for value in values:
                if not _commit(producer, value, result) and not _commit(producer, value, result):
                    result.violations.append(f"a producer whose id has expired does not commit {value!r}, asked twice")
                time.sleep(6)  # the same
        read = read_all(
            cluster.direct, ["peril-expired-transactions"], client="kafwire", isolation_level="read_committed"
        )
        seen = [value for _, _, _, values, _ in read for value in values]
        if seen != values:
            result.violations.append(f"{values} were committed, and {seen} are there")
        it.end(result, lambda _: False, NOTHING)


def _commit(producer: kafwire.Producer, value: bytes, result: Result) -> bool:
    """A transaction with one record; False if it was to be aborted, after which the producer is to go on."""
    try:
        with producer.transaction(30):
            producer.send("peril-expired-transactions", value)
    except TransactionAbortableError as error:
        result.errors[name_of(error)] = result.errors.get(name_of(error), 0) + 1
        return False
    return True


def _upgraded(_cluster: KafkaCluster | None, result: Result, tell: Tell) -> None:
    """A rolling upgrade under load, and then the features that the new version brings."""
    properties = {"min.insync.replicas": 2}
    with (
        KafkaCluster(3, OLDEST_VERSION, properties) as cluster,
        scene("upgraded", cluster, tell) as it,
    ):
        it.load()
        it.load(transactional_id=None, acks="all")
        it.follow()
        it.follow(slow=True)
        it.acknowledge()
        new = KafkaCluster(1).version
        for node in cluster.nodes:
            node.stop()
            cluster.use_version(new)
            node.start(timeout=_DEADLINE_S)

            def whole() -> bool:
                found = it.client.metadata([it.name]).topics[0].partitions
                return all(len(part.isr_nodes) == 3 for part in found)

            until(whole, "all are in sync again")
            it.acknowledge(200)
        _finalise(it.client, tell)
        it.acknowledge(400)
        it.end(result, lambda _: False, NOTHING)


def _finalise(client: kafwire.Client, tell: Tell) -> None:
    """Finalize the highest level of each feature of this version; the metadata's first, as others need it."""
    response = client.call(ApiVersionsRequest(client_software_name="soak", client_software_version="1"))
    levels = {one.name: one.max_version for one in response.supported_features}
    names = [name for name in ("metadata.version", "transaction.version", "group.version") if name in levels]
    ask = UpdateFeaturesRequest
    for name in names:
        key = ask.FeatureUpdateKey(feature=name, max_version_level=levels[name], upgrade_type=1)
        updated = client.call(ask(timeout_ms=30_000, feature_updates=[key], validate_only=False))
        _check([updated.error_code, *(one.error_code for one in updated.results or ())])
    tell(f"finalised { ({name: levels[name] for name in names}) }")


def _disk_full(_cluster: KafkaCluster | None, result: Result, tell: Tell) -> None:
    """A node's disk is full: the node ends, the others go on; with room it comes back."""
    if os.geteuid() != 0:
        result.skipped = "a small file system can only be mounted by root"
        return
    properties = {"min.insync.replicas": 2, "log.segment.bytes": 4 << 20, "log.retention.bytes": -1}
    with KafkaCluster(3, properties=properties) as cluster, scene("disk-full", cluster, tell, partitions=1) as it:
        node = cluster.node(3)
        node.stop()
        kept = node.data.with_name("data-before")
        node.data.rename(kept)
        node.data.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(node.data)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            result.skipped = "a small file system cannot be mounted here"
            return
        try:
            shutil.copytree(kept, node.data, dirs_exist_ok=True)
            node.start(timeout=_DEADLINE_S)
            it.load()
            it.follow()
            it.acknowledge()
            (node.data / "ballast").write_bytes(b"")
            _fill(node.data / "ballast")
            until(lambda: node.pid is None, "the node whose disk is full ends", 90)
            tell(f"{it.name}: node 3 ended on its full disk")
            it.acknowledge()
            (node.data / "ballast").unlink()
            subprocess.run(["mount", "-o", "remount,size=400m", str(node.data)], check=True, capture_output=True)
            node.on_end()
            node.start(timeout=_DEADLINE_S)
            until(
                lambda: len(it.client.metadata([it.name]).topics[0].partitions[0].isr_nodes) == 3,
                "the node is in sync again",
            )
            it.acknowledge()
            it.end(result, lambda _: False, NOTHING)
        finally:
            node.kill()
            subprocess.run(["umount", "-l", str(node.data)], check=False, capture_output=True)


def _fill(file: Path) -> None:
    """Take all the room there is."""
    with file.open("ab", buffering=0) as out:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    out.write(bytes(size))
            except OSError:
                continue


def _log_end(node: KafkaNode, where: TopicPartition) -> int:
    """The offset after the last whole batch on a node's disk."""
    end = 0
    for file in sorted((node.data / f"{where.topic}-{where.partition}").glob("*.log")):
        data = file.read_bytes()
        at = 0
        while at + 27 <= len(data):
            base, length = _LENGTH.unpack_from(data, at)
            if length <= 0 or at + 12 + length > len(data):
                break
            end = base + _LAST_DELTA.unpack_from(data, at + 23)[0] + 1
            at += 12 + length
    return end


def _check(codes: Iterable[int]) -> None:
    wrong = [kafwire.errors.broker_error(code).name for code in codes if code]
    if wrong:
        raise AssertionError(f"the cluster refused: {wrong}")


@contextmanager
def scene(name: str, cluster: KafkaCluster, tell: Tell, **topic: Any) -> Iterator[Scene]:
    """A scene, closed in the end."""
    made = Scene(name, cluster, tell, **topic)
    try:
        yield made
    finally:
        made.close()


Peril = Callable[[Any, Result, Tell], None]
SHARED: dict[str, Peril] = {
    "delete-records": _delete_records,
    "compacted": _compacted,
    "recreated": _recreated,
    "grown": _grown,
    "all-killed": _all_killed,
    "unclean": _unclean,
}
ALONE: dict[str, Peril] = {"expired": _expired, "upgraded": _upgraded, "disk-full": _disk_full}
PERILS = SHARED | ALONE


def run(names: Iterable[str], tell: Tell) -> list[Result]:
    """Play perils one after the other, those that can on one cluster."""
    chosen = list(names)
    results = []
    shared = [name for name in chosen if name in SHARED]
    if shared:
        with KafkaCluster(3, properties=_PROPERTIES) as cluster:
            results += [_play(name, SHARED[name], cluster, tell) for name in shared]
    return results + [_play(name, ALONE[name], None, tell) for name in chosen if name in ALONE]


def _play(name: str, peril: Peril, cluster: KafkaCluster | None, tell: Tell) -> Result:
    result = Result(name)
    began = time.monotonic()
    tell(f"peril {name}")
    try:
        peril(cluster, result, tell)
    except (AssertionError, KafkaError) as error:
        cause = f": {error.__cause__!r}" if error.__cause__ is not None else ""
        result.violations.append(f"{type(error).__name__}: {error}{cause}")
    result.seconds = round(time.monotonic() - began, 1)
    result.violations = [f"peril {name}: {one}" for one in result.violations]
    for one in result.violations:
        tell(one)
    return result
