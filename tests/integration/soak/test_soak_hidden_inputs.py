"""`make hidden-inputs` on a real cluster: a cycle that finds nothing, and one with a planted hidden transaction."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
LIMIT_S = 200.0


def hunt(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.soak.hidden_inputs", *options]
    return subprocess.run(command, cwd=ROOT, timeout=LIMIT_S, capture_output=True, text=True, check=False)


@pytest.mark.timeout(420)
def test_cycles_go_on_where_they_were_and_find_nothing(tmp_path: Path) -> None:
    first = hunt(tmp_path, "--cycles", "1", "--seed", "3", "--folder", str(tmp_path))
    assert first.returncode == 0, first.stdout + first.stderr
    second = hunt(tmp_path, "--resume", str(tmp_path), "--cycles", "2")
    assert second.returncode == 0, second.stdout + second.stderr
    state = json.loads((tmp_path / "state.json").read_text())
    assert (state["seed"], state["cycle"], state["judged"], state["findings"]) == (3, 2, 2, [])
    assert state["counts"]["inputs reported as committed"]
    assert (tmp_path / "brokers.log").read_text().count("cycle ") >= 2


@pytest.mark.timeout(240)
def test_a_planted_hidden_transaction_is_found_and_dumped(tmp_path: Path) -> None:
    done = hunt(tmp_path, "--mistake", "--cycles", "2", "--seed", "3", "--folder", str(tmp_path))
    assert done.returncode == 1, done.stdout + done.stderr
    (finding,) = json.loads((tmp_path / "state.json").read_text())["findings"]
    assert finding.startswith("cycle 0: hidden-0-0-sink: ")
    assert "hidden from a reader of committed records" in finding
    dumped = sorted((tmp_path / "cycle-0").glob("node-*-hidden-0-0-sink-*.txt"))
    text = "".join(path.read_text() for path in dumped)
    assert "HIDDEN " in text
    assert "ABORT of coordinator epoch" in text
    assert "aborted: producer" in text
    states = (tmp_path / "cycle-0" / "node-1-hidden-0-states.txt").read_text()
    assert "PrepareAbort" in states
    assert "hidden-0: error 0, " in (tmp_path / "cycle-0" / "coordinator.txt").read_text()
