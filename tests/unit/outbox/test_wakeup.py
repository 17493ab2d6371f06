"""What ends a relay's wait."""

from __future__ import annotations

import threading
from collections.abc import Iterator

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


def test_who_was_woken_before_does_not_wait_and_then_does(wakeup: Wakeup) -> None:
    for _ in range(5000):  # more than the socket holds
        wakeup.wake()
    deadlines.ended(waiting(wakeup))
    for _ in range(3000):  # what is left is used up
        wakeup.wait(0)
    thread = waiting(wakeup)
    thread.join(0.02)
    assert thread.is_alive()
    wakeup.wake()
    deadlines.ended(thread)


def test_time_ends_the_wait(wakeup: Wakeup) -> None:
    wakeup.wait(0.001)
    wakeup.wait(-1)


def test_what_is_closed_can_be_woken(wakeup: Wakeup) -> None:
    wakeup.close()
    wakeup.wake()


class Listening:
    """A connection as psycopg2 has them: notifications are in a list."""

    def __init__(self) -> None:
        self.notifies: list[str] = []

    def fileno(self) -> int:
        raise AssertionError("whoever has notifications does not wait for the socket")


def test_notifications_that_came_already_end_the_wait_once(wakeup: Wakeup) -> None:
    connection = Listening()
    notifications = Notifications(connection)  # type: ignore[arg-type]  # of a connection it needs no more
    connection.notifies.append("outbox")
    deadlines.ended(waiting(wakeup, notifications))
    assert not notifications.take()
