"""One broker from a client's view: its connections, whether it hangs, and its failed addresses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kafwire.cluster.metadata import BrokerAddress
from kafwire.runtime.interfaces import SocketAddress

if TYPE_CHECKING:
    from kafwire.cluster.broker_connection import BrokerConnection


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


class Node:
    """The connections of one broker, by role, which share their knowledge of failed addresses."""

    def __init__(self, number: int, make: Callable[[Node, BrokerAddress, str], BrokerConnection]) -> None:
        self.number = number
        self.blame = AddressBlame()
        self._make = make
        self._connections: dict[str, BrokerConnection] = {}

    @property
    def connections(self) -> list[BrokerConnection]:
        """All connections, in the order of creation."""
        return list(self._connections.values())

    @property
    def is_overdue(self) -> bool:
        """True if a response is overdue for so long that the broker may hang."""
        return any(connection.is_overdue for connection in self._connections.values())

    def find(self, role: str) -> BrokerConnection | None:
        """Return the connection for `role`, or None."""
        return self._connections.get(role)

    def connection(self, role: str, address: BrokerAddress) -> BrokerConnection:
        """Return the connection for `role`; a new one, not opened yet, if there is none or the broker moved."""
        connection = self._connections.get(role)
        if connection is not None and not connection.is_to(address):
            connection.close(f"broker {self.number} has moved")
            connection = None
        if connection is None:
            connection = self._connections[role] = self._make(self, address, role)
        return connection

    def adopt(self, connection: BrokerConnection) -> None:
        """Take over a connection that turned out to lead to this broker."""
        connection.node = self.number
        self.blame = connection.blame
        for other in self._connections.values():
            other.blame = self.blame
        self._connections[connection.role] = connection

    def release(self, role: str) -> None:
        """Close and forget one connection; its pending requests fail."""
        connection = self._connections.pop(role, None)
        if connection is not None:
            connection.close(f"the {role} connection was released")

    def leave_departed(self, address: BrokerAddress | None) -> None:
        """Close the idle connections to former addresses; the broker is at `address` now (None: it left)."""
        for role, connection in list(self._connections.items()):
            if not connection.in_flight and (address is None or not connection.is_to(address)):
                del self._connections[role]
                connection.close(f"broker {self.number} has {'left the cluster' if address is None else 'moved'}")

    def close(self, reason: str) -> None:
        """Close and forget all connections; pending requests fail."""
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.close(reason)
