"""The sender: takes closed batches from the accumulator to their leaders, and their outcomes back.

All that arrives in one turn of the engine is handled in that turn, and what it allows to be sent leaves in it: each
turn has to win the GIL from the user's threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import uuid
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeGuard

from kafwire import protocol
from kafwire.cluster.backoff import delay_ms
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.leader_errors import LEADER_ERRORS
from kafwire.cluster.metadata import NO_TOPIC_ID
from kafwire.config import ProducerConfig
from kafwire.error_codes import ErrorCode
from kafwire.errors import (
    BrokerError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    PurgedError,
    broker_error,
)
from kafwire.memory._buffer import Buffer
from kafwire.producer._accumulator import Accumulator
from kafwire.producer._batch import ProducerBatch
from kafwire.producer._partitioner import PartitionWeights
from kafwire.producer._queues import PartitionQueue, Topic
from kafwire.producer.direct_send import DirectSends
from kafwire.producer.errors import doubtful, error_of, parts_without, refused_records
from kafwire.producer.in_doubt import Doubts
from kafwire.producer.log_search import FoundBatch
from kafwire.producer.metrics import ProduceCounters
from kafwire.producer.partitioner import Balance, rule_of
from kafwire.producer.request import FIRST_VERSION_WITH_TOPIC_IDS, produce_request
from kafwire.producer.sequencer import LOST, NOT_SENT, BatchOutcome, Fate, Identity, Sequencer
from kafwire.producer.transaction_manager import Transactions
from kafwire.runtime.engine import FORKED
from kafwire.runtime.metrics_reporter import Reporter

# How often batches that cannot be sent are looked at for `delivery_timeout_ms`.
EXPIRY_CHECK_MS = 500
SHORTEST_WAIT_MS = 0.1
# How long the interpreter's end may be held up by records that were sent and not flushed.
EXIT_FLUSH_S = 5.0
# Partitions that an error names, of those with records that were not delivered.
NAMED_PARTITIONS = 5

log = logging.getLogger("kafwire")


class Sender:
    """One producer's engine side."""

    def __init__(self, cluster: Cluster, config: ProducerConfig) -> None:
        self.cluster = cluster
        self.config = config
        self.notifier = cluster.engine.transport.listen(self.on_wake)
        rule = rule_of(config.partitioner, ignore_keys=config.partitioner_ignore_keys)
        self.accumulator = Accumulator(
            self.notifier,
            clock=cluster.engine.clock,
            waiter=cluster.engine.waiter,
            batch_size=config.batch_size,
            max_request_size=config.max_request_size,
            linger_ms=config.linger_ms,
            buffer_memory=config.buffer_memory,
            compression=config.compression_type,
            level=config.compression_level,
            rule=rule,
            rng_state=cluster.engine.random.getrandbits(64),
            transactional=config.transactional_id is not None,
        )
        self._balance = Balance(timeout_ms=config.partitioner_availability_timeout_ms)
        self._is_adaptive = config.partitioner_adaptive_partitioning_enable and rule.spread == "sticky"
        self.identity: Identity | None = None
        self._waiting: dict[
            tuple[str, int], PartitionQueue
        ] = {}  # queues with something to send, in the order to be served
        self._in_flight_on: dict[tuple[str, int], BrokerConnection] = {}
        self._not_before: dict[tuple[str, int], float] = {}
        self._unfinished: dict[ProducerBatch, None] = {}
        self._topic_ids: dict[str, uuid.UUID] = {}
        self._retired: dict[str, list[Topic]] = {}  # topics that were made anew, and what they were, the oldest first
        self._sequencers: dict[tuple[str, int], Sequencer[ProducerBatch]] = {}  # the last of each of their partitions
        self._used_ms: dict[str, float] = {}  # when something was last sent to a topic
        self._idle: dict[str, Topic] = {}  # forgotten topics: their partitions' sequence numbers go on
        self._tasks: dict[Hashable, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._failures = 0
        self._refusals = 0  # of a producer id, in a row
        self._no_identity_before_ms = 0.0
        self.last_problem = ""
        self._stopped = False
        self._retiring: asyncio.Task[None] | None = None
        self.counters = ProduceCounters()
        self.transactions = None if config.transactional_id is None else Transactions(self, config.transactional_id)
        self._doubts = Doubts(cluster, config, self._run, self._on_fate)
        self._direct_send: DirectSends | None = None
        if config.linger_ms == 0 and config.acks != 0 and self.transactions is None:
            self._direct_send = DirectSends(self)
        self._reporter: Reporter | None = None
        if config.metrics_hook is not None:  # the engine may take a snapshot at once: of what is complete
            self._reporter = Reporter(cluster.engine, config.metrics_hook, config.metrics_interval_ms)
            cluster.engine.start(self._reporter.start, self.metrics)
        cluster.on_change(self._on_change)
        cluster.on_overdue(self._leave_hung)
        cluster.engine.join(self)

    async def ensure_metadata(self, names: list[str], timeout_ms: float) -> None:
        """Make the partitions of topics known to the accumulator; waits for those that are being created."""
        try:
            await self.cluster.topics(names, timeout_ms=timeout_ms, create=self.config.allow_auto_create_topics)
        finally:
            for name in names:
                if name not in self.cluster.metadata.errors:
                    self._take_in(name)

    def _on_change(self, names: set[str]) -> None:
        """Topics have new partitions, or other leaders."""
        if self._direct_send is not None:
            self._direct_send.revoke_all()
        for name in names & self.accumulator.topics.keys():
            self._take_in(name)
        for connection in set(self._in_flight_on.values()):
            self._leave_hung(connection)

    def _leave_hung(self, connection: BrokerConnection) -> None:
        """Do not wait for a broker that owes an answer for long if another leads a partition in flight there by now.

        Without idempotence that could make duplicates: it waits until the request's time is up.
        """
        if not self.config.idempotent or not connection.is_overdue:
            return
        if any(
            used is connection and self.cluster.metadata.leader(*where) not in (-1, connection.node)
            for where, used in self._in_flight_on.items()
        ):
            connection.fail("the broker hangs, and others lead partitions of its now")

    def _forget_idle(self) -> None:
        """Ask no more for topics that nothing was sent to for `metadata_max_idle_ms`; a record looks them up anew."""
        now = self.cluster.engine.now_ms()
        busy = (
            {batch.queue.topic for batch in self._unfinished}
            | {topic for topic, _ in self._waiting}
            | self._retired.keys()
        )
        for name, topic in list(self.accumulator.topics.items()):
            if name in busy or any(not queue.is_empty or queue.direct_send is not None for queue in topic.queues):
                self._used_ms[name] = now
            elif now - self._used_ms.setdefault(name, now) > self.config.metadata_max_idle_ms:
                del self._used_ms[name]
                self._idle[name] = self.accumulator.topics.pop(name)
                self.cluster.forget([name])

    def _remember(self, name: str) -> None:
        """A forgotten topic is used again."""
        self.accumulator.topics[name] = self._idle.pop(name)

    def _take_in(self, name: str) -> None:
        info = self.cluster.metadata.topics.get(name)
        if info is not None and info.partitions:
            if name in self._idle:
                self._remember(name)
            self._used_ms.setdefault(name, self.cluster.engine.now_ms())
            leaders = [self.cluster.metadata.leader(name, partition) for partition in range(max(info.partitions) + 1)]
            weights = PartitionWeights(*self._balance.lead(name, leaders))
            before = self._topic_ids.get(name, NO_TOPIC_ID)
            self._topic_ids[name] = info.topic_id
            topic = self.accumulator.topics.get(name)
            # Without ids, that there are fewer partitions says so. Topics get their first id when brokers are upgraded.
            is_another = before != info.topic_id and NO_TOPIC_ID not in (before, info.topic_id)
            if topic is not None and (is_another or len(leaders) < len(topic.queues)):
                self._replace(topic, len(leaders), weights)
            else:
                self.accumulator.set_topic(name, len(leaders), weights)

    # -- topics made anew

    def _replace(self, topic: Topic, partitions: int, weights: PartitionWeights) -> None:
        """A topic was made anew: what comes now goes to the new one, and what has come already moves over.

        But not before all that is in flight to the old one came back, and no thread adds rows to it any more: order is
        kept. Until then nothing is sent to the new one.
        """
        log.info(
            "kafwire: topic %r was made anew, with %d partitions; it had %d", topic.name, partitions, len(topic.queues)
        )
        if self._direct_send is not None:
            self._direct_send.revoke_all()
        for queue in topic.queues:
            where = (queue.topic, queue.partition)
            self._waiting.pop(where, None)
            self._in_flight_on.pop(where, None)
            self._not_before.pop(where, None)
            if queue.sequencer is not None:
                self._sequencers[where] = queue.sequencer
        self.accumulator.replace_topic(topic.name, partitions, weights)
        self._retired.setdefault(topic.name, []).append(topic)

    def _move_over(self) -> None:
        """Have what is in retired topics go on in those that replaced them, as soon as that may be."""
        for name, topics in list(self._retired.items()):
            queues = [queue for topic in topics for queue in topic.queues]
            if any(queue.sequencer is not None and queue.sequencer.in_flight for queue in queues):
                continue
            if any(topic.passes for topic in topics):
                continue
            moved: dict[PartitionQueue, list[ProducerBatch]] = {}
            # The oldest first: partitions may have been added, and a key's records have gone to two of them.
            for batch in heapq.merge(*map(self._take_out, queues), key=_age):
                for to, part in self._place_again(batch):
                    moved.setdefault(to, []).append(part)
            for to, batches in moved.items():
                to.fresh.extendleft(reversed(batches))  # before what has come since
                self._enlist(to)
            del self._retired[name]

    def _take_out(self, queue: PartitionQueue) -> list[ProducerBatch]:
        """All batches of a retired topic's queue that are certainly not in its log; those that may be fail."""
        found = []
        for batch in [] if queue.sequencer is None else list(queue.sequencer.retries):
            if queue.sequencer.give_up(batch) is BatchOutcome.DOUBTFUL:
                problem = KafkaError(
                    f"topic {queue.topic!r} was made anew before {batch.count} record(s) to {queue.name} were "
                    f"acknowledged: they may or may not be in the log; last: {batch.last_error}"
                )
                self._give_up(batch, problem, in_doubt=True)
            else:
                self._unfinished.pop(batch, None)
                found.append(batch)
        return found + self.accumulator.empty(queue)

    def _place_again(self, batch: ProducerBatch) -> list[tuple[PartitionQueue, ProducerBatch]]:
        try:
            return self.accumulator.place_again(batch)
        except (KafkaError, MemoryError) as error:
            problem = error if isinstance(error, KafkaError) else KafkaError(f"{batch.queue.name}: {error}")
            self._give_up(batch, problem, numbered=batch.attempts > 0)
            return []

    def _weights(self) -> None:
        """Have what may go anywhere go rather where less waits (KIP-794)."""
        topics = self.accumulator.topics
        backlogs: dict[str, dict[int, int]] = {name: {} for name in self._balance.uneven}
        for (name, partition), queue in self._waiting.items():
            if name not in backlogs and topics[name].sticky < 0:
                continue  # nobody draws
            waiting = len(queue.sequencer.retries) + len(queue.advance())
            if waiting:
                backlogs.setdefault(name, {})[partition] = waiting
        for name, backlog in backlogs.items():
            leader = self.cluster.metadata.leader
            slow = frozenset(p for p in backlog if self._balance.is_slow(leader(name, p)))
            split = self._balance.weights(name, backlog, slow)
            if split is not None:
                self.accumulator.set_weights(name, PartitionWeights(*split))

    def on_wake(self) -> None:
        """A batch was closed, a first one opened, or time has passed."""
        self._pump(everything=False)
        if self.transactions is not None:
            self.transactions.on_progress()

    def _pump(self, *, everything: bool) -> None:
        if self._stopped:
            return
        if self.cluster.is_stale and self.accumulator.topics:
            self._forget_idle()
        if self.cluster.is_stale and self.accumulator.topics:
            self._run("metadata", self._refresh(next(iter(self.accumulator.topics))))
        if everything and self._direct_send is not None:
            self._direct_send.revoke_all()
        try:
            ready, wait_ms = self.accumulator.collect(everything=everything)
            for queue in ready:
                self._enlist(queue)
            if self._retired:
                self._move_over()
            self._send_all()
            if self.accumulator.late:  # what was before them may have gone
                ready, wait_ms = self.accumulator.collect()
                for queue in ready:
                    self._enlist(queue)
                if ready:
                    self._send_all()
            if self._is_adaptive:
                self._weights()
            if wait_ms is not None:
                self._wake_in(wait_ms)
        finally:
            if self._waiting or self._retired:
                self._wake_in(EXPIRY_CHECK_MS)

    def _enlist(self, queue: PartitionQueue) -> None:
        if queue.owner.retired:  # a thread that had begun with it adds to it still
            topics = self._retired.setdefault(queue.topic, [])
            if queue.owner not in topics:
                topics.append(queue.owner)
            return
        if queue.topic in self._idle:  # a thread that knew it still has not looked it up
            self._remember(queue.topic)
        if queue.sequencer is None and (queue.topic, queue.partition) in self._sequencers:
            queue.sequencer = self._sequencers.pop((queue.topic, queue.partition)).anew()
        if queue.sequencer is None:
            limit = self.config.max_in_flight_requests_per_connection
            may_move = self.transactions is None
            queue.sequencer = Sequencer(idempotent=self.config.idempotent, limit=limit, may_move=may_move)
        if self._direct_send is not None:
            self._direct_send.revoke(queue)
        self._used_ms[queue.topic] = self.cluster.engine.now_ms()
        self._waiting[queue.topic, queue.partition] = queue

    def _wake_in(self, wait_ms: float) -> None:
        """See that `on_wake` runs in `wait_ms` or earlier."""
        wait_ms = max(wait_ms, SHORTEST_WAIT_MS)  # timers come a little early: what is left would take many turns
        due = self.cluster.engine.now_ms() + wait_ms
        if self._timer is not None:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._timer_due = due
        self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.on_wake()

    # -- sending

    def _send_all(self) -> None:
        """Send all that may go: request after request until no queue has a batch that may be sent."""
        if self.config.idempotent and self.identity is None:
            if self._waiting and self.transactions is None:
                self._run("identity", self._get_identity())
            self._expire()
            return
        now = self.cluster.engine.now_ms()
        self._expire()
        while self._send_some(now):
            pass
        self._doubts.settle(self._waiting.values())
        wants_epoch = any(queue.sequencer.wants_epoch(self.identity) for queue in self._waiting.values())
        if wants_epoch and self.transactions is None:
            self._run("identity", self._next_epoch())

    def _send_some(self, now: float) -> bool:
        """Send a batch of each queue that may; False: there was none.

        Whatever is raised on the way, the batches that were taken and not handed over are settled.
        """
        requests: dict[BrokerConnection, list[tuple[PartitionQueue, ProducerBatch]]] = {}
        try:
            self._take(requests, now)
            if not requests:
                return False
            # All of this turn's batches are compressed and stamped in one pass without the GIL.
            try:
                self.accumulator.prepare([batch for group in requests.values() for _, batch in group])
            except (KafkaError, MemoryError) as error:
                while requests:
                    self._fail(requests.popitem()[1], error)
            for connection in list(requests):
                group = requests[connection]
                try:
                    self._send(connection, group)
                except KafkaConnectionError as error:
                    for queue, batch in requests.pop(connection):
                        self._settle(queue, batch, NOT_SENT, error)
                except ProtocolError as error:
                    self._fail(requests.pop(connection), error)
                else:
                    del requests[connection]
                    self.counters.sent(group, self.cluster.engine.now_ms())
        except Exception as error:
            log.exception("kafwire: batches could not be sent")
            for group in requests.values():
                for queue, batch in group:
                    self._settle(queue, batch, NOT_SENT, KafkaError(f"{queue.name}: {type(error).__name__}: {error}"))
            return False
        return True

    def _take(self, requests: dict[BrokerConnection, list[tuple[PartitionQueue, ProducerBatch]]], now: float) -> None:
        """Take the next batch of each queue that may send one, by the connections to send them on."""
        sizes: dict[BrokerConnection, int] = {}
        for where, queue in list(self._waiting.items()):
            if where[0] in self._retired:
                continue
            connection = self._connection_for(where, now)
            if connection is None or sizes.get(connection, 0) >= self.config.max_request_size:
                continue
            if self.transactions is not None and not self.transactions.admits(where):
                continue
            batch = queue.sequencer.send(queue.advance(), self.identity, connection.socket)
            if batch is None:
                self._dismiss(where, queue)
                if queue.sequencer.doubts:
                    self._doubts.note(connection.node, queue)
                if queue.fresh:  # as much is in flight as may be
                    self._balance.note(connection.node, now, taken=False)
                continue
            requests.setdefault(connection, []).append((queue, batch))
            sizes[connection] = sizes.get(connection, 0) + batch.size
            self._unfinished[batch] = None
            self._in_flight_on[where] = connection
            self._balance.note(connection.node, now, taken=True)

    def _fail(self, group: list[tuple[PartitionQueue, ProducerBatch]], error: Exception) -> None:
        """These batches can never be sent."""
        for queue, batch in group:
            verdict = queue.sequencer.outcome(batch, NOT_SENT, retriable=False)
            problem = error if isinstance(error, KafkaError) else KafkaError(f"{queue.name}: {error}")
            self._give_up(batch, problem, in_doubt=verdict is BatchOutcome.DOUBTFUL)

    def _give_up(
        self, batch: ProducerBatch, error: KafkaError, *, in_doubt: bool = False, numbered: bool = True
    ) -> None:
        """A batch fails; `in_doubt`: it may be in the log; `numbered`: it had got a sequence number."""
        self._unfinished.pop(batch, None)
        self.counters.failed(batch.queue, batch.count)
        batch.fail(doubtful(error) if in_doubt else error)
        if self.transactions is not None:
            self.transactions.batch_failed(error, numbered=numbered)

    def _dismiss(self, where: tuple[str, int], queue: PartitionQueue) -> None:
        """A queue with nothing to send leaves the round; one that waits for an outcome comes back with it.

        One whose next batch a thread still fills is told of by that thread, when it gives the batch back closed.
        """
        sequencer = queue.sequencer
        if not queue.fresh and not sequencer.retries:
            del self._waiting[where]
            if not sequencer.in_flight:
                self._in_flight_on.pop(where, None)

    def _connection_for(self, where: tuple[str, int], now: float) -> BrokerConnection | None:
        """The leader's produce connection if something may be sent on it now; sets off what is missing for that."""
        not_before = self._not_before.get(where, 0.0)
        if not_before > now:
            self._wake_in(not_before - now)
            return None
        topic, partition = where
        leader = self.cluster.metadata.leader(topic, partition)
        if leader < 0:
            self._run("metadata", self._refresh(topic))
            return None
        connection = self.cluster.connection(leader, "produce")
        if not connection.is_ready:
            self._balance.note(leader, now, taken=False)
            self._run(f"open {leader}", self._open(connection, topic))
            return None
        if connection.muted_until_ms > now:
            self._balance.note(leader, now, taken=False)
            self._wake_in(connection.muted_until_ms - now)
            return None
        # Batches in flight to an old leader settle before any goes to the new one.
        before = self._in_flight_on.get(where)
        queue = self._waiting[where]
        return None if before is not None and before is not connection and queue.sequencer.in_flight else connection

    def _send(self, connection: BrokerConnection, group: list[tuple[PartitionQueue, ProducerBatch]]) -> None:
        config = self.config
        ids = [self.cluster.metadata.topics[queue.topic].topic_id for queue, _ in group]
        at_most = FIRST_VERSION_WITH_TOPIC_IDS - 1 if NO_TOPIC_ID in ids else None
        if self.transactions is None:
            version = connection.version_of(protocol.ProduceRequest, at_most=at_most)
        else:
            version = self.transactions.produce_version(connection, at_most)
        correlation_id = connection.next_correlation_id()
        names = {
            queue.topic: (topic_id.bytes if version >= FIRST_VERSION_WITH_TOPIC_IDS else queue.topic.encode())
            for (queue, _), topic_id in zip(group, ids, strict=True)
        }
        head = protocol.encode_request_header(protocol.ProduceRequest, version, correlation_id, config.client_id)
        segments = produce_request(
            head, version, config.acks, config.request_timeout_ms, group, names, config.transactional_id
        )
        by_name = {name: topic for topic, name in names.items()}

        def answered(frame: Buffer | None, error: KafkaError | None) -> None:
            self.on_answer(connection, version, group, by_name, frame, error)

        connection.send(
            correlation_id,
            segments,
            answered,
            expect_response=config.acks != 0,
            timeout_ms=config.request_timeout_ms,
        )

    # -- outcomes

    def on_answer(
        self,
        connection: BrokerConnection,
        version: int,
        group: list[tuple[PartitionQueue, ProducerBatch]],
        names: dict[bytes, str],
        frame: Buffer | None,
        error: KafkaError | None,
    ) -> None:
        """A request with these batches was answered (`frame`), failed (`error`), or left and has no answer."""
        if self._stopped:  # all of them have failed by then
            return
        outcomes: dict[tuple[str, int], protocol.ProduceResponse.PartitionProduceResponse] = {}
        if frame is not None:
            try:
                retired = {queue.topic for queue, _ in group if queue.owner.retired}
                self._read_answer(connection, version, names, frame, outcomes, retired)
            except Exception as problem:
                if not isinstance(problem, ProtocolError):
                    log.exception("kafwire: an answer of %s could not be handled", connection.where)
                connection.fail(f"the answer to a produce request could not be read: {problem}")
                error = KafkaConnectionError(
                    f"{connection.where} answered with what is not a ProduceResponse: {problem}"
                )
        for queue, batch in group:
            try:
                if frame is None and error is None:  # acks=0: it left this process, more is not to be known
                    self._settle(queue, batch, 0, None)
                    batch.succeed(-1, -1)
                    continue
                outcome = outcomes.get((queue.topic, queue.partition))
                if outcome is None:
                    lost = error or KafkaConnectionError(f"{connection.where} did not answer for {queue.name}")
                    self._settle(queue, batch, LOST, lost)
                    continue
                if batch.done:  # purged: only its numbers matter
                    self._settle(queue, batch, outcome.error_code, None)
                    continue
                refusal = error_of(outcome, queue, batch, connection)
                refused: dict[int, KafkaError] = {}
                if refusal is not None and not refusal.retriable and outcome.record_errors:
                    refused = refused_records(outcome, queue, batch, connection)
                if self._settle(
                    queue, batch, outcome.error_code, refusal, refused=refused, answered_by=connection.node
                ):
                    is_idle = queue.is_empty and (queue.topic, queue.partition) not in self._waiting
                    batch.succeed(outcome.base_offset, outcome.log_append_time_ms)
                    if outcome.base_offset >= 0:
                        end = outcome.base_offset + batch.count
                        leader_epoch = self.cluster.metadata.leader_epoch(queue.topic, queue.partition)
                        queue.sequencer.acknowledged(batch.ordinal, end, leader_epoch)
                    if self._direct_send is not None and len(group) == 1:
                        self._direct_send.look_at(queue, connection, version, is_idle=is_idle)
            except Exception as problem:
                log.exception("kafwire: what became of a batch of %s could not be handled", queue.name)
                self._let_go(queue, batch, problem)
        self.on_outcomes()

    def _read_answer(
        self,
        connection: BrokerConnection,
        version: int,
        names: dict[bytes, str],
        frame: Buffer,
        outcomes: dict[tuple[str, int], protocol.ProduceResponse.PartitionProduceResponse],
        retired: set[str],
    ) -> None:
        """Take in an answer, and put what it says of each partition into `outcomes`.

        Who leads the partitions of the topics `retired` meant those that were; the numbers of their epochs are higher.
        """
        _, response = protocol.decode_response(protocol.ProduceRequest, frame, version)
        connection.note_throttle(response.throttle_time_ms)
        if response.throttle_time_ms > 0 and self._direct_send is not None:
            self._direct_send.revoke_all(connection)
        endpoints = [(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints]
        for topic in response.responses:
            key = topic.topic_id.bytes if version >= FIRST_VERSION_WITH_TOPIC_IDS else topic.name.encode()
            name = names.get(key, "")
            for part in topic.partition_responses:
                outcomes[name, part.index] = part
                if part.error_code in LEADER_ERRORS and part.current_leader.leader_id >= 0 and name not in retired:
                    self._take_hint(name, part, endpoints)

    def _let_go(self, queue: PartitionQueue, batch: ProducerBatch, problem: Exception) -> None:
        """A defect: nobody may wait for ever because of it."""
        if batch.done or batch in queue.sequencer.retries:
            return
        if batch in queue.sequencer.in_flight:
            queue.sequencer.outcome(batch, LOST, retriable=False)
        self._give_up(batch, KafkaError(f"{queue.name}: {type(problem).__name__}: {problem}"), in_doubt=True)

    def on_outcomes(self) -> None:
        """Batches came back: go on with what waited for that."""
        # Whoever waits for one of these wants the GIL now: no turn without a reason.
        is_wanted = self._waiting or self._retired or self._balance.uneven or self.accumulator.budget.waiting
        if is_wanted or self.transactions is not None:
            self.on_wake()

    def take_over(self, queue: PartitionQueue, batch: ProducerBatch, connection: BrokerConnection) -> None:
        """A batch that is in flight on `connection`, sent by somebody else, is this sender's from now on."""
        self._unfinished[batch] = None
        self._in_flight_on[queue.topic, queue.partition] = connection

    def _take_hint(
        self,
        topic: str,
        part: protocol.ProduceResponse.PartitionProduceResponse,
        endpoints: list[tuple[int, str, int, str | None]],
    ) -> None:
        """A broker that does not lead a partition says who does (KIP-951)."""
        leader = part.current_leader
        if self.cluster.metadata.update_leader(topic, part.index, leader.leader_id, leader.leader_epoch, endpoints):
            self._take_in(topic)

    def _settle(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        code: int,
        error: KafkaError | None,
        *,
        refused: Mapping[int, KafkaError] = MappingProxyType({}),
        answered_by: int = -1,
    ) -> bool:
        """Take in what became of a batch; True when it was delivered.

        `refused` are the errors of single records, by index; `answered_by` is the broker, if one did.
        """
        if batch.done:
            self._settle_purged(queue, batch, code)
            return False
        retriable = not isinstance(error, BrokerError) or error.retriable
        # A transaction with a refused record cannot be committed: its neighbours need not be saved.
        divisible = 0 < len(refused) < batch.count and self.transactions is None
        divisible = divisible or (batch.count > 1 and code == ErrorCode.MESSAGE_TOO_LARGE)
        self.counters.refused(queue, error)
        verdict = queue.sequencer.outcome(batch, code, retriable=retriable, divisible=divisible)
        if verdict is BatchOutcome.DIVIDE:
            verdict = self._divide(queue, batch, refused)
        where = (queue.topic, queue.partition)
        self._on_return(queue)
        if verdict is BatchOutcome.DELIVERED:
            self.counters.delivered(queue, batch)
            self._unfinished.pop(batch, None)
            self._failures = 0
            return True
        if verdict is BatchOutcome.DIVIDE:
            return False
        if verdict is not BatchOutcome.RETRY:
            in_doubt = verdict is BatchOutcome.DOUBTFUL
            if len(refused) == batch.count and not in_doubt:
                with contextlib.suppress(KafkaError, MemoryError):
                    self.accumulator.cut(batch, list(range(batch.count)), refused)
            self._give_up(batch, error or KafkaError(f"{queue.name}: error {code}"), in_doubt=in_doubt)
            return False
        batch.attempts += 1
        batch.last_error = error
        if queue.owner.retired:
            return False  # it moves over, if it may
        if code in LEADER_ERRORS and self.cluster.metadata.leader(*where) not in (-1, answered_by):
            self._not_before.pop(where, None)  # who leads now is known already
            return False
        wait = delay_ms(
            batch.attempts,
            self.config.retry_backoff_ms,
            self.config.retry_backoff_max_ms,
            self.cluster.engine.random.random(),
        )
        self._not_before[where] = self.cluster.engine.now_ms() + wait
        if code in LEADER_ERRORS or code in (LOST, NOT_SENT):
            if batch.attempts == 1:
                self.cluster.hasten()
            self._run("metadata", self._refresh(queue.topic))
        return False

    def _settle_purged(self, queue: PartitionQueue, batch: ProducerBatch, code: int) -> None:
        """A batch came back that was given up in flight: what comes after it may go on."""
        if queue.sequencer.outcome(batch, code, retriable=False) is BatchOutcome.RETRY:
            queue.sequencer.give_up(batch)
        self._unfinished.pop(batch, None)
        self._on_return(queue)

    def _on_return(self, queue: PartitionQueue) -> None:
        """A batch of a partition came back: others may go, by another connection once none is left."""
        if queue.owner.retired:  # what it has moves over; its place is that of another queue now
            return
        where = (queue.topic, queue.partition)
        if not queue.sequencer.in_flight:
            self._in_flight_on.pop(where, None)
        if queue.fresh or queue.sealed or queue.sequencer.retries:
            self._waiting[where] = queue

    def _on_fate(self, queue: PartitionQueue, batch: ProducerBatch, fate: Fate, place: FoundBatch, why: str) -> None:
        """The log has said of a batch in doubt whether, and where, it has it."""
        if queue.owner.retired and fate is not Fate.STORED:
            return  # what was read may be the log of another topic
        verdict = queue.sequencer.settle(batch, fate)
        if verdict is BatchOutcome.DELIVERED:
            self.counters.delivered(queue, batch)
            self._unfinished.pop(batch, None)
            batch.succeed(place.offset, place.log_append_ms)
        elif verdict is BatchOutcome.FAILED:
            self._give_up(batch, batch.last_error or KafkaError(f"{queue.name}: the broker did not take a batch"))
        elif verdict is BatchOutcome.DOUBTFUL:
            problem = KafkaError(
                f"{batch.count} record(s) to {queue.name} were sent, and may or may not be in the log: {why}; last: "
                f"{batch.last_error}"
            )
            self._give_up(batch, problem, in_doubt=True)

    def _divide(self, queue: PartitionQueue, batch: ProducerBatch, refused: Mapping[int, KafkaError]) -> BatchOutcome:
        """Go on with parts of a batch: halves of one that is too large, or all but the refused records."""
        starts = parts_without(batch.count, refused) if refused else [0, (batch.count + 1) // 2]
        try:
            parts = self.accumulator.cut(batch, starts, refused or None)
        except (KafkaError, MemoryError) as error:
            batch.last_error = KafkaError(f"{queue.name}: {error}")
            return queue.sequencer.outcome(batch, NOT_SENT, retriable=True)
        queue.sequencer.replace(batch, parts)
        self.counters.failed(queue, len(refused))
        self._unfinished.pop(batch, None)
        self._unfinished.update(dict.fromkeys(parts))
        return BatchOutcome.DIVIDE

    def _expire(self) -> None:
        """Give up batches older than `delivery_timeout_ms`, unless they are in flight: these come back first."""
        if self.cluster.metadata.errors:
            self._refuse_topics()
        oldest = self.cluster.engine.now_ms() - self.config.delivery_timeout_ms
        for where, queue in list(self._waiting.items()):
            for batch in [b for b in queue.sequencer.retries if b.created_ms < oldest]:
                in_doubt = queue.sequencer.give_up(batch) is BatchOutcome.DOUBTFUL
                fate = "they may or may not be in the log" if in_doubt else "they are not in the log"
                self._give_up(
                    batch,
                    KafkaTimeoutError(
                        f"{batch.count} record(s) to {queue.name} were sent but not acknowledged within "
                        f"delivery_timeout_ms ({self.config.delivery_timeout_ms}): {fate}; last: {batch.last_error}"
                    ),
                    in_doubt=in_doubt,
                )
            fresh = queue.advance()
            while fresh and fresh[0].created_ms < oldest:
                self._drop(fresh.popleft(), self._problem(where))

    def _give_up_waiting(self, where: tuple[str, int], queue: PartitionQueue, error: KafkaError) -> None:
        """Give up what a partition has that is not in flight."""
        for batch in list(queue.sequencer.retries):
            in_doubt = queue.sequencer.give_up(batch) is BatchOutcome.DOUBTFUL
            self._give_up(batch, error, in_doubt=in_doubt)
        fresh = queue.advance()
        while fresh:
            self._give_up(fresh.popleft(), error, numbered=False)
        self._dismiss(where, queue)

    def _refuse(self, error: KafkaError) -> None:
        """No producer id is to be had, and no retry mends that: tell all who wait for one. Later records try again."""
        for queue in self.accumulator.collect(everything=True)[0]:
            self._enlist(queue)
        for where, queue in list(self._waiting.items()):
            if self.identity is None or queue.sequencer.wants_epoch(self.identity):
                self._give_up_waiting(where, queue, error)

    def _refuse_topics(self) -> None:
        """Tell who waits for the leader of a topic that the brokers say nothing of, and never will."""
        for where, queue in list(self._waiting.items()):
            code = self.cluster.metadata.errors.get(where[0], 0)
            error = broker_error(code, f"topic {where[0]!r}")
            if code and not error.retriable and self.cluster.metadata.leader(*where) < 0:
                self._give_up_waiting(where, queue, error)

    def _problem(self, where: tuple[str, int]) -> str:
        topic, partition = where
        code = self.cluster.metadata.errors.get(topic, 0)
        if code:
            return str(broker_error(code, f"topic {topic!r}"))
        if self.cluster.metadata.leader(topic, partition) < 0:
            return "the partition has no leader"
        return self.last_problem or "earlier batches of the partition were in the way"

    def _drop(self, batch: ProducerBatch, why: str) -> None:
        self._give_up(
            batch,
            KafkaTimeoutError(
                f"{batch.count} record(s) to {batch.queue.name} could not be sent within delivery_timeout_ms "
                f"({self.config.delivery_timeout_ms}): {why}"
            ),
            numbered=False,
        )

    # -- what takes several turns

    def _run(self, name: Hashable, coroutine: Any) -> None:
        """Run one of its kind at a time, and look again when it is done."""
        if name in self._tasks or self._stopped:
            coroutine.close()
            return
        task = self._tasks[name] = asyncio.ensure_future(coroutine)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.pop(name, None)
            if task.cancelled() or self._stopped:
                return
            error = task.exception()
            if error is None:
                self._failures = 0
                self.on_wake()
                return
            if not isinstance(error, KafkaError) and str(error) != self.last_problem:
                log.error("kafwire: a task of a producer failed, and is tried again", exc_info=error)
            self.last_problem = str(error)
            if name == "identity" and _is_final(error):
                self._refuse(error)
            self._failures += 1
            wait = delay_ms(
                self._failures,
                self.config.retry_backoff_ms,
                self.config.retry_backoff_max_ms,
                self.cluster.engine.random.random(),
            )
            self._wake_in(wait)

        task.add_done_callback(done)

    async def _refresh(self, topic: str) -> None:
        await self.cluster.refresh([topic])
        for name in self.accumulator.topics:  # a broker may be gone although no topic has changed
            self._take_in(name)

    async def _open(self, connection: BrokerConnection, topic: str) -> None:
        try:
            await connection.open()
        except KafkaError:
            await self.cluster.refresh([topic])
            raise

    async def _get_identity(self) -> None:
        """A producer id for an idempotent producer without transactions (KIP-98)."""
        wait = self._no_identity_before_ms - self.cluster.engine.now_ms()
        if wait > 0:  # records that come after a refusal are not to ask again and again
            await asyncio.sleep(wait / 1000)
        self._refusals += 1
        base, limit = self.config.retry_backoff_ms, self.config.retry_backoff_max_ms
        backoff = delay_ms(self._refusals, base, limit, self.cluster.engine.random.random())
        self._no_identity_before_ms = self.cluster.engine.now_ms() + backoff
        request = protocol.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        try:
            response = await self.cluster.call(request)
        except ProtocolError as error:
            hint = f"there is no producer id: {error.message}; enable_idempotence=False does without"
            raise ProtocolError(hint, api=type(request).__name__) from None
        if response.error_code:
            raise broker_error(response.error_code, "getting a producer id")
        self._refusals = 0
        self._become(Identity(response.producer_id, response.producer_epoch))

    def _become(self, identity: Identity) -> None:
        if self._direct_send is not None:
            self._direct_send.revoke_all()
        self.identity = identity

    async def _next_epoch(self) -> None:
        following = self.identity.next_epoch if self.identity is not None else None
        needs_id = any(s.sequencer.wants_epoch(self.identity) and s.sequencer.needs_id for s in self._waiting.values())
        if following is None or needs_id:
            await self._get_identity()
        else:
            self._become(following)

    # -- metrics

    def metrics(self) -> dict[str, Any]:
        """A snapshot; see `Producer.metrics`."""
        if self._direct_send is not None:
            self._direct_send.count()
        found = self.counters.snapshot(_queued, self.cluster.connections)
        budget = self.accumulator.budget
        found["producer"] |= {
            "buffer_used": budget.used,
            "buffer_memory": budget.limit,
            "waiting_senders": budget.waiting,
        }
        return found

    async def snapshot(self) -> dict[str, Any]:
        """`metrics`, on the engine."""
        return self.metrics()

    # -- ending

    def _all_batches(self) -> list[ProducerBatch]:
        queues = [*self._waiting.values(), *self._retired_queues()]
        return [*self._unfinished, *(batch for queue in queues for batch in (*queue.fresh, *tuple(queue.sealed)))]

    def _retired_queues(self) -> list[PartitionQueue]:
        return [queue for topics in self._retired.values() for topic in topics for queue in topic.queues]

    def drain(self) -> bool:
        """Close all batches and send what may be sent; whether nothing is left that was not acknowledged."""
        if self.accumulator.passes:
            return False
        self._pump(everything=True)
        return not self._all_batches()

    def drop_unsent(self, error: KafkaError) -> bool:
        """Give up all batches but those in flight, which come back first; whether nothing is left."""
        for queue in self.accumulator.collect(everything=True)[0]:
            self._enlist(queue)
        for queue in self._retired_queues():
            for batch in self._take_out(queue):
                self._give_up(batch, error, numbered=batch.attempts > 0)
        for where, queue in list(self._waiting.items()):
            self._give_up_waiting(where, queue, error)
        return not self.accumulator.passes and not self._all_batches()

    async def purge(self, *, in_flight: bool) -> int:
        """Give up what certainly is not in the log; `in_flight`: also what may be. Returns how many records it was.

        A batch on the wire stays with the sequencer, and among the unfinished, until it comes back: what follows it is
        numbered by that, and a transaction does not end before.
        """
        if self._direct_send is not None:
            self._direct_send.revoke_all()
        for queue in self.accumulator.collect(everything=True)[0]:
            self._enlist(queue)
        given_up = 0
        for where, queue in list(self._waiting.items()):
            for batch in list(queue.sequencer.retries):
                if in_flight or not queue.sequencer.is_doubtful(batch):
                    in_doubt = queue.sequencer.give_up(batch) is BatchOutcome.DOUBTFUL
                    given_up += batch.count
                    self._give_up(batch, _purged(batch, "acknowledged" if in_doubt else "sent"), in_doubt=in_doubt)
            buffered = [*queue.advance(), *queue.sealed]  # the latter: threads add rows to them, and hear of it
            queue.fresh.clear()
            queue.sealed.clear()
            for batch in buffered:
                given_up += batch.count
                self._give_up(batch, _purged(batch, "sent"), numbered=False)
            self._dismiss(where, queue)
        for queue in self._retired_queues():
            for batch in self._take_out(queue):
                given_up += batch.count
                self._give_up(batch, _purged(batch, "sent"), numbered=batch.attempts > 0)
        for batch in list(self._unfinished) if in_flight else ():
            if not batch.done and batch in batch.queue.sequencer.in_flight:
                given_up += batch.count
                self._give_up(batch, _purged(batch, "acknowledged"), in_doubt=True)
                self._unfinished[batch] = None
        self.on_wake()
        return given_up

    async def flush(self, timeout_s: float | None = None) -> None:
        """Send everything that was buffered before this call, and wait until its outcome is known.

        Raises `KafkaTimeoutError` after `timeout_s` seconds; what is left is still tried.
        """
        self._pump(everything=True)
        batches = self._all_batches()
        if not batches:
            return
        loop = asyncio.get_running_loop()
        finished: asyncio.Future[None] = loop.create_future()
        left = len(batches)

        def one_done() -> None:
            nonlocal left
            left -= 1
            if left == 0 and not finished.done():
                finished.set_result(None)

        for batch in batches:
            batch.add_done_callback(one_done)
        try:
            async with asyncio.timeout(timeout_s):
                await finished
        except TimeoutError:
            raise KafkaTimeoutError(
                f"not everything was acknowledged within {timeout_s:g} s; it is still tried: "
                f"{undelivered(_counts(batches))}"
            ) from None

    async def close(self, timeout_s: float | None) -> dict[str, int]:
        """Flush for at most `timeout_s` seconds, then give up the rest: how many records, by topic and partition."""
        self.accumulator.budget.close("this producer is closed: make a new one")
        if self.transactions is not None:
            with contextlib.suppress(KafkaError):  # who commits or aborts is told
                await self.transactions.close(timeout_s)
        try:
            with contextlib.suppress(KafkaTimeoutError):
                await self.flush(timeout_s)
        finally:  # an interrupted close closes too
            lost = self._shut()
        return lost

    def _shut(self) -> dict[str, int]:
        self._stopped = True
        if self._reporter is not None:
            self._reporter.stop()
        if self.transactions is not None:
            self.transactions.stop()
        if self._direct_send is not None:
            self._direct_send.stop()
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks.values()):
            task.cancel()
        for queue in self.accumulator.collect(everything=True)[0]:
            self._enlist(queue)
        self.accumulator.end("the producer was closed while rows were added to it: they were not sent")
        lost = [batch for batch in self._all_batches() if not batch.done]
        counts = _counts(lost)
        in_doubt = {b for b in lost if b in self._unfinished and b.queue.sequencer.is_doubtful(b)}
        self.cluster.shut()
        for batch in lost:
            fate = "acknowledged: they may or may not be in the log" if batch in in_doubt else "sent"
            error = KafkaError(
                f"the producer was closed before {batch.count} record(s) to {batch.queue.name} were {fate}"
            )
            batch.fail(doubtful(error) if batch in in_doubt else error)
        self.cluster.engine.transport.unlisten(self.notifier)
        return counts

    def retire(self) -> None:
        """Its user dropped it without a word: see what it was given through, then close."""

        async def close() -> None:
            before = self.counters.records_failed
            await self.close(None)
            failed = self.counters.records_failed - before
            if failed:
                log.warning("kafwire: a producer was dropped and %d record(s) were not delivered: close it", failed)

        if not self._stopped and self._retiring is None:
            self._retiring = asyncio.ensure_future(close())

    async def end(self) -> None:
        """Nobody closed the producer and the interpreter ends: what it was given is not to be lost without a word."""
        if self._stopped:
            return
        lost = await self.close(EXIT_FLUSH_S)
        if lost:
            log.warning(
                "kafwire: the program ended and %s were not acknowledged within %g s: close the producer",
                undelivered(lost),
                EXIT_FLUSH_S,
            )

    def abandon(self) -> None:
        """In a forked child: `send` says so."""
        self.accumulator.budget.closed = FORKED


def _is_final(error: BaseException) -> TypeGuard[KafkaError]:
    """Whether no retry mends an error; one that the broker does not explain may pass."""
    if isinstance(error, BrokerError):
        return not error.retriable and error.code != ErrorCode.UNKNOWN_SERVER_ERROR
    return isinstance(error, ProtocolError)


def _age(batch: ProducerBatch) -> int:
    return batch.created_ms


def _purged(batch: ProducerBatch, what: str) -> PurgedError:
    fate = "they are not in the log" if what == "sent" else "they may or may not be in the log"
    return PurgedError(f"{batch.count} record(s) to {batch.queue.name} were purged before they were {what}: {fate}")


def _counts(batches: Iterable[ProducerBatch]) -> dict[str, int]:
    """The records of those that are not done, by topic and partition."""
    counts: Counter[str] = Counter()
    for batch in batches:
        if not batch.done:
            counts[batch.queue.name] += batch.count
    return dict(counts)


def undelivered(counts: Mapping[str, int]) -> str:
    """How many records, and where, as errors say it."""
    if len(counts) == 1:
        ((name, count),) = counts.items()
        return f"{count} record(s) to {name}"
    named = ", ".join(f"{count} to {name}" for name, count in list(counts.items())[:NAMED_PARTITIONS])
    more = len(counts) - NAMED_PARTITIONS
    return f"{sum(counts.values())} record(s) ({named}{f', and to {more} more partitions' if more > 0 else ''})"


def _queued(queue: PartitionQueue) -> dict[str, Any]:
    """What a partition has waiting, for metrics."""
    sequencer = queue.sequencer  # None: its topic was made anew before anything was sent
    retries, in_flight = (0, 0) if sequencer is None else (len(sequencer.retries), len(sequencer.in_flight))
    return {
        "batches_waiting": len(queue.fresh) + len(queue.sealed) + retries,
        "batches_in_flight": in_flight + (queue.direct_send is not None and queue.direct_send.batch is not None),
    }
