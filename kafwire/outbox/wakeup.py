"""The wait of a relay for rows: until a time-out, a notification of the database, or a wake by another thread."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from typing import Any

from kafwire.database.connections import DatabaseConnection, driver_of

# The drivers with supported notifications.
LISTENING = ("psycopg", "psycopg2")
# `select` rejects descriptors above 1,023, which a process with many open files has.
_Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)


class Wakeup:
    """A wait that another thread, or a signal handler, can end."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def wake(self) -> None:
        """End the current wait, or else the next one."""
        try:
            self._writer.send(b"\0")
        except BlockingIOError:
            pass  # the pipe is full: the wake is pending
        except OSError:
            pass  # closed: no thread waits

    def wait(self, seconds: float, notifications: Notifications | None = None) -> None:
        """Return after `seconds`, at a notification, or when woken. A wake ends only one wait."""
        if notifications is not None and notifications.take():
            return
        sources: list[Any] = [self._reader] if notifications is None else [self._reader, notifications]
        with _Selector() as selector:
            for source in sources:
                selector.register(source, selectors.EVENT_READ)
            ready = [key.fileobj for key, _ in selector.select(max(seconds, 0.0))]
        if self._reader in ready:
            self._reader.recv(4096)

    def pause(self, seconds: float, is_over: Callable[[], bool]) -> None:
        """Return after `seconds`, or when woken while `is_over` returns True: `wake` alone does not end it."""
        end = time.monotonic() + seconds
        while not is_over() and (left := end - time.monotonic()) > 0:
            self.wait(left)

    def close(self) -> None:
        """Close both sockets."""
        self._reader.close()
        self._writer.close()


class Notifications:
    """Notifications of a PostgreSQL connection, by psycopg or psycopg2, that listens to a channel.

    They are read from the socket together with the response to the next statement. So a caller that sees the socket
    readable queries the rows again, and a caller whose query found none checks here before it waits: a notification may
    have come with that response, and its rows after it.
    """

    def __init__(self, connection: DatabaseConnection) -> None:
        listening: Any = connection
        self._connection = listening
        self._came = False
        if driver_of(connection) == "psycopg":
            listening.add_notify_handler(self._on_notify)

    def _on_notify(self, _: object) -> None:
        self._came = True

    def take(self) -> bool:
        """True if a notification came since the last call."""
        came, self._came = self._came, False
        if getattr(self._connection, "notifies", None) and isinstance(self._connection.notifies, list):  # psycopg2
            self._connection.notifies.clear()
            return True
        return came

    def fileno(self) -> int:
        """Return the connection's socket, for a selector."""
        number: int = self._connection.fileno()
        return number
