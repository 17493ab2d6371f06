"""Metrics hooks and look-ups of names: what may block, off the engine, and nothing that waits for it."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kafwire
from kafwire.runtime.engine import LEAVE_S, NativeEngine
from kafwire.runtime.metrics_reporter import Reporter
from kafwire.testing.simulation.world import SimulatedEngine
from tests.support.deadlines import until
from tests.support.simulated.producer import Work
from tests.support.simulated.world import World

SOON_S = 10.0


class Blocked:
    """A function that does not return before it may."""

    def __init__(self) -> None:
        self.may_return = threading.Event()
        self.calls = 0
        self.called = threading.Semaphore(0)

    def __call__(self, *_: Any) -> None:
        self.calls += 1
        self.called.release()
        self.may_return.wait(60)


class Subject:
    """An object with metrics."""

    def __init__(self) -> None:
        self.snapshots = 0

    def metrics(self) -> dict[str, Any]:
        self.snapshots += 1
        return {"number": self.snapshots}


@pytest.fixture
def engine() -> Iterator[NativeEngine]:
    it = NativeEngine()
    yield it
    it.stop()


@pytest.fixture
def blocked() -> Iterator[Blocked]:
    it = Blocked()
    yield it
    it.may_return.set()


def threads(name: str) -> int:
    return sum(thread.name == name for thread in threading.enumerate())


async def pause(seconds: float) -> None:
    await asyncio.sleep(seconds)


def test_a_busy_hook_is_passed_over_and_never_queued(engine: NativeEngine, blocked: Blocked) -> None:
    subject = Subject()
    before = threads("kafwire-reports")
    reporter = Reporter(engine, blocked, 1)
    engine.start(reporter.start, subject.metrics)
    assert blocked.called.acquire(timeout=SOON_S)
    engine.run(pause, 0.1)
    assert (blocked.calls, subject.snapshots, threads("kafwire-reports")) == (1, 1, before)
    blocked.may_return.set()
    assert blocked.called.acquire(timeout=SOON_S)
    engine.start(reporter.stop)


def test_a_reporter_keeps_no_subject_alive(engine: NativeEngine) -> None:
    subject = Subject()
    gone = weakref.ref(subject)
    engine.start(Reporter(engine, lambda _: None, 1).start, subject.metrics)
    engine.run(pause, 0.02)
    assert subject.snapshots
    del subject
    engine.run(pause, 0.02)
    gc.collect()
    assert gone() is None


def test_the_end_does_not_wait_for_a_hook(blocked: Blocked) -> None:
    engine = NativeEngine()

    async def begin() -> None:
        engine.in_thread("kafwire-metrics", blocked)

    engine.run(begin)
    assert blocked.called.acquire(timeout=SOON_S)
    started = time.monotonic()
    engine.stop()
    assert time.monotonic() - started < LEAVE_S + 5


@pytest.mark.parametrize("kind", [kafwire.Producer, kafwire.AsyncProducer])
@pytest.mark.parametrize("has_hook", [False, True])
def test_a_dropped_producer_goes(kind: Any, *, has_hook: bool) -> None:
    reported = threading.Semaphore(0)
    options: dict[str, Any] = (
        {"metrics_hook": lambda _: reported.release(), "metrics_interval_ms": 1} if has_hook else {}
    )
    producer = kind("127.0.0.1:1", **options)
    gone = weakref.ref(producer._sender)
    if has_hook:
        assert reported.acquire(timeout=SOON_S)  # it is at work
    del producer

    def is_gone() -> bool:
        gc.collect()
        return gone() is None

    until(is_gone)


def test_the_first_snapshot_may_be_taken_before_the_constructor_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is another thread: to it the sender is complete as soon as it gets the reporter."""
    found: list[dict[str, Any]] = []

    def at_once(_: Reporter, snapshot: Callable[[], dict[str, Any]]) -> None:
        found.append(snapshot())

    monkeypatch.setattr(Reporter, "start", at_once)
    monkeypatch.setattr(SimulatedEngine, "start", lambda _, function, *arguments: function(*arguments))
    with World() as world:
        world.create_topic("t")
        Work(world, "t", metrics_hook=print)
    assert len(found) == 1


def test_records_of_a_dropped_producer_are_sent() -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", linger_ms=1_000)
        delivery = work.send("t", b"x")
        world.loop.call_soon(work.sender.retire)
        world.pass_time(2)
        assert delivery.result(0).offset == 0
        assert all(connection.closed for connection in world.connections)


def test_undelivered_records_of_a_dropped_producer_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", delivery_timeout_ms=40_000)
        world.kill(1)
        delivery = work.send("t", b"x")
        world.loop.call_soon(work.sender.retire)
        world.pass_time(60)
        assert "delivery_timeout_ms" in str(delivery.exception(0))
        assert "a producer was dropped and 1 record(s) were not delivered" in caplog.text
        assert all(connection.closed for connection in world.connections)
