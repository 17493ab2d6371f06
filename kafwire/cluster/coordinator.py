"""The coordinator of a group or another key: finding its broker, and when to look again (KIP-699)."""

from __future__ import annotations

import asyncio
from typing import Any

from kafwire import protocol
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.hedging import failure_of, first_response
from kafwire.error_codes import ErrorCode
from kafwire.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError, ProtocolError, broker_error

# The role of the connection to a coordinator. A broker handles the requests of one connection in order: here a
# heartbeat waits only behind other requests to the coordinator, not behind a slow Metadata request.
COORDINATOR = "coordinator"
GROUP, TRANSACTION = 0, 1  # key types of FindCoordinator
# These mean that the coordinator has moved. A broker that is loading its state (14) is the right one: retry.
COORDINATOR_ERRORS = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)


class Coordinator:
    """Finds the coordinator of one key when it is first needed, and again after `forget`. Retries nothing itself."""

    def __init__(self, cluster: Cluster, key: str, *, key_type: int = GROUP) -> None:
        self._cluster = cluster
        self._key = key
        self._key_type = key_type
        self._place = key_type, key
        self._role = "control" if getattr(cluster.config, "single_socket", False) else COORDINATOR
        self._finding = asyncio.Lock()

    @property
    def node(self) -> int | None:
        """The coordinator's broker, as last found; None: unknown."""
        return self._cluster.coordinators.get(self._place)

    async def connection(self) -> BrokerConnection:
        """Return the open connection of role `COORDINATOR`; with `single_socket`, the broker's only connection.

        Raises `BrokerError` (retriable while there is no coordinator yet), `KafkaConnectionError`, `KafkaTimeoutError`.
        """
        async with self._finding:
            node = self.node
            if node is None:
                node = self._cluster.coordinators[self._place] = await self._find()
        try:
            connection = self._cluster.connection(node, self._role)
            await connection.open()
        except (KafkaConnectionError, KafkaTimeoutError):
            self.forget(node)
            await self._cluster.refresh()  # the broker may have a new address
            raise
        return connection

    def forget(self, node: int) -> None:
        """Forget the coordinator if it is `node`, which moved or cannot be reached; an earlier one changes nothing."""
        if self.node == node:
            self._cluster.coordinators.pop(self._place, None)

    async def _find(self) -> int:
        cluster = self._cluster
        if not cluster.metadata.brokers:
            await cluster.refresh()
        problems: list[KafkaError] = []
        found = await first_response(cluster.known(), self._ask, problems)
        if found is None:
            await cluster.refresh()  # all brokers may have moved; the next attempt asks the current ones
            raise failure_of(problems, f"no broker knows the coordinator of {self._key!r}:")
        node, host, port = found
        if not cluster.listens(node, host, port):
            cluster.hasten()  # the broker has joined, or moved
            await cluster.refresh()
            cluster.believe(node, host, port)
        return node

    async def _ask(self, connection: BrokerConnection) -> tuple[int, str, int]:
        """Ask one broker; return the coordinator's id, host and port."""
        await connection.open()
        request: Any = protocol.FindCoordinatorRequest
        version = connection.version_of(request)
        if version >= request.KEY_LISTS:
            message = request(key_type=self._key_type, coordinator_keys=[self._key])
        elif self._key_type:
            message = request(key_type=self._key_type, key=self._key)
        else:
            message = request(key=self._key)  # version 0 supports only groups
        response = await connection.call(message, version=version)
        if version >= request.KEY_LISTS:
            found = [entry for entry in response.coordinators if entry.key == self._key]
            if not found:
                raise ProtocolError(
                    f"{connection.where} sent a response without {self._key!r}",
                    api="FindCoordinatorResponse",
                    version=version,
                )
            response = found[0]
        if response.error_code:
            raise broker_error(
                response.error_code,
                f"finding the coordinator of {self._key!r}",
                api="FindCoordinator",
                group=self._key,
                transactional_id=self._key,
            )
        return response.node_id, response.host, response.port
