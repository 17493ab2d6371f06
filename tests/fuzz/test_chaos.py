"""The run of clients under sanitizers finds planted mistakes. It compiles an extension: part of `make fuzz`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from fuzz.chaos import build
from fuzz.chaos.run import Outcome, abort, busy_frames, run_client

SEED = 20130101
NO_SERVERS = json.dumps(["", "", {}])  # for an actor that needs none
SOURCE = "kafwire/consumer/fetch/_fetch_buffer.pyx"


def run_planted(folder: Path, whole: str, broken: str, seconds: int) -> Outcome:
    """Run the actor that makes fetch buffers, with a mistake in their source."""
    source = build.copy_tree(folder) / SOURCE
    text = source.read_text()
    assert text.count(whole) == 1
    source.write_text(text.replace(whole, broken))
    lib = build.build("memory", folder)
    return run_client("memory", lib, [str(SEED), str(seconds), NO_SERVERS, "collect"], seconds)


def test_a_buffer_that_the_collector_clears_is_found(tmp_path: Path) -> None:
    header = "@cython.final\n{}cdef class FetchBuffer:"
    outcome = run_planted(tmp_path, header.format("@cython.no_gc_clear\n"), header.format(""), 60)
    (find,) = outcome.finds
    assert "heap-use-after-free" in find
    assert "_decode_next" in outcome.report


def test_a_queue_that_is_not_freed_is_found(tmp_path: Path) -> None:
    outcome = run_planted(tmp_path, "        kw_queue_free(self.queue)\n", "        pass\n", 2)
    assert any("leak" in find and "kw_queue_new" in find for find in outcome.finds)


def test_the_frames_of_a_client_that_hangs_are_reported() -> None:
    program = """
import threading, time
def _run_loop():
    while True:
        time.sleep(0.01)
threading.Thread(target=_run_loop, daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
"""
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    _, err = abort(process)
    assert process.returncode == -signal.SIGABRT
    assert "in _run_loop" in busy_frames(err)
    assert "in _run_loop" not in busy_frames("")
