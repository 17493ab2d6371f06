"""The tree of another commit, built beside this one, and the folders in which workers find one library or the other.

A worker starts in a folder of links: `benchmarks` and `demo` lead to this tree's programs, `kafwire` to one library.
So both libraries run the same programs. The tree of the commit is a copy from git's own objects; the work tree, its
index and its branches stay as they are.
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LIBRARY = "kafwire"
PROGRAMS = ("benchmarks", "demo")  # the latter has the flights that rows of Avro decode
_BUILT = "built"


class BaseTreeError(RuntimeError):
    """The other tree could not be made; the message says why."""


@dataclass(frozen=True, slots=True)
class BaseTree:
    """A commit, and the folder that has its built library."""

    commit: str
    folder: Path


def build_base_tree(root: Path, commit: str, below: Path) -> BaseTree:
    """Copy the commit's tree to a folder of `below`, and compile its extensions; one that is there already is kept.

    Raises:
        BaseTreeError: git knows no such commit, or its tree does not compile.
    """
    resolved = _run(["git", "-C", str(root), "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"], commit)
    folder = below / resolved[:12]
    if (folder / _BUILT).exists():
        return BaseTree(resolved, folder)
    below.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)  # a build that did not end
    _extract(root, resolved, folder)
    build = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    _run(build, f"{commit} does not compile", folder)
    (folder / _BUILT).touch()
    return BaseTree(resolved, folder)


def link_sides(root: Path, library: Path, folder: Path) -> Path:
    """Make the folder in which a worker finds this tree's programs, and the library of the tree `library`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, target in (*((name, root / name) for name in PROGRAMS), (LIBRARY, library / LIBRARY)):
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to(target.resolve(), target_is_directory=True)
    return folder


def check_library(folder: Path, library: Path) -> None:
    """Raise BaseTreeError unless a worker that starts in `folder` imports the library of the tree `library`."""
    code = "import kafwire, benchmarks; print(kafwire.__file__)"
    found = Path(_run([sys.executable, "-c", code], f"no library in {folder}", folder))
    if library.resolve() not in found.resolve().parents:
        raise BaseTreeError(f"a worker would import {found}, not the library of {library}")


def _extract(root: Path, commit: str, folder: Path) -> None:
    """Put the commit's files into the folder, whole or not at all."""
    with tempfile.TemporaryFile() as archive:
        subprocess.run(["git", "-C", str(root), "archive", commit], stdout=archive, check=True)
        archive.seek(0)
        with tarfile.open(fileobj=archive) as files:
            if hasattr(tarfile, "data_filter"):  # not in every CPython 3.11
                files.extraction_filter = tarfile.data_filter
            files.extractall(folder)


def _run(command: Sequence[str], failure: str, folder: Path | None = None) -> str:
    """The first line that a command prints."""
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise BaseTreeError(f"{failure}: {(ended.stderr.strip() or 'git has no such commit').splitlines()[-1]}")
    return (ended.stdout.splitlines() or [""])[0]
