"""A thread that sleeps until a socket is ready, a timer is due, or another thread calls it."""

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
    """Callbacks for sockets and timers, in the reactor's thread; `call` runs commands of other threads there."""

    def __init__(self, name: str, on_end: Callable[[], None]) -> None:
        """Create the thread; its last call is `on_end`, for any reason that ends it."""
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
        # A daemon thread: the interpreter can end without `end`.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def running(self) -> bool:
        """True if the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self) -> None:
        """End the thread, and return when it has ended."""
        with contextlib.suppress(RuntimeError):
            self.call(self._end)
        self._thread.join()

    def call(self, command: Callable[[], T]) -> T:
        """Run a command in the thread, and return its result. Raises `RuntimeError` if the thread has ended."""
        future: Future[T] = Future()
        self._commands.append((command, future))
        try:
            self._wake_in.send(b"\0")
        except OSError:
            message = "the proxy's thread has ended"
            raise RuntimeError(message) from None
        return future.result()

    # -- for callbacks in the thread

    def now(self) -> float:
        """Return the time of `time.monotonic`, in seconds."""
        return time.monotonic()

    def watch(self, what: socket.socket, events: int, callback: Callable[[int], None]) -> None:
        """Call `callback` with those of `events` that a socket is ready for; `events` of 0 ends that."""
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
                    # An earlier callback may have closed it.
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
            except Exception as error:  # noqa: BLE001 - the caller gets it
                future.set_exception(error)

    def _end(self) -> None:
        self._ending = True
