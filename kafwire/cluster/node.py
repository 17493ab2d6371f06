"""One broker from a client's view: its connections, and whether it hangs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafwire.cluster.address_blame import AddressBlame
from kafwire.cluster.metadata import BrokerAddress

if TYPE_CHECKING:
    from kafwire.cluster.broker_connection import BrokerConnection


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
