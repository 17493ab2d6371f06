"""The fetcher of a bounded read: exact ranges, every partition at once, no fetch session.

Each broker has a broker fetcher with one request in flight. An answer is cut into slices, queued for the reader, and
the next request leaves at once, all in the turn in which the answer arrived: a second turn of the loop would have to
win the GIL again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kafwire import protocol
from kafwire.cluster.backoff import delay_ms
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.leader_errors import LEADER_ERRORS
from kafwire.cluster.metadata import NO_TOPIC_ID
from kafwire.config import ScanConfig
from kafwire.consumer._fetch import FetchAnswer, PartitionAnswer, encode_fetch, parse_answer, scan_headers
from kafwire.consumer._fetch_buffer import FetchBuffer
from kafwire.consumer.fetch_errors import UNAUTHORIZED, FetchErrors, may_pass
from kafwire.error_codes import ErrorCode
from kafwire.errors import BrokerError, KafkaConnectionError, KafkaError, KafkaTimeoutError, ProtocolError, broker_error
from kafwire.memory._buffer import Buffer
from kafwire.protocol.versions import FETCH_BY_TOPIC_ID
from kafwire.scanner.plan import Cursor, Rotation, finish_invisible

log = logging.getLogger("kafwire")


class End(NamedTuple):
    """What an answer says of where a partition ends; -1 where it does not say."""

    readable: int  # records below it may be in the answer: the last stable offset of read_committed
    written: int  # the high watermark


class ScanFetcher:
    """Reads every cursor's range into its `queue`. Lives on the engine."""

    def __init__(self, cluster: Cluster, config: ScanConfig, cursors: Sequence[Cursor]) -> None:
        self.cluster = cluster
        self.config = config
        self._cookie = cluster.engine.transport.listen(self.on_credit)
        self.queue = FetchBuffer(cluster.engine.native, self._cookie)
        self.reserved = 0
        self._unfinished = {cursor.number for cursor in cursors if not cursor.done}
        self._broker_fetchers: dict[int, BrokerFetcher] = {}
        self._unassigned = [cursor for cursor in cursors if not cursor.done]
        self._moving: asyncio.Task[None] | None = None
        self._errors = FetchErrors()
        self._stopped = False
        self._stop_watching: Callable[[], None] = lambda: None
        cluster.engine.join(self)

    def start(self) -> None:
        """Begin to fetch."""
        self._check_end()
        if not self._stopped:
            self._stop_watching = self.cluster.on_overdue(self._leave_hung)
            self._move()

    def _leave_hung(self, connection: BrokerConnection) -> None:
        """Do not wait for a broker that owes an answer for long if another leads what is read from it by now."""
        broker_fetcher = self._broker_fetchers.get(connection.node)
        if broker_fetcher is not None and broker_fetcher.connection is connection and broker_fetcher.has_moved():
            connection.fail("the broker hangs, and others lead partitions of its now")

    def stop(self) -> None:
        """Fetch no more; answers still to come are dropped."""
        self._stopped = True
        self._stop_watching()
        self.cluster.engine.transport.unlisten(self._cookie)
        if self._moving is not None:
            self._moving.cancel()

    async def end(self) -> None:
        """The interpreter ends: whoever waits for records in a thread is let go."""
        if not self._stopped:
            self.fail(KafkaError("the interpreter is ending: nothing more is read"))

    def abandon(self) -> None:
        """In a forked child: the reader notices by itself; the queue may be locked by a thread that is not here."""

    def on_credit(self) -> None:
        """The reader gave bytes back."""
        for broker_fetcher in list(self._broker_fetchers.values()):
            broker_fetcher.pump()

    def next_turn(self, broker_fetcher: BrokerFetcher) -> None:
        """The request of `broker_fetcher` is over: whatever room there is now goes to those that wait for it first."""
        node = broker_fetcher.connection.node
        if self._broker_fetchers.get(node) is broker_fetcher:
            self._broker_fetchers[node] = self._broker_fetchers.pop(node)
        self.on_credit()

    def has_room(self) -> bool:
        """Whether one more request fits into the budget; if not, the reader will post when it gives bytes back."""
        need = self.reserved + self.config.fetch_max_bytes
        queued = self.queue.queued_bytes(starved=True)
        return queued + need <= self.config.fetch_memory or queued + self.reserved == 0

    def finished(self, cursor: Cursor) -> None:
        """Everything of `cursor` is in the queue."""
        self._unfinished.discard(cursor.number)
        self._check_end()

    def lose(self, cursors: Sequence[Cursor], error: KafkaError) -> None:
        """These cannot be read where they were asked for: look for their leaders again, or give up in time."""
        now = self.cluster.engine.now_ms()
        for cursor in cursors:
            if cursor.fail(now) > self.config.default_api_timeout_ms:
                self.fail(
                    KafkaTimeoutError(
                        f"{cursor.name} could not be read further than offset {cursor.position} for "
                        f"{self.config.default_api_timeout_ms / 1000:g} s: {error}"
                    )
                )
                return
        self._unassigned.extend(cursors)
        if self._unassigned:
            self._move()

    def note_error(self, where: str, error: BrokerError) -> None:
        """Tell of an error that is tried again, once."""
        if self._errors.note(where, error.name, self.cluster.engine.now_ms()):
            log.warning("%s; this is tried again", error)

    def check_stalled(self, cursors: Sequence[Cursor], ends: Mapping[int, End]) -> None:
        """An answer without records: they may be late, but a log that lost them will never have them."""
        now = self.cluster.engine.now_ms()
        for cursor in cursors:
            if cursor.failing_since_ms is None:
                cursor.failing_since_ms = now
            elif now - cursor.failing_since_ms > self.config.default_api_timeout_ms:
                end = ends.get(cursor.number, End(-1, -1))
                gave_none = (
                    f"{cursor.name} gave no records from offset {cursor.position} on for "
                    f"{self.config.default_api_timeout_ms / 1000:g} s"
                )
                if end.readable < cursor.end <= end.written:
                    self.fail(
                        KafkaTimeoutError(
                            f"{gave_none}: its last stable offset is {end.readable}, and the read ends at "
                            f"{cursor.end}; a transaction that began there is still open, or its marker is not written"
                        )
                    )
                else:
                    self.fail(
                        KafkaTimeoutError(
                            f"{gave_none}, although it had some up to {cursor.end}; now it ends at {end.written}: did "
                            "an election of a leader cut the log?"
                        )
                    )
                return

    def fail(self, error: Exception) -> None:
        """End the read with an error."""
        self._stopped = True
        self.queue.fail(error)

    @property
    def stopped(self) -> bool:
        """Whether nothing more is to be fetched."""
        return self._stopped

    def _check_end(self) -> None:
        if not self._unfinished and not self._stopped:
            self._stopped = True
            self.queue.end()

    def _move(self) -> None:
        if self._moving is None and not self._stopped:
            self._moving = asyncio.ensure_future(self._find_homes())
            self._moving.add_done_callback(self._on_moved)

    def _on_moved(self, task: asyncio.Task[None]) -> None:
        self._moving = None
        if task.cancelled() or self._stopped:
            return
        error = task.exception()
        if error is not None:
            self.fail(error if isinstance(error, Exception) else KafkaError(str(error)))
        elif self._unassigned:
            self._move()

    async def _find_homes(self) -> None:
        """Give every unassigned cursor to its leader's broker fetcher; with backoff when this is not the first
        attempt.
        """
        failures = min((cursor.failures for cursor in self._unassigned), default=0)
        if failures:
            base, limit = self.config.retry_backoff_ms, self.config.retry_backoff_max_ms
            await asyncio.sleep(delay_ms(failures, base, limit, random.random()) / 1000)
            topics = {cursor.topic for cursor in self._unassigned}
            await self.cluster.retrying(lambda: self.cluster.refresh(topics), "looking for the partitions' leaders")
            for cursor in self._unassigned:
                self._check_identity(cursor)
        cursors, self._unassigned = self._unassigned, []
        groups: dict[int, list[Cursor]] = {}
        for cursor in cursors:
            groups.setdefault(await self.cluster.leader(cursor.topic, cursor.partition), []).append(cursor)
        await asyncio.gather(*(self._settle(node, group) for node, group in groups.items()))

    def _check_identity(self, cursor: Cursor) -> None:
        """A topic of the same name and another id holds other records: their offsets are not those asked for."""
        known = self.cluster.metadata.topics.get(cursor.topic)
        if known is not None and known.topic_id != cursor.topic_id:
            raise broker_error(
                ErrorCode.UNKNOWN_TOPIC_ID,
                f"topic {cursor.topic!r} was deleted and made anew while {cursor.name} was read, up to offset "
                f"{cursor.position}: scan it again",
            )

    async def _settle(self, node: int, cursors: list[Cursor]) -> None:
        try:
            connection = self.cluster.connection(node, "fetch")
            await connection.open()
        except (KafkaConnectionError, KafkaTimeoutError) as error:
            self.lose(cursors, error)
            return
        broker_fetcher = self._broker_fetchers.get(node)
        if broker_fetcher is None or broker_fetcher.connection is not connection:
            # The broker has another address now. What the old broker fetcher still has in flight fails by itself.
            waiting = broker_fetcher.release() if broker_fetcher is not None else []
            broker_fetcher = self._broker_fetchers[node] = BrokerFetcher(self, connection)
            cursors = [*waiting, *cursors]
        broker_fetcher.take(cursors)


