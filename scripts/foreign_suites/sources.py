"""Sources of a Python client's tests: the source distribution of its installed version, by the user's pip."""

from __future__ import annotations

import subprocess
from pathlib import Path

from scripts.archives import unpacked
from scripts.foreign_suites.running import SuiteError

__all__ = ["downloaded", "installed_version"]

_SECONDS = 600


def installed_version(package: str, python: str) -> str:
    """Return the version that an interpreter's environment has of a distribution."""
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SuiteError(f"{package} is not installed in the environment of {python}")
    return done.stdout.strip()


def downloaded(package: str, version: str, folder: Path, python: str) -> Path:
    """Download a source distribution by pip, as the user configured it, and unpack it; the folder of the sources."""
    pip = [python, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    command = [*pip, "--no-binary", package, "--dest", str(folder), f"{package}=={version}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise SuiteError(f"pip did not download {package} {version} within {_SECONDS} s") from None
    archives = sorted(folder.glob("*.tar.gz"))
    if done.returncode or len(archives) != 1:
        end = (done.stderr.strip().splitlines() or ["no archive"])[-1]
        raise SuiteError(f"pip did not download the sources of {package} {version}: {end}; or give {package}=FOLDER")
    try:
        return unpacked(archives[0], folder / "sources")
    except ValueError as error:
        raise SuiteError(str(error)) from None
