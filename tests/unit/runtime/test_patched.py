"""`patched` without gevent: each name is the standard library's. With gevent: `integration/client/test_gevent.py`."""

from __future__ import annotations

import _thread
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from kafwire.runtime import patched
from kafwire.runtime._interfaces import Waiter


def test_without_gevent_all_is_the_standard_librarys() -> None:
    assert not patched.is_patched()
    assert isinstance(patched.wait_lock(), type(_thread.allocate_lock()))
    assert isinstance(patched.new_thread(print, name="kafwire-x"), threading.Thread)
    assert patched.main_ident() == threading.main_thread().ident
    assert patched.thread_name() == threading.current_thread().name
    waiter = Waiter()
    assert patched.reader_waiter(waiter, lambda _: None) is waiter


def test_a_gevent_that_patched_nothing_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    done: set[str] = set()
    monkeypatch.setitem(sys.modules, "gevent.monkey", SimpleNamespace(is_module_patched=done.__contains__))
    assert not patched.is_patched()
    done.add("socket")
    assert patched.is_patched()


def test_a_wait_lock_is_taken_until_any_thread_releases_it() -> None:
    lock = patched.wait_lock()
    assert not lock.acquire(timeout=0)
    thread = patched.new_thread(lock.release, name="kafwire-x")
    thread.start()
    assert lock.acquire(timeout=60)
    thread.join(60)


def test_a_greenlet_waits_beside_the_attempt_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = patched.wait_lock()
    monkeypatch.setattr(patched, "is_patched", lambda: True)
    found: list[str] = []
    blocked: list[float | None] = []
    waits: list[float | None] = []

    def attempt(seconds: float | None) -> str | None:
        blocked.append(seconds)
        return found[0] if found else None

    def news(timeout_ms: float | None) -> None:
        waits.append(timeout_ms)
        found.append("records")

    waiter = patched.reader_waiter(Waiter(), news)
    assert waiter.wait(attempt, None) == "records"
    assert (blocked, waits) == ([0.0, 0.0], [None])
    found.clear()
    assert waiter.wait(attempt, 0.0) is None  # the time is up: nothing is waited for
    assert len(waits) == 1
    waiter = patched.reader_waiter(Waiter(), lambda timeout_ms: begun.acquire(timeout=(timeout_ms or 0) / 1000))
    began = time.monotonic()
    assert waiter.wait(attempt, 0.02) is None
    assert time.monotonic() - began >= 0.02


def test_a_waiter_of_another_world_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    class Simulated(Waiter):
        pass

    monkeypatch.setattr(patched, "is_patched", lambda: True)
    waiter = Simulated()
    assert patched.reader_waiter(waiter, lambda _: None) is waiter
