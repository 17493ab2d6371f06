"""Builds the fuzz programs under build/fuzz/, apart from the normal extensions.

A program is named by a hash of all that went into it, so only programs that are out of date are rebuilt, and sources
may change while programs run.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scripts.tree import CompiledModule, closure, imports_of

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path("build/fuzz")  # every path here is relative to ROOT: the compiled code does not depend on where it lies
HERE = Path("fuzz/native")
POOL = [Path("kafwire/memory/native/buf.c"), Path("kafwire/memory/native/pool.c")]
EXACT = HERE / "exact_buf.c"  # what stands in its place where every buffer is to be as small as what it holds

# target -> the modules it calls, or the C files it is of
IN_C = {
    "frame": [HERE / "frame.c", Path("kafwire/runtime/native/frame.c"), *POOL],
    "snappy": [HERE / "snappy.c", Path("kafwire/records/native/snappy.c")],
    "json_rows": [HERE / "json_rows.c", Path("kafwire/schemas/native/json_columns.c")],
    "fast_path": [
        HERE / "fast_path.c",
        EXACT,
        *(Path(f"kafwire/consumer/fetch/native/{name}.c") for name in ("fast_path", "queue")),
    ],
}
IN_CYTHON = {
    "varint": ["kafwire._codec"],
    # Importing `_fetch` loads the message of Fetch, which has its versions.
    "header": [
        *("kafwire._codec", "kafwire.consumer.fetch._fetch"),
        *("kafwire.protocol._compose", "kafwire.protocol._message"),
    ],
    "codec": ["kafwire._codec"],
    "message": ["kafwire.protocol._message"],
    "avro": ["kafwire.avro._avro_program", "kafwire.value_columns._value_columns"],
    "protobuf": ["kafwire.protobuf._protobuf_program", "kafwire.value_columns._value_columns"],
}
TARGETS = (*("frame", "varint", "header", "snappy", "json_rows", "fast_path", "codec", "message", "avro", "protobuf"),)

# As in setup.py (tests/unit/fuzz/test_native.py holds that).
DIRECTIVES = {
    "language_level": "3",
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
}
SANITIZERS = "address,undefined"
FLAGS = [
    "-std=gnu11",
    "-g1",
    "-fno-omit-frame-pointer",
    "-fno-strict-aliasing",
    "-fno-sanitize-recover=all",
    "-pthread",
]
OURS = ["-O2", "-Wall", "-Wextra", "-Werror"]
# Warnings in Cython's generated code are not ours; and every call of a constructor without arguments adds 0 to NULL.
GENERATED = ["-O1", "-w"]
NOT_CHECKED = ["-fno-sanitize=pointer-overflow"]


INCLUDE = re.compile(r'^include "(\w+\.pxi)"$', re.MULTILINE)


class BuildError(Exception):
    """Nothing could be built; the message says what to do."""


def compiler() -> str:
    """Return $FUZZ_CC, or a clang that has libFuzzer. Raises `BuildError` naming the Debian packages."""
    chosen = os.environ.get("FUZZ_CC")
    names = [chosen] if chosen else ["clang", *(f"clang-{version}" for version in range(22, 13, -1))]
    found = [path for name in names if (path := shutil.which(name))]
    if not found:
        raise BuildError("no clang, which brings libFuzzer: apt-get install clang libclang-rt-dev (libclang-rt-14-dev)")
    for path in found:
        runtime = subprocess.run(
            [path, "--print-file-name=libclang_rt.fuzzer-" + os.uname().machine + ".a"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        if Path(runtime).is_absolute() or Path(runtime).exists():
            return path
    version = _version(found[0])
    major = re.search(r"version (\d+)", version)
    package = f"libclang-rt-{major[1]}-dev" if major else "libclang-rt-<version>-dev"
    raise BuildError(f"{found[0]} has no libFuzzer: apt-get install {package}")


def _version(command: str) -> str:
    return subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise BuildError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


class Key:
    """A hash of what goes into a file."""

    def __init__(self, *words: str) -> None:
        self._hash = hashlib.sha256("\0".join(words).encode())

    def add(self, *paths: Path) -> Key:
        """Take the content of files in."""
        for path in paths:
            content = (ROOT / path).read_bytes()
            self._hash.update(f"\0{path}\0{len(content)}\0".encode() + content)
        return self

    def place(self, folder: str, name: str, suffix: str) -> Path:
        """Return where the file goes."""
        return BUILD / folder / f"{name}.{self._hash.hexdigest()[:16]}{suffix}"


def _make(target: Path, command: list[str]) -> Path:
    """Run a command that writes `target` (it stands in it as @), unless that is there already; drop older ones."""
    whole = ROOT / target
    if not whole.exists():
        whole.parent.mkdir(parents=True, exist_ok=True)
        scratch = target.with_name(f"{target.stem}.{os.getpid()}{target.suffix}")
        _run([str(scratch) if word == "@" else word for word in command])
        (ROOT / scratch).replace(whole)
        for older in sorted(whole.parent.glob(f"{whole.name.split('.')[0]}.*{whole.suffix}"), key=_age)[:-3]:
            older.unlink(missing_ok=True)
    return target


def _age(path: Path) -> float:
    return path.stat().st_mtime if path.exists() else 0.0


def native_sources(modules: list[CompiledModule]) -> list[Path]:
    """Return the C files that they link, but for the pool."""
    return sorted({source for module in modules for source in module.c_sources} - {*POOL})


def sources_of(pyx: Path) -> list[Path]:
    """Return a `.pyx`, and the files beside it that it includes."""
    return [pyx, *(pyx.with_name(name) for name in INCLUDE.findall((ROOT / pyx).read_text()))]


# --- steps ----------------------------------------------------------------------------------------------------------


class Builder:
    """One run over the programs that are out of date."""

    def __init__(self, jobs: int | None = None) -> None:
        self._compiler = compiler()
        self._words = (_version(self._compiler), *FLAGS)
        self._cython = importlib.metadata.version("cython")
        self._headers = [path.relative_to(ROOT) for path in sorted((ROOT / "kafwire").rglob("*.h"))]
        self._declarations = [path.relative_to(ROOT) for path in sorted((ROOT / "kafwire").rglob("*.pxd"))]
        self._pool = ThreadPoolExecutor(jobs or os.cpu_count() or 1)

    def build(self, targets: list[str]) -> dict[str, Path]:
        """Build the targets' programs; returns where they are."""
        with self._pool:
            made = {target: self._program(target) for target in targets}
            return {target: ROOT / program for target, program in made.items()}

    def one_file(self, name: str, source: Path, *own: str) -> Path:
        """Build a target of one C file: for the tests of the runner."""
        flags = [*OURS, f"-fsanitize=fuzzer,{SANITIZERS}", *own]
        place = Key(*self._words, *flags).add(source).place("programs", name, "")
        return ROOT / _make(place, [self._compiler, *FLAGS, *flags, str(source), "-o", "@"])

    def _program(self, target: str) -> Path:
        if target in IN_C:
            # without comparisons: what they would teach is in the seeds, and they take a fifth of the time
            flags = [*OURS, f"-fsanitize=fuzzer,{SANITIZERS}", "-fno-sanitize-coverage=trace-cmp", "-I."]
            sources = IN_C[target]
            place = Key(*self._words, *flags).add(*sources, *self._headers).place("programs", target, "")
            return _make(place, [self._compiler, *FLAGS, *flags, *map(str, sources), "-o", "@"])
        called = {each for path in sources_of(HERE / f"{target}.pyx") for each in imports_of((ROOT / path).read_text())}
        modules = closure([*IN_CYTHON[target], *called])
        names = [*(module.name for module in modules), f"fuzz.native.{target}"]
        objects = list(self._pool.map(self._extension, names))
        registered = " ".join(f'MODULE({name.rpartition(".")[2]}, "{name}")' for name in names)
        interpreter = [f'-DPYTHON="{sys.executable}"', f'-DROOT="{ROOT}"']
        entry = [f"-DMODULES={registered}", f'-DTARGET="fuzz.native.{target}"', *interpreter]
        objects.append(self._object(f"embed-{target}", HERE / "embed.c", [*OURS, *entry]))
        ours = [EXACT, *native_sources(modules)]
        objects += self._pool.map(lambda source: self._object(source.stem, source, OURS), ours)
        link = [f"-fsanitize=fuzzer,{SANITIZERS}", *map(str, objects), *_python_library()]
        place = Key(*self._words, *link).place("programs", target, "")
        return _make(place, [self._compiler, *FLAGS, *link, "-o", "@"])

    def _extension(self, name: str) -> Path:
        source = Path(*name.split(".")).with_suffix(".pyx")
        stem = name.rpartition(".")[2]
        own = [f"{key}={value}" for key, value in DIRECTIVES.items()]
        place = Key(self._cython, *own).add(*sources_of(source), *self._declarations).place("cython", stem, ".c")
        options = [word for text in own for word in ("-X", text)]
        cython = [sys.executable, "-m", "cython", "-3", *options, "--module-name", name, str(source), "-o", "@"]
        return self._object(stem, _make(place, cython), GENERATED)

    def _object(self, name: str, source: Path, flags: list[str]) -> Path:
        include = [f"-I{sysconfig.get_path('include')}", f"-I{sysconfig.get_path('platinclude')}", "-I."]
        flags = [*flags, f"-fsanitize=fuzzer-no-link,{SANITIZERS}", *include]
        if source.is_relative_to(BUILD):
            flags += NOT_CHECKED
        place = Key(*self._words, *flags).add(source, *self._headers).place("objects", name, ".o")
        return _make(place, [self._compiler, *FLAGS, *flags, "-c", str(source), "-o", "@"])


def _python_library() -> list[str]:
    """Return how to link the interpreter that runs this."""
    config = sysconfig.get_config_vars()
    folders = [str(config[name]) for name in ("LIBDIR", "LIBPL") if config.get(name)]
    words = [f"-L{folder}" for folder in folders] + [f"-lpython{config['LDVERSION']}"]
    words += [f"-Wl,-rpath,{folder}" for folder in folders[:1]]
    for name in ("LIBS", "SYSLIBS", "LINKFORSHARED"):
        words += str(config.get(name) or "").split()
    return words


def build(targets: list[str], jobs: int | None = None) -> dict[str, Path]:
    """Build those of these targets that are out of date, by `jobs` compilers at once (by default one per core).

    Returns their programs. Raises `BuildError`.
    """
    if not targets:
        return {}
    return Builder(jobs).build(targets)
