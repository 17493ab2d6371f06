"""A broker fetcher: one connection to one broker, with one request in flight for all cursors that have demand.

Requests belong to a fetch session, so they name only changes. In the turn of the event loop in which a response
arrives, the broker fetcher cuts it into slices, queues them for the readers, and sends the next request.

A request may be parked at the broker for `fetch_max_wait_ms`. A cursor that gets demand meanwhile (its buffer was read,
or it was resumed or sought) does not wait for that response. It is fetched immediately: over a second connection, in
requests that are not parked, until the parked request has its response. So neither a slow reader nor a quiet partition
delays another. The fetch strategy decides if immediate fetches are used (`strategies.py`).
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from kafwire.cluster.broker_connection import BrokerConnection, FrameTooLargeError
from kafwire.cluster.metadata import NO_TOPIC_ID
from kafwire.consumer.fetch._fetch import ParsedPartition, ParsedResponse, encode_fetch, parse_response
from kafwire.consumer.fetch.actions import (
    ARRIVED,
    RELEASED,
    AwaitRoom,
    Emit,
    EndDemand,
    Finish,
    Halt,
    Lose,
)
from kafwire.consumer.fetch.context import FetchContext
from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.consumer.fetch.errors import UNAUTHORIZED, FetchDisposition, SessionBackoff, is_session_error
from kafwire.consumer.fetch.fast_path import FastPath, Taken
from kafwire.consumer.fetch.response_parts import PartActions, batch_bytes, ends_of_empty, queue_records
from kafwire.consumer.fetch.room import FetchRoom
from kafwire.consumer.fetch.session import FetchSession, Plan
from kafwire.consumer.fetch.strategies import IMMEDIATE
from kafwire.consumer.fetch.suspects import Suspects
from kafwire.errors import (
    BrokerError,
    KafkaConnectionError,
    KafkaError,
    ProtocolError,
    broker_error,
)
from kafwire.memory._buffer import Buffer
from kafwire.protocol.api.fetch import FetchRequest
from kafwire.records.batches import OVERHEAD
from kafwire.runtime.log import consumer_log as log

# A request without a response after this time counts as parked: cursors with new demand are fetched immediately.
IMMEDIATE_AFTER_MS = 10.0
# An immediate fetch that found nothing is repeated after this time, until the parked request has its response. Then one
# request asks for all cursors again.
IMMEDIATE_AGAIN_MS = 10.0


class Brokers(Protocol):
    """The other connections of the same read, as far as a broker fetcher needs them."""

    @property
    def count(self) -> int:
        """The number of broker fetchers whose requests may be parked."""

    def immediate_fetcher(self, node: int) -> BrokerFetcher | None:
        """Return the broker fetcher for immediate fetches, or None if it is not open yet."""

    async def open_immediate_fetcher(self, node: int) -> BrokerFetcher | None:
        """Return the broker fetcher for immediate fetches, opened if needed; None if the broker cannot be reached."""

    def unreadable(self, node: int) -> bool:
        """Count a broker's response that cannot be parsed; return True at the third in a row."""

    def readable(self, node: int) -> None:
        """Reset the count after a response that was parsed."""


