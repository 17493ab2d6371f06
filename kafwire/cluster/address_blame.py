"""The failed addresses of one host, and the order in which a connection tries its addresses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable

from kafwire.runtime.interfaces import SocketAddress


class AddressBlame:
    """The failed addresses of a host. Other addresses are tried before them (KIP-302).

    A connection that opens ends the back-off of the host's other connections (`reached`).
    """

    def __init__(self) -> None:
        self.openings = 0
        self._opened = asyncio.Event()
        self._turns: dict[SocketAddress, int] = {}  # failed addresses, numbered in the order of failure
        self._last_turn = 0

    def blame(self, address: SocketAddress) -> None:
        """Note an address that refused, hung, or closed with a response pending; brokers may close idle connections."""
        self._last_turn += 1
        self._turns[address] = self._last_turn

    def reached(self) -> None:
        """Note that a connection to the host opened."""
        self.openings += 1
        self._opened.set()
        self._opened.clear()

    async def back_off(self, seconds: float) -> None:
        """Wait, but only until a connection to the host opens."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._opened.wait()

    def order(self, found: Iterable[tuple[int, SocketAddress]]) -> list[tuple[int, SocketAddress]]:
        """Sort a host's current addresses: those that never failed, then the others, the latest to fail last."""
        addresses = list(found)
        self._turns = {address: turn for _, address in addresses if (turn := self._turns.get(address))}
        return sorted(addresses, key=lambda each: self._turns.get(each[1], 0))
