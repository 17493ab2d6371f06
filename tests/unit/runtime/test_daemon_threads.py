"""`DaemonThreads`: work finds a thread when no new one can be started."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from kafwire.runtime.daemon_threads import DaemonThreads
from tests.support.deadlines import PATIENCE_S


@pytest.fixture
def threads() -> Iterator[DaemonThreads]:
    it = DaemonThreads()
    yield it
    it.stop(PATIENCE_S)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("test-daemon")]


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Refuse new threads from now on, as CPython 3.12 does at the interpreter's end."""

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    return lambda: monkeypatch.setattr(threading.Thread, "start", start)


def test_work_runs_in_a_thread_that_was_started_before(threads: DaemonThreads, refuse: Callable[[], None]) -> None:
    first, second = threading.Event(), threading.Event()
    threads.run("test-daemon-1", first.set)
    assert first.wait(PATIENCE_S)
    refuse()
    threads.run("test-daemon-2", second.set)  # whether the thread waits for more already, or is about to
    assert second.wait(PATIENCE_S)


def test_work_without_a_thread_waits_for_a_busy_one(threads: DaemonThreads, refuse: Callable[[], None]) -> None:
    gate, done = threading.Event(), threading.Event()
    threads.run("test-daemon", gate.wait)
    refuse()
    threads.run("test-daemon", done.set)
    assert not done.is_set()
    gate.set()
    assert done.wait(PATIENCE_S)


def test_work_that_no_thread_can_do_is_refused(threads: DaemonThreads, refuse: Callable[[], None]) -> None:
    refuse()
    with pytest.raises(RuntimeError, match="interpreter shutdown"):
        threads.run("test-daemon", pytest.fail)


def test_one_thread_stays_ready(threads: DaemonThreads) -> None:
    gate, turns = threading.Event(), [threading.Semaphore(0) for _ in range(3)]
    names: list[str] = []

    def work(number: int) -> None:
        names.append(threading.current_thread().name)
        turns[number].release()
        gate.wait(PATIENCE_S)

    for number in range(3):
        threads.run(f"test-daemon-{number}", lambda number=number: work(number))  # type: ignore[misc]
    for turn in turns:
        assert turn.acquire(timeout=PATIENCE_S)
    assert sorted(names) == ["test-daemon-0", "test-daemon-1", "test-daemon-2"]
    gate.set()
