"""Lookups shared by all threads that wait for the same key, with cached results."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kafwire.errors import KafkaError

_K = TypeVar("_K")
_T = TypeVar("_T")

MAX_FAILURES = 10_000  # the most cached at once
MAX_FOUND = 10_000


@dataclass(slots=True)
class _Running(Generic[_T]):
    done: threading.Event = field(default_factory=threading.Event)
    value: _T | None = None
    error: BaseException | None = None


class SharedLookups(Generic[_K, _T]):
    """A cache by key.

    Args:
        look_up: returns the value; it may block.
        keeps: returns for how many seconds an error is raised again without another lookup; 0: it is not cached.
        clock: the time, in seconds.
        max_found: the most cached values; beyond it, the oldest leaves.
    """

    def __init__(
        self,
        look_up: Callable[[_K], _T],
        keeps: Callable[[BaseException], float],
        clock: Callable[[], float],
        max_found: int = MAX_FOUND,
    ) -> None:
        self._max_found = max_found
        self._look_up = look_up
        self._keeps = keeps
        self._clock = clock
        self._lock = threading.Lock()
        self._found: dict[_K, _T] = {}
        self._failed: dict[_K, tuple[float, BaseException]] = {}
        self._running: dict[_K, _Running[_T]] = {}

    def get(self, key: _K) -> _T:
        """Return the value. Raises the lookup's error."""
        found = self._found.get(key)  # one step of the dictionary needs no lock, and no value is None
        if found is not None:
            return found
        while True:
            with self._lock:
                if key in self._found:
                    return self._found[key]
                until, error = self._failed.get(key, (0.0, None))
                if error is not None and self._clock() < until:
                    raise own_copy(error)
                running = self._running.get(key)
                if mine := running is None:
                    running = self._running[key] = _Running()
            if mine:
                return self._run(key, running)
            running.done.wait()  # the thread that runs the lookup has a time limit
            if isinstance(running.error, Exception):
                raise own_copy(running.error)
            # else the value is there, or a signal ended the other thread's lookup

    def forget(self, is_stale: Callable[[_K], bool]) -> None:
        """Remove the cached values and errors of some keys."""
        with self._lock:
            for kept in (self._found, self._failed):
                for key in [each for each in kept if is_stale(each)]:
                    del kept[key]

    def _run(self, key: _K, running: _Running[_T]) -> _T:
        try:
            value = running.value = self._look_up(key)
        except BaseException as error:
            running.error = error
            raise
        finally:
            with self._lock:
                self._settle(key, running)
            running.done.set()
        return value

    def _settle(self, key: _K, running: _Running[_T]) -> None:
        del self._running[key]
        self._failed.pop(key, None)
        if running.error is None:
            if len(self._found) >= self._max_found:
                del self._found[next(iter(self._found))]
            self._found[key] = running.value  # type: ignore[assignment] # set without an error
        elif (seconds := self._keeps(running.error)) > 0:
            if len(self._failed) >= MAX_FAILURES:
                del self._failed[next(iter(self._failed))]
            self._failed[key] = (self._clock() + seconds, running.error)


def own_copy(error: BaseException) -> BaseException:
    """Return a separate copy of an error: a traceback belongs to one thread."""
    return copy.copy(error) if isinstance(error, KafkaError) else error
