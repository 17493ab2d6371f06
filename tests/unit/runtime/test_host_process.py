"""`host_process`: eventlet is refused, children flush, daemon threads end without a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

import kafwire
from kafwire.errors import KafkaError
from kafwire.runtime.host_process import check_runtime
from kafwire.testing import EmbeddedKafka
from tests.support.deadlines import PATIENCE_S


def test_a_process_that_eventlet_patched_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    patched: set[str] = set()
    monkeypatch.setitem(sys.modules, "eventlet.patcher", SimpleNamespace(is_monkey_patched=patched.__contains__))
    check_runtime()  # imported, but nothing is patched
    patched.add("socket")
    with pytest.raises(KafkaError, match="kafwire does not run after eventlet.monkey_patch"):
        check_runtime()


def run(program: str, *args: str) -> str:
    """Return what the program printed to standard error."""
    return _error_output("-c", textwrap.dedent(program), *args)


def run_file(path: Path, *args: str) -> str:
    """Return what the program in a file printed to standard error."""
    return _error_output(str(path), *args)


def _error_output(*command: str) -> str:
    # A program in a folder of its own finds the package also where it is not installed.
    environment = os.environ | {"PYTHONPATH": str(Path(kafwire.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, *command],
        check=False,
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_S,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


SENDS = """
import sys
import kafwire
kept = []
def work(servers):
    kept.append(kafwire.Producer(servers, linger_ms=5000))
    for number in range(10):
        kept[0].send("t", b"%d" % number)
"""
# A module of its own, as children of a fork server import the function that they call. They end by `os._exit`.
CHILDREN = {
    "fork": "multiprocessing.get_context('fork').Process(target=work, args=sys.argv[1:])",
    "forkserver": "multiprocessing.get_context('forkserver').Process(target=work, args=sys.argv[1:])",
    "spawn": "multiprocessing.get_context('spawn').Process(target=work, args=sys.argv[1:])",
    "billiard": "billiard.Process(target=work, args=sys.argv[1:])",
}


@pytest.mark.parametrize("child", CHILDREN)
def test_a_child_delivers_its_records(child: str, tmp_path: Path) -> None:
    if child == "billiard":
        pytest.importorskip("billiard")
    library = "billiard" if child == "billiard" else "multiprocessing"
    program = tmp_path / "sends.py"
    begin = f"process = {CHILDREN[child]}; process.start(); process.join(); assert process.exitcode == 0"
    program.write_text(f'import {library}\n{SENDS}\nif __name__ == "__main__":\n    {begin}\n')
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t")
        assert run_file(program, kafka.bootstrap) == ""
        assert [record.value for record in kafka.records("t")] == [b"%d" % number for number in range(10)]


@pytest.mark.parametrize("method", ["fork", "forkserver"])
@pytest.mark.parametrize("kind", ["pool", "executor"])
def test_workers_of_a_pool_deliver_their_records(method: str, kind: str, tmp_path: Path) -> None:
    program = tmp_path / "sends.py"
    made = {
        "pool": f"multiprocessing.get_context('{method}').Pool(1)",
        "executor": f"ProcessPoolExecutor(1, mp_context=multiprocessing.get_context('{method}'))",
    }
    ends = {"pool": "pool.close(); pool.join()", "executor": "pass"}
    program.write_text(
        "import multiprocessing\nfrom concurrent.futures import ProcessPoolExecutor\n"
        f'{SENDS}\nif __name__ == "__main__":\n'
        f"    with {made[kind]} as pool:\n        list(pool.map(work, sys.argv[1:]))\n        {ends[kind]}\n"
    )
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t")
        assert run_file(program, kafka.bootstrap) == ""
        assert [record.value for record in kafka.records("t")] == [b"%d" % number for number in range(10)]


READS = """
import sys, threading
import kafwire
consumer = kafwire.Consumer(sys.argv[1], topics="t", start="earliest")
begun = threading.Event()
def read():
    while True:
        consumer.poll(30)
        begun.set()
threading.Thread(target=read, daemon=True).start()
begun.wait()
"""


def test_a_daemon_thread_that_reads_ends_without_a_traceback() -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t")
        kafka.append("t", [b"v"])
        assert "Traceback" not in run(READS, kafka.bootstrap)
