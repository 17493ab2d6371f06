"""`DaemonThreads`: threads for work that may block; one stays ready for the interpreter's end."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from kafwire.runtime.patched import SimpleQueue, Thread, allocate_lock, new_thread


class DaemonThreads:
    """Daemon threads. Only the caller waits for their work.

    From CPython 3.12 on, no thread can be started once the interpreter ends, while a flush at exit may have to resolve
    a name. So a thread that has finished waits for more work, one at a time; work that no new thread can take is queued
    after that of the others.
    """

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._threads: set[Thread] = set()
        self._work: deque[tuple[str, Callable[[], object]]] = deque()
        self._ready: SimpleQueue[None] = SimpleQueue()
        self._is_one_ready = self._is_ending = False

    def run(self, name: str, work: Callable[[], object]) -> None:
        """Call `work` in a thread; it must not raise.

        Raises `RuntimeError` if there is no thread, and none can be started.
        """
        with self._lock:
            if self._is_one_ready:
                self._is_one_ready = False
                self._work.append((name, work))
                self._ready.put(None)
                return
            own: list[Thread] = []
            thread = new_thread(self._serve, (own, name, work), name=name)
            own.append(thread)
            self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:
            with self._lock:
                self._threads.discard(thread)
                if not self._threads:
                    raise
                self._work.append((name, work))

    def _serve(self, own: list[Thread], name: str, work: Callable[[], object]) -> None:
        thread = own.pop()
        given: tuple[str, Callable[[], object]] | None = (name, work)
        del work
        while given is not None:
            thread.name, work = given
            work()
            del given, work  # objects of the work are not kept alive
            given = self._next(thread)

    def _next(self, thread: Thread) -> tuple[str, Callable[[], object]] | None:
        with self._lock:
            if self._work and not self._is_one_ready:
                return self._work.popleft()
            if self._is_one_ready or self._is_ending:
                self._threads.discard(thread)
                return None
            self._is_one_ready = True
            thread.name = "kafwire-ready"
        self._ready.get()
        with self._lock:
            if self._work:
                return self._work.popleft()
            self._threads.discard(thread)
            return None

    def stop(self, timeout_s: float) -> None:
        """End idle threads, and wait for the others, at most `timeout_s` seconds in all."""
        with self._lock:
            self._is_ending = True
            if self._is_one_ready:
                self._is_one_ready = False
                self._ready.put(None)
            threads = list(self._threads)
        until = time.monotonic() + timeout_s
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
