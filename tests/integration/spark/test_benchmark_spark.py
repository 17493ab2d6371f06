"""The Spark benchmark in its short form. It fetches the jars of Spark's connector, so it is in the long run alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.spark.rows import ROWS
from kafwire.testing import KafkaCluster

ROOT = Path(__file__).parents[3]
LONGEST_S = 600


@pytest.mark.long
@pytest.mark.timeout(2 * LONGEST_S)
def test_every_kind_of_row_has_figures_of_every_contender(cluster: KafkaCluster, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.spark", "--short", "--bootstrap", cluster.bootstrap]
    command += ["--folder", f"{tmp_path}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    rows = json.loads((tmp_path / "spark.json").read_text())["rows"]
    assert list(rows) == [row.name for row in ROWS if row.is_short]
    for row in rows.values():
        assert all(row["contenders"].values())
        assert all(goal["value"] is not None for goal in row["goals"])
