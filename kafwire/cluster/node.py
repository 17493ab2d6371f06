"""One broker, as a client knows it: its connections, whether it hangs, and which of its addresses failed."""

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
    """The addresses of a host that failed. Others are tried before them (KIP-302).

    A connection that opens ends the back-off of the host's other connections (`reached`).
    """

    def __init__(self) -> None:
        self.openings = 0
        self._opened = asyncio.Event()
        self._turns: dict[SocketAddress, int] = {}  # of those that failed, in the order in which they did
        self._last_turn = 0

    def blame(self, address: SocketAddress) -> None:
        """It refused, hung, or broke off while a response was owed; closing an idle connection is what brokers do."""
        self._last_turn += 1
        self._turns[address] = self._last_turn

    def reached(self) -> None:
        """A connection to the host has opened."""
        self.openings += 1
        self._opened.set()
        self._opened.clear()

    async def back_off(self, seconds: float) -> None:
        """Wait, unless a connection to the host opens before."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._opened.wait()

    def order(self, found: Iterable[tuple[int, SocketAddress]]) -> list[tuple[int, SocketAddress]]:
        """What a host resolves to now: addresses that never failed, then the others, the latest to fail last."""
        addresses = list(found)
        self._turns = {address: turn for _, address in addresses if (turn := self._turns.get(address))}
        return sorted(addresses, key=lambda each: self._turns.get(each[1], 0))


class Node:
    """The connections of one broker, by role. What one of them learns of an address, the others know too."""

    def __init__(self, number: int, make: Callable[[Node, BrokerAddress, str], BrokerConnection]) -> None:
        self.number = number
        self.blame = AddressBlame()
        self._make = make
        self._connections: dict[str, BrokerConnection] = {}

    @property
    def connections(self) -> list[BrokerConnection]:
        """All of them, in the order in which they were asked for."""
        return list(self._connections.values())

    @property
    def is_overdue(self) -> bool:
        """Whether it owes a response for so long that it may hang."""
        return any(connection.is_overdue for connection in self._connections.values())

    def find(self, role: str) -> BrokerConnection | None:
        """The connection for `role`, if there is one."""
        return self._connections.get(role)

    def connection(self, role: str, address: BrokerAddress) -> BrokerConnection:
        """The connection for `role`; a new one, which is not opened yet, where the broker listens elsewhere now."""
        connection = self._connections.get(role)
        if connection is not None and not connection.is_to(address):
            connection.close(f"broker {self.number} has moved")
            connection = None
        if connection is None:
            connection = self._connections[role] = self._make(self, address, role)
        return connection

    def adopt(self, connection: BrokerConnection) -> None:
        """A connection to this broker, made before it was known to be this one."""
        connection.node = self.number
        self.blame = connection.blame
        for other in self._connections.values():
            other.blame = self.blame
        self._connections[connection.role] = connection

    def release(self, role: str) -> None:
        """Close one connection and forget it; what is pending on it fails."""
        connection = self._connections.pop(role, None)
        if connection is not None:
            connection.close(f"the {role} connection was released")

    def leave_departed(self, address: BrokerAddress | None) -> None:
        """Close the idle connections to where the broker, which listens at `address` now, is not any more."""
        for role, connection in list(self._connections.items()):
            if not connection.in_flight and (address is None or not connection.is_to(address)):
                del self._connections[role]
                connection.close(f"broker {self.number} has {'left the cluster' if address is None else 'moved'}")

    def close(self, reason: str) -> None:
        """Close all, and forget them; what is pending fails."""
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.close(reason)
