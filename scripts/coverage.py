"""Line coverage of everything that reads a stranger's bytes: the Cython decoders, and the C below them.

Usage: `python scripts/coverage.py [--missing] [--keep] [--least PERCENT] [pytest arguments]`.

Builds a copy of the tree for tracing under `build/coverage` (line tracing slows code without the GIL a hundredfold, so
it never happens in the tree itself), runs the tests there that touch decoders, and prints the share of lines that ran.
Fails below 95 % for all decoders together, or when a test fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / "build" / "coverage"
MARK = "decoder: its lines are counted"  # in a comment at the top of a source
TESTS = [
    "avro",
    "consumer/fetch/test_fetch_responses.py",
    "consumer/fetch/test_fetch_buffer.py",
    "protocol",
    "records",
    "runtime/test_frames.py",
    "config/test_configs_arguments.py",
]
# They build programs of their own, or repeat so much of the same that a traced run takes minutes and says nothing more.
NOT = [
    "sanitizers",
    "no_python_object_is_made",
    "never_decompressed",
    "threads_do_not_disturb",
    "damaged_large_message",
    "bounded_too",
    "the_charged_memory_covers",
    "takes_no_more_than_the_cap",
    "wait_for_one_another",
    "that_push_each_other_out",
    "signal_handler",  # the tracer runs it where no code looks for its exception
]
# The head of a C function is no code; Cython counts it for inline ones, and never reports that it ran.
HEAD = re.compile(r"cdef (inline )?[\w *]+\(.*")
CONFIG = """\
[run]
plugins = Cython.Coverage
source = kafwire
data_file = coverage.data
[report]
precision = 1
"""


def run(command: list[str], **environment: str) -> None:
    """Run a command in the copy; its failure ends this script."""
    print("+", " ".join(command), flush=True)
    done = subprocess.run(command, cwd=COPY, env={**os.environ, **environment}, check=False)
    if done.returncode:
        sys.exit(f"{command[0]} failed with {done.returncode}")


def build() -> None:
    """Copy the sources, compile them for tracing, and put the C that Cython made where the plugin looks for it."""
    shutil.rmtree(COPY, ignore_errors=True)
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "build", ".*")
    for name in ("kafwire", "tests", "fuzz", "benchmarks", "docs"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, COPY / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, COPY / name)
    # Optimised C has lost many of its lines.
    (COPY / "setup.py").write_text((ROOT / "setup.py").read_text().replace('"-O3"', '"-O0"'))
    (COPY / "coverage.ini").write_text(CONFIG)
    flags = "--coverage -fprofile-update=atomic"
    jobs = str(os.cpu_count() or 1)
    run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace", "--parallel", jobs],
        KAFWIRE_TRACE="1",
        CFLAGS=flags,
        LDFLAGS="--coverage",
    )
    for made in (COPY / "build/cython").rglob("*.c"):
        shutil.copy(made, COPY / made.relative_to(COPY / "build/cython"))


def test(arguments: list[str]) -> None:
    """Run the tests under coverage."""
    tests = [f"tests/unit/{name}" for name in TESTS]
    coverage = [sys.executable, "-m", "coverage"]
    skip = " and ".join(f"not {name}" for name in NOT)
    pytest = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        skip,
        "--timeout=300",
        "--durations=12",
        *tests,
        *arguments,
    ]
    run([*coverage, "run", "--rcfile=coverage.ini", *pytest], PYTHONPATH=str(COPY))
    run([*coverage, "json", "--rcfile=coverage.ini", "-q", "-o", "coverage.json"])


def decoders(suffix: str) -> list[Path]:
    """The sources that say they are counted, from the root of the tree."""
    found = (path for path in sorted((ROOT / "kafwire").rglob(f"*{suffix}")) if MARK in path.read_text()[:200])
    return [path.relative_to(ROOT) for path in found]


def cython_lines() -> dict[str, tuple[int, list[int]]]:
    """Per source file: lines that can run, and those that did not."""
    files = json.loads((COPY / "coverage.json").read_text())["files"]
    found = {}
    for decoder in decoders(".pyx"):
        for suffix in (".pyx", ".pxd"):
            path = str(decoder.with_suffix(suffix))
            if path in files:
                lines = (COPY / path).read_text().split("\n")
                missing = [line for line in files[path]["missing_lines"] if not HEAD.match(lines[line - 1])]
                found[path] = (len(files[path]["executed_lines"]) + len(missing), missing)
    return found


def native_lines() -> dict[str, tuple[int, list[int]]]:
    """The same of the C files, by gcov: a line counts that ran in any of the extensions that link the file."""
    found = {}
    for path in decoders(".c"):
        ran: dict[int, bool] = {}
        for notes in COPY.glob(f"build/temp*/*/{path.with_suffix('.gcno')}"):
            if not notes.with_suffix(".gcda").exists():
                continue
            command = ["gcov", "--stdout", str(notes)]
            done = subprocess.run(command, cwd=COPY, capture_output=True, text=True, check=True)
            for count, line in re.findall(
                r"^ *([0-9#=-]+\*?): *(\d+):", _of_file(done.stdout, path.name), re.MULTILINE
            ):
                if count != "-" and line != "0":
                    ran[int(line)] = ran.get(int(line), False) or count[0] not in "#="
        found[str(path)] = (len(ran), sorted(line for line, hit in ran.items() if not hit))
    return found


def _of_file(output: str, name: str) -> str:
    """The part of gcov's output that is about one file, not the headers it includes."""
    parts = re.split(r"^ *-: *0:Source:", output, flags=re.MULTILINE)
    return next(part for part in parts if part.split("\n", 1)[0].endswith(name))


def spans(lines: list[int]) -> str:
    """Line numbers as ranges."""
    out: list[list[int]] = []
    for line in lines:
        if out and line == out[-1][1] + 1:
            out[-1][1] = line
        else:
            out.append([line, line])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in out)


def main() -> None:
    """Parse the command line, build, test, report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--missing", action="store_true", help="print the lines that did not run")
    parser.add_argument("--keep", action="store_true", help="use the build that is there")
    parser.add_argument("--least", type=float, default=95.0, metavar="PERCENT")
    options, rest = parser.parse_known_args()
    if not options.keep:
        build()
    test(rest)
    found = cython_lines() | native_lines()
    for path, (lines, missing) in found.items():
        ran = 100 * (lines - len(missing)) / max(lines, 1)
        print(f"{path:40} {lines:5} lines {ran:6.1f} %" + (f"  {spans(missing)}" if options.missing else ""))
    lines, missing_count = sum(n for n, _ in found.values()), sum(len(m) for _, m in found.values())
    share = 100 * (lines - missing_count) / lines
    print(f"{'all decoders':40} {lines:5} lines {share:6.1f} %")
    if share < options.least:
        sys.exit(f"below {options.least:g} %")


if __name__ == "__main__":
    main()
