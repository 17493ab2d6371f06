"""The ends of a relay's wait."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from types import ModuleType

import pytest

from kafwire.outbox.wakeup import Notifications, Wakeup
from tests.support import deadlines


@pytest.fixture
def wakeup() -> Iterator[Wakeup]:
    made = Wakeup()
    yield made
    made.close()


def waiting(wakeup: Wakeup, notifications: Notifications | None = None) -> threading.Thread:
    thread = threading.Thread(target=wakeup.wait, args=(1000.0, notifications))
    thread.start()
    return thread


def test_another_thread_ends_the_wait(wakeup: Wakeup) -> None:
    thread = waiting(wakeup)
    wakeup.wake()
    deadlines.ended(thread)


def test_a_thread_woken_before_does_not_wait_and_then_does(wakeup: Wakeup) -> None:
    for _ in range(5000):  # more than the socket holds
        wakeup.wake()
    deadlines.ended(waiting(wakeup))
    for _ in range(3000):  # use up the rest
        wakeup.wait(0)
    thread = waiting(wakeup)
    thread.join(0.02)
    assert thread.is_alive()
    wakeup.wake()
    deadlines.ended(thread)


def test_time_ends_the_wait(wakeup: Wakeup) -> None:
    wakeup.wait(0.001)
    wakeup.wait(-1)


def test_a_pause_is_not_ended_by_a_wake_alone(wakeup: Wakeup) -> None:
    is_over = threading.Event()
    thread = threading.Thread(target=wakeup.pause, args=(1000.0, is_over.is_set))
    thread.start()
    wakeup.wake()
    thread.join(0.02)
    assert thread.is_alive()
    is_over.set()
    wakeup.wake()
    deadlines.ended(thread)


def test_time_ends_a_pause(wakeup: Wakeup) -> None:
    wakeup.wake()
    wakeup.pause(0.001, lambda: False)
    wakeup.pause(1000.0, lambda: True)


def test_a_closed_wakeup_can_be_woken(wakeup: Wakeup) -> None:
    wakeup.close()
    wakeup.wake()


class Listening:
    """A connection as psycopg2 has them: notifications are in a list."""

    def __init__(self) -> None:
        self.notifies: list[str] = []

    def fileno(self) -> int:
        raise AssertionError("a relay with notifications does not wait for the socket")


def test_notifications_that_came_already_end_the_wait_once(wakeup: Wakeup) -> None:
    connection = Listening()
    notifications = Notifications(connection)  # type: ignore[arg-type]  # of a connection it needs no more
    connection.notifies.append("outbox")
    deadlines.ended(waiting(wakeup, notifications))
    assert not notifications.take()


def test_a_notification_through_psycopg_is_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, handlers = ModuleType("psycopg"), []
    driver.__dict__["paramstyle"] = "pyformat"
    monkeypatch.setitem(sys.modules, "psycopg", driver)
    listening = {"__module__": "psycopg", "add_notify_handler": lambda _, handler: handlers.append(handler)}
    notifications = Notifications(type("Connection", (), listening)())
    (on_notify,) = handlers
    assert not notifications.take()
    on_notify("outbox")
    assert notifications.take()
    assert not notifications.take()


class HighSocket:
    """A connection whose socket has a descriptor that `select` refuses."""

    def __init__(self) -> None:
        self._soft, self._hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(self._soft, min(4096, self._hard)), self._hard))
        self._low, self.other = socket.socketpair()
        self._number = fcntl.fcntl(self._low, fcntl.F_DUPFD, 1100)

    def fileno(self) -> int:
        return self._number

    def close(self) -> None:
        os.close(self._number)
        self._low.close()
        self.other.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._soft, self._hard))


def test_a_descriptor_above_1023_is_waited_for(wakeup: Wakeup) -> None:
    with closing(HighSocket()) as connection:
        assert connection.fileno() > 1023
        notifications = Notifications(connection)  # type: ignore[arg-type]  # a connection that only has a socket
        wakeup.wait(0.001, notifications)
        thread = waiting(wakeup, notifications)
        connection.other.send(b"a notification")
        deadlines.ended(thread)