class BrokerFetcher:
    """One connection to one broker, with one request in flight for its cursors that have demand."""

    def __init__(
        self,
        context: FetchContext,
        room: FetchRoom,
        suspects: Suspects,
        brokers: Brokers,
        emit: Emit,
        connection: BrokerConnection,
        role: str,
    ) -> None:
        """One with the role `IMMEDIATE` has no session, and its requests are not parked."""
        immediate = role == IMMEDIATE
        config, strategy = context.config, context.plan.strategy
        self.connection = connection
        self.role = role
        self._in_sessions = strategy.sessions and not immediate
        self.session: FetchSession[FetchCursor] = FetchSession(sessions=self._in_sessions, name=self._on_wire)
        self.cursors: dict[FetchCursor, None] = {}
        self._max_wait_ms = 0 if immediate else strategy.wait_ms(config.fetch_max_wait_ms)
        self._context = context
        self._engine = context.cluster.engine
        self._config = config
        self._plan = context.plan
        self._tasks = context.tasks
        self._queue = context.queue
        self._room = room
        self._budget = room.budget
        self._suspects = suspects
        self._brokers = brokers
        self._emit = emit
        self._immediate_fetches = strategy.immediate_fetches and not immediate
        self._all_or_none = strategy.all_or_none
        self._committed_only = context.committed_only
        self._full: dict[FetchCursor, None] = {}
        self._by_wire: dict[tuple[object, int], FetchCursor] = {}
        self._lent: dict[FetchCursor, None] = {}  # cursors lent to the broker fetcher for immediate fetches
        self._owner: BrokerFetcher | None = None  # of a broker fetcher for immediate fetches: the lender of its cursors
        self._reserved = 0
        self._left = False  # the request in flight asks for cursors that have moved to another broker fetcher
        self._fast_path = FastPath(context.queue, self._on_arrival)
        self._sent_ms = 0.0
        self._version = 0
        self._by_id = True
        self._nameless = 0  # cursors whose topics have no id
        self._backoff = SessionBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._alone: FetchCursor | None = None  # the suspect that is the only cursor of the request in flight
        self._timer: asyncio.TimerHandle | None = None
        self._immediate_timer: asyncio.TimerHandle | None = None
        self._opening_immediate: asyncio.Task[BrokerFetcher | None] | None = None
        self._not_immediate_before_ms = 0.0
        self._stopped = False
        self.requests = 0
        self.bytes = 0
        self.session_errors = 0

    # --- cursors ----------------------------------------------------------------------------------------------------

    def take(self, cursor: FetchCursor) -> None:
        """Add a cursor to fetch from this broker."""
        if cursor not in self.cursors:
            self.cursors[cursor] = None
            self._nameless += cursor.topic_id == NO_TOPIC_ID
        self._by_wire[cursor.topic, cursor.partition] = cursor
        self._by_wire[cursor.topic_id.bytes, cursor.partition] = cursor
        self.update(cursor)

    def release(self, cursor: FetchCursor) -> None:
        """Stop fetching a cursor from this broker."""
        self._left = self._left or self.session.covers(cursor)
        self._fast_path.withdraw(cursor)
        self.session.drop(cursor)
        if self.cursors.pop(cursor, self) is None:
            self._nameless -= cursor.topic_id == NO_TOPIC_ID
        self._full.pop(cursor, None)
        if self._lent.pop(cursor, self) is None:
            immediate = self._brokers.immediate_fetcher(self.connection.node)
            if immediate is not None:
                immediate.release(cursor)
        for topic in (cursor.topic, cursor.topic_id.bytes):
            if self._by_wire.get((topic, cursor.partition)) is cursor:
                del self._by_wire[topic, cursor.partition]

    def update(self, cursor: FetchCursor) -> None:
        """Follow a change of the cursor's position, demand or buffer."""
        if cursor in self._lent:
            immediate = self._brokers.immediate_fetcher(self.connection.node)
            if immediate is not None:
                immediate.update(cursor)
            return
        self._full.pop(cursor, None)
        if not cursor.is_wanted:
            self.session.drop(cursor)
            return
        free = self._room.free
        if self._room.is_full(cursor, free):
            self._full[cursor] = None
            if not self._all_or_none:
                self.session.drop(cursor)
                return
        room = self._budget.partition_bytes(free, cursor.batch_bytes)
        self.session.want(cursor, cursor.asked(room, names_epochs=self._plan.names_epochs))
        if self._immediate_fetches and self.session.in_flight and not self.session.covers(cursor):
            self._schedule_immediate()

    def keeps_waiting(self, cursor: FetchCursor) -> bool:
        """Return True if a wanted cursor is not part of the request in flight."""
        return self.session.in_flight and cursor in self.session and not self.session.covers(cursor)

    @property
    def is_left(self) -> bool:
        """True if the request in flight asks for cursors that have moved to another broker fetcher."""
        return self._left and self.session.in_flight

    def _on_wire(self, cursor: FetchCursor) -> tuple[object, int]:
        """Return the broker's key of a cursor's partition: topic id or name, and number."""
        return cursor.topic_id if self._by_id else cursor.topic, cursor.partition

    def stop(self) -> None:
        """Send no more requests."""
        self._stopped = True
        self._fast_path.detach()
        for cursor in self.cursors:
            self._fast_path.withdraw(cursor)
        for timer in (self._timer, self._immediate_timer):
            if timer is not None:
                timer.cancel()
        if self._opening_immediate is not None:
            self._opening_immediate.cancel()

    # --- immediate fetches --------------------------------------------------------------------------------------------

    def _schedule_immediate(self) -> None:
        if self._immediate_timer is None and self._opening_immediate is None:
            begin = max(self._sent_ms + IMMEDIATE_AFTER_MS, self._not_immediate_before_ms)
            wait = max(0.0, begin - self._engine.now_ms())
            self._immediate_timer = asyncio.get_running_loop().call_later(wait / 1000, self._fetch_immediately)

    def _fetch_immediately(self) -> None:
        self._immediate_timer = None
        if self._stopped or not self.session.in_flight:
            return
        immediate = self._brokers.immediate_fetcher(self.connection.node)
        if immediate is None or not immediate.connection.is_ready:
            self._opening_immediate = asyncio.ensure_future(self._brokers.open_immediate_fetcher(self.connection.node))
            self._opening_immediate.add_done_callback(self._on_immediate_open)
            return
        waiting = [cursor for cursor in self.session if cursor in self.cursors and not self.session.covers(cursor)]
        immediate.fetch_for(self)
        for cursor in waiting:
            self._fast_path.withdraw(cursor)
            self.session.drop(cursor)
            self._lent[cursor] = None
            immediate.take(cursor)
        immediate.pump()

    def fetch_for(self, owner: BrokerFetcher) -> None:
        """Return cursors to `owner` after each request."""
        self._owner = owner

    def delay_immediate(self, until_ms: float) -> None:
        """Begin no immediate fetch before `until_ms`."""
        self._not_immediate_before_ms = until_ms

    def take_returned(self, cursor: FetchCursor) -> None:
        """Take a lent cursor back."""
        if self._lent.pop(cursor, self) is None:
            self.update(cursor)

    def repeat_immediate(self) -> None:
        """Fetch cursors that wait for an immediate fetch without waiting longer."""
        if self._immediate_timer is not None:
            self._immediate_timer.cancel()
            self._fetch_immediately()

    def _on_immediate_open(self, task: asyncio.Task[BrokerFetcher | None]) -> None:
        self._opening_immediate = None
        if not task.cancelled() and task.exception() is None and task.result() is not None:
            self._fetch_immediately()

    def _give_back(self, *, arrived: bool) -> None:
        """Return the lent cursors to their owner after an immediate fetch; the owner decides on the next one."""
        owner, cursors = self._owner, list(self.cursors)
        if owner is None:
            return
        owner.delay_immediate(0.0 if arrived else self._engine.now_ms() + IMMEDIATE_AGAIN_MS)
        for cursor in cursors:
            self.release(cursor)
            owner.take_returned(cursor)
        # The owner's request is still parked: fetch cursors with demand immediately again, at once if records came.
        if arrived:
            owner.repeat_immediate()
        owner.pump()

    def _take_back(self) -> bool:
        """Take back the lent cursors, to request all together; return False while an immediate fetch is in flight.

        That fetch takes no longer than a round trip. Cursors that stayed lent would be fetched immediately for ever:
        by the time they return, the next request is parked.
        """
        immediate = self._brokers.immediate_fetcher(self.connection.node)
        if immediate is not None and immediate.session.in_flight:
            return False
        for cursor in list(self._lent):
            del self._lent[cursor]
            if immediate is not None:
                immediate.release(cursor)
            self.update(cursor)
        return True

    # --- requests ---------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Send the next request, unless one is in flight, nothing is wanted, or the budget is used up."""
        if self._stopped or self.session.in_flight or self._tasks.stopped or not len(self.session):
            return
        if self._all_or_none and self._full:
            return
        if self._lent and not self._take_back():
            return
        if not self.connection.is_ready:
            self._lose_all(KafkaConnectionError(f"the connection to {self.connection.where} was lost"))
            return
        wait = max(self.connection.muted_until_ms, self._backoff.not_before_ms) - self._engine.now_ms()
        if wait > 0:
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(wait / 1000, self._on_timer)
            return
        need = self._budget.request_bytes(self._brokers.count, self._room.free)
        if not self._room.fits(need):
            self._emit(AwaitRoom(self))
            return
        if self._suspects.are_pending:
            self._isolate()
            if not len(self.session):
                return
        self._send(need)

    def _on_timer(self) -> None:
        self._timer = None
        self.pump()

    def _send(self, need: int) -> None:
        at_most = FetchRequest.BY_TOPIC_ID - 1 if self._nameless else None
        try:
            self._version = self.connection.version_of(FetchRequest, at_most=at_most)
        except ProtocolError as error:
            for cursor in list(self.session):
                self._emit(Halt(cursor, error))
            return
        by_id = self._version >= FetchRequest.BY_TOPIC_ID
        if by_id != self._by_id:
            self._by_id = by_id
            self.session.renew()
        plan = self.session.plan()
        self._left = False
        if self._context.parting:
            self._part()
        correlation_id = self.connection.next_correlation_id()
        request = self._encode(plan, correlation_id, self._budget.records_bytes(need))
        self._reserved = need
        self._budget.reserved += need
        self._sent_ms = self._engine.now_ms()
        self.requests += 1
        timeout_ms = self._config.request_timeout_ms + self._config.fetch_max_wait_ms
        if self._plan.fast_path:
            self._fast_path.prepare(plan, correlation_id, self._version, self.connection)
        self.connection.send(correlation_id, [request], self._on_response, timeout_ms=timeout_ms)

    def _part(self) -> None:
        """End the demand of cursors whose reader closed, as the request just built names them for the last time."""
        for cursor in [cursor for cursor in self._context.parting if cursor in self.session]:
            self._emit(EndDemand(cursor))
            self.update(cursor)

    def withdraw(self, cursor: FetchCursor) -> None:
        """Drop the cursor's part of the response in flight: the cursor continues elsewhere in the same generation."""
        immediate = self._brokers.immediate_fetcher(self.connection.node) if cursor in self._lent else None
        if immediate is not None:
            immediate.withdraw(cursor)
        else:
            self._fast_path.withdraw(cursor)

    def _encode(self, plan: Plan[FetchCursor], correlation_id: int, max_bytes: int) -> bytes:
        return encode_fetch(
            self._version,
            correlation_id,
            self._config.client_id,
            max_wait_ms=0 if self._alone is not None else self._max_wait_ms,
            min_bytes=self._plan.min_bytes,
            max_bytes=max_bytes,
            isolation_level=int(self._committed_only),
            session_id=plan.session_id,
            session_epoch=plan.epoch,
            add=[
                (
                    cursor.topic,
                    cursor.topic_id.bytes,
                    cursor.partition,
                    asked.offset,
                    asked.max_bytes,
                    asked.leader_epoch,
                    asked.last_fetched_epoch,
                )
                for cursor, asked in plan.add
            ],
            forget=[(cursor.topic, cursor.topic_id.bytes, cursor.partition) for cursor in plan.forget],
            rack_id=self._plan.rack,
        )

    # --- responses --------------------------------------------------------------------------------------------------

    def _on_response(self, frame: Buffer | None, error: KafkaError | None) -> None:
        self._budget.reserved -= self._reserved
        self._reserved = 0
        if self._tasks.stopped or self._stopped:
            return
        absorbed = self._fast_path.absorbed(self._context.numbered.get)
        if absorbed:
            self._on_arrival()  # even if the rest of the response fails
        if frame is None:
            if isinstance(error, FrameTooLargeError):
                sent = {c: asked.offset for c in self.session if (asked := self.session.sent(c)) is not None}
                self._suspects.note(sent, error)
            self.session.on_lost()
            self._end_isolation(suspect=True)
            self._lose_all(error or KafkaConnectionError("the request was lost"))
            self._emit(RELEASED)
            self.pump()
            return
        try:
            response = parse_response(frame, self._version)
        except ProtocolError as problem:
            self._cannot_read(problem)
            return
        self.connection.note_throttle(response.throttle_time_ms)
        self.bytes += len(frame)
        self._brokers.readable(self.connection.node)
        served = [
            cursor
            for part in response.partitions
            if self._is_served(part, frame) and (cursor := self._by_wire.get((part.topic, part.partition))) is not None
        ]
        if self.session.on_response(response.error_code, response.session_id, served):
            self._backoff.succeeded()
            self._take_in(response, absorbed)
        else:
            self._on_error(broker_error(response.error_code, f"fetching from {self.connection.where}", api="Fetch"))
        self._end_isolation(suspect=False)
        if self._owner is not None:
            self._give_back(arrived=bool(served))
        self._emit(RELEASED)
        self.pump()

    def _on_arrival(self) -> None:
        self._emit(ARRIVED)

    def _isolate(self) -> None:
        """Request the first suspect alone; without suspects, fail the convicted partitions."""
        self._alone = self._suspects.first(self.session)
        for cursor in list(self.session):
            if self._alone is not None:
                if cursor is not self._alone:
                    self.session.drop(cursor)
            elif (error := self._suspects.take_error(cursor)) is not None:
                self._emit(Halt(cursor, error))

    def _end_isolation(self, *, suspect: bool) -> None:
        """Request all partitions again. The partition that was requested alone is cleared unless it stays `suspect`."""
        alone, self._alone = self._alone, None
        if alone is not None:
            if not suspect:
                self._suspects.clear(alone)
            for cursor in self.cursors:
                self.update(cursor)

    def _is_served(self, part: ParsedPartition, frame: Buffer) -> bool:
        """Return True if the partition got records, so that the broker serves others first now.

        In a session, brokers count any part of a batch; else one whole batch is needed.
        """
        if self._in_sessions:
            return part.size > 0
        return part.size > OVERHEAD and batch_bytes(frame, part) <= part.size

    def _on_error(self, error: BrokerError) -> None:
        """Handle the refusal of a whole request: the next one is full, and waits for the back-off."""
        waits = self._backoff.failed(error, self._engine.now_ms(), self._engine.random.random())
        if is_session_error(error):
            self.session_errors += 1
            log.debug("%s; the next request is a full one", error, error=error, node=self.connection.node)
        if not waits:
            return
        if self._owner is not None:
            self._owner.delay_immediate(self._backoff.not_before_ms)
        if error.code in UNAUTHORIZED:
            for cursor in list(self.cursors):
                self._emit(Halt(cursor, error))
            return
        self._context.errors.note_error(self.connection.where, error, self.cursors)
        if not is_session_error(error):  # the broker may not be the leader any more
            self._lose_all(error)

    def _cannot_read(self, problem: ProtocolError) -> None:
        """Close the connection after a response that cannot be parsed. Repeated, it fails the partitions."""
        self.session.on_lost()
        unreadable = ProtocolError(
            f"{self.connection.where} sent a fetch response that cannot be parsed: {problem.message}",
            api=problem.api,
            version=problem.version,
            offset=problem.offset,
        )
        log.warning("%s", unreadable, error=unreadable, node=self.connection.node)
        self.connection.fail("a response could not be parsed")
        cursors = list(self.cursors)
        if self._brokers.unreadable(self.connection.node):
            for cursor in cursors:
                self._emit(Halt(cursor, unreadable))
        self._lose_all(unreadable)
        self._emit(RELEASED)
        self.pump()

    def _take_in(self, response: ParsedResponse, absorbed: dict[FetchCursor, Taken]) -> None:
        where = self.connection.where
        actions: PartActions | None = None  # most responses need none
        done: list[FetchCursor] = []
        arrived = False
        first = next((part for part in response.partitions if part.size), None)
        partial: FetchCursor | None = None
        for part in response.partitions:
            cursor = self._by_wire.get((part.topic, part.partition))
            if cursor is None or cursor not in self.cursors or cursor in self._lent or cursor.halted:
                continue
            sent = self.session.sent(cursor)
            if cursor in absorbed:
                arrived = True
                cursor.judge(
                    part,
                    from_replica=cursor.replica == self.connection.node,
                    committed_only=self._committed_only,
                )
                cursor.batch_bytes = batch_bytes(response.frame, part)
                _, start, next_offset, epoch, size = absorbed[cursor]
                cursor.epochs.note_batches(response.frame, part.position, size, start, next_offset, epoch)
                self.update(cursor)
                continue
            if sent is None or sent.offset != cursor.position:
                continue  # the position changed meanwhile, by a seek
            from_replica = cursor.replica == self.connection.node
            verdict = cursor.judge(part, from_replica=from_replica, committed_only=self._committed_only)
            if verdict is FetchDisposition.TAKE:
                if not part.size:
                    continue
                queued = queue_records(self._queue, self._plan, where, response.frame, part, cursor)
                if queued:
                    arrived = True
                    if queued is not True:
                        self._emit(queued)
                elif part is first:
                    partial = cursor
                self.update(cursor)
                if cursor.done:
                    done.append(cursor)
            else:
                actions = actions or PartActions(self._context, where)
                if (action := actions.note(verdict, part, cursor, response)) is not None:
                    self._emit(action)
        self._queue.seal()
        if arrived:
            self._emit(ARRIVED)
        if partial is not None:  # a retry would get the same response
            what = f"a response of {where} for {partial.name} has no whole batch, not even the first"
            self._emit(Halt(partial, ProtocolError(what, api="FetchResponse", version=self._version)))
        elif self._plan.ends and not arrived:
            self._on_empty(response)
        for cursor in done:
            self._emit(Finish(cursor))
        if self._plan.rack:  # without a rack no leader names a replica
            now = self._engine.now_ms()
            actions = actions or PartActions(self._context, where)
            actions.move(c for c in self.cursors if c.replica == self.connection.node and now >= c.replica_until_ms)
        for action in actions.moves() if actions is not None else ():
            self._emit(action)

    def _on_empty(self, response: ParsedResponse) -> None:
        """Finish partitions, or fail the read, after a response without records."""
        if any(part.error_code for part in response.partitions):
            return
        asked = [
            cursor
            for cursor in self.session
            if (sent := self.session.sent(cursor)) is not None and sent.offset == cursor.position
        ]
        parts = {self._by_wire.get((part.topic, part.partition)): part for part in response.partitions}
        for action in ends_of_empty(self._context, [(cursor, parts.get(cursor)) for cursor in asked]):
            self._emit(action)

    def _lose_all(self, error: KafkaError) -> None:
        if self._owner is not None:
            self._give_back(arrived=False)
            return
        self._emit(Lose(list(self.cursors), error))

    def stats(self) -> dict[str, Any]:
        """Return a snapshot for metrics."""
        return {
            "node": self.connection.node,
            "role": self.role,
            "partitions": len(self.cursors),
            "wanted": len(self.session),
            "full": len(self._full),
            "requests": self.requests,
            "bytes": self.bytes,
            "in_flight": self.session.in_flight,
            "session_id": self.session.session_id,
            "session_epoch": self.session.epoch,
            "session_errors": self.session_errors,
        }
