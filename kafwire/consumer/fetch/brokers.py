"""The broker that each partition is fetched from: its leader, or a nearby replica (KIP-392); and moves between them.

A cursor without a broker fetcher is unassigned: a connection to its broker is being opened, or it is lost until the
metadata names its leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.consumer.fetch.actions import Emit, Fail, FindOffset, Halt, PumpSoon
from kafwire.consumer.fetch.broker_fetcher import BrokerFetcher
from kafwire.consumer.fetch.context import FetchContext
from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.consumer.fetch.errors import UNREADABLE
from kafwire.consumer.fetch.leader_search import LeaderSearch
from kafwire.consumer.fetch.strategies import IMMEDIATE
from kafwire.consumer.fetch.truncation import is_behind, why_behind
from kafwire.error_codes import ErrorCode
from kafwire.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    broker_error,
)
from kafwire.runtime.log import consumer_log as log


class PartitionBrokers:
    """The broker fetchers of one fetcher, and the assignment of cursors to them."""

    def __init__(
        self, context: FetchContext, fetcher_for: Callable[[BrokerConnection, str], BrokerFetcher], emit: Emit
    ) -> None:
        """`fetcher_for` makes the broker fetcher of a connection and its role."""
        self._context = context
        self._fetcher_for = fetcher_for
        self._emit = emit
        self._cluster = context.cluster
        self._plan = context.plan
        self._tasks = context.tasks
        self._errors = context.errors
        self._strategy = context.plan.strategy
        self._broker_fetchers: dict[tuple[int, str], BrokerFetcher] = {}
        self._assigned: dict[FetchCursor, BrokerFetcher] = {}
        self._unassigned: dict[FetchCursor, None] = {}
        self._search: LeaderSearch[FetchCursor] = LeaderSearch(  # for unassigned cursors that need new metadata
            context.cluster, context.tasks, context.errors, self._settle_all, self._fail_late
        )
        self._connecting: dict[FetchCursor, int] = {}  # unassigned cursors that wait for a connection to this broker
        self._unreadable: dict[int, int] = {}

    def fetcher_of(self, cursor: FetchCursor) -> BrokerFetcher | None:
        """Return the broker fetcher of a cursor, or None."""
        return self._assigned.get(cursor)

    @property
    def count(self) -> int:
        """The number of broker fetchers whose requests may be parked, without those for immediate fetches."""
        if self._strategy.connection_per_partition:
            return len(self._broker_fetchers)
        return sum(
            role != IMMEDIATE and bool(broker_fetcher.cursors)
            for (_, role), broker_fetcher in self._broker_fetchers.items()
        )

    @property
    def unassigned_count(self) -> int:
        """The number of cursors without a broker fetcher."""
        return len(self._unassigned)

    def remove(self, cursor: FetchCursor) -> None:
        """Drop a cursor."""
        self._unassigned.pop(cursor, None)
        self._connecting.pop(cursor, None)
        self._search.forget(cursor)
        self.leave(cursor)

    def leave(self, cursor: FetchCursor) -> None:
        """Take a cursor from its broker fetcher."""
        broker_fetcher = self._assigned.pop(cursor, None)
        if broker_fetcher is not None:
            broker_fetcher.release(cursor)
            if self._strategy.connection_per_partition:
                self._broker_fetchers.pop((broker_fetcher.connection.node, broker_fetcher.role), None)
                broker_fetcher.stop()
                self._cluster.release(broker_fetcher.connection.node, broker_fetcher.role)
            elif self._strategy.all_or_none:
                self._emit(PumpSoon(broker_fetcher))  # it may have waited for the reader of this cursor

    def move(self, cursors: Iterable[FetchCursor]) -> None:
        """Move these cursors to their current brokers, as the metadata names them."""
        for cursor in cursors:
            self.leave(cursor)
            if self._context.cursors.get((cursor.topic, cursor.partition)) is cursor:
                self._unassigned[cursor] = None
        self._tasks.soon(self._settle_all)

    def lose(self, cursors: Iterable[FetchCursor], error: KafkaError) -> None:
        """Look up the leaders of these cursors again, with back-off, as their broker cannot serve them."""
        lost = list(cursors)
        if lost:
            log.debug(
                "%s and %d more: %s",
                lost[0].name,
                len(lost) - 1,
                error,
                error=error,
                partitions=[cursor.name for cursor in lost],
            )
        self.move(lost)
        for cursor in lost:
            self._lose(cursor, error)
        self._errors.warn_late(lost, error)

    def _lose(self, cursor: FetchCursor, why: object) -> None:
        """Mark a cursor as lost: it gets a broker after a metadata refresh."""
        self._connecting.pop(cursor, None)
        if cursor not in self._unassigned:
            return
        cursor.replica = -1
        self._search.lose(cursor)
        text = f"{cursor.name} could not be read further than offset {cursor.position} for "
        self._fail_late(cursor, KafkaTimeoutError(f"{text}{self._context.patience_s:g} s: {why}"))

    def _fail_late(self, cursor: FetchCursor, error: KafkaError) -> None:
        """Fail a scan if a cursor has been failing for longer than `default_api_timeout_ms`."""
        if self._context.is_failing_for_long(cursor) and self._plan.ends:
            self._emit(Fail(error))

    def _settle_all(self) -> None:
        """Assign unassigned cursors to their brokers, each broker in its own task; look up the leaders of lost ones."""
        groups: dict[int, list[FetchCursor]] = {}
        for cursor in [cursor for cursor in self._unassigned if cursor not in self._search]:
            node = self._broker_of(cursor)
            if node is None:
                self._unassigned.pop(cursor, None)
                self._connecting.pop(cursor, None)
            elif node < 0:
                why = self._why_nowhere(cursor)
                self._lose(cursor, why)
                self._errors.warn_late([cursor], why)
            elif self._connecting.get(cursor) != node:
                self._connecting[cursor] = node
                groups.setdefault(node, []).append(cursor)
        if self._tasks.stopped:
            return
        for node, group in groups.items():
            self._tasks.begin(self._settle(node, group))
        self._search.begin()

    def _broker_of(self, cursor: FetchCursor) -> int | None:
        """Return the broker of a cursor; -1: none now; None: none, as the cursor is halted or being validated."""
        metadata = self._cluster.metadata
        known = metadata.topics.get(cursor.topic)
        code = metadata.errors.get(cursor.topic, 0)
        if known is not None and known.topic_id != cursor.topic_id and not code:
            error = broker_error(
                ErrorCode.UNKNOWN_TOPIC_ID,
                f"topic {cursor.topic!r} was deleted and recreated while {cursor.name} was read, up to offset "
                f"{cursor.position}: {self._plan.advice.topic_recreated}",
            )
        elif (
            code
            and not (
                refusal := broker_error(
                    code, f"fetching {cursor.name} at offset {cursor.position}", api="Metadata", topic=cursor.topic
                )
            ).retriable
        ):
            error = refusal
        elif code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._context.is_failing_for_long(cursor):
            error = broker_error(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {cursor.topic!r} has been gone for {self._context.patience_s:g} s; "
                f"{cursor.name} was read up to offset {cursor.position}",
            )
        elif not code and self._is_behind(cursor):
            if not self._context.is_failing_for_long(cursor):
                return -1
            self._emit(FindOffset(cursor))
            return None
        else:
            leader = -1 if code else metadata.leader(cursor.topic, cursor.partition)
            if leader >= 0 and known is not None:
                cursor.leader_epoch = known.partitions[cursor.partition].leader_epoch
            node = cursor.read_from(leader, self._cluster.engine.now_ms())
            return node if node in metadata.brokers else leader
        self._emit(Halt(cursor, error))
        return None

    def _is_behind(self, cursor: FetchCursor) -> bool:
        return is_behind(cursor, self._cluster.metadata.leader_epoch(cursor.topic, cursor.partition))

    def _why_nowhere(self, cursor: FetchCursor) -> str:
        epoch = self._cluster.metadata.leader_epoch(cursor.topic, cursor.partition)
        return why_behind(cursor, epoch) if is_behind(cursor, epoch) else f"{cursor.name} has no leader"

    async def _settle(self, node: int, cursors: list[FetchCursor]) -> None:
        """Open the connections to a broker and assign these cursors to them, unless they moved or ended meanwhile."""
        groups = self._strategy.by_role(cursors)
        await asyncio.gather(*(self._settle_at(node, role, group) for role, group in groups.items()))

    async def _settle_at(self, node: int, role: str, cursors: list[FetchCursor]) -> None:
        try:
            connection = self._cluster.connection(node, role)
            await connection.open()
        except (KafkaConnectionError, KafkaTimeoutError, ProtocolError) as error:
            self._errors.warn_once(f"broker {node}", error)
            for cursor in cursors:
                if self._connecting.get(cursor) == node:
                    self._lose(cursor, error)
            self._tasks.soon(self._settle_all)
            return
        broker_fetcher = self._broker_fetchers.get((node, role))
        if broker_fetcher is None or broker_fetcher.connection is not connection:
            old, broker_fetcher = broker_fetcher, self._fetcher_for(connection, role)
            self._broker_fetchers[node, role] = broker_fetcher
            if old is not None:  # the broker has another address now
                old.stop()
                for cursor in [cursor for cursor in old.cursors if self._assigned.get(cursor) is old]:
                    self._assigned[cursor] = broker_fetcher
                    broker_fetcher.take(cursor)
        for cursor in cursors:
            if self._connecting.get(cursor) == node:  # not moved or dropped meanwhile
                del self._connecting[cursor], self._unassigned[cursor]
                self._assigned[cursor] = broker_fetcher
                broker_fetcher.take(cursor)
        broker_fetcher.pump()

    def immediate_fetcher(self, node: int) -> BrokerFetcher | None:
        """Return the broker fetcher for immediate fetches, or None if it is not open yet."""
        return self._broker_fetchers.get((node, IMMEDIATE))

    async def open_immediate_fetcher(self, node: int) -> BrokerFetcher | None:
        """Return the broker fetcher for immediate fetches, opened if needed; None if the broker cannot be reached."""
        try:
            connection = self._cluster.connection(node, IMMEDIATE)
            await connection.open()
        except (KafkaConnectionError, KafkaTimeoutError, ProtocolError):
            return None  # the next request, after the parked one, fetches the waiting cursors
        broker_fetcher = self._broker_fetchers.get((node, IMMEDIATE))
        if broker_fetcher is None or broker_fetcher.connection is not connection:
            broker_fetcher = self._broker_fetchers[node, IMMEDIATE] = self._fetcher_for(connection, IMMEDIATE)
        return broker_fetcher

    def unreadable(self, node: int) -> bool:
        """Count a broker's response that cannot be parsed; return True at the third in a row."""
        self._unreadable[node] = self._unreadable.get(node, 0) + 1
        return self._unreadable[node] >= UNREADABLE

    def readable(self, node: int) -> None:
        """Reset the count after a response that was parsed."""
        self._unreadable.pop(node, None)

    def leave_hung(self, connection: BrokerConnection) -> None:
        """Close a hung broker's connection whose request has cursors that moved away, to free its reserved bytes."""
        for broker_fetcher in list(self._broker_fetchers.values()):
            if broker_fetcher.connection is connection and broker_fetcher.is_left:
                connection.fail("the broker hangs, and its partitions have other leaders now")

    def on_metadata(self, changed: set[str]) -> None:
        """Move cursors at once after a change of leaders or leader epochs, or when their topic was recreated."""
        now = self._cluster.engine.now_ms()
        moved = []
        for cursor in self._context.cursors.values():
            if cursor.topic not in changed or cursor.halted:
                continue
            broker_fetcher = self._assigned.get(cursor)
            known = self._cluster.metadata.topics.get(cursor.topic)
            if broker_fetcher is None or known is None or cursor.topic in self._cluster.metadata.errors:
                continue
            leader = self._cluster.metadata.leader(cursor.topic, cursor.partition)
            epoch = known.partitions[cursor.partition].leader_epoch if cursor.partition in known.partitions else -1
            away = leader >= 0 and cursor.read_from(leader, now) != broker_fetcher.connection.node
            if known.topic_id != cursor.topic_id or away or epoch != cursor.leader_epoch:
                moved.append(cursor)
        self.move(moved)  # this also re-assigns cursors that wait for a connection to an earlier broker

    # --- all of them ------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop all broker fetchers."""
        for broker_fetcher in self._broker_fetchers.values():
            broker_fetcher.stop()

    def sessions(self) -> list[tuple[int, tuple[int, int]]]:
        """Forget the fetch sessions; return (broker, (session id, epoch that ends it)) for each."""
        found = [
            (broker_fetcher.connection.node, broker_fetcher.session.closing())
            for broker_fetcher in self._broker_fetchers.values()
        ]
        return [(node, closing) for node, closing in found if closing is not None]

    def stats(self) -> list[dict[str, Any]]:
        """Return a snapshot for metrics."""
        return [broker_fetcher.stats() for broker_fetcher in self._broker_fetchers.values()]
