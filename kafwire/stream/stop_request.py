"""`StopRequest`: how a stream is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from kafwire.handles import refuse_copy
from kafwire.runtime.patched import allocate_reentrant_lock


class StopRequest:
    """Ends streams: they finish what they have, commit and leave. One may be given to several of them.

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
        self._lock = allocate_reentrant_lock()  # a signal's handler may come while its thread is in here
        self._is_requested = False
        self._calls: list[Callable[[], object]] = []

    def request(self) -> None:
        """Have the streams stop. From any thread, or a signal's handler; returns at once."""
        with self._lock:
            self._is_requested = True
            for call in self._calls:
                call()

    @property
    def is_requested(self) -> bool:
        """Whether it was requested."""
        return self._is_requested

    @contextlib.contextmanager
    def _calling(self, function: Callable[[], object]) -> Iterator[None]:
        """Within the block, have the running loop call a function when a stop is requested, or at once if it was."""
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
