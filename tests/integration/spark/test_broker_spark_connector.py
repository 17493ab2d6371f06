"""Spark's own Kafka connector on the embedded broker. Its jars are fetched, so it is in the long run alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kafwire.testing import EmbeddedKafka
from tests.support.spark.connector import LONGEST_S, PER_TRIGGER

ROOT = Path(__file__).parents[3]
COUNT = 500


@pytest.mark.long
def test_spark_s_connector_reads_writes_and_streams(tmp_path: Path) -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("flights", partitions=3)
        sent = []
        for index in range(3):
            values = [b"%d %d" % (index, number) for number in range(COUNT)]
            kafka.append("flights", values, partition=index)
            sent += values
        kafka.create_topic("copied", partitions=2)
        kafka.create_topic("streamed")
        command = [sys.executable, "-m", "tests.support.spark.connector", kafka.bootstrap, f"{tmp_path}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3 * LONGEST_S, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        read, distinct, batches = map(int, done.stdout.split()[-3:])
        assert read == distinct == len(sent)
        assert batches >= len(sent) // PER_TRIGGER
        for topic in ("copied", "streamed"):
            assert sorted(record.value for record in kafka.records(topic)) == sorted(sent)
