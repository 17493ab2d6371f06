"""`host_process`: eventlet is refused, children flush, daemon threads end without a traceback."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest

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
    """What the program printed to standard error."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *args],
        check=True,
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_S,
    )
    return done.stderr


SENDS = """
import multiprocessing, sys
import kafwire
kept = []
def work():
    kept.append(kafwire.Producer(sys.argv[1], linger_ms=5000))
    for number in range(10):
        kept[0].send("t", b"%d" % number)
process = multiprocessing.get_context("fork").Process(target=work)
process.start()
process.join()
assert process.exitcode == 0
"""


def test_a_child_of_multiprocessing_delivers_what_it_sent() -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("t")
        assert run(SENDS, kafka.bootstrap) == ""
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
