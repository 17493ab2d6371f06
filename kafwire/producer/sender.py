"""The sender: takes closed batches from the accumulator to their leaders, and their outcomes back.

All that arrives in one turn of the engine is handled in that turn, and what it allows to be sent leaves in it: each
turn has to win the GIL from the user's threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import random
import uuid
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeGuard

from kafwire import protocol
from kafwire.cluster.backoff import delay_ms
from kafwire.cluster.broker_connection import Lane
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.leader_errors import LEADER_ERRORS
from kafwire.cluster.metadata import NO_TOPIC_ID
from kafwire.config import ProducerConfig
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
from kafwire.producer._accumulator import Accumulator, Sink, Topic
from kafwire.producer._batch import ProducerBatch
from kafwire.producer._partitioner import Shares
from kafwire.producer.direct_send import ExpressWays
from kafwire.producer.errors import MESSAGE_TOO_LARGE, doubtful, error_of, parts_without, refused_records
from kafwire.producer.in_doubt import Doubts
from kafwire.producer.log_search import Place
from kafwire.producer.metrics import ProduceCounters
from kafwire.producer.partitioner import Balance, rule_of
from kafwire.producer.request import FIRST_VERSION_WITH_TOPIC_IDS, produce_request
from kafwire.producer.sequencer import LOST, NOT_SENT, Fate, Identity, Sequencer, Verdict
from kafwire.producer.transaction_manager import Transactions
from kafwire.runtime.engine import FORKED
from kafwire.runtime.metrics_reporter import Reporter

UNKNOWN_SERVER_ERROR = -1
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
        self.cookie = cluster.engine.transport.listen(self.on_wake)
        rule = rule_of(config.partitioner, ignore_keys=config.partitioner_ignore_keys)
        self.accumulator = Accumulator(
            cluster.engine.native,
            self.cookie,
            batch_size=config.batch_size,
            max_request_size=config.max_request_size,
            linger_ms=config.linger_ms,
            buffer_memory=config.buffer_memory,
            compression=config.compression_type,
            level=config.compression_level,
            rule=rule,
            chance=random.getrandbits(64),
            transactional=config.transactional_id is not None,
        )
        self._balance = Balance(timeout_ms=config.partitioner_availability_timeout_ms)
        self._is_adaptive = config.partitioner_adaptive_partitioning_enable and rule.spread == "sticky"
        self.identity: Identity | None = None
        self._waiting: dict[tuple[str, int], Sink] = {}  # sinks with something to send, in the order to be served
        self._in_flight_on: dict[tuple[str, int], Lane] = {}
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
        self._express: ExpressWays | None = None
        if config.linger_ms == 0 and config.acks != 0 and self.transactions is None:
            self._express = ExpressWays(self)
        self._reporter: Reporter | None = None
        if config.metrics_hook is not None:  # the engine may take a snapshot at once: of what is complete
            self._reporter = Reporter(cluster.engine, config.metrics_hook, config.metrics_interval_ms)
            cluster.engine.start(self._reporter.start, self.metrics)
        cluster.on_change(self._on_change)
        cluster.on_overdue(self._leave_hung)
        cluster.engine.join(self)

    async def learn_topics(self, names: list[str], timeout_ms: float) -> None:
        """Make the partitions of topics known to the accumulator; waits for those that are being created."""
        try:
            await self.cluster.topics(names, timeout_ms=timeout_ms, create=self.config.allow_auto_create_topics)
        finally:
            for name in names:
                if name not in self.cluster.metadata.errors:
                    self._take_in(name)

    def _on_change(self, names: set[str]) -> None:
        """Topics have new partitions, or other leaders."""
        if self._express is not None:
            self._express.recall_all()
        for name in names & self.accumulator.topics.keys():
            self._take_in(name)
        for lane in set(self._in_flight_on.values()):
            self._leave_hung(lane)

    def _leave_hung(self, lane: Lane) -> None:
        """Do not wait for a broker that owes an answer for long if another leads a partition in flight there by now.

        Without idempotence that could make duplicates: it waits until the request's time is up.
        """
        if not self.config.idempotent or not lane.is_overdue:
            return
        if any(
            used is lane and self.cluster.metadata.leader(*where) not in (-1, lane.node)
            for where, used in self._in_flight_on.items()
        ):
            lane.fail("the broker hangs, and others lead partitions of its now")

    def _forget_idle(self) -> None:
        """Ask no more for topics that nothing was sent to for `metadata_max_idle_ms`; a record looks them up anew."""
        now = self.cluster.engine.now_ms()
        busy = (
            {batch.sink.topic for batch in self._unfinished}
            | {topic for topic, _ in self._waiting}
            | self._retired.keys()
        )
        for name, topic in list(self.accumulator.topics.items()):
            if name in busy or any(not sink.is_empty or sink.express is not None for sink in topic.sinks):
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
            shares = Shares(*self._balance.lead(name, leaders))
            before = self._topic_ids.get(name, NO_TOPIC_ID)
            self._topic_ids[name] = info.topic_id
            topic = self.accumulator.topics.get(name)
            # Without ids, that there are fewer partitions says so. Topics get their first id when brokers are upgraded.
            is_another = before != info.topic_id and NO_TOPIC_ID not in (before, info.topic_id)
            if topic is not None and (is_another or len(leaders) < len(topic.sinks)):
                self._replace(topic, len(leaders), shares)
            else:
                self.accumulator.set_topic(name, len(leaders), shares)

    # -- topics made anew

    def _replace(self, topic: Topic, partitions: int, shares: Shares) -> None:
        """A topic was made anew: what comes now goes to the new one, and what has come already moves over.

        But not before all that is in flight to the old one came back, and no thread adds rows to it any more: order is
        kept. Until then nothing is sent to the new one.
        """
        log.info(
            "kafwire: topic %r was made anew, with %d partitions; it had %d", topic.name, partitions, len(topic.sinks)
        )
        if self._express is not None:
            self._express.recall_all()
        for sink in topic.sinks:
            where = (sink.topic, sink.partition)
            self._waiting.pop(where, None)
            self._in_flight_on.pop(where, None)
            self._not_before.pop(where, None)
            if sink.sequencer is not None:
                self._sequencers[where] = sink.sequencer
        self.accumulator.replace_topic(topic.name, partitions, shares)
        self._retired.setdefault(topic.name, []).append(topic)

    def _move_over(self) -> None:
        """Have what is in retired topics go on in those that replaced them, as soon as that may be."""
        for name, topics in list(self._retired.items()):
            sinks = [sink for topic in topics for sink in topic.sinks]
            if any(sink.sequencer is not None and sink.sequencer.in_flight for sink in sinks):
                continue
            if any(topic.passes for topic in topics):
                continue
            moved: dict[Sink, list[ProducerBatch]] = {}
            # The oldest first: partitions may have been added, and a key's records have gone to two of them.
            for batch in heapq.merge(*map(self._take_out, sinks), key=_age):
                for to, part in self._place_again(batch):
                    moved.setdefault(to, []).append(part)
            for to, batches in moved.items():
                to.fresh.extendleft(reversed(batches))  # before what has come since
                self._enlist(to)
            del self._retired[name]

    def _take_out(self, sink: Sink) -> list[ProducerBatch]:
        """All batches of a retired topic's sink that are certainly not in its log; those that may be fail."""
        found = []
        for batch in [] if sink.sequencer is None else list(sink.sequencer.retries):
            if sink.sequencer.give_up(batch) is Verdict.DOUBTFUL:
                problem = KafkaError(
                    f"topic {sink.topic!r} was made anew before {batch.count} record(s) to {sink.name} were "
                    f"acknowledged: they may or may not be in the log; last: {batch.last_error}"
                )
                self._give_up(batch, problem, in_doubt=True)
            else:
                self._unfinished.pop(batch, None)
                found.append(batch)
        return found + self.accumulator.empty(sink)

    def _place_again(self, batch: ProducerBatch) -> list[tuple[Sink, ProducerBatch]]:
        try:
            return self.accumulator.place_again(batch)
        except (KafkaError, MemoryError) as error:
            problem = error if isinstance(error, KafkaError) else KafkaError(f"{batch.sink.name}: {error}")
            self._give_up(batch, problem, numbered=batch.attempts > 0)
            return []

    def _weigh(self) -> None:
        """Have what may go anywhere go rather where less waits (KIP-794)."""
        topics = self.accumulator.topics
        backlogs: dict[str, dict[int, int]] = {name: {} for name in self._balance.uneven}
        for (name, partition), sink in self._waiting.items():
            if name not in backlogs and topics[name].sticky < 0:
                continue  # nobody draws
            waiting = len(sink.sequencer.retries) + len(sink.advance())
            if waiting:
                backlogs.setdefault(name, {})[partition] = waiting
        for name, backlog in backlogs.items():
            leader = self.cluster.metadata.leader
            slow = frozenset(p for p in backlog if self._balance.is_slow(leader(name, p)))
            split = self._balance.weigh(name, backlog, slow)
            if split is not None:
                self.accumulator.set_shares(name, Shares(*split))

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
        if everything and self._express is not None:
            self._express.recall_all()
        try:
            ready, wait_ms = self.accumulator.collect(everything=everything)
            for sink in ready:
                self._enlist(sink)
            if self._retired:
                self._move_over()
            self._send_all()
            if self.accumulator.late:  # what was before them may have gone
                ready, wait_ms = self.accumulator.collect()
                for sink in ready:
                    self._enlist(sink)
                if ready:
                    self._send_all()
            if self._is_adaptive:
                self._weigh()
            if wait_ms is not None:
                self._wake_in(wait_ms)
        finally:
            if self._waiting or self._retired:
                self._wake_in(EXPIRY_CHECK_MS)

    def _enlist(self, sink: Sink) -> None:
        if sink.owner.retired:  # a thread that had begun with it adds to it still
            topics = self._retired.setdefault(sink.topic, [])
            if sink.owner not in topics:
                topics.append(sink.owner)
            return
        if sink.topic in self._idle:  # a thread that knew it still has not looked it up
            self._remember(sink.topic)
        if sink.sequencer is None and (sink.topic, sink.partition) in self._sequencers:
            sink.sequencer = self._sequencers.pop((sink.topic, sink.partition)).anew()
        if sink.sequencer is None:
            limit = self.config.max_in_flight_requests_per_connection
            may_move = self.transactions is None
            sink.sequencer = Sequencer(idempotent=self.config.idempotent, limit=limit, may_move=may_move)
        if self._express is not None:
            self._express.recall(sink)
        self._used_ms[sink.topic] = self.cluster.engine.now_ms()
        self._waiting[sink.topic, sink.partition] = sink

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
        """Send all that may go: request after request until no sink has a batch that may be sent."""
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
        wants_epoch = any(sink.sequencer.wants_epoch(self.identity) for sink in self._waiting.values())
        if wants_epoch and self.transactions is None:
            self._run("identity", self._next_epoch())

    def _send_some(self, now: float) -> bool:
        """Send a batch of each sink that may; False: there was none.

        Whatever is raised on the way, the batches that were taken and not handed over are settled.
        """
        requests: dict[Lane, list[tuple[Sink, ProducerBatch]]] = {}
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
            for lane in list(requests):
                group = requests[lane]
                try:
                    self._send(lane, group)
                except KafkaConnectionError as error:
                    for sink, batch in requests.pop(lane):
                        self._settle(sink, batch, NOT_SENT, error)
                except ProtocolError as error:
                    self._fail(requests.pop(lane), error)
                else:
                    del requests[lane]
                    self.counters.sent(group, self.cluster.engine.now_ms())
        except Exception as error:
            log.exception("kafwire: batches could not be sent")
            for group in requests.values():
                for sink, batch in group:
                    self._settle(sink, batch, NOT_SENT, KafkaError(f"{sink.name}: {type(error).__name__}: {error}"))
            return False
        return True

    def _take(self, requests: dict[Lane, list[tuple[Sink, ProducerBatch]]], now: float) -> None:
        """Take the next batch of each sink that may send one, by the lanes to send them on."""
        sizes: dict[Lane, int] = {}
        for where, sink in list(self._waiting.items()):
            if where[0] in self._retired:
                continue
            lane = self._lane_for(where, now)
            if lane is None or sizes.get(lane, 0) >= self.config.max_request_size:
                continue
            if self.transactions is not None and not self.transactions.admits(where):
                continue
            batch = sink.sequencer.send(sink.advance(), self.identity, lane.connection)
            if batch is None:
                self._dismiss(where, sink)
                if sink.sequencer.doubts:
                    self._doubts.note(lane.node, sink)
                if sink.fresh:  # as much is in flight as may be
                    self._balance.note(lane.node, now, taken=False)
                continue
            requests.setdefault(lane, []).append((sink, batch))
            sizes[lane] = sizes.get(lane, 0) + batch.size
            self._unfinished[batch] = None
            self._in_flight_on[where] = lane
            self._balance.note(lane.node, now, taken=True)

    def _fail(self, group: list[tuple[Sink, ProducerBatch]], error: Exception) -> None:
        """These batches can never be sent."""
        for sink, batch in group:
            verdict = sink.sequencer.outcome(batch, NOT_SENT, retriable=False)
            problem = error if isinstance(error, KafkaError) else KafkaError(f"{sink.name}: {error}")
            self._give_up(batch, problem, in_doubt=verdict is Verdict.DOUBTFUL)

    def _give_up(
        self, batch: ProducerBatch, error: KafkaError, *, in_doubt: bool = False, numbered: bool = True
    ) -> None:
        """A batch fails; `in_doubt`: it may be in the log; `numbered`: it had got a sequence number."""
        self._unfinished.pop(batch, None)
        self.counters.failed(batch.sink, batch.count)
        batch.fail(doubtful(error) if in_doubt else error)
        if self.transactions is not None:
            self.transactions.batch_failed(error, numbered=numbered)

    def _dismiss(self, where: tuple[str, int], sink: Sink) -> None:
        """A sink with nothing to send leaves the round; one that waits for an outcome comes back with it.

        One whose next batch a thread still fills is told of by that thread, when it gives the batch back closed.
        """
        sequencer = sink.sequencer
        if not sink.fresh and not sequencer.retries:
            del self._waiting[where]
            if not sequencer.in_flight:
                self._in_flight_on.pop(where, None)

    def _lane_for(self, where: tuple[str, int], now: float) -> Lane | None:
        """The leader's produce lane if something may be sent on it now; sets off what is missing for that."""
        not_before = self._not_before.get(where, 0.0)
        if not_before > now:
            self._wake_in(not_before - now)
            return None
        topic, partition = where
        leader = self.cluster.metadata.leader(topic, partition)
        if leader < 0:
            self._run("metadata", self._refresh(topic))
            return None
        lane = self.cluster.lane(leader, "produce")
        if not lane.is_ready:
            self._balance.note(leader, now, taken=False)
            self._run(f"open {leader}", self._open(lane, topic))
            return None
        if lane.muted_until_ms > now:
            self._balance.note(leader, now, taken=False)
            self._wake_in(lane.muted_until_ms - now)
            return None
        # Batches in flight to an old leader settle before any goes to the new one.
        before = self._in_flight_on.get(where)
        sink = self._waiting[where]
        return None if before is not None and before is not lane and sink.sequencer.in_flight else lane

    def _send(self, lane: Lane, group: list[tuple[Sink, ProducerBatch]]) -> None:
        config = self.config
        ids = [self.cluster.metadata.topics[sink.topic].topic_id for sink, _ in group]
        at_most = FIRST_VERSION_WITH_TOPIC_IDS - 1 if NO_TOPIC_ID in ids else None
        if self.transactions is None:
            version = lane.version_of(protocol.ProduceRequest, at_most=at_most)
        else:
            version = self.transactions.produce_version(lane, at_most)
        correlation_id = lane.next_correlation_id()
        names = {
            sink.topic: (topic_id.bytes if version >= FIRST_VERSION_WITH_TOPIC_IDS else sink.topic.encode())
            for (sink, _), topic_id in zip(group, ids, strict=True)
        }
        head = protocol.encode_request_header(protocol.ProduceRequest, version, correlation_id, config.client_id)
        segments = produce_request(
            head, version, config.acks, config.request_timeout_ms, group, names, config.transactional_id
        )
        by_name = {name: topic for topic, name in names.items()}

        def answered(frame: Buffer | None, error: KafkaError | None) -> None:
            self.on_answer(lane, version, group, by_name, frame, error)

        lane.send(
            correlation_id,
            segments,
            answered,
            expect_response=config.acks != 0,
            timeout_ms=config.request_timeout_ms,
        )

    # -- outcomes

    def on_answer(
        self,
        lane: Lane,
        version: int,
        group: list[tuple[Sink, ProducerBatch]],
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
                retired = {sink.topic for sink, _ in group if sink.owner.retired}
                self._read_answer(lane, version, names, frame, outcomes, retired)
            except Exception as problem:
                if not isinstance(problem, ProtocolError):
                    log.exception("kafwire: an answer of %s could not be handled", lane.where)
                lane.fail(f"the answer to a produce request could not be read: {problem}")
                error = KafkaConnectionError(f"{lane.where} answered with what is not a ProduceResponse: {problem}")
        for sink, batch in group:
            try:
                if frame is None and error is None:  # acks=0: it left this process, more is not to be known
                    self._settle(sink, batch, 0, None)
                    batch.succeed(-1, -1)
                    continue
                outcome = outcomes.get((sink.topic, sink.partition))
                if outcome is None:
                    lost = error or KafkaConnectionError(f"{lane.where} did not answer for {sink.name}")
                    self._settle(sink, batch, LOST, lost)
                    continue
                if batch.done:  # purged: only its numbers matter
                    self._settle(sink, batch, outcome.error_code, None)
                    continue
                refusal = error_of(outcome, sink, batch, lane)
                refused: dict[int, KafkaError] = {}
                if refusal is not None and not refusal.retriable and outcome.record_errors:
                    refused = refused_records(outcome, sink, batch, lane)
                if self._settle(sink, batch, outcome.error_code, refusal, refused=refused, answered_by=lane.node):
                    is_idle = sink.is_empty and (sink.topic, sink.partition) not in self._waiting
                    batch.succeed(outcome.base_offset, outcome.log_append_time_ms)
                    if outcome.base_offset >= 0:
                        end = outcome.base_offset + batch.count
                        leader_epoch = self.cluster.metadata.leader_epoch(sink.topic, sink.partition)
                        sink.sequencer.acknowledged(batch.ordinal, end, leader_epoch)
                    if self._express is not None and len(group) == 1:
                        self._express.look_at(sink, lane, version, is_idle=is_idle)
            except Exception as problem:
                log.exception("kafwire: what became of a batch of %s could not be handled", sink.name)
                self._let_go(sink, batch, problem)
        self.on_outcomes()

    def _read_answer(
        self,
        lane: Lane,
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
        lane.note_throttle(response.throttle_time_ms)
        if response.throttle_time_ms > 0 and self._express is not None:
            self._express.recall_all(lane)
        endpoints = [(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints]
        for topic in response.responses:
            key = topic.topic_id.bytes if version >= FIRST_VERSION_WITH_TOPIC_IDS else topic.name.encode()
            name = names.get(key, "")
            for part in topic.partition_responses:
                outcomes[name, part.index] = part
                if part.error_code in LEADER_ERRORS and part.current_leader.leader_id >= 0 and name not in retired:
                    self._take_hint(name, part, endpoints)

    def _let_go(self, sink: Sink, batch: ProducerBatch, problem: Exception) -> None:
        """A defect: nobody may wait for ever because of it."""
        if batch.done or batch in sink.sequencer.retries:
            return
        if batch in sink.sequencer.in_flight:
            sink.sequencer.outcome(batch, LOST, retriable=False)
        self._give_up(batch, KafkaError(f"{sink.name}: {type(problem).__name__}: {problem}"), in_doubt=True)

    def on_outcomes(self) -> None:
        """Batches came back: go on with what waited for that."""
        # Whoever waits for one of these wants the GIL now: no turn without a reason.
        is_wanted = self._waiting or self._retired or self._balance.uneven or self.accumulator.budget.waiting
        if is_wanted or self.transactions is not None:
            self.on_wake()

    def take_over(self, sink: Sink, batch: ProducerBatch, lane: Lane) -> None:
        """A batch that is in flight on `lane`, sent by somebody else, is this sender's from now on."""
        self._unfinished[batch] = None
        self._in_flight_on[sink.topic, sink.partition] = lane

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
        sink: Sink,
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
            self._settle_purged(sink, batch, code)
            return False
        retriable = not isinstance(error, BrokerError) or error.retriable
        # A transaction with a refused record cannot be committed: its neighbours need not be saved.
        divisible = 0 < len(refused) < batch.count and self.transactions is None
        divisible = divisible or (code == MESSAGE_TOO_LARGE and batch.count > 1)
        self.counters.refused(sink, error)
        verdict = sink.sequencer.outcome(batch, code, retriable=retriable, divisible=divisible)
        if verdict is Verdict.DIVIDE:
            verdict = self._divide(sink, batch, refused)
        where = (sink.topic, sink.partition)
        self._on_return(sink)
        if verdict is Verdict.DELIVERED:
            self.counters.delivered(sink, batch)
            self._unfinished.pop(batch, None)
            self._failures = 0
            return True
        if verdict is Verdict.DIVIDE:
            return False
        if verdict is not Verdict.RETRY:
            in_doubt = verdict is Verdict.DOUBTFUL
            if len(refused) == batch.count and not in_doubt:
                with contextlib.suppress(KafkaError, MemoryError):
                    self.accumulator.cut(batch, list(range(batch.count)), refused)
            self._give_up(batch, error or KafkaError(f"{sink.name}: error {code}"), in_doubt=in_doubt)
            return False
        batch.attempts += 1
        batch.last_error = error
        if sink.owner.retired:
            return False  # it moves over, if it may
        if code in LEADER_ERRORS and self.cluster.metadata.leader(*where) not in (-1, answered_by):
            self._not_before.pop(where, None)  # who leads now is known already
            return False
        wait = delay_ms(batch.attempts, self.config.retry_backoff_ms, self.config.retry_backoff_max_ms, random.random())
        self._not_before[where] = self.cluster.engine.now_ms() + wait
        if code in LEADER_ERRORS or code in (LOST, NOT_SENT):
            if batch.attempts == 1:
                self.cluster.hasten()
            self._run("metadata", self._refresh(sink.topic))
        return False

    def _settle_purged(self, sink: Sink, batch: ProducerBatch, code: int) -> None:
        """A batch came back that was given up in flight: what comes after it may go on."""
        if sink.sequencer.outcome(batch, code, retriable=False) is Verdict.RETRY:
            sink.sequencer.give_up(batch)
        self._unfinished.pop(batch, None)
        self._on_return(sink)

    def _on_return(self, sink: Sink) -> None:
        """A batch of a partition came back: others may go, by another lane once none is left."""
        if sink.owner.retired:  # what it has moves over; its place is that of another sink now
            return
        where = (sink.topic, sink.partition)
        if not sink.sequencer.in_flight:
            self._in_flight_on.pop(where, None)
        if sink.fresh or sink.sealed or sink.sequencer.retries:
            self._waiting[where] = sink

    def _on_fate(self, sink: Sink, batch: ProducerBatch, fate: Fate, place: Place, why: str) -> None:
        """The log has said of a batch in doubt whether, and where, it has it."""
        if sink.owner.retired and fate is not Fate.STORED:
            return  # what was read may be the log of another topic
        verdict = sink.sequencer.settle(batch, fate)
        if verdict is Verdict.DELIVERED:
            self.counters.delivered(sink, batch)
            self._unfinished.pop(batch, None)
            batch.succeed(place.offset, place.log_append_ms)
        elif verdict is Verdict.FAILED:
            self._give_up(batch, batch.last_error or KafkaError(f"{sink.name}: the broker did not take a batch"))
        elif verdict is Verdict.DOUBTFUL:
            problem = KafkaError(
                f"{batch.count} record(s) to {sink.name} were sent, and may or may not be in the log: {why}; last: "
                f"{batch.last_error}"
            )
            self._give_up(batch, problem, in_doubt=True)

    def _divide(self, sink: Sink, batch: ProducerBatch, refused: Mapping[int, KafkaError]) -> Verdict:
        """Go on with parts of a batch: halves of one that is too large, or all but the refused records."""
        starts = parts_without(batch.count, refused) if refused else [0, (batch.count + 1) // 2]
        try:
            parts = self.accumulator.cut(batch, starts, refused or None)
        except (KafkaError, MemoryError) as error:
            batch.last_error = KafkaError(f"{sink.name}: {error}")
            return sink.sequencer.outcome(batch, NOT_SENT, retriable=True)
        sink.sequencer.replace(batch, parts)
        self.counters.failed(sink, len(refused))
        self._unfinished.pop(batch, None)
        self._unfinished.update(dict.fromkeys(parts))
        return Verdict.DIVIDE

    def _expire(self) -> None:
        """Give up batches older than `delivery_timeout_ms`, unless they are in flight: these come back first."""
        if self.cluster.metadata.errors:
            self._refuse_topics()
        oldest = self.cluster.engine.now_ms() - self.config.delivery_timeout_ms
        for where, sink in list(self._waiting.items()):
            for batch in [b for b in sink.sequencer.retries if b.created_ms < oldest]:
                in_doubt = sink.sequencer.give_up(batch) is Verdict.DOUBTFUL
                fate = "they may or may not be in the log" if in_doubt else "they are not in the log"
                self._give_up(
                    batch,
                    KafkaTimeoutError(
                        f"{batch.count} record(s) to {sink.name} were sent but not acknowledged within "
                        f"delivery_timeout_ms ({self.config.delivery_timeout_ms}): {fate}; last: {batch.last_error}"
                    ),
                    in_doubt=in_doubt,
                )
            fresh = sink.advance()
            while fresh and fresh[0].created_ms < oldest:
                self._drop(fresh.popleft(), self._problem(where))

    def _give_up_waiting(self, where: tuple[str, int], sink: Sink, error: KafkaError) -> None:
        """Give up what a partition has that is not in flight."""
        for batch in list(sink.sequencer.retries):
            in_doubt = sink.sequencer.give_up(batch) is Verdict.DOUBTFUL
            self._give_up(batch, error, in_doubt=in_doubt)
        fresh = sink.advance()
        while fresh:
            self._give_up(fresh.popleft(), error, numbered=False)
        self._dismiss(where, sink)

    def _refuse(self, error: KafkaError) -> None:
        """No producer id is to be had, and no retry mends that: tell all who wait for one. Later records try again."""
        for sink in self.accumulator.collect(everything=True)[0]:
            self._enlist(sink)
        for where, sink in list(self._waiting.items()):
            if self.identity is None or sink.sequencer.wants_epoch(self.identity):
                self._give_up_waiting(where, sink, error)

    def _refuse_topics(self) -> None:
        """Tell who waits for the leader of a topic that the brokers say nothing of, and never will."""
        for where, sink in list(self._waiting.items()):
            code = self.cluster.metadata.errors.get(where[0], 0)
            error = broker_error(code, f"topic {where[0]!r}")
            if code and not error.retriable and self.cluster.metadata.leader(*where) < 0:
                self._give_up_waiting(where, sink, error)

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
                f"{batch.count} record(s) to {batch.sink.name} could not be sent within delivery_timeout_ms "
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
                self._failures, self.config.retry_backoff_ms, self.config.retry_backoff_max_ms, random.random()
            )
            self._wake_in(wait)

        task.add_done_callback(done)

    async def _refresh(self, topic: str) -> None:
        await self.cluster.refresh([topic])
        for name in self.accumulator.topics:  # a broker may be gone although no topic has changed
            self._take_in(name)

    async def _open(self, lane: Lane, topic: str) -> None:
        try:
            await lane.open()
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
        backoff = delay_ms(self._refusals, base, limit, random.random())
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
        if self._express is not None:
            self._express.recall_all()
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
        if self._express is not None:
            self._express.count()
        found = self.counters.snapshot(_queued, self.cluster.lanes)
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
        sinks = [*self._waiting.values(), *self._retired_sinks()]
        return [*self._unfinished, *(batch for sink in sinks for batch in (*sink.fresh, *tuple(sink.sealed)))]

    def _retired_sinks(self) -> list[Sink]:
        return [sink for topics in self._retired.values() for topic in topics for sink in topic.sinks]

    def drain(self) -> bool:
        """Close all batches and send what may be sent; whether nothing is left that was not acknowledged."""
        if self.accumulator.passes:
            return False
        self._pump(everything=True)
        return not self._all_batches()

    def drop_unsent(self, error: KafkaError) -> bool:
        """Give up all batches but those in flight, which come back first; whether nothing is left."""
        for sink in self.accumulator.collect(everything=True)[0]:
            self._enlist(sink)
        for sink in self._retired_sinks():
            for batch in self._take_out(sink):
                self._give_up(batch, error, numbered=batch.attempts > 0)
        for where, sink in list(self._waiting.items()):
            self._give_up_waiting(where, sink, error)
        return not self.accumulator.passes and not self._all_batches()

    async def purge(self, *, in_flight: bool) -> int:
        """Give up what certainly is not in the log; `in_flight`: also what may be. Returns how many records it was.

        A batch on the wire stays with the sequencer, and among the unfinished, until it comes back: what follows it is
        numbered by that, and a transaction does not end before.
        """
        if self._express is not None:
            self._express.recall_all()
        for sink in self.accumulator.collect(everything=True)[0]:
            self._enlist(sink)
        given_up = 0
        for where, sink in list(self._waiting.items()):
            for batch in list(sink.sequencer.retries):
                if in_flight or not sink.sequencer.is_doubtful(batch):
                    in_doubt = sink.sequencer.give_up(batch) is Verdict.DOUBTFUL
                    given_up += batch.count
                    self._give_up(batch, _purged(batch, "acknowledged" if in_doubt else "sent"), in_doubt=in_doubt)
            buffered = [*sink.advance(), *sink.sealed]  # the latter: threads add rows to them, and hear of it
            sink.fresh.clear()
            sink.sealed.clear()
            for batch in buffered:
                given_up += batch.count
                self._give_up(batch, _purged(batch, "sent"), numbered=False)
            self._dismiss(where, sink)
        for sink in self._retired_sinks():
            for batch in self._take_out(sink):
                given_up += batch.count
                self._give_up(batch, _purged(batch, "sent"), numbered=batch.attempts > 0)
        for batch in list(self._unfinished) if in_flight else ():
            if not batch.done and batch in batch.sink.sequencer.in_flight:
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
        if self._express is not None:
            self._express.stop()
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks.values()):
            task.cancel()
        for sink in self.accumulator.collect(everything=True)[0]:
            self._enlist(sink)
        self.accumulator.end("the producer was closed while rows were added to it: they were not sent")
        lost = [batch for batch in self._all_batches() if not batch.done]
        counts = _counts(lost)
        in_doubt = {b for b in lost if b in self._unfinished and b.sink.sequencer.is_doubtful(b)}
        self.cluster.shut()
        for batch in lost:
            fate = "acknowledged: they may or may not be in the log" if batch in in_doubt else "sent"
            error = KafkaError(
                f"the producer was closed before {batch.count} record(s) to {batch.sink.name} were {fate}"
            )
            batch.fail(doubtful(error) if batch in in_doubt else error)
        self.cluster.engine.transport.unlisten(self.cookie)
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
        return not error.retriable and error.code != UNKNOWN_SERVER_ERROR
    return isinstance(error, ProtocolError)


def _age(batch: ProducerBatch) -> int:
    return batch.created_ms


def _purged(batch: ProducerBatch, what: str) -> PurgedError:
    fate = "they are not in the log" if what == "sent" else "they may or may not be in the log"
    return PurgedError(f"{batch.count} record(s) to {batch.sink.name} were purged before they were {what}: {fate}")


def _counts(batches: Iterable[ProducerBatch]) -> dict[str, int]:
    """The records of those that are not done, by topic and partition."""
    counts: Counter[str] = Counter()
    for batch in batches:
        if not batch.done:
            counts[batch.sink.name] += batch.count
    return dict(counts)


def undelivered(counts: Mapping[str, int]) -> str:
    """How many records, and where, as errors say it."""
    if len(counts) == 1:
        ((name, count),) = counts.items()
        return f"{count} record(s) to {name}"
    named = ", ".join(f"{count} to {name}" for name, count in list(counts.items())[:NAMED_PARTITIONS])
    more = len(counts) - NAMED_PARTITIONS
    return f"{sum(counts.values())} record(s) ({named}{f', and to {more} more partitions' if more > 0 else ''})"


def _queued(sink: Sink) -> dict[str, Any]:
    """What a partition has waiting, for metrics."""
    sequencer = sink.sequencer  # None: its topic was made anew before anything was sent
    retries, in_flight = (0, 0) if sequencer is None else (len(sequencer.retries), len(sequencer.in_flight))
    return {
        "batches_waiting": len(sink.fresh) + len(sink.sealed) + retries,
        "batches_in_flight": in_flight + (sink.express is not None and sink.express.batch is not None),
    }
