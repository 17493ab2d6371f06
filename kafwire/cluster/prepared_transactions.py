"""Transactions of other producers, ended by handle with EndTxn. `kafwire.admin.transactions` lists and describes them.

The version of EndTxn follows the finalised level of `transaction.version`, not ApiVersions: version 5 is for level 2,
and raises the epoch on any other. Requests are sent to all coordinators in parallel. Each coordinator gets the EndTxn
requests of its transactions on `LANES` connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from kafwire import protocol
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.coordinator import COORDINATOR, COORDINATOR_ERRORS, TRANSACTION, find_coordinators
from kafwire.errors import ERROR_CODES, KafkaConnectionError, broker_error
from kafwire.protocol.versions import TRANSACTION_FEATURE, TRANSACTION_V2
from kafwire.types import TransactionHandle

# Connections to a coordinator for EndTxn. A broker handles one request of a connection at a time, and an EndTxn waits
# until the transaction log is replicated.
LANES = 4


class PreparedTransactions:
    """The end of transactions whose producers are other clients. Runs on the engine."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def end(self, handles: Sequence[TransactionHandle], *, commit: bool) -> list[int]:
        """Send EndTxn for each handle; return error codes.

        Retriable errors are retried until `default_api_timeout_ms`.
        """
        names = [handle.transactional_id for handle in handles]
        by_node = await self._cluster.retrying(lambda: self._by_node(names), "FindCoordinator")
        lanes = {name: number % LANES for each in by_node.values() for number, name in enumerate(each)}
        ends = (self._end(handle, lanes[handle.transactional_id], commit=commit) for handle in handles)
        return list(await asyncio.gather(*ends))

    async def _end(self, handle: TransactionHandle, lane: int, *, commit: bool) -> int:
        name = handle.transactional_id
        role = f"{COORDINATOR}:{lane}" if lane else COORDINATOR

        async def attempt() -> int:
            connection = await self._coordinator(name, role)
            level = self._cluster.feature(TRANSACTION_FEATURE)
            request = protocol.EndTxnRequest
            at_most = None if level >= TRANSACTION_V2 else request.NEW_EPOCH - 1
            version = connection.version_of(request, at_most=at_most)
            message = request(**handle._asdict(), committed=commit)
            try:
                code = int((await connection.call(message, version=version)).error_code)
            except (KafkaConnectionError, TimeoutError):
                self._forget(name)
                raise
            self._retry(code, name)
            return code

        return await self._cluster.retrying(attempt, f"EndTxn of {name!r}")

    def _retry(self, code: int, name: str) -> None:
        """Raise for a retriable code."""
        if code in COORDINATOR_ERRORS:
            self._forget(name)
        known = ERROR_CODES.get(code)
        if known is not None and known.retriable:
            what = f"asking the coordinator of {name!r}"
            raise broker_error(code, what, api="EndTxn", transactional_id=name)

    async def _coordinator(self, name: str, role: str) -> BrokerConnection:
        ((node, _),) = (await self._by_node([name])).items()
        return await self._open(node, role)

    async def _by_node(self, names: Iterable[str]) -> dict[int, list[str]]:
        wanted = list(names)
        known = self._cluster.coordinators
        unknown = [name for name in wanted if (TRANSACTION, name) not in known]
        for error in (await find_coordinators(self._cluster, unknown, TRANSACTION) if unknown else {}).values():
            raise error
        by_node: dict[int, list[str]] = {}
        for name in wanted:
            by_node.setdefault(known[TRANSACTION, name], []).append(name)
        return by_node

    def _forget(self, name: str) -> None:
        self._cluster.coordinators.pop((TRANSACTION, name), None)

    async def _open(self, node: int, role: str) -> BrokerConnection:
        connection = self._cluster.connection(node, role)
        await connection.open()
        return connection
