"""Builds the Cython extensions.

KAFWIRE_EXT=_codec,_io builds only those; KAFWIRE_TRACE=1 builds for line coverage; KAFWIRE_DEBUG=1 keeps debug symbols.
KAFWIRE_SANITIZE=address,undefined builds with sanitizers, for `fuzz/chaos`.
KAFWIRE_BUILD_CACHE names a folder where built extensions are kept by a hash of all that they are made from.
KAFWIRE_SOURCE_URL is the address of the repository, for the links that a package index shows: no file here names one.
"""

import copy
import hashlib
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import Cython
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

PACKAGE = Path("kafwire")
TRACE = os.environ.get("KAFWIRE_TRACE") == "1"
DEBUG = os.environ.get("KAFWIRE_DEBUG") == "1"
SANITIZE = os.environ.get("KAFWIRE_SANITIZE")
SOURCE_URL = os.environ.get("KAFWIRE_SOURCE_URL", "").rstrip("/")
LINKING = ["-pthread"]
if "linux" in sysconfig.get_platform():
    # Full RELRO: every symbol is bound when the extension is loaded, and its table is read-only from then on.
    LINKING += ["-ldl", "-Wl,-z,relro,-z,now", *([] if DEBUG or SANITIZE else ["-Wl,--strip-debug"])]

# An extension is a `.pyx` of the tree. What C it links stands in its first line: `# distutils: sources = ...`.
found = sorted(PACKAGE.rglob("*.pyx"))
chosen = set(filter(None, os.environ.get("KAFWIRE_EXT", "").split(","))) or {path.stem for path in found}
if unknown := chosen - {path.stem for path in found}:
    raise SystemExit(
        f"KAFWIRE_EXT names {', '.join(sorted(unknown))}; there are {', '.join(path.stem for path in found)}"
    )
