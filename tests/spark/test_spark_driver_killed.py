"""An exactly-once stream on a real broker whose driver is killed at each step of a commit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import kafwire
from kafwire.testing import KafkaCluster
from tests.support.spark.killed_spark_driver import STEPS
from tests.support.spark.open_transactions import open_transactions

ROOT = Path(__file__).parents[2]
LONGEST_S = 120


def run(cluster: KafkaCluster, topic: str, folder: Path, step: str) -> int:
    """Run the driver; returns its exit code."""
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    arguments = [cluster.bootstrap, topic, str(folder / "checkpoint"), step]
    with (folder / "driver.log").open("ab") as log:
        program = subprocess.Popen(
            [sys.executable, "-m", "tests.support.spark.killed_spark_driver", *arguments],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            return program.wait(LONGEST_S)
        finally:
            if program.poll() is None:
                os.killpg(program.pid, signal.SIGKILL)
                program.wait(LONGEST_S)


@pytest.mark.timeout((len(STEPS) + 1) * LONGEST_S)
def test_no_row_is_lost_or_repeated_however_the_driver_ends(
    cluster: KafkaCluster, topic_name: str, tmp_path: Path
) -> None:
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic_name, partitions=4, replication_factor=1)
        client.create_topic(f"{topic_name}-copy", partitions=2, replication_factor=1)
    count = 40 * (len(STEPS) + 2)
    with kafwire.Producer(cluster.bootstrap) as producer:
        for number in range(count):
            producer.send(topic_name, b"%d" % number, partition=number % 4)
    for step in STEPS:
        code = run(cluster, topic_name, tmp_path, step)
        assert code == -signal.SIGKILL, (step, (tmp_path / "driver.log").read_text()[-3000:])
    assert run(cluster, topic_name, tmp_path, "") == 0, (tmp_path / "driver.log").read_text()[-3000:]
    with kafwire.scan(cluster.bootstrap, f"{topic_name}-copy", isolation_level="read_committed") as scan:
        seen = sorted(int(record.value) for batch in scan.batches() for record in batch)
    assert seen == list(range(count))
    assert not open_transactions(cluster.bootstrap, topic_name)
