"""`StopRequest`: asks streams to stop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from kafwire.handles import refuse_copy
from kafwire.runtime.patched import allocate_reentrant_lock


class StopRequest:
    """Stops streams: they finish their records, commit and leave. One request may be given to several streams.

    Example:
        >>> stop = kafwire.stream.StopRequest()
        >>> stop.request()
        >>> source = kafwire.stream.MemorySource({"orders": [b"2 books"]}, ends=False)
        >>> kafwire.stream.Pipeline().for_each(print).run(source, stop=stop).records
        0
    """

    __reduce_ex__ = refuse_copy

    __module__ = "kafwire.stream"

    def __init__(self) -> None:
        self._lock = allocate_reentrant_lock()  # a signal handler may interrupt its thread in here
        self._is_requested = False
        self._calls: list[Callable[[], object]] = []

    def request(self) -> None:
        """Ask the streams to stop. From any thread, or a signal handler; returns at once."""
        with self._lock:
            self._is_requested = True
            for call in self._calls:
                call()

    @property
    def is_requested(self) -> bool:
        """True if a stop was requested."""
        return self._is_requested

    @contextlib.contextmanager
    def _calling(self, function: Callable[[], object]) -> Iterator[None]:
        """Within the block, the running loop calls a function when a stop is requested, or at once if it was."""
        loop = asyncio.get_running_loop()

        def call() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(function)

        with self._lock:
            self._calls.append(call)
            if self._is_requested:
                call()
        try:
            yield
        finally:
            with self._lock:
                self._calls.remove(call)
