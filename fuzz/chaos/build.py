"""Builds kafwire with a sanitizer under build/sanitized/, apart from the normal extensions."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from fuzz.native.build import ROOT, BuildError

FOLDER = Path("build/sanitized")
# sanitizer -> what the compiler calls it, and the library that must be loaded before all others
SANITIZERS = {"memory": ("address,undefined", "libasan.so"), "threads": ("thread", "libtsan.so")}
_BESIDE = ["setup.py", "pyproject.toml", "README.md", "LICENSE"]


def build(sanitizer: str, root: Path = ROOT) -> Path:
    """Return the folder that has the sanitized `kafwire` of a source tree. Raises `BuildError`."""
    preloaded(sanitizer)
    folder = root / FOLDER / sanitizer
    shutil.rmtree(folder / "lib", ignore_errors=True)  # modules that the tree no longer has would stay
    command = [sys.executable, "-B", "setup.py", "--quiet", "build", "--build-base", str(folder)]
    done = subprocess.run(
        [*command, "--build-lib", str(folder / "lib")],
        cwd=root,
        env={**os.environ, "KAFWIRE_SANITIZE": SANITIZERS[sanitizer][0]},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return folder / "lib"


def copy_tree(target: Path) -> Path:
    """Copy what `build` needs, for changes that the tree must not have; returns the copy."""
    built = shutil.ignore_patterns("*.so", "__pycache__")
    for package in ("kafwire", "pyspark_kafwire"):
        shutil.copytree(ROOT / package, target / package, ignore=built)
    for name in _BESIDE:
        shutil.copy(ROOT / name, target / name)
    return target


def preloaded(sanitizer: str) -> str:
    """Return what LD_PRELOAD must name: the sanitizer's library, and C++'s, whose exceptions it watches.

    Raises `BuildError` naming the Debian package.
    """
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC"))
    found = []
    for name in (SANITIZERS[sanitizer][1], "libstdc++.so.6"):
        path = subprocess.run([*compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
        found.append(path.stdout.strip())
        if not Path(found[-1]).is_absolute():
            raise BuildError(f"{compiler[0]} has no {name}: apt-get install gcc libgcc-<version>-dev libstdc++6")
    return " ".join(found)
