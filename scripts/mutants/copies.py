"""A private copy of the tree, in which one break at a time is built. The tree itself is never touched."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

from scripts.mutants.site import Site

BUILD_SECONDS = 600
IMPORT_SECONDS = 120
# Prints setup.py's build: its extensions and their sources, without calling a compiler.
ASK = """
import json, sys
import Cython.Build, setuptools
Cython.Build.cythonize = lambda extensions, **_: extensions
setuptools.setup = lambda **said: print(json.dumps({e.name: [*e.sources, *e.depends] for e in said["ext_modules"]}))
sys.argv = ["setup.py"]
exec(compile(open("setup.py").read(), "setup.py", "exec"), {"__name__": "__main__", "__file__": "setup.py"})
"""


class NotBuiltError(Exception):
    """A break that no compiler takes, or that cannot be imported."""


def tracked(root: Path) -> list[Path]:
    """All files of the tree that are not ignored, and the extensions that were built in place."""
    said = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        check=True,
    )
    found = [Path(os.fsdecode(name)) for name in said.stdout.split(b"\0") if name]
    found += [path.relative_to(root) for path in root.glob("kafwire/**/*.so")]
    return [path for path in found if (root / path).is_file()]


class Runner:
    """Runs pytest in children of a process that has it in memory (see `zygote`)."""

    def __init__(self, log: Path) -> None:
        self._log = log
        script = Path(__file__).with_name("zygote.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(
        self, folder: Path, environment: dict[str, str], seconds: float, **what: list[str]
    ) -> tuple[int | None, str]:
        """(the exit status, None if it took too long; what was printed), of `arguments` of pytest, or `modules`."""
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError("both are pipes")
        said = {"folder": str(folder), "environment": environment, "seconds": seconds, "log": str(self._log), **what}
        self._process.stdin.write(json.dumps(said) + "\n")
        self._process.stdin.flush()
        status: int | None = json.loads(self._process.stdout.readline())["status"]
        return status, self._log.read_text(errors="replace")

    def close(self) -> None:
        """End it."""
        self._process.communicate()


class Copy:
    """One copy, at `home`; `through` is put before what takes long, such as a compiler."""

    def __init__(self, root: Path, home: Path, through: Sequence[str] = ()) -> None:
        self._root = root
        self.home = home
        self._through = list(through)
        self._ticks = time.time()
        self._kept: dict[Path, bytes] = {}  # what was there before the break
        home.parent.mkdir(parents=True, exist_ok=True)
        self.runner = Runner(home.parent / "log")
        home.mkdir(parents=True, exist_ok=True)
        files = tracked(root)
        kept = {*files, Path(".git")}
        for folder, _, names in os.walk(home):
            for name in names:
                path = (Path(folder) / name).relative_to(home)
                if path not in kept and path.parts[0] != "build" and path.suffix != ".pyc":
                    (home / path).unlink()
        for path in files:
            self._restore(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.runner.close()

    def _restore(self, path: Path) -> None:
        source, target = self._root / path, self.home / path
        if target.exists() and target.read_bytes() == source.read_bytes():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        shutil.copymode(source, target)
        self._touch(target)

    def _touch(self, path: Path) -> None:
        """Give it a time that is later than all that was made of it, in whole seconds: that is found stale by it."""
        self._ticks = max(self._ticks, time.time()) + 1
        os.utime(path, (self._ticks, self._ticks))

    def environment(self) -> dict[str, str]:
        """The environment of processes that run in the copy."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MUTANTS_", "KAFWIRE_EXT"))}
        return kept | {"PYTHONPATH": str(self.home), "HYPOTHESIS_STORAGE_DIRECTORY": str(self.home / ".hypothesis")}

    def extensions_of(self, path: Path) -> list[str]:
        """The extensions that have to be compiled when `path` changes."""
        said = subprocess.run([sys.executable, "-c", ASK], cwd=self.home, capture_output=True, text=True, check=True)
        sources: dict[str, list[str]] = json.loads(said.stdout.splitlines()[-1])
        if path.suffix != ".h":
            return sorted(name for name, files in sources.items() if str(path) in files)
        including = includers(self.home, path)
        return sorted(name for name, files in sources.items() if including & {Path(file) for file in files})

    def put(self, site: Site) -> None:
        """Break it. Raises `NotBuiltError`. A change of the tree since it was copied does not matter."""
        target = self.home / site.path
        self._keep(target)
        target.write_text(site.apply(target.read_text()))
        self._touch(target)
        modules = [".".join(site.path.with_suffix("").parts)]
        if site.path.suffix != ".py":
            modules = self.extensions_of(site.path)
            for path in self.home.glob("kafwire/**/*.so"):
                if path.name.partition(".")[0] in {name.rpartition(".")[2] for name in modules}:
                    self._keep(path)
            self._compile(modules)
        names = [name.removesuffix(".__init__") for name in modules]
        status, printed = self.runner.run(self.home, self.environment(), IMPORT_SECONDS, modules=names)
        if status:
            raise NotBuiltError(printed.strip()[-600:] or f"status {status}")

    def put_right(self) -> None:
        """Mend it again."""
        while self._kept:
            path, content = self._kept.popitem()
            path.unlink()  # a new file: a process may still have the old one mapped
            path.write_bytes(content)
            self._touch(path)
        shutil.rmtree(self.home / ".hypothesis", ignore_errors=True)

    def _keep(self, path: Path) -> None:
        self._kept[path] = path.read_bytes()

    def _compile(self, modules: Iterable[str]) -> None:
        names = ",".join(name.rpartition(".")[2] for name in modules)
        more = {"KAFWIRE_EXT": names, "CFLAGS": "-g0", "CCACHE_BASEDIR": str(self.home), "CCACHE_NOHASHDIR": "1"}
        if shutil.which("ccache"):
            more["CC"] = "ccache gcc"
        command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace", "--force"]
        ended = subprocess.run(
            [*self._through, "timeout", str(BUILD_SECONDS), *command],
            cwd=self.home,
            env=self.environment() | more,
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode:
            raise NotBuiltError((ended.stderr or ended.stdout).strip()[-600:] or f"status {ended.returncode}")


def includers(root: Path, header: Path) -> set[Path]:
    """The sources that see a header, through others too."""
    names = {header.name}
    files = [path for glob in ("kafwire/**/*.[ch]", "kafwire/**/*.p[yx][xd]") for path in root.glob(glob)]
    written = {path.relative_to(root): path.read_text() for path in files}
    found: set[Path] = set()
    while True:
        pattern = re.compile(
            rf"(?:#\s*include|cdef extern from)\s*\"(?:[\w/]*/)?(?:{'|'.join(map(re.escape, names))})\""
        )
        new = {path for path, content in written.items() if pattern.search(content)} - found
        if not new:
            break
        found |= new
        names |= {path.name for path in new if path.suffix == ".h"}
    declared = {path.stem for path in found if path.suffix == ".pxd"}  # a cimport sees the header too
    cimports = re.compile(rf"from kafwire\.(?:\w+\.)?({'|'.join(sorted(declared)) or '-'}) cimport")
    also = {path for path, content in written.items() if path.suffix == ".pyx" and cimports.search(content)}
    return found | also | {path.with_suffix(".pyx") for path in found if path.suffix == ".pxd"}
