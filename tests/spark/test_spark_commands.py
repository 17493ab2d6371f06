"""`kafwire spark run` and `kafwire spark doctor` with a Spark of their own, on the embedded broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kafwire.spark.job import Stop, run
from kafwire.spark.job_file import read_job
from kafwire.testing import EmbeddedKafka
from tests.support.deadlines import until

ROOT = Path(__file__).parents[2]
LONGEST_S = 150
pytestmark = pytest.mark.timeout(3 * LONGEST_S)


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        yield running


def command(*arguments: str) -> subprocess.Popen[str]:
    """The command in a process of its own: it starts and stops a session."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "kafwire", "spark", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=LONGEST_S)
    finally:
        process.kill()
    return process.returncode, out, err


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def values(folder: Path) -> list[Any]:
    return sorted(value for file in folder.glob("*.parquet") for value in pq.read_table(file)["value"].to_pylist())


def test_ctrl_c_stops_after_the_running_batch_and_the_next_run_goes_on(
    kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path
) -> None:
    kafka.create_topic("stopped", partitions=1)
    for number in range(200):
        kafka.append("stopped", [b"%d" % number], partition=0)
    text = f"""
        trigger = "TRIGGER"
        checkpoint = "{tmp_path}/checkpoint"
        kafka.bootstrap.servers = "{kafka.bootstrap}"
        source = {{ subscribe = "stopped", options = {{ startingOffsets = "earliest", maxOffsetsPerTrigger = LIMIT }} }}
        sink = {{ path = "{tmp_path}/rows", format = "parquet" }}
        spark.master = "local[2]"
        report.plot = "{tmp_path}/plot.png"
        """
    process = command("run", write(tmp_path / "job.toml", text.replace("TRIGGER", "1 hour").replace("LIMIT", "10")))
    try:
        until((tmp_path / "checkpoint" / "offsets" / "0").exists, "the first batch runs", LONGEST_S)
        process.send_signal(signal.SIGINT)
        code, out, err = finish(process)
    finally:
        process.kill()
    assert code == 130, err
    assert "stopping after the running batch" in err
    assert (tmp_path / "checkpoint" / "commits" / "0").exists()
    assert out.splitlines()[0].split() == ["batches", "1"]
    assert out.count("#") == 40
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    text = text.replace("TRIGGER", "available-now").replace("LIMIT", "1000")
    run(spark, read_job(text, {}), lambda batch: None, Stop())
    assert values(tmp_path / "rows") == sorted(b"%d" % number for number in range(200))


def test_the_doctor_runs_its_check_in_the_executor(kafka: EmbeddedKafka) -> None:
    code, out, err = finish(command("doctor", kafka.bootstrap, "--master", "local[2]"))
    assert code == 0, out + err
    assert "the check ran in 1 executor(s)" in out
    assert out.count("executor ") >= 5
    assert "WRONG" not in out
