"""Environments of their own for packages that the tests' environment does not have, or has in another release.

An environment finds the packages of the tests' environment behind its own. The cache folder keeps environments.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path

from kafwire.testing.cluster.kafka import cache_folder

INSTALL_S = 600


def interpreter_with(requirements: Sequence[str], kind: str) -> str:
    """Return the interpreter of an environment of the requirements. The first call makes the environment."""
    key = hashlib.sha256(repr((tuple(requirements), sys.version)).encode()).hexdigest()[:12]
    folder = cache_folder() / f"{kind}-{key}"
    python = folder / "bin" / "python"
    if not (folder / "made").exists():
        venv.create(folder, clear=True, symlinks=True)
        site = subprocess.run(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        (Path(site) / "tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
        subprocess.run([*pip, "install", "--quiet", "--no-compile", *requirements], check=True, timeout=INSTALL_S)
        (folder / "made").touch()
    return str(python)
