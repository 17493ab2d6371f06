"""Groups that are rebalanced under load, on a real cluster: a short form of `make rebalances`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
REBALANCES = 24
LIMIT_S = 240.0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("options", [[], ["--exactly-once", "--rate", "300"], ["--client", "confluent"]], ids=" ".join)
def test_groups_keep_their_promises(options: list[str], tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.soak.rebalances",
        "--rebalances",
        str(REBALANCES),
        "--folder",
        str(tmp_path),
    ]
    done = subprocess.run([*command, *options], cwd=ROOT, timeout=LIMIT_S, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert sum(group["rebalances"] for group in figures["groups"].values()) >= REBALANCES
    assert all(group["records"] for group in figures["groups"].values())
