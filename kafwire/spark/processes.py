"""What a Python worker process keeps between tasks: its clients and producers, made after the fork.

Spark forks its workers from a daemon and uses them again for later tasks. A client belongs to the process that made it,
so the process id is part of the key, and what a parent made is never touched here.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kafwire.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafwire import Client, Producer


class Closable(Protocol):
    """Something with connections."""

    def close(self) -> None:
        """Close them."""


_T = TypeVar("_T", bound=Closable)

# A client that no task uses for so long is closed, with its connections.
IDLE_S = 300.0

_producers: dict[tuple[object, ...], Producer] = {}


def _in_thread(seconds: float, function: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, function)
    timer.daemon = True
    timer.start()


class IdlePool(Generic[_T]):
    """Clients by their options, each used by one task or several, and closed once it was idle for `idle_s`.

    `call_later(seconds, function)` has `function` called by another thread, `now()` gives seconds.
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
        self._entries: dict[tuple[object, ...], _Entry[_T]] = {}
        self._watching_pid: int | None = None  # a timer runs in this process; a fork has none

    @contextlib.contextmanager
    def use(self, key: tuple[object, ...], make: Callable[[], _T]) -> Iterator[_T]:
        """The client of `key`; it stays open for as long as the block runs."""
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

    def close_idle(self) -> None:
        """Close clients that were idle for long enough; look again when the next one may be."""
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
class _Entry(Generic[_T]):
    client: _T
    users: int = 0
    idle_since: float = 0.0


class Connections:
    """The connections of all transactional producers of a process, one producer after the other."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """Connect to nothing yet. `options` are those of any client."""
        from kafwire.cluster.cluster import Cluster
        from kafwire.config import ClientConfig
        from kafwire.runtime.engine import default_engine

        with naming_this_host():
            self.cluster = Cluster(default_engine(), ClientConfig.build(options))

    def close(self) -> None:
        """Close them."""
        self.cluster.engine.run(self.cluster.close)

    def producer(self, options: Mapping[str, Any]) -> Producer:
        """A producer over these connections; they stay open when it closes."""
        import kafwire

        with naming_this_host():
            return kafwire.Producer._over(self.cluster, options)


_clients: IdlePool[Client] = IdlePool(IDLE_S)
_connections: IdlePool[Connections] = IdlePool(IDLE_S)


def client(options: Mapping[str, Any]) -> contextlib.AbstractContextManager[Client]:
    """This process's client for `options`, for one block; its connections serve one task after the other."""
    import kafwire

    def make() -> Client:
        with naming_this_host():
            return kafwire.Client(**options)

    return _clients.use(_key(options), make)


def connections(options: Mapping[str, Any]) -> contextlib.AbstractContextManager[Connections]:
    """This process's connections for transactional producers, for one block; later tasks use them again."""
    return _connections.use(_key(options), lambda: Connections(options))


def producer(options: Mapping[str, Any]) -> Producer:
    """This process's producer for `options`."""
    import kafwire

    key = _key(options)
    if key not in _producers:
        with naming_this_host():
            _producers[key] = kafwire.Producer(**options)
    return _producers[key]


@contextlib.contextmanager
def naming_this_host() -> Iterator[None]:
    """Have errors of a client that is made say where: the files that options name are looked for on each node."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"on the host {socket.gethostname()}: {error}") from None


def forget_producer(options: Mapping[str, Any]) -> None:
    """Close this process's producer for `options` after a failure, with all it holds; the next task makes another."""
    found = _producers.pop(_key(options), None)
    if found is not None:
        # The task fails already, by an error that says more than one from here could.
        with contextlib.suppress(Exception):
            found.close(0.0)


def _key(options: Mapping[str, Any]) -> tuple[object, ...]:
    return (os.getpid(), *sorted(options.items()))