LINKED = re.compile(r"^# distutils: sources = (.*)$", re.MULTILINE)
HEADERS = sorted(PACKAGE.rglob("*.h"))
flags = ["-O3", "-std=gnu11", "-fvisibility=hidden", "-fno-strict-aliasing", "-Wall", "-Wno-unused-function"]
# glibc has fortified functions: level 3 on its newest, 2 on old ones; musl has none. Sanitizers check the same.
flags += ["-fstack-protector-strong", *([] if SANITIZE else ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"])]
# Debug symbols would be most of an extension, and take the compiler long; the names that a profiler shows stay.
flags += [] if DEBUG or SANITIZE else ["-g0"]
if SANITIZE:
    # Constructors that Cython writes add 0 to NULL.
    own = [f"-fsanitize={SANITIZE}", "-fno-sanitize=pointer-overflow", "-fno-sanitize-recover=all"]
    flags += ["-O1", "-g1", "-fno-omit-frame-pointer", *own]
    LINKING += own
extensions = [
    Extension(
        ".".join(path.with_suffix("").parts),
        [str(path)],
        include_dirs=["."],
        depends=[str(header) for header in HEADERS],
        extra_compile_args=flags,
        extra_link_args=LINKING,
        define_macros=[("CYTHON_TRACE_NOGIL", "1")] if TRACE else [],
    )
    for path in found
    if path.stem in chosen
]


DIRECTIVES = {
    "language_level": "3",
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "embedsignature": True,
    "linetrace": TRACE,
}


# What a builder of wheels for another platform sets, beside CC.
COMPILER_VARIABLES = ("CFLAGS", "CPPFLAGS", "LDFLAGS", "LDSHARED", "SETUPTOOLS_EXT_SUFFIX", "_PYTHON_HOST_PLATFORM")


class Cache:
    """Built extensions, each under a hash of its sources, all declarations, the compiler and the interpreter."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC"))
        version = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=True).stdout
        variables = [f"{name}={os.environ.get(name)}" for name in COMPILER_VARIABLES]
        built_by = sysconfig.get_config_vars("SOABI", "CFLAGS")
        build = [Cython.__version__, *built_by, *compiler, version, *variables, DEBUG, TRACE, SANITIZE]
        declared = sorted([*PACKAGE.rglob("*.pxd"), *HEADERS, Path("setup.py")])
        self._common = hashlib.sha256(repr(build).encode())
        for path in declared:
            self._add(self._common, path)

    @staticmethod
    def _add(digest: "hashlib._Hash", path: Path) -> None:
        digest.update(f"{path}\0{path.stat().st_size}\0".encode() + path.read_bytes())

    def place(self, ext: Extension) -> Path:
        """Where the extension is kept, if it is."""
        digest = self._common.copy()
        for source in ext.sources:
            self._add(digest, Path(source))
            for linked in LINKED.findall(Path(source).read_text()):
                for path in linked.split():
                    self._add(digest, Path(path))
        return self.folder / f"{ext.name}-{digest.hexdigest()[:32]}.so"


def put(source: Path, target: Path) -> None:
    """Copy, so that the target is there whole or not at all: a running process may have the old one mapped.

    The copy has the present time: setuptools replaces an extension of the tree only by a newer one.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(dir=target.parent)
    os.close(number)
    shutil.copy(source, name)
    Path(name).replace(target)


ADVICE = (
    "kafwire is compiled from its sources here, as no wheel fits this interpreter and platform: "
    "that needs a C compiler and Python's headers (Debian: apt-get install gcc libc6-dev python3-dev)"
)


class Progress:
    """Lines on stderr while extensions are compiled: pip shows them with `-v`, and after a failure."""

    def __init__(self, extensions: int, parallel: int) -> None:
        self._extensions = extensions
        self._numbers = itertools.count(1)
        if extensions:
            self._say(f"extensions to compile: {extensions}, {min(parallel, extensions)} at once, each up to a minute")

    @staticmethod
    def _say(line: str) -> None:
        print(f"kafwire: {line}", file=sys.stderr, flush=True)

    def built(self, name: str, seconds: float) -> None:
        """Report an extension as built. Any thread."""
        self._say(f"[{next(self._numbers)}/{self._extensions}] {name}, {seconds:.0f} s")


class BuildExtensions(build_ext):
    """Only extensions that are not in the cache become C and are compiled.

    Objects in a folder per extension: several compile the same C file, and do so at once.
    """

    def finalize_options(self) -> None:
        """Use every processor that this process may use, unless `--parallel` is given: pip cannot pass it."""
        super().finalize_options()
        if self.parallel is None:
            self.parallel = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def build_extensions(self) -> None:
        """Build all that were chosen."""
        folder = os.environ.get("KAFWIRE_BUILD_CACHE")
        cache = Cache(Path(folder)) if folder else None
        self._kept: dict[str, Path] = {} if cache is None else {ext.name: cache.place(ext) for ext in self.extensions}
        missing = [ext for ext in self.extensions if ext.name not in self._kept or not self._kept[ext.name].exists()]
        self._progress = Progress(len(missing), self.parallel)
        processes = self.parallel if len(missing) > 1 else 0
        made = cythonize(
            missing, nthreads=processes, compiler_directives=DIRECTIVES, build_dir="build/cython", quiet=True
        )
        for ext, c in zip(missing, made, strict=True):
            ext.sources = c.sources
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        """Build one extension, or take it from the cache."""
        built, kept = Path(self.get_ext_fullpath(ext.name)), self._kept.get(ext.name)
        if kept is not None and kept.exists():
            put(kept, built)
            return
        own = copy.copy(self)
        own.build_temp = str(Path(self.build_temp) / ext.name)
        began = time.monotonic()
        try:
            build_ext.build_extension(own, ext)
        except CompileError as error:
            raise CompileError(f"{ext.name}: {error}\n{ADVICE}") from error
        self._progress.built(ext.name, time.monotonic() - began)
        if kept is not None:
            put(built, kept)


FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
RELATIVE_LINK = re.compile(r"!?\[([^\]]*)\]\((?!\w+:|#|/)([^)\s]+)\)")


def long_description() -> str:
    """README.md for a package index, which has none of the files beside it: links lead to the source, or are text."""
    link = rf"[\1]({SOURCE_URL}/blob/HEAD/\2)" if SOURCE_URL else r"\1"
    parts = FENCED.split(Path("README.md").read_text(encoding="utf-8"))
    return "".join(part if part.startswith("```") else RELATIVE_LINK.sub(link, part) for part in parts)


def project_urls() -> dict[str, str]:
    """What a package index shows beside the description."""
    if not SOURCE_URL:
        return {}
    return {
        "Source": SOURCE_URL,
        "Documentation": f"{SOURCE_URL}/tree/HEAD/docs",
        "Changelog": f"{SOURCE_URL}/blob/HEAD/CHANGELOG.md",
    }


setup(
    cmdclass={"build_ext": BuildExtensions},
    ext_modules=extensions,
    long_description=long_description(),
    long_description_content_type="text/markdown",
    project_urls=project_urls(),
)
