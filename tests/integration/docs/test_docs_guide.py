"""The programs of docs/guide keep their promises when they are killed in the middle, and run again."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import duckdb
import pytest

import kafwire
from kafwire.protocol import DeleteRecordsRequest
from kafwire.testing import EmbeddedKafka
from tests.support.deadlines import PATIENCE_S, until
from tests.support.doc_blocks import ADDRESS, Block, blocks, environment, run_python, write_files

SESSION = {
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 1000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,
}
# Ends the process as `kill -9` does, at the given call of a function.
KILLED = """
import os, signal
def killed_at(owner, name, times, before=True):
    whole, left = getattr(owner, name), [times]
    def call(*arguments, **options):
        left[0] -= 1
        if before and not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        result = whole(*arguments, **options)
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    setattr(owner, name, call)
"""


def one_block(document: str, has: str) -> Block:
    (found,) = (block for block in blocks("python") if block.document == document and has in block.text)
    return found


class Program:
    """A block of a page that is run again and again in one folder, on one broker."""

    def __init__(self, block: Block, folder: Path, kafka: EmbeddedKafka) -> None:
        text = block.text.replace(ADDRESS, kafka.bootstrap).replace("ROWS = 1_000_000", "ROWS = 100")
        self.block = Block(block.document, block.number, block.line, block.language, text)
        self.folder = folder

    def run(self, setup: str = "") -> str:
        done = run_python(self.block, setup, self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run_killed(self, setup: str) -> None:
        done = run_python(self.block, f"{KILLED}{setup}\n", self.folder)
        assert done.returncode == -signal.SIGKILL, done.stderr


def fill(kafka: EmbeddedKafka, count: int) -> None:
    """Append records to both partitions of the topic of the examples."""
    for partition in range(2):
        for first in range(0, count, 10):
            kafka.append("flights", [b"%d" % number for number in range(first, first + 10)], partition=partition)


PARQUET_KILLS = [
    'from pathlib import Path; killed_at(Path, "rename", 1)',
    'from pathlib import Path; killed_at(Path, "rename", 2, before=False)',
    'import pyarrow.parquet; killed_at(pyarrow.parquet.ParquetWriter, "write_batch", 2)',
]


def test_an_export_to_parquet_repeats_nothing(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    kafka.create_topic("flights", partitions=2)
    fill(kafka, 250)
    program = Program(one_block("parquet-duckdb", "def export"), tmp_path, kafka)
    for kill in PARQUET_KILLS:
        program.run_killed(kill)
        fill(kafka, 50)
    total = 250 + 50 * len(PARQUET_KILLS)
    program.run()
    fill(kafka, 20)
    assert program.run() == "0 20\n1 20\n"
    assert program.run() == "0 0\n1 0\n"
    query = f"SELECT partition, \"offset\" FROM '{tmp_path}/flights/*/*.parquet' ORDER BY ALL"
    rows = duckdb.execute(query).fetchall()
    assert rows == [(partition, offset) for partition in range(2) for offset in range(total + 20)]


def test_an_export_goes_past_markers_of_transactions(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    kafka.create_topic("flights")
    with kafwire.Producer(kafka.bootstrap, transactional_id="flights") as producer:
        for _ in range(2):
            with producer.transaction():
                producer.send("flights", b"EWR-IAH")
    program = Program(one_block("parquet-duckdb", "def export"), tmp_path, kafka)
    assert program.run() == "0 2\n"
    (file,) = (tmp_path / "flights/0").iterdir()
    assert file.name == f"{0:020}-{4:020}.parquet", "the last offset is a marker"
    assert program.run() == "0 0\n"


def test_a_table_of_duckdb_repeats_nothing(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    kafka.create_topic("flights", partitions=2)
    program = Program(one_block("parquet-duckdb", "progress"), tmp_path, kafka)
    assert program.run() == "[(0, 0)]\n"
    fill(kafka, 100)
    program.run_killed('import duckdb; killed_at(duckdb.DuckDBPyConnection, "commit", 1)')
    fill(kafka, 50)
    assert program.run() == "[(300, 300)]\n"
    assert program.run() == "[(300, 300)]\n"


def test_records_deleted_between_two_runs_are_an_error(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    kafka.create_topic("flights")
    kafka.append("flights", [b"EWR-IAH"] * 10)
    program = Program(one_block("parquet-duckdb", "progress"), tmp_path, kafka)
    assert program.run() == "[(10, 10)]\n"
    kafka.append("flights", [b"JFK-MIA"] * 10)
    partition = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=15)
    topic = DeleteRecordsRequest.DeleteRecordsTopic(name="flights", partitions=[partition])
    with kafwire.Client(kafka.bootstrap) as client:
        client.call(DeleteRecordsRequest(topics=[topic], timeout_ms=1000))
    done = run_python(program.block, "", tmp_path)
    assert done.returncode == 1
    assert "OFFSET_OUT_OF_RANGE" in done.stderr


BILLING_KILLS = {
    "while records are sent": 'killed_at(kafwire.Producer, "send", 12)',
    "before the offsets": 'killed_at(kafwire.Producer, "send_offsets", 2)',
    "before the commit": 'killed_at(kafwire.Producer, "commit_transaction", 2)',
    "after the commit": 'killed_at(kafwire.Producer, "commit_transaction", 2, before=False)',
}


class Billing:
    """Processes of the program of docs/guide/exactly-once.md."""

    def __init__(self, folder: Path, kafka: EmbeddedKafka) -> None:
        write_files("exactly-once", folder, kafka.bootstrap)
        file = folder / "billing.py"
        file.write_text(file.read_text().replace("max_poll_records=500", "max_poll_records=10"))
        self.folder, self.kafka = folder, kafka
        self.running: list[subprocess.Popen[str]] = []

    def start(self, name: str, setup: str = "") -> subprocess.Popen[str]:
        code = f"import kafwire, billing\n{KILLED}\n{setup}\nbilling.main({name!r})"
        process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=self.folder, env=environment(), stderr=subprocess.PIPE, text=True
        )
        self.running.append(process)
        return process

    def bills(self) -> Counter[bytes]:
        return Counter(record.value for record in self.kafka.records("bills", committed=True))

    def stop(self) -> None:
        for process in self.running:
            process.terminate()
        for process in self.running:
            process.communicate(timeout=PATIENCE_S)


@pytest.mark.kafka(configs=SESSION)
@pytest.mark.parametrize(
    "step",
    [
        pytest.param("while records are sent", marks=pytest.mark.long),
        pytest.param("before the offsets", marks=pytest.mark.long),
        "before the commit",
        "after the commit",
    ],
)
def test_each_order_has_one_bill_though_a_member_is_killed(kafka: EmbeddedKafka, tmp_path: Path, step: str) -> None:
    kafka.create_topic("orders", partitions=2)
    kafka.create_topic("bills")
    for partition in range(2):
        kafka.append("orders", [b"%d-%d" % (partition, number) for number in range(40)], partition=partition)
    wanted = {b"bill for %d-%d" % (partition, number) for partition in range(2) for number in range(40)}
    billing = Billing(tmp_path, kafka)
    try:
        victim = billing.start("0", BILLING_KILLS[step])
        assert victim.wait(PATIENCE_S) == -signal.SIGKILL
        again = billing.start("0")  # ends the transaction of the victim
        until(lambda: set(billing.bills()) == wanted)
        again.terminate()
        assert again.wait(PATIENCE_S) == 0, "SIGTERM ends it normally"
    finally:
        billing.stop()
    assert set(billing.bills().values()) == {1}
    assert kafka.committed("billing") == {("orders", 0): 40, ("orders", 1): 40}


@pytest.mark.kafka(configs=SESSION)
def test_an_aborted_transaction_is_done_again(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    kafka.create_topic("orders")
    kafka.create_topic("bills")
    kafka.append("orders", [b"%d" % number for number in range(30)])
    refused = kafka.fail_next("TxnOffsetCommit", "UNKNOWN_MEMBER_ID")
    billing = Billing(tmp_path, kafka)
    try:
        process = billing.start("0")
        until(lambda: len(billing.bills()) == 30)
        process.terminate()
        _, said = process.communicate(timeout=PATIENCE_S)
    finally:
        billing.stop()
    assert refused.times == 1
    assert said.startswith("aborted, and again from the group's offsets:")
    assert set(billing.bills().values()) == {1}
