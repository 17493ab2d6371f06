"""Programs of tests/native, built with a sanitizer and run."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import seeds

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {path.name: path for path in (ROOT / "kafwire").rglob("*.c")}
PROGRAMS = {
    "frame_test": ["frame.c", "buf.c", "pool.c"],
    "loop_stress": ["loop.c", "frame.c", "buf.c", "pool.c"],
    "tls_stress": ["tls.c", "context.c", "openssl.c", "loop.c", "frame.c", "buf.c", "pool.c"],
    "queue_test": ["queue.c", "buf.c", "pool.c"],
    "queue_stress": ["queue.c", "buf.c", "pool.c"],
    "fast_path_stress": ["fast_path.c", "queue.c", "loop.c", "frame.c", "buf.c", "pool.c"],
    "response_waiters_stress": ["response_waiters.c"],
}
MEMORY = "address,undefined"
ENVIRONMENT = {
    **os.environ,
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


def compiler() -> list[str]:
    """$CC, or the first compiler there is."""
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    for name in ("gcc", "clang", "cc"):
        if shutil.which(name):
            return [name]
    pytest.fail("no C compiler: install the Debian package gcc")


def runtime_package(command: list[str]) -> str:
    """The Debian package with the sanitizers' runtime for this compiler."""
    version = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout
    major = re.search(r"(?:\) |version )(\d+)\.", version)
    kind = "libclang-rt" if "clang" in version else "libgcc"
    return f"{kind}-{major[1] if major else '<version>'}-dev"


def build(directory: Path, program: str, sanitizer: str, *flags: str) -> Path:
    command = compiler()
    target = directory / f"{program}-{sanitizer.replace(',', '-')}"
    sources = [ROOT / "tests" / "native" / f"{program}.c", *(SOURCES[name] for name in PROGRAMS[program])]
    options = [
        "-std=gnu11",
        "-g",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pthread",
        "-fno-omit-frame-pointer",
        f"-I{ROOT}",
    ]
    sanitize = [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"]
    made = subprocess.run(
        [*command, *options, *sanitize, *flags, *map(str, sources), "-o", str(target)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode and re.search(
        r"(cannot find|No such file).*(san|clang_rt)|(san|clang_rt).*No such file", made.stderr
    ):
        pytest.fail(f"no runtime for -fsanitize={sanitizer}: install the Debian package {runtime_package(command)}")
    assert made.returncode == 0, made.stderr
    return target


def run(program: Path, rounds: int, *arguments: object) -> str:
    seed = seeds.of_test()
    print(f"{program.name} seed {seed} rounds {rounds}")
    command = [str(program), str(seed), str(rounds), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=110)
    if "unexpected memory mapping" in done.stderr and shutil.which("setarch"):
        # ThreadSanitizer has fixed places for its shadow, and this kernel puts libraries there; without
        # randomised addresses it does not.
        command = ["setarch", platform.machine(), "-R", *command]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=110)
    assert done.returncode == 0, f"seed {seed}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.stderr == ""
    return done.stdout
