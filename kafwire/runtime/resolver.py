"""Resolves names by the system's resolver, which blocks, in threads."""

from __future__ import annotations

import asyncio
import socket

from kafwire.runtime.interfaces import Executor, SocketAddress
from kafwire.runtime.patched import original

# Most simultaneous look-ups.
LOOK_UPS = 8


def failing_part(error: Exception) -> str:
    """Return the cause of a resolver error: "name", "server", or an empty text for neither."""
    if isinstance(error, UnicodeError):  # the name has an empty or too long label
        return "name"
    number = error.errno if isinstance(error, socket.gaierror) else None
    if number in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)):
        return "name"
    return "server" if number == socket.EAI_AGAIN else ""


class SystemResolver:
    """The system's resolver; a few look-ups run at a time, abandoned ones included."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._look_ups = asyncio.Semaphore(LOOK_UPS)

    async def resolve(self, host: str, port: int) -> list[tuple[int, SocketAddress]]:
        """See `Resolver`. A numeric address needs no thread."""
        try:
            return _look_up(host, port, socket.AI_NUMERICHOST)
        except (OSError, UnicodeError):
            pass
        await self._look_ups.acquire()
        future = self._executor.in_thread("kafwire-names", _look_up, host, port, 0)
        future.add_done_callback(lambda _: self._look_ups.release())
        return await asyncio.shield(future)


def _look_up(host: str, port: int, flags: int) -> list[tuple[int, SocketAddress]]:
    found = original("socket", "getaddrinfo")(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(int(family), address) for family, _, _, _, address in found]
