"""The coordinator of a group or another key: finding its broker, and when to look again (KIP-699)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
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

Place = tuple[int, str, int]  # broker id, host, port


class Coordinator:
    """Finds the coordinator of one key when it is first needed, and again after `forget`. Retries nothing itself."""

    def __init__(self, cluster: Cluster, key: str, *, key_type: int = GROUP) -> None:
        self._cluster = cluster
        self.key = key
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
                node = await self._find()
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
        for error in (await find_coordinators(self._cluster, [self.key], self._key_type)).values():
            raise error
        return self._cluster.coordinators[self._place]


async def find_coordinators(cluster: Cluster, keys: Sequence[str], key_type: int) -> dict[str, KafkaError]:
    """Look up the coordinators of keys, which `cluster.coordinators` has afterwards; return the errors of the others.

    Raises `KafkaConnectionError`, `KafkaTimeoutError`, `ProtocolError` if no broker responds.
    """
    if not cluster.metadata.brokers:
        await cluster.refresh()
    problems: list[KafkaError] = []
    found = await first_response(cluster.known(), partial(_ask, keys, key_type), problems)
    if found is None:
        await cluster.refresh()  # all brokers may have moved; the next attempt asks the current ones
        raise failure_of(problems, f"no broker knows the coordinator of {', '.join(map(repr, keys))}:")
    places = {key: entry for key, entry in found.items() if not isinstance(entry, KafkaError)}
    if not all(cluster.listens(*place) for place in places.values()):
        cluster.hasten()  # a broker has joined, or moved
        await cluster.refresh()
    for key, place in places.items():
        if not cluster.listens(*place):
            cluster.believe(*place)
        cluster.coordinators[key_type, key] = place[0]
    return {key: entry for key, entry in found.items() if isinstance(entry, KafkaError)}


async def _ask(keys: Sequence[str], key_type: int, connection: BrokerConnection) -> dict[str, Place | KafkaError]:
    """Ask one broker for the coordinator of each key."""
    await connection.open()
    request: Any = protocol.FindCoordinatorRequest
    version = connection.version_of(request)
    if version < request.KEY_LISTS:
        asked = [request(key_type=key_type, key=key) if key_type else request(key=key) for key in keys]
        responses = await asyncio.gather(*(connection.call(message, version=version) for message in asked))
        return {key: _place(response, key) for key, response in zip(keys, responses, strict=True)}
    response = await connection.call(request(key_type=key_type, coordinator_keys=list(keys)), version=version)
    entries = {entry.key: entry for entry in response.coordinators}
    missing = [key for key in keys if key not in entries]
    if missing:
        raise ProtocolError(
            f"{connection.where} sent a response without {', '.join(map(repr, missing))}",
            api="FindCoordinatorResponse",
            version=version,
        )
    return {key: _place(entries[key], key) for key in keys}


def _place(entry: Any, key: str) -> Place | KafkaError:
    """Return a coordinator's id, host and port, or the error."""
    if not entry.error_code:
        return entry.node_id, entry.host, entry.port
    what = f"finding the coordinator of {key!r}"
    return broker_error(entry.error_code, what, api="FindCoordinator", group=key, transactional_id=key)
