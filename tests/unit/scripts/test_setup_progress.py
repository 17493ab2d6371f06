"""The output of an installation from the source distribution while it compiles, and where it cannot."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def build(root: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Build two small modules as `pip install` does, which passes no number of processes."""
    (root / "kafwire").mkdir()
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, root)
    for name in ("_low", "_high"):
        (root / f"kafwire/{name}.pyx").write_text("value = 1\n")
    environment = {**os.environ, "KAFWIRE_BUILD_CACHE": "", "CFLAGS": "-O0", "KAFWIRE_EXT": "", **variables}
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    return subprocess.run(command, cwd=root, env=environment, check=False, capture_output=True, text=True)


def test_each_extension_is_named_once_it_is_built(tmp_path: Path) -> None:
    done = build(tmp_path)
    lines = [line for line in done.stderr.splitlines() if line.startswith("kafwire: ")]
    assert done.returncode == 0, done.stderr
    assert lines[0].startswith("kafwire: extensions to compile: 2, ")
    assert [line.split(" ")[1] for line in lines[1:]] == ["[1/2]", "[2/2]"]
    assert {line.split(" ")[2] for line in lines[1:]} == {"kafwire._low,", "kafwire._high,"}


def test_a_missing_compiler_is_named_with_the_packages_that_bring_one(tmp_path: Path) -> None:
    done = build(tmp_path, CC="no-such-compiler")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-2:]
    assert "no-such-compiler" in last[0]
    for words in (
        "no wheel fits",
        "needs a C compiler and Python's headers",
        "apt-get install gcc libc6-dev python3-dev",
    ):
        assert words in last[1]
