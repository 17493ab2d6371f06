"""A checkout without compiled extensions, which Python finds before an installed kafwire, says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import kafwire

PACKAGE = Path(kafwire.__file__).parent


def run(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}  # after the folder itself
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_client_names_the_folder_and_the_remedy(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "kafwire", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    failed = run(tmp_path, "import kafwire; kafwire.Producer('localhost')")
    assert failed.returncode == 1
    last = failed.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ModuleNotFoundError: {tmp_path / 'kafwire'} has the sources of kafwire")
    assert "run Python in another folder to use an installed kafwire, or compile here with `make build`" in last


def test_another_missing_module_is_its_own_error(tmp_path: Path) -> None:
    program = "import sys, kafwire; sys.modules['kafwire.sync.producer'] = None; kafwire.Producer"
    failed = run(tmp_path, program)
    assert failed.returncode == 1
    assert "has the sources" not in failed.stderr
    assert failed.stderr.strip().splitlines()[-1].startswith("ModuleNotFoundError: import of kafwire.sync.producer")
