"""Runs the client under a sanitizer against the server, and judges what both print."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz.chaos.build import preloaded
from fuzz.native.build import ROOT

FINDS = ROOT / "build/fuzz/finds"
SUPPRESSED = ROOT / "fuzz/chaos/interpreter.supp"
START_S = 60
SHUTDOWN_S = 180
ABORT_S = 10
# An error's report, and a leak's; the interpreter leaves a few objects behind, which are not kafwire's.
_ERROR = re.compile(r"(ERROR: \w*Sanitizer(?!: detected memory leaks)|WARNING: ThreadSanitizer|runtime error:).*")
_LEAK = re.compile(r"^(?:Direct|Indirect) leak of .*?(?=^\n|\Z)", re.MULTILINE | re.DOTALL)


@dataclass
class Outcome:
    """The outcome of a run. `finds`: a line for each thing that went wrong; `report`: all that the client printed."""

    counts: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    finds: list[str] = field(default_factory=list)
    report: str = ""


def environment(sanitizer: str, folder: Path) -> dict[str, str]:
    """The client's environment: the sanitizer before all else, and every object in a block of its own."""
    return {
        **os.environ,
        "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
        "PYTHONMALLOC": "malloc",
        "LD_PRELOAD": preloaded(sanitizer),
        "ASAN_OPTIONS": "detect_leaks=1:quarantine_size_mb=64:malloc_context_size=12:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "TSAN_OPTIONS": f"halt_on_error=0:second_deadlock_stack=1:history_size=4:suppressions={SUPPRESSED}",
    }


def run(sanitizer: str, folder: Path, seed: int, seconds: float, actors: list[str]) -> Outcome:
    """Run the client that was built into `folder` for `seconds`."""
    pipe = subprocess.PIPE
    served = subprocess.Popen(
        [sys.executable, "-m", "fuzz.chaos.server", str(seed)], cwd=ROOT, stdin=pipe, stdout=pipe, text=True
    )
    assert served.stdout is not None
    try:
        servers = served.stdout.readline().strip()
        if not servers:
            return Outcome(finds=["the server did not start"])
        outcome = run_client(sanitizer, folder, [str(seed), str(seconds), servers, *actors], seconds)
        out, _ = served.communicate(timeout=START_S)
        outcome.faults, problems = json.loads(out.strip().splitlines()[-1])
        outcome.finds += [f"inside the broker: {problem}" for problem in problems]
        return outcome
    finally:
        served.kill()
        served.wait()


def run_client(sanitizer: str, folder: Path, arguments: list[str], seconds: float) -> Outcome:
    """Run the client alone, and read its reports."""
    command = [sys.executable, "-P", "-X", "faulthandler", "-m", "fuzz.chaos.client", *arguments]
    if shutil.which("setarch"):  # the sanitizers' shadows have fixed places, where this kernel may put libraries
        command = ["setarch", platform.machine(), "-R", *command]
    process = subprocess.Popen(
        command,
        env=environment(sanitizer, folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    try:
        out, err = process.communicate(timeout=seconds + SHUTDOWN_S)
    except subprocess.TimeoutExpired:
        out, err = abort(process)
        return Outcome(finds=[f"the client did not end within {SHUTDOWN_S} s", busy_frames(err)], report=out + err)
    return judge(process.returncode, out, err)


def abort(process: subprocess.Popen[str]) -> tuple[str, str]:
    """End a client that hangs, and return its output: `faulthandler` writes the frames of all threads."""
    process.send_signal(signal.SIGABRT)
    try:
        return process.communicate(timeout=ABORT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()


def busy_frames(err: str) -> str:
    """Return the innermost frames of the engine's thread, which every call waits for."""
    threads = re.split(r"\n(?=Thread 0x|Current thread 0x)", err)
    frames = [thread for thread in threads if "in _run_loop" in thread]
    return "\n".join(["the engine's thread:", *(frames[-1].splitlines()[1:12] if frames else ["no frames"])])


def judge(code: int, out: str, err: str) -> Outcome:
    """Read what a client printed."""
    outcome = Outcome(report=f"exit {code}\n{out}\n{err}")
    outcome.finds = [found.group() for found in _ERROR.finditer(err)]
    for leak in _LEAK.findall(err):
        frames = [line for line in leak.splitlines()[1:] if "interceptor" not in line]
        if frames and "kafwire/" in frames[0]:
            outcome.finds.append(f"leak: {frames[0].strip()}")
    lines: list[Any] = [line for line in out.splitlines() if line.startswith("[")]
    if lines:
        outcome.counts, problems = json.loads(lines[-1])
        outcome.finds += problems
    elif not outcome.finds:
        last = err.strip().splitlines()[-1:]
        outcome.finds.append(f"the client ended by {code}: {''.join(last)}")
    return outcome


def keep(outcome: Outcome, sanitizer: str, seed: int) -> Path:
    """Keep the report of a find."""
    FINDS.mkdir(parents=True, exist_ok=True)
    path = FINDS / f"chaos-{sanitizer}-{seed}-{int(time.time())}.txt"
    path.write_text("\n".join([*outcome.finds, "", outcome.report]))
    return path
