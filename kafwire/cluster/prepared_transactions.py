"""Transactions of other producers, by handle: EndTxn, DescribeTransactions and ListTransactions.

The version of EndTxn follows the finalised level of `transaction.version`, not ApiVersions: version 5 is for level 2,
and raises the epoch on any other. Requests are sent to all coordinators in parallel. Each coordinator gets the EndTxn
requests of its transactions on `LANES` connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from kafwire import protocol
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.coordinator import COORDINATOR, COORDINATOR_ERRORS, TRANSACTION, find_coordinators
from kafwire.error_codes import ErrorCode
from kafwire.errors import ERROR_CODES, BrokerError, KafkaConnectionError, broker_error
from kafwire.protocol.versions import TRANSACTION_FEATURE, TRANSACTION_V2
from kafwire.types import TransactionHandle

# Connections to a coordinator for EndTxn. A broker handles one request of a connection at a time, and an EndTxn waits
# until the transaction log is replicated.
LANES = 4
_SPECIAL = "\\.+*?()|[]{}^$"


class PreparedTransactions:
    """The transactions of a cluster's producers, seen from another client. Runs on the engine."""

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

    async def describe(self, transactional_ids: Sequence[str]) -> dict[str, Any]:
        """Return the states of the existing transactional ids, by id. Raises `BrokerError`."""
        found: dict[str, Any] = {}
        missing = list(dict.fromkeys(transactional_ids))

        async def attempt() -> None:
            by_node = await self._by_node(name for name in missing if name not in found)
            await asyncio.gather(*(self._describe(node, names, found) for node, names in by_node.items()))

        await self._cluster.retrying(attempt, "DescribeTransactions")
        return {name: state for name, state in found.items() if state is not None}

    async def ongoing(self, prefix: str) -> list[str]:
        """List the transactional ids with this prefix and an open transaction, on all brokers. Raises `BrokerError`.

        Brokers before Kafka 4.1 list all open transactions; their ids are filtered here.
        """
        if not self._cluster.metadata.brokers or self._cluster.is_stale:
            await self._cluster.refresh()
        nodes = list(self._cluster.metadata.brokers)
        found = await asyncio.gather(*(self._ongoing(node, prefix) for node in nodes))
        return sorted({name for names in found for name in names if name.startswith(prefix)})

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
            self._retry(code, name, "EndTxn")
            return code

        return await self._cluster.retrying(attempt, f"EndTxn of {name!r}")

    async def _describe(self, node: int, names: Sequence[str], found: dict[str, Any]) -> None:
        try:
            connection = await self._open(node)
            response = await connection.call(protocol.DescribeTransactionsRequest(transactional_ids=list(names)))
        except (KafkaConnectionError, TimeoutError):
            for name in names:
                self._forget(name)
            raise
        problem: BrokerError | None = None
        for state in response.transaction_states:
            name, code = state.transactional_id, state.error_code
            try:
                self._retry(code, name, "DescribeTransactions")
                if code and code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    raise _error(code, name, "DescribeTransactions")
            except BrokerError as error:
                problem = error
            else:
                found[name] = None if code else state
        if problem is not None:
            raise problem

    async def _ongoing(self, node: int, prefix: str) -> list[str]:
        async def attempt() -> list[str]:
            connection = await self._open(node)
            request: Any = protocol.ListTransactionsRequest
            version = connection.version_of(request)
            message = request(state_filters=["Ongoing"])
            if version >= request.PATTERN:
                message.transactional_id_pattern = pattern_of(prefix)
            response = await connection.call(message, version=version)
            if response.error_code:
                raise broker_error(response.error_code, "listing open transactions", api="ListTransactions")
            return [state.transactional_id for state in response.transaction_states]

        return await self._cluster.retrying(attempt, "ListTransactions")

    def _retry(self, code: int, name: str, api: str) -> None:
        """Raise for a retriable code."""
        if code in COORDINATOR_ERRORS:
            self._forget(name)
        known = ERROR_CODES.get(code)
        if known is not None and known.retriable:
            raise _error(code, name, api)

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

    async def _open(self, node: int, role: str = COORDINATOR) -> BrokerConnection:
        connection = self._cluster.connection(node, role)
        await connection.open()
        return connection


def pattern_of(prefix: str) -> str:
    """Return the RE2 pattern of all names with a prefix."""
    return "".join(f"\\{each}" if each in _SPECIAL else each for each in prefix) + ".*"


def _error(code: int, name: str, api: str) -> BrokerError:
    return broker_error(code, f"asking the coordinator of {name!r}", api=api, transactional_id=name)
