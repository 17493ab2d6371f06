"""Drives the embedded broker's state from a test: a request in, its response out, time as the test says."""

from __future__ import annotations

from typing import Any

from kafwire.broker import dispatch
from kafwire.broker.request import ClientConnection, Request
from kafwire.broker.state import ClusterState


class BrokerDriver:
    """One client of a state, and its time. Responses that come later are in `late`, by their requests."""

    def __init__(self, state: ClusterState | None = None) -> None:
        self.state = ClusterState() if state is None else state
        self.late: dict[Request, Any] = {}
        self._connections: dict[int, ClientConnection] = {}

    def connection(self, node: int = 1) -> ClientConnection:
        """The connection to a broker that requests go over where no other is given."""
        if node not in self._connections:
            self._connections[node] = self.state.connect(node)
        return self._connections[node]

    def send(
        self,
        message: Any,
        version: int | None = None,
        *,
        node: int = 1,
        connection: ClientConnection | None = None,
        client_id: str | None = "test",
    ) -> Request:
        """Send a request; its response is in `late` as soon as there is one."""
        version = type(message).max_version if version is None else version
        request = Request(connection or self.connection(node), message, version, client_id=client_id)
        dispatch.receive(self.state, request, self.state.now_ms)
        self._take()
        return request

    def ask(self, message: Any, version: int | None = None, **how: Any) -> Any:
        """Send a request, and return its response; None: it has none yet."""
        return self.late.pop(self.send(message, version, **how), None)

    def pass_ms(self, ms: float) -> None:
        """Let time pass."""
        self.state.advance(self.state.now_ms + ms)
        self._take()

    def _take(self) -> None:
        self.late.update(self.state.take_replies())


def ask(state: ClusterState, message: Any, version: int | None = None, **how: Any) -> Any:
    """Send one request over a connection of its own, and return its response; None: it has none yet."""
    driver = BrokerDriver(state)
    return driver.ask(message, version, **how)
