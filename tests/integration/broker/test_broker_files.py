"""Logs on disk beside Kafka's own: each reads the other's; and the logs that are left after kills."""

from __future__ import annotations

import random
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import kafwire
from kafwire.broker.storage.file_log import FileLog
from kafwire.broker.storage.files import FilePool, RealFiles
from kafwire.records import decode_batches
from kafwire.testing import EmbeddedKafka, KafkaCluster
from kafwire.testing.cluster.kafka import class_path, java
from tests.support import seeds
from tests.support.broker.file_logs import contents
from tests.support.broker.process import BrokerProcess
from tests.support.deadlines import ended, until

TOPIC = "flights"


def write(servers: str, count: int, size: int = 200, **options: Any) -> list[tuple[int, bytes]]:
    with kafwire.Producer(servers, **options) as producer:
        values = [b"%06d" % number + b"x" * (number % size) for number in range(count)]
        sent = [(producer.send(TOPIC, value, partition=0), value) for value in values]
        return [(result.result(60).offset, value) for result, value in sent]


def read(servers: str, count: int) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    with kafwire.Consumer(
        servers,
        assign=[kafwire.TopicPartition(TOPIC, 0)],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        for batch in consumer.batches(timeout=20):
            found += [(record.offset, record.value or b"") for record in batch]
            if len(found) >= count:
                break
    return found


def test_a_log_of_a_real_broker_opens(tmp_path: Path) -> None:
    options = {"log.segment.bytes": "1048576", "log.index.interval.bytes": "512", "auto.create.topics.enable": "true"}
    with KafkaCluster(1, properties=options) as cluster:
        written = write(cluster.bootstrap, 20_000, linger_ms=0, batch_size=2_000)
        cluster.node(1).stop()
        (folder,) = cluster.nodes[0].folder.rglob(f"{TOPIC}-0")
        shutil.copytree(folder, tmp_path / f"{TOPIC}-0")
    for is_clean in (True, False):
        log = FileLog(FilePool(RealFiles()), str(tmp_path / f"{TOPIC}-0"), is_clean=is_clean)
        assert log.cut_off == 0
        assert len(log.segments) > 1
        records = [record for data in contents(log) for batch in decode_batches(data) for record in batch]
        assert [(record.offset, record.value) for record in records] == written


def dump(paths: list[Path], *options: str) -> str:
    files = ",".join(map(str, paths))
    command = [java(), "-cp", class_path(), "org.apache.kafka.tools.DumpLogSegments", "--files", files, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_the_dump_tool_of_kafka_reads_segments_and_indexes(tmp_path: Path) -> None:
    with EmbeddedKafka(data=tmp_path / "data", configs={"log.index.interval.bytes": 512}) as kafka:
        kafka.ask(lambda state: state.topics.create(TOPIC, 1, configs={"segment.bytes": "1048576"}))
        written = write(kafka.bootstrap, 20_000, linger_ms=0, batch_size=2_000)
        assert read(kafka.bootstrap, len(written)) == written
    logs = sorted((tmp_path / "data" / f"{TOPIC}-0").glob("*.log"))
    assert len(logs) > 1
    reported = dump(logs, "--deep-iteration")
    assert "isvalid: false" not in reported
    found = reported.count("| offset:")
    indexes = [log.with_suffix(suffix) for log in logs for suffix in (".index", ".timeindex")]
    assert dump(indexes, "--index-sanity-check").count("passed sanity check") == len(indexes)
    reported = dump(indexes)
    assert reported.count("offset:") > 4 * len(logs)
    for complaint in ("Mismatches", "Found timestamp mismatch", "out of order"):
        assert complaint not in reported
    assert found == len(written)


class Writer:
    """Writes until `stop`; the acknowledged values, by offset."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._ends = threading.Event()
        self.acked: dict[int, bytes] = {}
        self.thread = threading.Thread(target=self._run, name="writer")
        self.thread.start()

    def _run(self) -> None:
        number = 0
        with kafwire.Producer(self._servers, delivery_timeout_ms=300_000, retry_backoff_ms=10) as producer:
            while not self._ends.is_set():
                values = [b"%08d" % (number + i) + b"x" * 500 for i in range(50)]
                number += len(values)
                results = [(producer.send(TOPIC, value, partition=0), value) for value in values]
                for result, value in results:
                    self.acked[result.result(60).offset] = value

    def goes_on(self) -> None:
        """Return when more has been acknowledged."""
        before = len(self.acked)
        until(lambda: len(self.acked) > before or not self.thread.is_alive(), "more is acknowledged")
        assert self.thread.is_alive()

    def end(self) -> None:
        self._ends.set()
        ended(self.thread, seconds=120)


@pytest.mark.parametrize("kills", [10, pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout(1200)])])
def test_acknowledged_records_survive_kills(tmp_path: Path, kills: int) -> None:
    rng = random.Random(seeds.of_test())
    with EmbeddedKafka(data=tmp_path / "data") as kafka:
        kafka.ask(lambda state: state.topics.create(TOPIC, 1, configs={"segment.bytes": "1048576"}))
    broker = BrokerProcess(tmp_path / "data")
    try:
        port = int(broker.bootstrap.rpartition(":")[2])
        writer = Writer(broker.bootstrap)
        try:
            for _ in range(kills):
                writer.goes_on()
                time.sleep(rng.uniform(0, 0.3))
                broker.kill()
                broker = BrokerProcess(tmp_path / "data", port)
        finally:
            writer.end()
        acked = writer.acked
        found = read(broker.bootstrap, max(acked) + 1)
    finally:
        broker.kill()
    assert len(acked) > kills
    assert [offset for offset, _ in found] == list(range(len(found)))
    assert [value for _, value in found] == [value for _, value in sorted(acked.items())]
