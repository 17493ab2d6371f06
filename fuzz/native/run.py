"""Runs one target for a while, keeps its corpus, minimises what it finds, and adds everything up in a state file."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fuzz.native import seeds
from fuzz.native.build import ROOT

FOLDER = ROOT / "build/fuzz"
CASES = ROOT / "fuzz/cases"
TIMEOUT_S = 1  # longer is a find
MEMORY_MIB = 2048
MINIMISE_S = 15
REPLAYS = 3
MERGE_FROM = 400  # files, beyond those that the last merge left
# LeakSanitizer runs at the end only: an interpreter's caches would have it search all memory after every other input.
# embed.c counts the leftovers of each input.
LEAKS_AT_END = ("header", "message")
MAX_LEN = {
    "frame": 256,
    "varint": 96,
    "header": 2048,
    "snappy": 2048,
    "json_rows": 512,
    "fast_path": 1024,
    "codec": 4096,
    "message": 2048,
}

ENVIRONMENT = {
    **os.environ,
    # a small quarantine: the default of 256 MiB turns every allocation into page faults
    "ASAN_OPTIONS": "detect_leaks=1:quarantine_size_mb=4:malloc_context_size=8:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "PYTHONHASHSEED": "0",
}


@dataclass
class Totals:
    """The executions and times of a target so far, over all sessions."""

    executions: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    slices: int = 0
    stalls: int = 0  # inputs that took over a second in a run, and none of three times alone: a busy machine
    finds: dict[str, str] = field(default_factory=dict)  # file -> what was wrong
    seeds: list[int] = field(default_factory=list)
    coverage: int = 0
    peak_mib: int = 0
    merged: int = 0  # files of the corpus after the last merge


class State:
    """The totals of all targets, in a file that several processes may add to."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, Totals]:
        """Return the totals by target."""
        if not self._path.exists():
            return {}
        return {name: Totals(**entry) for name, entry in json.loads(self._path.read_text()).items()}

    @contextlib.contextmanager
    def change(self, target: str) -> Iterator[Totals]:
        """Let the totals of one target be changed."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with (self._path.parent / "state.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            totals = self.read()
            yield totals.setdefault(target, Totals())
            scratch = self._path.with_suffix(".new")
            scratch.write_text(json.dumps({name: asdict(entry) for name, entry in sorted(totals.items())}, indent=1))
            scratch.replace(self._path)


class Runner:
    """Runs programs with their corpora under one folder."""

    def __init__(self, folder: Path = FOLDER, cases: Path = CASES) -> None:
        self._folder = folder
        self._cases = cases
        self.state = State(folder / "state.json")
        self._child: subprocess.Popen[str] | None = None
        self.stopped = False

    def stop(self, *_: Any) -> None:
        """End the run that is going on, with its statistics: for signals."""
        self.stopped = True
        if self._child is not None:
            self._child.send_signal(signal.SIGINT)

    def slice(self, target: str, program: Path, seconds: float, seed: int) -> int:
        """Run a target for a while; returns the number of finds (0 or 1). Raises `RuntimeError` if it did not start."""
        corpus = self._folder / "corpus" / target
        corpus.mkdir(parents=True, exist_ok=True)
        self._merge(target, program, corpus)
        finds = self._folder / "finds"
        finds.mkdir(exist_ok=True)
        options = [
            f"-seed={seed % (1 << 32) or 1}",
            f"-max_total_time={max(int(seconds), 1)}",
            f"-artifact_prefix={finds}/{target}-",
            f"-max_len={MAX_LEN.get(target, 4096)}",
            f"-dict={self._dictionary(target)}",
            *self._limits(),
            f"-detect_leaks={int(target not in LEAKS_AT_END)}",
            "-print_final_stats=1",
        ]
        begun = time.monotonic()
        done = self._run([program, *options, corpus, *self._starts(target)])
        numbers = dict(re.findall(r"^stat::(\w+):\s+(\d+)", done.text, re.MULTILINE))
        executions = int(numbers.get("number_of_executed_units", 0))
        coverage = max((int(n) for n in re.findall(r" cov: (\d+) ", done.text)), default=0)
        written = re.search(r"Test unit written to (\S+)", done.text)
        problem = None
        stalled = False
        if written:
            path = Path(written[1])
            problem = self._confirm(target, program, path, done.text)
            stalled = problem is None
        elif executions and "LeakSanitizer: detected memory leaks" in done.text:
            report = finds / f"{target}-leak-{seed}.txt"
            report.write_text(done.text[-20000:])
            problem = str(report), _reason(done.text)
        elif not executions or (done.code and not self.stopped):
            raise RuntimeError(f"{target} did not run: exit {done.code}\n{done.text[-2000:]}")
        with self.state.change(target) as totals:
            totals.executions += executions
            totals.cpu_s += done.cpu_s
            totals.wall_s += time.monotonic() - begun
            totals.slices += 1
            totals.stalls += stalled
            totals.seeds.append(seed)
            totals.coverage = max(totals.coverage, coverage)
            totals.peak_mib = max(totals.peak_mib, int(numbers.get("peak_rss_mb", 0)))
            if problem:
                totals.finds[problem[0]] = problem[1]
        rate = executions / max(done.cpu_s, 0.01)
        ended = "1 find" if problem else "a stall" if stalled else "no find"
        print(
            f"{target}: {executions} executions in {done.cpu_s:.0f} s of CPU ({rate:.0f}/s) from seed {seed}, "
            f"coverage {coverage}, {ended}",
            flush=True,
        )
        if problem:
            print(f"{target}: {problem[1]}\n  kept in {problem[0]}", flush=True)
        return 1 if problem else 0

    def replay(self, program: Path, files: list[Path]) -> str | None:
        """Run inputs; returns the reason of a failure, or None."""
        done = self._run([program, *self._limits(), *files])
        return _reason(done.text) if done.code else None

    # --- steps ---

    def _starts(self, target: str) -> list[Path]:
        """Return the folders of seeds and of committed cases."""
        folders = [self._cases / target]
        if target in seeds.SEEDS:
            folders.append(self._folder / "seeds" / target)
            seeds.write(target, folders[-1])
        return [folder for folder in folders if folder.is_dir()]

    def _dictionary(self, target: str) -> Path:
        path = self._folder / f"{target}.dict"
        path.write_text(seeds.dictionary(target))
        return path

    @staticmethod
    def _limits() -> list[str]:
        return [f"-timeout={TIMEOUT_S}", f"-rss_limit_mb={MEMORY_MIB}"]

    def _merge(self, target: str, program: Path, corpus: Path) -> None:
        """Leave out of a corpus that has grown what covers nothing of its own."""
        count = sum(1 for _ in corpus.iterdir())
        with self.state.change(target) as totals:
            if count < totals.merged + MERGE_FROM:
                return
        smaller = corpus.with_name(f"{target}.merged")
        _empty(smaller)
        if self._run([program, "-merge=1", *self._limits(), smaller, corpus]).code == 0 and any(smaller.iterdir()):
            _empty(corpus)
            corpus.rmdir()
            smaller.rename(corpus)
        with self.state.change(target) as totals:
            totals.merged = sum(1 for _ in corpus.iterdir())

    def _confirm(self, target: str, program: Path, path: Path, text: str) -> tuple[str, str] | None:
        """Confirm a find and make it small: (file, reason), or None for a stall of the machine."""
        if "/" + target + "-timeout-" in str(path):
            for _ in range(REPLAYS):
                if self._run([program, f"-timeout={TIMEOUT_S}", path]).code == 0:
                    path.unlink()
                    return None
        smaller = path.with_name(path.name + ".small")
        if "-crash-" in path.name:
            self._run([
                program, "-minimize_crash=1", f"-max_total_time={MINIMISE_S}", f"-exact_artifact_path={smaller}", path,
            ])  # fmt: skip
        best = smaller if smaller.exists() else path
        name = f"{target}-{hashlib.sha256(best.read_bytes()).hexdigest()[:12]}.bin"
        found = best.rename(path.with_name(name))
        if best is not path:
            path.unlink()
        (found.with_suffix(".txt")).write_text(text[-20000:])
        return str(found), _reason(text)

    def _run(self, command: list[object]) -> Done:
        before = os.times()
        self._child = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=ENVIRONMENT,
            cwd=self._folder,
        )
        text, _ = self._child.communicate()
        code = self._child.returncode
        self._child = None
        after = os.times()
        used = after.children_user - before.children_user + after.children_system - before.children_system
        return Done(code, text, used)


@dataclass
class Done:
    """A program that has ended."""

    code: int
    text: str
    cpu_s: float


def _empty(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        file.unlink()


def _reason(text: str) -> str:
    for pattern in (r"INVARIANT BROKEN: .*", r"runtime error: .*", r"SUMMARY: .*", r"ERROR: .*"):
        found = re.search(pattern, text)
        if found:
            return found[0]
    return "ended without a reason"


def environment() -> str:
    """Return one line about where the figures come from."""
    model = "unknown processor"
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), model)
    return f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.release()}, Python {sys.version.split()[0]}"


def table(totals: dict[str, Totals]) -> str:
    """Return the totals as a table for fuzz/README.md."""
    lines = [
        "| target | executions | CPU time | seeds | per CPU second | coverage | peak memory | stalls | finds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, entry in totals.items():
        rate = entry.executions / max(entry.cpu_s, 0.01)
        lines.append(
            f"| {name} | {entry.executions:,} | {entry.cpu_s / 60:.1f} min | {len(entry.seeds)} | {rate:,.0f} | "
            f"{entry.coverage:,} | {entry.peak_mib} MiB | {entry.stalls} | {len(entry.finds)} |"
        )
    for title, names in (
        ("frame, varint, header and message", ("frame", "varint", "header", "message")),
        ("snappy and codec", ("snappy", "codec")),
    ):
        whole = sum(totals[name].executions for name in names if name in totals)
        lines.append(f"\nIn all of {title}: {whole:,} executions.")
    return "\n".join(lines)
