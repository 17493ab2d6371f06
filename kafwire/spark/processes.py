"""Clients and producers that a Python worker process keeps between tasks; they are created after the fork.

Spark forks its workers from a daemon and reuses them for later tasks. A client belongs to the process that created it,
so the process id is part of the key, and objects of a parent process are never used.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafwire.errors import ConfigError
from kafwire.spark.options import client_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafwire import Client, Producer

# A client that no task uses for this time is closed, with its connections.
IDLE_S = 300.0
_CLOSE_S = 5.0
# The rack of a host, in the environment of its executors: brokers name replicas of the same rack to read from.
RACK_VARIABLE = "KAFWIRE_CLIENT_RACK"

_producers: dict[tuple[object, ...], Producer] = {}
# The program that forks Spark's workers, and collects garbage after each of their tasks.
_DAEMON = "pyspark.daemon"
_frozen: tuple[int, int] | None = None  # the process id, and the number of modules then


def _in_thread(seconds: float, function: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, function)
    timer.daemon = True
    timer.start()


class IdlePool:
    """Clients by their options, each used by one or several tasks, and closed after `idle_s` seconds without use.

    `call_later(seconds, function)` calls `function` in another thread; `now()` returns seconds.
    """

    def __init__(
        self,
        idle_s: float,
        now: Callable[[], float] = time.monotonic,
        call_later: Callable[[float, Callable[[], None]], object] = _in_thread,
    ) -> None:
        self._idle_s = idle_s
        self._now = now
        self._call_later = call_later
        self._lock = threading.Lock()
        self._entries: dict[tuple[object, ...], _Entry] = {}
        self._watching_pid: int | None = None  # the process whose timer runs; a fork has no timer

    @contextlib.contextmanager
    def use(self, key: tuple[object, ...], make: Callable[[], Client]) -> Iterator[Client]:
        """Return the client of `key`; it stays open for as long as the block runs."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                entry = self._entries[key] = _Entry(make())
            entry.users += 1
        try:
            yield entry.client
        finally:
            with self._lock:
                entry.users -= 1
                entry.idle_since = self._now()
                self._watch(self._idle_s)

    def drop(self, key: tuple[object, ...]) -> None:
        """Close the client of `key`; the next use creates another one."""
        with self._lock:
            entry = self._entries.pop(key, None)
        if entry is not None:
            entry.client.close()

    def close_idle(self) -> None:
        """Close clients that were idle for `idle_s`, and set a timer for the next ones."""
        with self._lock:
            self._watching_pid = None
            now = self._now()
            idle = {key: entry for key, entry in self._entries.items() if not entry.users}
            over = [key for key, entry in idle.items() if now - entry.idle_since >= self._idle_s]
            closing = [self._entries.pop(key).client for key in over]
            rest = [entry.idle_since for key, entry in idle.items() if key not in over]
            if rest:
                self._watch(min(rest) + self._idle_s - now)
        for client in closing:
            client.close()

    def _watch(self, seconds: float) -> None:
        if self._watching_pid != os.getpid():
            self._watching_pid = os.getpid()
            self._call_later(seconds, self.close_idle)


@dataclass(slots=True)
class _Entry:
    client: Client
    users: int = 0
    idle_since: float = 0.0


_clients = IdlePool(IDLE_S)


def client(options: Mapping[str, Any]) -> contextlib.AbstractContextManager[Client]:
    """Return this process's client for `options`, for one block; later tasks use the same connections."""
    import kafwire

    def make() -> Client:
        with naming_this_host():
            return kafwire.Client(**options)

    return _clients.use(_key(options), make)


@contextlib.contextmanager
def transactional_producer(options: Mapping[str, Any], **transaction: Any) -> Iterator[Producer]:
    """Return a producer with a transactional id, for one block; all ids of this process share one client.

    Without an error the block closes the producer. After an error the connections are closed too.
    """
    import kafwire

    own = {name: value for name, value in options.items() if name in client_names()}
    with client(own) as shared:
        producer = kafwire.Producer._sharing(shared, {**options, **transaction})
        try:
            yield producer
        except BaseException:
            with contextlib.suppress(Exception):  # the error of the block says more
                producer.close(_CLOSE_S)
            _clients.drop(_key(own))
            raise
        producer.close(_CLOSE_S)


def producer(options: Mapping[str, Any]) -> Producer:
    """Return this process's producer for `options`."""
    import kafwire

    key = _key(options)
    if key not in _producers:
        with naming_this_host():
            _producers[key] = kafwire.Producer(**options)
    return _producers[key]


def freeze_modules() -> None:
    """Exclude the objects of this worker from later garbage collections, once after each import.

    `pyspark.daemon` runs a full collection after each task of a worker that it reuses. It visits the objects of all
    imported modules, those of pyspark, pandas and pyarrow, in 35 to 50 ms. Other programs keep their objects as they
    are.
    """
    global _frozen
    program = getattr(sys.modules["__main__"], "__spec__", None)
    state = os.getpid(), len(sys.modules)
    if program is not None and program.name == _DAEMON and state != _frozen:
        gc.collect()
        gc.freeze()
        _frozen = state


def rack(by_host: Mapping[str, str]) -> str | None:
    """Return the rack of this host, by its full or short name in `by_host`, else from the environment."""
    host = socket.gethostname()
    found = by_host.get(host) or by_host.get(host.partition(".")[0])
    return found or os.environ.get(RACK_VARIABLE) or None


@contextlib.contextmanager
def naming_this_host() -> Iterator[None]:
    """Add the host to errors of a new client: each node looks for the files that options name."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"on the host {socket.gethostname()}: {error}") from None


def forget_producer(options: Mapping[str, Any]) -> None:
    """Close this process's producer for `options` after a failure, and drop its records; the next task creates one."""
    found = _producers.pop(_key(options), None)
    if found is not None:
        # The task has failed already, with a better error.
        with contextlib.suppress(Exception):
            found.close(0.0)


def _key(options: Mapping[str, Any]) -> tuple[object, ...]:
    return (os.getpid(), *sorted(options.items()))
