"""`setup.py` with a build cache: the tree has the extension of its sources, also after a change was taken back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def build(root: Path, value: int) -> str:
    """Build a module with that value, and return what the extension in the tree says."""
    (root / "kafwire/_low.pyx").write_text(f"value = {value}\n")
    environment = {**os.environ, "KAFWIRE_BUILD_CACHE": str(root / "cache"), "CFLAGS": "-O0", "KAFWIRE_EXT": ""}
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    subprocess.run(command, cwd=root, env=environment, check=True, capture_output=True)
    code = "from kafwire import _low; print(_low.value)"
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        env={**os.environ, "PYTHONPATH": ""},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def test_a_change_that_is_taken_back_is_taken_back_in_the_tree(tmp_path: Path) -> None:
    (tmp_path / "kafwire").mkdir()
    (tmp_path / "kafwire/__init__.py").touch()
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    assert [build(tmp_path, value) for value in (1, 2, 1)] == ["1", "2", "1"]
    assert len(list((tmp_path / "cache").iterdir())) == 2
