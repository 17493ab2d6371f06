"""The examples pass as a user runs them: in a folder of their own, with pytest's own settings."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.doc_blocks import ROOT, environment

EXAMPLES = sorted((ROOT / "examples").glob("test_*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_passes(example: Path, tmp_path: Path) -> None:
    for file in (example, example.with_name("conftest.py")):
        shutil.copy(file, tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def test_the_readme_names_each_example() -> None:
    named = re.findall(r"^\| \[(test_\w+\.py)\]\(\1\)", (ROOT / "examples" / "README.md").read_text(), re.MULTILINE)
    assert sorted(named) == [example.name for example in EXAMPLES]
