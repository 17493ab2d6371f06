"""The fetcher of a share consumer: it acquires records from the leaders of partitions, and sends acknowledgements.

One request at a time goes to each broker, within the member's session there. Records are fetched only when a read waits
and none are left, because the locks of acquired records expire. A user that acknowledges the last records mostly reads
right after, so acknowledgements wait a moment for a fetch to carry them.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafwire import protocol
from kafwire.cluster.broker_connection import FrameTooLargeError
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.leader_errors import LEADER_ERRORS
from kafwire.config import ShareConsumerConfig
from kafwire.consumer.fetch.error_log import FetchErrorLog
from kafwire.consumer.fetch.errors import UNREADABLE, SessionBackoff, is_session_error, may_pass
from kafwire.consumer.fetch.leader_search import LeaderSearch
from kafwire.consumer.fetch.tasks import FetchTasks
from kafwire.consumer.share.acquired import RENEW, AckBatch, AcquiredRange, Outgoing, Place, count_final
from kafwire.consumer.share.fetch_turns import TURN_MS, FetchTurns
from kafwire.consumer.share.lock_renewal import LockRenewal, renewals
from kafwire.consumer.share.refusals import Refusals
from kafwire.consumer.share.share_messages import acknowledge_request, codes_of, fetch_request
from kafwire.consumer.share.share_session import ShareSession
from kafwire.error_codes import ErrorCode
from kafwire.errors import (
    BrokerError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    RecordTooLargeError,
    broker_error,
)
from kafwire.memory._buffer import Buffer
from kafwire.runtime.log import consumer_log as log

_ROLE = "share"
SAID_LINGER_MS = 10.0

Said = dict[Place, list[AckBatch]]


@dataclass(frozen=True, slots=True)
class FetchedRange:
    """An acquired range, and the bytes of its records."""

    topic: str
    partition: int
    data: Buffer
    acquired: AcquiredRange


@dataclass(slots=True, eq=False)
class AssignedPartition:
    """A partition that the member reads. `failures`: see `LeaderSearch`."""

    topic: str
    failures: int = 0


class ShareNode:
    """The state of a share consumer's requests to one broker."""

    def __init__(self, number: int, config: ShareConsumerConfig) -> None:
        self.number = number
        self.session = ShareSession()
        self.backoff = SessionBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self.unreadable = 0  # responses in a row that could not be decoded
        self.outgoing = Outgoing()
        self.to_renew: list[AcquiredRange] = []
        self.is_busy = False
        self.is_telling = False  # the request in flight has acknowledgements
        self.is_due = False  # acknowledgements must be sent even without a fetch
        self.linger: asyncio.TimerHandle | None = None  # sets `is_due`
        self.suspects: dict[Place, None] = {}  # to be requested alone: one of them made an oversized response

    def take_said(self) -> Said:
        """Return the acknowledgements to send now."""
        self.is_due = False
        if self.linger is not None:
            self.linger.cancel()
            self.linger = None
        return self.outgoing.take()


