"""A CPython for another processor, from Debian's packages, run by qemu-user: to import a wheel that is built for it."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from scripts import debian
from scripts.dist import ROOT, TRY
from scripts.wheels import DistError

CRC = ["armv8", "table"]  # the emulator has ARMv8's instructions


def attempt(wheel: Path, machine: str, folder: Path) -> str:
    """Import all of a wheel by the CPython of Debian's packages, and return how; `DistError` where that fails."""
    if not debian.available():
        return "not run: no apt-get, whose packages bring the emulator and its CPython"
    root = debian.unpacked("python3", folder / machine, debian.ARCHITECTURES[machine])
    emulator = debian.emulator(machine, folder)
    (python,) = (path for path in (root / "usr/bin").iterdir() if re.fullmatch(r"python3\.\d+", path.name))
    minor = python.name.removeprefix("python3.")
    if f"-cp3{minor}-" not in wheel.name:
        return f"not run: Debian's CPython is 3.{minor}"
    site = folder / f"{machine}-site"
    shutil.rmtree(site, ignore_errors=True)
    _dependencies(site, machine, minor)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    environment = {"PYTHONPATH": str(site), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(emulator), "-L", str(root), str(python), "-W", "error", "-c", TRY, *CRC]
    done = subprocess.run(command, cwd=site, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DistError(f"{wheel.name} fails under {emulator}: {done.stderr}")
    return f"{done.stdout.strip()}, CPython 3.{minor} under {emulator.name}"


def _dependencies(site: Path, machine: str, minor: str) -> None:
    """Put the wheels of kafwire's own requirements for that processor into a folder."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    platforms = [f"--platform=manylinux{name}_{machine}" for name in ("2014", "_2_17", "_2_28")]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--only-binary", ":all:"]
    subprocess.run([*pip, *platforms, "--python-version", f"3.{minor}", "--target", site, *wanted], check=True)
