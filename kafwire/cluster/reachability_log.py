"""Log messages about addresses that a client is still connecting to."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Iterable
from typing import Protocol

from kafwire.cluster.reachability import PATIENCE_MS, Watch
from kafwire.runtime.interfaces import Engine
from kafwire.runtime.log import cluster_log as log


class Connecting(Protocol):
    """The facts of a connection that its log lines need."""

    node: int
    host: str
    port: int

    @property
    def at_address(self) -> str:
        """The address, in words."""

    @property
    def serves(self) -> bool:
        """True if a response to more than the opening requests came."""


class Reach:
    """The addresses of one client. Each cause is reported once, until the address is connected."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._watches: dict[tuple[str, int], Watch] = {}
        self._connections: weakref.WeakSet[Connecting] = weakref.WeakSet()

    def watch(self, connection: Connecting) -> Watch:
        """Return the watch of a connection's address."""
        return self._watches.setdefault((connection.host, connection.port), Watch())

    def serves(self, connection: Connecting) -> bool:
        """True if any connection to the same address got a response to more than the opening requests."""
        watch = self.watch(connection)
        return watch.served or any(each.serves and self.watch(each) is watch for each in self._connections)

    def begin(self, connection: Connecting) -> None:
        """Note that a connection begins to connect."""
        self._connections.add(connection)
        watch = self.watch(connection)
        first = not watch.is_waiting
        _warn(watch.begin(self._engine.now_ms()), connection)
        if first:
            asyncio.get_running_loop().call_later(PATIENCE_MS / 1000, self._look, connection)

    def _look(self, connection: Connecting) -> None:
        text = f"{connection.at_address}: no response yet"
        _warn(self.watch(connection).look(self._engine.now_ms(), text), connection)

    def fail(self, connection: Connecting, causes: Iterable[str], text: str) -> None:
        """Note that a connection failed to connect."""
        _warn(self.watch(connection).fail(self._engine.now_ms(), causes, text), connection)

    def leave(self, connection: Connecting) -> None:
        """Note that a connection's attempt was cancelled."""
        self.watch(connection).leave(self._engine.now_ms())

    def succeed(self, connection: Connecting) -> None:
        """Note that a connection connected."""
        waited_s = self.watch(connection).succeed(self._engine.now_ms())
        if waited_s is not None:
            log.info(
                "kafwire: connected to %s after %.1f s",
                connection.at_address,
                waited_s,
                node=connection.node,
                host=connection.host,
                port=connection.port,
                waited_s=round(waited_s, 1),
            )


def _warn(text: str | None, connection: Connecting) -> None:
    if text is not None:
        node, host, port = connection.node, connection.host, connection.port
        log.warning("kafwire: still connecting to %s", text, node=node, host=host, port=port)
