"""Fetches records of a share group from the leaders of its partitions, and tells them what was acknowledged.

One request at a time goes to each broker, within the member's session there. Records are fetched when somebody asks for
them and none are left: what is acquired has a lock that runs out. Who acknowledges the last of his records mostly asks
for more right after, so acknowledgements wait a moment for a fetch that carries them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kafwire import protocol
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.leader_errors import LEADER_ERRORS
from kafwire.config import ShareConsumerConfig
from kafwire.consumer.fetch_tasks import FetchTasks
from kafwire.consumer.share.acquired import RENEW, AckBatch, AcquiredRange, Outgoing, Place, count_final
from kafwire.consumer.share.share_session import ShareSession, ShareTopics
from kafwire.error_codes import ErrorCode
from kafwire.errors import ERROR_CODES, BrokerError, KafkaConnectionError, KafkaError, KafkaTimeoutError, broker_error
from kafwire.memory._buffer import Buffer

log = logging.getLogger("kafwire")

ACQUIRE_MODES = {"batch_optimized": 0, "record_limit": 1}
_SESSION_ERRORS = (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH)
_ROLE = "share"
SAID_LINGER_MS = 10.0

Said = dict[Place, list[AckBatch]]


@dataclass(frozen=True, slots=True)
class FetchedRange:
    """An acquired range, and the bytes that have its records."""

    topic: str
    partition: int
    data: Buffer
    acquired: AcquiredRange


class ShareNode:
    """One broker, as a member of a share group has to do with it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.session = ShareSession()
        self.outgoing = Outgoing()
        self.is_busy = False
        self.is_telling = False  # what it is busy with has acknowledgements
        self.not_before_ms = 0.0
        self.is_due = False  # what was said is sent without a fetch
        self.linger: asyncio.TimerHandle | None = None  # until it is
        self.failures = 0

    def take_said(self) -> Said:
        """What is to be told to it now."""
        self.is_due = False
        if self.linger is not None:
            self.linger.cancel()
            self.linger = None
        return self.outgoing.take()


