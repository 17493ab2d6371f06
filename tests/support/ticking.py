"""A task that ticks in an event loop, and a registry that responds only to a loop that goes on."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from http.server import BaseHTTPRequestHandler

from tests.support.schema_registry import RegistryServer

TICK_S = 0.002
TICKS = 25  # of the loop, during each request
PATIENCE_S = 5.0  # so long a request holds up a loop that waits for it


class Ticks:
    """Ticks of one event loop, counted for other threads; `longest_s` is the longest pause between two."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()
        self.longest_s = 0.0

    async def run(self) -> None:
        """Tick until it is cancelled."""
        loop = asyncio.get_running_loop()
        last = loop.time()
        while True:
            await asyncio.sleep(TICK_S)
            now = loop.time()
            self.longest_s, last = max(self.longest_s, now - last), now
            with self._changed:
                self._count += 1
                self._changed.notify_all()

    def pass_by(self) -> bool:
        """Wait for `TICKS` more ticks; return False if the loop stands still."""
        with self._changed:
            until = self._count + TICKS
            return self._changed.wait_for(lambda: self._count >= until, PATIENCE_S)


class TickedRegistry(RegistryServer):
    """Responds to a request once the loop has ticked `TICKS` times. `held_up` lists the requests that held it up."""

    def __init__(self) -> None:
        super().__init__()
        self.ticks = Ticks()
        self.is_slow = False
        self.held_up: list[str] = []

    def respond(self, request: BaseHTTPRequestHandler) -> None:
        """Wait, and respond as the registry does."""
        if self.is_slow and not self.ticks.pass_by():
            self.held_up.append(f"{request.command} {request.path}")
        super().respond(request)

    @contextlib.asynccontextmanager
    async def ticking(self) -> AsyncIterator[Ticks]:
        """Tick in the running loop, and be slow meanwhile."""
        task = asyncio.ensure_future(self.ticks.run())
        self.is_slow = True
        try:
            yield self.ticks
        finally:
            self.is_slow = False
            task.cancel()