class BrokerFetcher:
    """One broker's part of the read: one request in flight, for all of its cursors."""

    def __init__(self, fetcher: ScanFetcher, connection: BrokerConnection) -> None:
        self.connection = connection
        self._fetcher = fetcher
        self._rotation = Rotation()
        self._asked: dict[tuple[object, int], Cursor] = {}
        self._version = 0

    def take(self, cursors: Sequence[Cursor]) -> None:
        """Read these too."""
        self._rotation.add(cursors)
        self.pump()

    def has_moved(self) -> bool:
        """Whether another broker leads one of the partitions."""
        leader = self._fetcher.cluster.metadata.leader
        return any(
            leader(cursor.topic, cursor.partition) not in (-1, self.connection.node) for cursor in self._rotation.order
        )

    def release(self) -> list[Cursor]:
        """Give all cursors away."""
        cursors = self._rotation.order
        self._rotation = Rotation()
        return cursors

    def pump(self) -> None:
        """Send the next request, unless one is in flight, nothing is wanted, or the budget is used up."""
        fetcher = self._fetcher
        if self._asked or not self._rotation or fetcher.stopped or not fetcher.has_room():
            return
        if not self.connection.is_ready:
            self._lose_all(KafkaConnectionError(f"the connection to {self.connection.where} was lost"))
            return
        wait = self.connection.muted_until_ms - fetcher.cluster.engine.now_ms()
        if wait > 0:
            asyncio.get_running_loop().call_later(wait / 1000, self.pump)
            return
        order = self._rotation.order
        correlation_id = self.connection.next_correlation_id()
        request = self._request(order, correlation_id)
        fetcher.reserved += fetcher.config.fetch_max_bytes
        timeout_ms = fetcher.config.request_timeout_ms + fetcher.config.fetch_max_wait_ms
        self.connection.send(correlation_id, [request], self._answered, timeout_ms=timeout_ms)

    def _request(self, order: Sequence[Cursor], correlation_id: int) -> bytes:
        has_ids = all(cursor.topic_id != NO_TOPIC_ID for cursor in order)
        self._version = self.connection.version_of(
            protocol.FetchRequest, at_most=None if has_ids else FETCH_BY_TOPIC_ID - 1
        )
        config = self._fetcher.config
        by_id = self._version >= FETCH_BY_TOPIC_ID
        limit = config.fetch_max_bytes
        # The broker fills its answer in this order.
        add = [(*cursor.identity, cursor.position, limit, -1, -1) for cursor in order]
        self._asked = {(entry[by_id], entry[2]): cursor for entry, cursor in zip(add, order, strict=True)}
        return encode_fetch(
            self._version,
            correlation_id,
            config.client_id,
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=1,
            max_bytes=limit,
            isolation_level=int(config.isolation_level == "read_committed"),
            add=add,
        )

    def _answered(self, frame: Buffer | None, error: KafkaError | None) -> None:
        fetcher = self._fetcher
        fetcher.reserved -= fetcher.config.fetch_max_bytes
        asked, self._asked = self._asked, {}
        if fetcher.stopped:
            return
        if frame is None:
            self._lose_all(error or KafkaConnectionError("the request was lost"))
            fetcher.next_turn(self)
            return
        try:
            answer = parse_answer(frame, self._version)
            self.connection.note_throttle(answer.throttle_time_ms)
            if answer.error_code:
                refused = broker_error(answer.error_code, f"fetching from {self.connection.where}")
                if answer.error_code in UNAUTHORIZED:
                    raise refused
                fetcher.note_error(self.connection.where, refused)
                self._lose_all(refused)
            else:
                self._take_in(answer, asked)
        except KafkaError as problem:
            fetcher.fail(problem)
            return
        fetcher.next_turn(self)

    def _take_in(self, answer: FetchAnswer, asked: dict[tuple[object, int], Cursor]) -> None:
        fetcher = self._fetcher
        served: set[int] = set()
        lost: dict[int, BrokerError] = {}
        ends: dict[int, End] = {}
        for part in answer.partitions:
            cursor = asked.get((part.topic, part.partition))
            if cursor is None or cursor.done:
                continue
            if part.error_code and may_pass(part.error_code):
                error = broker_error(part.error_code, f"fetching {cursor.name} from {self.connection.where}")
                lost[cursor.number] = error
                if part.error_code not in LEADER_ERRORS:
                    fetcher.note_error(cursor.name, error)
            elif part.error_code:
                raise _fatal(part, cursor, self.connection)
            else:
                end = ends[cursor.number] = self._end_in(part)
                if end.readable >= cursor.end:  # all is well here, be it only that others are served first
                    cursor.recover()
                if part.size and self._queue(answer.frame, part, cursor):
                    served.add(cursor.number)
        fetcher.queue.seal()
        if not served and any(part.size for part in answer.partitions):
            names = ", ".join(cursor.name for cursor in asked.values())
            raise ProtocolError(
                f"{self.connection.where} answered for {names} with no whole batch, not even the first",
                api="FetchResponse",
            )
        if not served and not lost:
            finish_invisible(asked.values(), {number: end.readable for number, end in ends.items()})
            fetcher.check_stalled([cursor for cursor in asked.values() if not cursor.done], ends)
        gone = self._rotation.settle(served, set(lost))
        for cursor in asked.values():
            if cursor.done:
                fetcher.finished(cursor)
        for cursor in gone:
            fetcher.lose([cursor], lost[cursor.number])

    def _end_in(self, part: PartitionAnswer) -> End:
        stable = part.last_stable_offset
        committed = self._fetcher.config.isolation_level == "read_committed" and stable >= 0
        return End(stable if committed else part.high_watermark, part.high_watermark)

    def _queue(self, frame: Buffer, part: PartitionAnswer, cursor: Cursor) -> bool:
        """Queue the whole batches of an answer; False when there is none."""
        try:
            next_offset, size, _, _ = scan_headers(
                frame, part.position, part.size, cursor.position, part.high_watermark
            )
        except ProtocolError as error:
            raise ProtocolError(
                f"{cursor.name}, after offset {cursor.position}, from {self.connection.where}: {error.message}",
                api=error.api,
                offset=error.offset,
            ) from None
        if not size:
            return False
        start = cursor.position
        cursor.advance(next_offset)
        self._fetcher.queue.push(
            frame, part.position, size, cursor.number, start, cursor.end, part.aborted, where=self.connection.where
        )
        return True

    def _lose_all(self, error: KafkaError) -> None:
        self._fetcher.lose(self.release(), error)


def _fatal(part: PartitionAnswer, cursor: Cursor, connection: BrokerConnection) -> KafkaError:
    if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return broker_error(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{cursor.name} has no offset {cursor.position} any more: the records were deleted while or before they "
            "were read; scan again from 'earliest'",
        )
    return broker_error(part.error_code, f"fetching {cursor.name} at offset {cursor.position} from {connection.where}")
