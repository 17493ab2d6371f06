"""The threads that are inside Arrow streams now. Imports nothing of kafwire: compiled modules add their functions."""

from __future__ import annotations

from collections.abc import Callable

# Each function lists the threads that are inside an Arrow stream now. Modules that make streams add theirs.
stream_thread_sources: list[Callable[[], list[int]]] = []


def stream_threads() -> list[int]:
    """Return the identifiers of the threads that are inside Arrow streams."""
    return [thread for threads in stream_thread_sources for thread in threads()]
