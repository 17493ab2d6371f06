"""What the log says of addresses that a client is still connecting to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafwire.cluster.reachability import PATIENCE_MS, Watch
from kafwire.runtime.engine import Engine

if TYPE_CHECKING:
    from kafwire.cluster.broker_connection import Lane

log = logging.getLogger("kafwire")


class Reach:
    """The addresses of one client. Each cause is told once, until the address is connected."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._watches: dict[tuple[str, int], Watch] = {}

    def watch(self, lane: Lane) -> Watch:
        """What is known of a lane's address."""
        return self._watches.setdefault((lane.host, lane.port), Watch())

    def begin(self, lane: Lane) -> None:
        """A lane begins to connect."""
        watch = self.watch(lane)
        first = not watch.is_waiting
        _warn(watch.begin(self._engine.now_ms()))
        if first:
            asyncio.get_running_loop().call_later(PATIENCE_MS / 1000, self._look, lane)

    def _look(self, lane: Lane) -> None:
        _warn(self.watch(lane).look(self._engine.now_ms(), f"{lane.at_address}: no answer yet"))

    def fail(self, lane: Lane, causes: Iterable[str], text: str) -> None:
        """It could not."""
        _warn(self.watch(lane).fail(self._engine.now_ms(), causes, text))

    def leave(self, lane: Lane) -> None:
        """It was told not to go on."""
        self.watch(lane).leave(self._engine.now_ms())

    def succeed(self, lane: Lane) -> None:
        """It has."""
        waited_s = self.watch(lane).succeed(self._engine.now_ms())
        if waited_s is not None:
            log.info("kafwire: connected to %s after %.1f s", lane.at_address, waited_s)


def _warn(text: str | None) -> None:
    if text is not None:
        log.warning("kafwire: still connecting to %s", text)
