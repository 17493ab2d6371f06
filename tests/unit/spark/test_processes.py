"""Clients that a worker keeps between tasks, and closes once they were idle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from kafwire import Client
from kafwire.spark.processes import IdlePool
from tests.support.deadlines import until


class Closable:
    closed = False

    def close(self) -> None:
        self.closed = True


class Stage:
    """A pool with a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.pool: IdlePool[Client] = IdlePool(
            300.0, lambda: self.now, lambda s, f: self.timers.append((self.now + s, f))
        )
        self.made: list[Closable] = []

    def use(self, key: str) -> Any:
        def make() -> Client:
            self.made.append(Closable())
            return cast("Client", self.made[-1])

        return self.pool.use((key,), make)

    def pass_until(self, now: float) -> None:
        while due := [timer for timer in self.timers if timer[0] <= now]:
            first = min(due, key=lambda timer: timer[0])
            self.timers.remove(first)
            self.now = first[0]
            first[1]()
        self.now = now


def test_a_client_serves_one_task_after_the_other_and_is_closed_when_idle() -> None:
    stage = Stage()
    with stage.use("a") as first:
        pass
    stage.pass_until(200.0)
    with stage.use("a") as second:
        assert second is first
    stage.pass_until(499.9)
    assert not first.closed
    stage.pass_until(500.1)
    assert first.closed
    assert stage.timers == []
    with stage.use("a") as third:
        assert third is not first


def test_a_client_in_use_stays_open_and_others_are_closed() -> None:
    stage = Stage()
    with stage.use("a") as long, stage.use("a"):
        with stage.use("b") as other:
            pass
        stage.pass_until(1000.0)
        assert other.closed
        assert not long.closed
    stage.pass_until(1300.0)
    assert long.closed
    assert stage.timers == []


def test_a_client_that_cannot_be_made_leaves_nothing_behind() -> None:
    stage = Stage()

    def fail() -> Client:
        raise OSError("no such file")

    for _ in range(2):
        try:
            with stage.pool.use(("a",), fail):
                raise AssertionError("a client without a file")
        except OSError:
            pass
    with stage.use("a") as client:
        assert not client.closed


def test_an_idle_client_is_closed_without_another_task() -> None:
    pool: IdlePool[Client] = IdlePool(0.01)
    made = Closable()
    with pool.use(("a",), lambda: cast("Client", made)):
        assert not made.closed
    until(lambda: made.closed, "the client is closed")