class ShareFetcher:
    """Lives on the engine."""

    def __init__(self, cluster: Cluster, config: ShareConsumerConfig, member_id: Callable[[], str]) -> None:
        self._cluster = cluster
        self._config = config
        self._engine = cluster.engine
        self._member_id = member_id
        self.tasks = FetchTasks(self.fail)
        self.assigned: dict[Place, tuple[str, int]] = {}
        self.ready: deque[FetchedRange] = deque()
        self.error: BaseException | None = None
        self.refused: list[BrokerError] = []  # acknowledgements, since somebody asked
        self.expired = 0
        self.acquired = 0
        self.acknowledged = 0
        self._nodes: dict[int, ShareNode] = {}
        self._demand = 0
        self._told_waits = 0
        self._news = asyncio.Event()
        self._stop_listening = cluster.on_change(lambda _: self.pump())

    # --- what is asked for

    async def next(self, timeout_ms: float | None) -> list[FetchedRange]:
        """What is acquired and was not handed out; waits for it. An empty list when the time is up."""
        self._demand += 1
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
        now = self._engine.now_ms()
        found = [each for each in self.ready if each.acquired.until_ms > now]
        self.expired += len(self.ready) - len(found)
        self.ready.clear()
        return found

    def say(self, ranges: Iterable[AcquiredRange]) -> None:
        """Something was said of these."""
        for acquired in ranges:
            node = self._node(acquired.node)
            node.outgoing.add(acquired)
            if node.linger is None:
                loop = asyncio.get_running_loop()
                node.linger = loop.call_later(SAID_LINGER_MS / 1000, self._on_linger_over, node)

    def _on_linger_over(self, node: ShareNode) -> None:
        node.is_due = True
        self.pump()

    async def told(self) -> None:
        """Return once everything that was said was sent and answered. Raises `BrokerError` for what was refused."""
        self._told_waits += 1
        try:
            while self.error is None and any(
                node.is_telling or not node.outgoing.is_empty for node in self._nodes.values()
            ):
                self._news.clear()
                self.pump()
                await self._news.wait()
        finally:
            self._told_waits -= 1
        refused, self.refused = self.refused, []
        if refused:
            raise refused[0]
        if self.error is not None:
            raise self.error

    def assign(self, places: dict[Place, tuple[str, int]]) -> None:
        """Fetch these partitions from now on."""
        self.assigned = places
        self.pump()

    def look(self) -> None:
        """Something has changed for who waits."""
        self._news.set()

    def fail(self, error: BaseException) -> None:
        """Nothing more comes: who asks is told."""
        self.error = error
        self._news.set()

    async def close(self, timeout_ms: float) -> None:
        """End the sessions, with what was said last; what is still acquired is released by that."""
        self._stop_listening()
        self.tasks.stop()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                open_ones = [node for node in self._nodes.values() if node.session.is_open]
                await asyncio.gather(*(self._end(node) for node in open_ones), return_exceptions=True)
        except TimeoutError:
            pass  # the brokers forget them with the connections

    async def _end(self, node: ShareNode) -> None:
        await self._acknowledge(node, node.take_said(), closes=True)

    # --- requests

    def _node(self, number: int) -> ShareNode:
        node = self._nodes.get(number)
        if node is None:
            node = self._nodes[number] = ShareNode(number)
        return node

    def pump(self) -> None:
        """Send to each broker that has something to be told or asked."""
        led: dict[int, list[Place]] = {}
        leaderless = []
        for place, (topic, number) in self.assigned.items():
            leader = self._cluster.metadata.leader(topic, number)
            if leader in self._cluster.metadata.brokers:
                led.setdefault(leader, []).append(place)
            else:
                leaderless.append(topic)
        if leaderless and self._demand:
            self.tasks.begin(self._refresh(leaderless))
        for number in {*led, *self._nodes}:
            node = self._node(number)
            wants = bool(led.get(number)) and self._demand > 0 and not self.ready
            is_due = node.is_due or self._told_waits > 0
            if not node.is_busy and (wants or (is_due and not node.outgoing.is_empty)):
                node.is_busy = True
                self.tasks.begin(self._step(node, led.get(number, ()), fetches=wants))

    async def _refresh(self, topics: Iterable[str]) -> None:
        try:
            await self._cluster.refresh(topics)
        except KafkaError as error:
            log.debug("kafwire: metadata could not be refreshed: %s", error)
        self.look()

    async def _step(self, node: ShareNode, wanted: Iterable[Place], *, fetches: bool) -> None:
        """One request to a broker, and its answer."""
        wait_ms = node.not_before_ms - self._engine.now_ms()
        said: Said = {}
        try:
            if wait_ms > 0:
                await asyncio.sleep(wait_ms / 1000)
            if not node.session.is_open:
                self._drop_said(node)  # what was acquired in an earlier one is released by now
            said = node.take_said()
            node.is_telling = bool(said)
            renews = any(RENEW in kinds for batches in said.values() for _, _, kinds in batches)
            if said and (renews or not fetches):
                await self._acknowledge(node, said, renews=renews)
            elif fetches:
                await self._fetch(node, wanted, said)
            node.failures = 0
        except (KafkaConnectionError, KafkaTimeoutError) as error:
            self._lost(node, error, said)
        except BrokerError as error:
            if not error.retriable and error.code not in _SESSION_ERRORS:
                raise
            self._lost(node, error, said)
        finally:
            node.is_busy = node.is_telling = False
            self._news.set()
        self.tasks.soon(self.pump)

    def _drop_said(self, node: ShareNode, said: Said | None = None) -> None:
        """What was said of records of a session that is gone comes too late."""
        for each in (said or {}, node.take_said()):
            for place, batches in each.items():
                self._note_acknowledged(place, batches, ErrorCode.INVALID_RECORD_STATE)
        node.outgoing.forget()

    def _lost(self, node: ShareNode, error: KafkaError, said: Said) -> None:
        """The session is gone, and what was acquired in it belongs to nobody."""
        log.debug("kafwire: share session with broker %d is lost: %s", node.number, error)
        node.session.reset()
        self._drop_said(node, said)
        node.failures += 1
        base, limit = self._config.retry_backoff_ms, self._config.retry_backoff_max_ms
        node.not_before_ms = self._engine.now_ms() + min(base * 2.0 ** min(node.failures - 1, 20), limit)
        if isinstance(error, KafkaConnectionError | KafkaTimeoutError):
            self.tasks.begin(self._refresh({topic for topic, _ in self.assigned.values()}))

    async def _fetch(self, node: ShareNode, wanted: Iterable[Place], said: Said) -> None:
        request: Any = protocol.ShareFetchRequest
        config = self._config
        topics = node.session.fetch(wanted, said)
        message = request(
            group_id=config.group_id,
            member_id=self._member_id(),
            share_session_epoch=topics.epoch,
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            max_records=config.max_poll_records,
            batch_size=config.max_poll_records,
            share_acquire_mode=ACQUIRE_MODES[config.share_acquire_mode],
            topics=_topics(request.FetchTopic, request.FetchPartition, request.AcknowledgementBatch, topics),
            forgotten_topics_data=[
                request.ForgottenTopic(topic_id=topic_id, partitions=numbers)
                for topic_id, numbers in topics.forgotten.items()
            ],
        )
        connection = self._cluster.connection(node.number, _ROLE)
        answer = await connection.call(message)
        self._check(answer, node)
        until_ms = self._engine.now_ms() + answer.acquisition_lock_timeout_ms
        for topic in answer.responses:
            for part in topic.partitions:
                place = (topic.topic_id, part.partition_index)
                self._note_acknowledged(place, said.get(place, ()), part.acknowledge_error_code)
                if part.error_code:
                    self._part_failed(place, part.error_code)
                elif part.acquired_records:
                    self._queue(node, place, part, until_ms)

    def _queue(self, node: ShareNode, place: Place, part: Any, until_ms: float) -> None:
        name = self._cluster.metadata.names.get(place[0])
        if name is None:
            return  # its topic was deleted meanwhile: the locks run out
        data = Buffer(part.records)
        for each in part.acquired_records:
            acquired = AcquiredRange(
                place, node.number, each.first_offset, each.last_offset, each.delivery_count, until_ms
            )
            self.acquired += each.last_offset - each.first_offset + 1
            self.ready.append(FetchedRange(name, place[1], data, acquired))

    async def _acknowledge(self, node: ShareNode, said: Said, *, renews: bool = False, closes: bool = False) -> None:
        request: Any = protocol.ShareAcknowledgeRequest
        topics = node.session.acknowledge(said, closes=closes)
        message = request(
            group_id=self._config.group_id,
            member_id=self._member_id(),
            share_session_epoch=topics.epoch,
            is_renew_ack=renews,
            topics=_topics(
                request.AcknowledgeTopic, request.AcknowledgePartition, request.AcknowledgementBatch, topics
            ),
        )
        answer = await self._cluster.connection(node.number, _ROLE).call(message)
        self._check(answer, node)
        if answer.acquisition_lock_timeout_ms > 0:
            for acquired in node.outgoing.renewed:
                acquired.until_ms = self._engine.now_ms() + answer.acquisition_lock_timeout_ms
        for topic in answer.responses:
            for part in topic.partitions:
                place = (topic.topic_id, part.partition_index)
                self._note_acknowledged(place, said.get(place, ()), part.error_code)

    def _check(self, answer: Any, node: ShareNode) -> None:
        code = answer.error_code
        if not code:
            node.session.answered()
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
        topic, number = self.assigned.get(place, (self._cluster.metadata.names.get(place[0], "?"), place[1]))
        spans = ", ".join(f"{first} to {last}" for first, last, _ in batches)
        advice = ""
        if code == ErrorCode.INVALID_RECORD_STATE:
            advice = ": their locks ran out, or the session with the broker was lost; others get them"
        doing = f"acknowledging {topic}-{number}, offsets {spans}{advice}"
        error = broker_error(code, doing, api="ShareAcknowledge", topic=topic)
        self.refused.append(error)
        log.warning("%s", error)

    def _part_failed(self, place: Place, code: int) -> None:
        topic, _ = self.assigned.get(place, ("", 0))
        if code in LEADER_ERRORS or (code in ERROR_CODES and ERROR_CODES[code].retriable):
            if topic:
                self.tasks.begin(self._refresh([topic]))
        elif topic:
            raise broker_error(code, f"reading {topic}-{place[1]}", api="ShareFetch", topic=topic)


def _topics(topic_kind: Any, partition_kind: Any, batch_kind: Any, said: ShareTopics) -> list[Any]:
    return [
        topic_kind(
            topic_id=topic_id,
            partitions=[
                partition_kind(
                    partition_index=number,
                    acknowledgement_batches=[
                        batch_kind(first_offset=first, last_offset=last, acknowledge_types=list(kinds))
                        for first, last, kinds in batches
                    ],
                )
                for number, batches in partitions.items()
            ],
        )
        for topic_id, partitions in said.topics.items()
    ]