class ShareFetcher:
    """The fetcher of one share consumer. Lives on the engine."""

    def __init__(self, cluster: Cluster, config: ShareConsumerConfig, member_id: Callable[[], str]) -> None:
        self._cluster = cluster
        self._config = config
        self._engine = cluster.engine
        self._member_id = member_id
        self.tasks = FetchTasks(self.fail)
        self.assigned: dict[Place, AssignedPartition] = {}
        self.ready: deque[FetchedRange] = deque()
        self.error: BaseException | None = None
        self.expired = 0
        self.acquired = 0
        self.acknowledged = 0
        self._nodes: dict[int, ShareNode] = {}
        self._errors = FetchErrorLog(cluster.engine)
        self._search: LeaderSearch[AssignedPartition] = LeaderSearch(cluster, self.tasks, self._errors, self.pump)
        self._demand = 0
        self._waiting_calls = 0
        self.refused = Refusals()
        self._commits = False  # the user calls `commit`, which reports refusals
        self._turns = FetchTurns(config)
        self.renewal = LockRenewal(cluster.engine, self._renew_soon)
        self._handed_out_ms = 0.0  # time of the last delivery
        self._lock_ms = 0.0  # lock time of these records
        self._news = asyncio.Event()
        self._stop_listening = cluster.on_change(lambda _: self.pump())

    # --- calls of the core

    async def next(self, timeout_ms: float | None) -> list[FetchedRange]:
        """Wait for acquired ranges and return the undelivered ones; an empty list at the timeout."""
        self._demand += 1
        self.renewal.called()
        self._turns.returned(self.renewal.called_ms - self._handed_out_ms, self._lock_ms)
        if not self._commits:
            self._log_refusals()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                while True:
                    found = self._take_ready()
                    if found:
                        return found
                    if self.error is not None:
                        raise self.error
                    self._news.clear()
                    self.pump()
                    await self._news.wait()
        except TimeoutError:
            return self._take_ready()
        finally:
            self._demand -= 1

    def _take_ready(self) -> list[FetchedRange]:
        found = [*self.ready]
        self.ready.clear()
        self.renewal.prune()
        if found:
            self.renewal.called()
            self._handed_out_ms = self.renewal.called_ms
        return found

    def expire(self, ranges: Iterable[AcquiredRange]) -> None:
        """Count ranges whose locks expired before their delivery, and fetch less."""
        for acquired in ranges:
            acquired.see_all()
            self.expired += acquired.last - acquired.first + 1
        self.narrow()

    def narrow(self) -> None:
        """Acquire fewer records at once: waiting ones are delivered too late."""
        self._turns.narrow()
        self._handed_out_ms = -math.inf  # so that the next call does not count as quick

    def say(self, ranges: Iterable[AcquiredRange]) -> None:
        """Send new acknowledgements of these ranges, after a short wait for a fetch to carry them."""
        self.renewal.called()
        for acquired in ranges:
            node = self._node(acquired.node)
            node.outgoing.add(acquired)
            if node.linger is None:
                loop = asyncio.get_running_loop()
                node.linger = loop.call_later(SAID_LINGER_MS / 1000, self._on_linger_over, node)

    def _on_linger_over(self, node: ShareNode) -> None:
        node.is_due = True
        self.pump()

    async def acknowledge_all(self) -> None:
        """Wait until all acknowledgements are sent and have responses. Raises `BrokerError` for refused ones."""
        self._waiting_calls += 1
        self._commits = True
        self.renewal.called()
        try:
            while self.error is None and any(
                node.is_telling or not node.outgoing.is_empty for node in self._nodes.values()
            ):
                self._news.clear()
                self.pump()
                await self._news.wait()
        finally:
            self._waiting_calls -= 1
        refused = self.refused.take()
        if refused is not None:
            raise refused
        if self.error is not None:
            raise self.error

    def assign(self, topics: Mapping[Place, str]) -> None:
        """Fetch these partitions from now on."""
        for place in self.assigned.keys() - topics.keys():
            self._search.forget(self.assigned.pop(place))
        for place, topic in topics.items():
            self.assigned.setdefault(place, AssignedPartition(topic))
        self.pump()

    def fail(self, error: BaseException) -> None:
        """End the reads: they raise `error`."""
        self.error = error
        self._news.set()

    async def close(self, timeout_ms: float) -> None:
        """End the sessions, with the last acknowledgements; that releases records that are still acquired."""
        self._stop_listening()
        self.tasks.stop()
        self.renewal.stop()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                open_ones = [node for node in self._nodes.values() if node.session.is_open]
                await asyncio.gather(*(self._end(node) for node in open_ones), return_exceptions=True)
        except TimeoutError:
            pass  # the brokers end the sessions with the connections
        self._log_refusals()

    async def _end(self, node: ShareNode) -> None:
        node.outgoing.drop_renewals()
        await self._acknowledge(node, node.take_said(), closes=True)

    # --- requests

    def _node(self, number: int) -> ShareNode:
        node = self._nodes.get(number)
        if node is None:
            node = self._nodes[number] = ShareNode(number, self._config)
        return node

    def pump(self) -> None:
        """Send a request to each broker that has acknowledgements, renewals, or a fetch to get."""
        led: dict[int, list[Place]] = {}
        for place, partition in self.assigned.items():
            if partition in self._search:
                continue
            leader = self._cluster.metadata.leader(partition.topic, place[1])
            if leader >= 0:
                led.setdefault(leader, []).append(place)
            elif self._demand:
                self._lose(partition)
        wanted = self._to_fetch_from(led)
        for number in {*led, *self._nodes}:
            node = self._node(number)
            wants = number in wanted
            is_due = node.is_due or self._waiting_calls > 0
            if not node.is_busy and (wants or node.to_renew or (is_due and not node.outgoing.is_empty)):
                node.is_busy = True
                wait_ms = self._turns.begin(number, led, self._engine.now_ms()) if wants else None
                self.tasks.begin(self._step(node, led.get(number, ()), wait_ms))

    def _to_fetch_from(self, leaders: Collection[int]) -> set[int]:
        """Return the brokers to fetch from now, of those that lead partitions."""
        if not leaders or not self._demand or self.ready:
            return set()
        now = self._engine.now_ms()
        nodes = [self._node(number) for number in leaders]
        idle = [node.number for node in nodes if not node.is_busy and not node.to_renew]
        calm = [number for number in idle if self._nodes[number].backoff.not_before_ms <= now]
        return self._turns.choose(leaders, calm or idle, now)

    def _lose(self, partition: AssignedPartition) -> None:
        self._search.lose(partition)
        self.tasks.soon(self._search.begin)

    async def _step(self, node: ShareNode, led: Collection[Place], wait_ms: int | None) -> None:
        """Send one request to a broker, and process its response. `wait_ms`: the wait of a fetch; None: no fetch."""
        fetches, pause_ms = wait_ms is not None, node.backoff.not_before_ms - self._engine.now_ms()
        passing = asyncio.get_running_loop().call_later(TURN_MS / 1000, self.pump) if fetches else None
        found: int | None = None
        said: Said = {}
        try:
            if pause_ms > 0:
                await asyncio.sleep(pause_ms / 1000)
            if not node.session.is_open:
                self._drop_said(node)  # records that were acquired in an earlier session are released by now
            if node.to_renew:
                await self._renew(node)
            else:
                said = node.take_said()
                node.is_telling = bool(said)
                renews = any(RENEW in kinds for batches in said.values() for _, _, kinds in batches)
                if said and (renews or wait_ms is None):
                    await self._acknowledge(node, said, renews=renews)
                elif wait_ms is not None:
                    found = await self._fetch(node, led, said, wait_ms)
        except (KafkaConnectionError, KafkaTimeoutError, BrokerError, ProtocolError) as error:
            if isinstance(error, BrokerError) and not may_pass(error.code):
                raise
            node.unreadable += isinstance(error, ProtocolError)
            if node.unreadable >= UNREADABLE:
                raise
            self._lost(node, error, said, led)
        finally:
            node.is_busy = node.is_telling = False
            if passing is not None:
                passing.cancel()
                self._turns.end(node.number, found)
            self._news.set()
        self.tasks.soon(self.pump)

    def _drop_said(self, node: ShareNode, said: Said | None = None) -> None:
        """Fail the acknowledgements of an ended session."""
        for each in (said or {}, node.take_said()):
            for place, batches in each.items():
                self._note_acknowledged(place, batches, ErrorCode.INVALID_RECORD_STATE)
        node.outgoing.forget()
        node.to_renew.clear()

    def _lost(self, node: ShareNode, error: KafkaError, said: Said, led: Iterable[Place]) -> None:
        """Handle the loss of a session, whose acquired records are released; the broker may lead nothing any more."""
        log.debug(
            "kafwire: share session with broker %d is lost: %s", node.number, error, node=node.number, error=error
        )
        node.session.reset()
        self.renewal.forget(node.number)
        self._drop_said(node, said)
        now_ms, randomness = self._engine.now_ms(), self._engine.random.random()
        waits = isinstance(error, BrokerError) and node.backoff.failed(error, now_ms, randomness)
        if waits or isinstance(error, ProtocolError):
            self._errors.warn_once(f"broker {node.number}", error)
        if not is_session_error(error):
            for partition in [self.assigned[place] for place in led if place in self.assigned]:
                self._lose(partition)

    async def _fetch(self, node: ShareNode, led: Collection[Place], said: Said, wait_ms: int) -> int:
        """Acquire records; return their number.

        A response above `max_frame_bytes` does not name the partition of the large batch, so each requested partition
        is then requested alone. A second such response names the partition; the first one may have been damaged.
        """
        before = self.acquired
        alone = next((place for place in led if place in node.suspects), None)
        topics = node.session.fetch(led if alone is None else [alone], said)
        records = self._turns.records
        message = fetch_request(self._config, self._member_id(), topics, wait_ms=wait_ms, records=records)
        connection = self._cluster.connection(node.number, _ROLE)
        try:
            response = await connection.call(message)
        except FrameTooLargeError as error:
            if alone is not None:
                raise self._too_large(alone, error) from None
            node.suspects = dict.fromkeys(led)
            raise
        if alone is not None:
            del node.suspects[alone]
        self._check(response, node)
        self._lock_ms = response.acquisition_lock_timeout_ms
        problem: BrokerError | None = None
        for topic in response.responses:
            for part in topic.partitions:
                place = (topic.topic_id, part.partition_index)
                self._note_acknowledged(place, said.get(place, ()), part.acknowledge_error_code)
                if part.error_code:
                    problem = self._part_failed(place, part, response.node_endpoints) or problem
                    continue
                if place in self.assigned:
                    self.assigned[place].failures = 0
                if part.acquired_records:
                    self._queue(node, place, part)
        if problem is not None:
            raise problem
        return self.acquired - before

    def _too_large(self, place: Place, error: FrameTooLargeError) -> RecordTooLargeError:
        where, limit = f"{self._topic_of(place)}-{place[1]}", self._config.max_frame_bytes
        return RecordTooLargeError(
            f"the next batch of {where} for share group {self._config.group_id!r} makes a response that is longer than "
            f"max_frame_bytes ({limit}): raise max_frame_bytes. Each attempt counts as a delivery: the group gives up "
            f"a record that was delivered too often ({error})"
        )

    def _topic_of(self, place: Place) -> str:
        partition = self.assigned.get(place)
        return self._cluster.metadata.names.get(place[0], "?") if partition is None else partition.topic

    def _queue(self, node: ShareNode, place: Place, part: Any) -> None:
        name = self._cluster.metadata.names.get(place[0])
        if name is None:
            return  # the topic was deleted meanwhile: the locks expire
        data = Buffer(part.records)
        until_ms = self._engine.now_ms() + self._lock_ms
        for each in part.acquired_records:
            acquired = AcquiredRange(
                place, node.number, each.first_offset, each.last_offset, each.delivery_count, until_ms, self._lock_ms
            )
            self.acquired += each.last_offset - each.first_offset + 1
            self.ready.append(FetchedRange(name, place[1], data, acquired))
            self.renewal.watch(acquired)

    async def _acknowledge(self, node: ShareNode, said: Said, *, renews: bool = False, closes: bool = False) -> None:
        topics = node.session.acknowledge(said, closes=closes)
        connection = self._cluster.connection(node.number, _ROLE)
        message = acknowledge_request(self._config, self._member_id(), topics, renews=renews)
        response = await connection.call(message)
        self._check(response, node)
        self._note_renewed(node.outgoing.renewed, response)
        for place, code in codes_of(response).items():
            self._note_acknowledged(place, said.get(place, ()), code)

    # --- locks

    def _renew_soon(self, ranges: Iterable[AcquiredRange]) -> None:
        for acquired in ranges:
            self._node(acquired.node).to_renew.append(acquired)
        self.pump()

    async def _renew(self, node: ShareNode) -> None:
        """Renew locks by a separate request: a group that forbids renewal refuses the whole request."""
        ranges, node.to_renew = node.to_renew, []
        batches = renewals(ranges)
        if not batches or not node.session.is_open or not self._turns.may_renew:
            return
        connection = self._cluster.connection(node.number, _ROLE)
        await connection.open()
        if connection.version_of(protocol.ShareAcknowledgeRequest) < protocol.ShareAcknowledgeRequest.RENEWALS:
            self._renewal_refused()
            return
        topics = node.session.acknowledge(batches)
        response = await connection.call(acknowledge_request(self._config, self._member_id(), topics, renews=True))
        self._check(response, node)
        self._note_renewed(ranges, response)
        if self.renewal.is_proven:
            return  # other members have the refused records by now
        codes, now = codes_of(response), self._engine.now_ms()
        refused = [each for each in ranges if codes.get(each.place) == ErrorCode.INVALID_RECORD_STATE]
        if refused and all(each.until_ms > now for each in refused):
            self._renewal_refused()

    def _renewal_refused(self) -> None:
        self.renewal.stop()
        self._turns.may_renew = False
        group = self._config.group_id
        log.info(
            "share group %r allows no renewal of locks: records are fetched from one broker at a time",
            group,
            group=group,
        )

    def _note_renewed(self, ranges: Iterable[AcquiredRange], response: Any) -> None:
        """Restart the lock time of ranges that a broker has renewed."""
        codes, lock_ms = codes_of(response), response.acquisition_lock_timeout_ms
        if lock_ms > 0:
            self.renewal.renewed([each for each in ranges if not codes.get(each.place)], lock_ms)

    def _check(self, response: Any, node: ShareNode) -> None:
        node.unreadable = 0
        code = response.error_code
        if not code:
            node.session.on_response()
            node.backoff.succeeded()
            return
        group = self._config.group_id
        raise broker_error(code, f"reading in share group {group!r}", api="ShareFetch", group=group)

    def _note_acknowledged(self, place: Place, batches: Iterable[AckBatch], code: int) -> None:
        batches = list(batches)
        if not batches:
            return
        if not code:
            self.acknowledged += sum(map(count_final, batches))
            return
        topic = self._topic_of(place)
        spans = ", ".join(f"{first} to {last}" for first, last, _ in batches)
        advice = ""
        if code == ErrorCode.INVALID_RECORD_STATE:
            advice = ": their locks expired, or the session with the broker was lost; other members get them"
        doing = f"acknowledging {topic}-{place[1]}, offsets {spans}{advice}"
        self.refused.add(code, doing, topic)

    def _log_refusals(self) -> None:
        """Log refusals that no `commit` reports."""
        refused = self.refused.take()
        if refused is not None:
            log.warning("%s", refused, error=refused)

    def _part_failed(self, place: Place, part: Any, endpoints: Iterable[Any]) -> BrokerError | None:
        """Follow the response's hint of the new leader (KIP-951), or look it up; return an error that may not pass."""
        partition = self.assigned.get(place)
        if partition is None:
            return None
        where = f"{partition.topic}-{place[1]}"
        error = broker_error(part.error_code, f"reading {where}", api="ShareFetch", topic=partition.topic)
        if not may_pass(error.code):
            return error
        if error.code not in LEADER_ERRORS:
            self._errors.warn_once(where, error)
        leader, named = part.current_leader, [(each.node_id, each.host, each.port, each.rack) for each in endpoints]
        if not self._cluster.metadata.update_leader(*place, leader.leader_id, leader.leader_epoch, named):
            self._lose(partition)
        return None
