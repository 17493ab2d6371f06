"""A thread that sleeps until a socket is ready, a time has come, or somebody calls it."""

import contextlib
import heapq
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from typing import Any, TypeVar

__all__ = ["Reactor"]

T = TypeVar("T")


class Reactor:
    """What is watched and what is due, called back in the reactor's thread; `call` brings others' commands there."""

    def __init__(self, name: str, on_end: Callable[[], None]) -> None:
        """`on_end` is the last that the thread calls, whatever ends it."""
        self._on_end = on_end
        self._selector = selectors.DefaultSelector()
        self._watched: dict[Any, int] = {}
        self._order = count()
        self._timers: list[tuple[float, int, Callable[[float], None]]] = []
        self._commands: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._ending = False
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_out.setblocking(False)
        self.watch(self._wake_out, selectors.EVENT_READ, self._on_called)
        # Who forgets to end it can still end the interpreter.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def running(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self) -> None:
        """End the thread, and return when it has."""
        with contextlib.suppress(RuntimeError):
            self.call(self._end)
        self._thread.join()

    def call(self, command: Callable[[], T]) -> T:
        """Run a command in the thread; what it returns or raises. Raises `RuntimeError` when the thread has ended."""
        future: Future[T] = Future()
        self._commands.append((command, future))
        try:
            self._wake_in.send(b"\0")
        except OSError:
            message = "the proxy's thread has ended"
            raise RuntimeError(message) from None
        return future.result()

    # -- for those who live in the thread

    def now(self) -> float:
        """The time, in seconds, of `time.monotonic`."""
        return time.monotonic()

    def watch(self, what: socket.socket, events: int, callback: Callable[[int], None]) -> None:
        """Call back with the events that a socket is ready for, of these; 0 of them: no more."""
        known = self._watched.get(what, 0)
        if events == known:
            return
        if not known:
            self._selector.register(what, events, callback)
        elif events:
            self._selector.modify(what, events, callback)
        else:
            self._selector.unregister(what)
        if events:
            self._watched[what] = events
        else:
            del self._watched[what]

    def later(self, when: float, callback: Callable[[float], None]) -> None:
        """Call back at that time, with the time."""
        heapq.heappush(self._timers, (when, next(self._order), callback))

    # -- the thread

    def _run(self) -> None:
        try:
            while not self._ending:
                timeout = max(0.0, self._timers[0][0] - self.now()) if self._timers else None
                for key, events in self._selector.select(timeout):
                    # What was called before it may have closed it.
                    if key.fileobj in self._watched:
                        key.data(events)
                now = self.now()
                while self._timers and self._timers[0][0] <= now:
                    heapq.heappop(self._timers)[2](now)
        finally:
            self._on_end()
            self._selector.close()
            self._wake_in.close()
            self._wake_out.close()
            while self._commands:
                self._commands.popleft()[1].set_exception(RuntimeError("the proxy's thread has ended"))

    def _on_called(self, _events: int) -> None:
        self._wake_out.recv(4096)
        while self._commands:
            command, future = self._commands.popleft()
            try:
                future.set_result(command())
            except Exception as error:  # noqa: BLE001 - it is the caller's
                future.set_exception(error)

    def _end(self) -> None:
        self._ending = True
