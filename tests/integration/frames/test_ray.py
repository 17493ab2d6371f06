"""`kafwire.ray.read_kafka`: a topic as a data set of Ray."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kafwire.testing.cluster import KafkaCluster
from tests.support.deadlines import PATIENCE_S
from tests.support.frame_rows import RECORDS, fill

pytest.importorskip("ray.data")
pytestmark = [pytest.mark.either_kafka, pytest.mark.long, pytest.mark.timeout(300)]  # Ray takes long to start

ROOT = Path(__file__).parents[3]
# Ray's processes live as long as the program.
PROGRAM = """
import sys
import ray
import kafwire.ray
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
rows = kafwire.ray.read_kafka(sys.argv[1], sys.argv[2], columns=["partition", "offset"], pieces=3)
print(sorted((row["partition"], row["offset"]) for row in rows.iter_rows()))
none = kafwire.ray.read_kafka(sys.argv[1], sys.argv[2], columns=["offset"], timestamps=(0, 1))
print(none.count())
"""


def test_a_data_set_has_each_record_once(cluster: KafkaCluster, topic_name: str) -> None:
    fill(cluster.bootstrap, topic_name, random.Random(7))
    environment = os.environ | {"PYTHONPATH": str(ROOT), "RAY_DATA_DISABLE_PROGRESS_BARS": "1"}
    with tempfile.TemporaryDirectory(prefix="ray") as folder:  # short, as sockets are in it
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, cluster.bootstrap, topic_name],
            capture_output=True,
            text=True,
            check=False,
            timeout=2 * PATIENCE_S,
            env=environment | {"RAY_TMPDIR": folder},
        )
    assert done.returncode == 0, done.stderr[-3000:]
    rows, none = done.stdout.splitlines()
    assert rows == str([(partition, offset) for partition in (0, 1) for offset in range(RECORDS)])
    assert none == "0"
