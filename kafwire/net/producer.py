"""The sender: takes closed batches from the accumulator to their leaders, and their outcomes back.

All that arrives in one turn of the engine is handled in that turn, and what it allows to be sent leaves in it: each
turn has to win the GIL from the user's threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from kafwire import protocol
from kafwire._buffer import Buffer
from kafwire._delivery import ProducerBatch
from kafwire._partition import Shares
from kafwire._produce import Accumulator, Sink
from kafwire.config import ProducerConfig
from kafwire.errors import BrokerError, KafkaConnectionError, KafkaError, KafkaTimeoutError, ProtocolError, broker_error
from kafwire.logic.backoff import delay_ms
from kafwire.logic.fetch_plan import MOVED
from kafwire.logic.metadata import NO_TOPIC_ID
from kafwire.logic.partition import Balance, rule_of
from kafwire.logic.sequence import LOST, NOT_SENT, Identity, Sequencer, Verdict
from kafwire.net.cluster import Cluster
from kafwire.net.engine import FORKED
from kafwire.net.express import ExpressWays
from kafwire.net.lane import Lane
from kafwire.net.produce_metrics import ProduceCounters, Reporter
from kafwire.net.produce_request import FIRST_VERSION_WITH_TOPIC_IDS, produce_request
from kafwire.net.refusal import MESSAGE_TOO_LARGE, doubtful, error_of, parts_without, refused_records
from kafwire.net.transactions import Transactions

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
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._failures = 0
        self.last_problem = ""
        self._stopped = False
        self.counters = ProduceCounters()
        self._reporter: Reporter | None = None
        if config.metrics_hook is not None:
            self._reporter = Reporter(config.metrics_hook, config.metrics_interval_ms)
            cluster.engine.start(self._reporter.start, self.metrics)
        self.transactions = None if config.transactional_id is None else Transactions(self, config.transactional_id)
        self._express: ExpressWays | None = None
        if config.linger_ms == 0 and config.acks != 0 and self.transactions is None:
            self._express = ExpressWays(self)
        cluster.on_change(self._on_change)
        cluster.engine.join(self)

    async def learn_topic(self, name: str, timeout_ms: float) -> None:
        """Make a topic's partitions known to the accumulator; waits for one that is being created."""
        await self.cluster.topic(name, timeout_ms=timeout_ms)
        self._take_in(name)

    async def learn_topics(self, names: list[str], timeout_ms: float) -> None:
        """Make all of these known, with one request if they exist."""
        until = self.cluster.engine.now_ms() + timeout_ms
        if len(names) > 1:
            with contextlib.suppress(
                KafkaConnectionError, KafkaTimeoutError, TimeoutError
            ):  # the first of them will see about it
                async with asyncio.timeout(timeout_ms / 1000):
                    await self.cluster.refresh(names)
        for name in names:
            await self.learn_topic(name, max(1.0, until - self.cluster.engine.now_ms()))

    def _on_change(self, names: set[str]) -> None:
        """Topics have new partitions, or other leaders."""
        if self._express is not None:
            self._express.recall_all()
        for name in names & self.accumulator.topics.keys():
            self._take_in(name)

    def _take_in(self, name: str) -> None:
        info = self.cluster.metadata.topics.get(name)
        if info is not None and info.partitions:
            leaders = [self.cluster.metadata.leader(name, partition) for partition in range(max(info.partitions) + 1)]
            self.accumulator.set_topic(name, len(leaders), Shares(*self._balance.lead(name, leaders)))
            if self._topic_ids.setdefault(name, info.topic_id) != info.topic_id:
                if self._express is not None:
                    self._express.recall_all()
                self._topic_ids[name] = info.topic_id
                for sink in self.accumulator.topics[name].sinks:
                    if sink.sequencer is not None:
                        sink.sequencer.forget_broker()

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
            self._run("metadata", self._refresh(next(iter(self.accumulator.topics))))
        if everything and self._express is not None:
            self._express.recall_all()
        ready, wait_ms = self.accumulator.collect(everything=everything)
        for sink in ready:
            self._enlist(sink)
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
        if self._waiting:
            self._wake_in(EXPIRY_CHECK_MS)

    def _enlist(self, sink: Sink) -> None:
        if sink.sequencer is None:
            limit = self.config.max_in_flight_requests_per_connection
            may_move = self.transactions is None
            sink.sequencer = Sequencer(idempotent=self.config.idempotent, limit=limit, may_move=may_move)
        if self._express is not None:
            self._express.recall(sink)
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
        while True:
            requests: dict[Lane, list[tuple[Sink, ProducerBatch]]] = {}
            sizes: dict[Lane, int] = {}
            for where, sink in list(self._waiting.items()):
                lane = self._lane_for(where, now)
                if lane is None or sizes.get(lane, 0) >= self.config.max_request_size:
                    continue
                if self.transactions is not None and not self.transactions.admits(where):
                    continue
                batch = sink.sequencer.send(sink.advance(), self.identity)
                if batch is None:
                    self._dismiss(where, sink)
                    if sink.fresh:  # as much is in flight as may be
                        self._balance.note(lane.node, now, taken=False)
                    continue
                self._balance.note(lane.node, now, taken=True)
                self._unfinished[batch] = None
                self._in_flight_on[where] = lane
                requests.setdefault(lane, []).append((sink, batch))
                sizes[lane] = sizes.get(lane, 0) + batch.size
            if not requests:
                break
            # All of this turn's batches are compressed and stamped in one pass without the GIL.
            try:
                self.accumulator.prepare([batch for group in requests.values() for _, batch in group])
            except (KafkaError, MemoryError) as error:
                for group in requests.values():
                    self._fail(group, error)
                continue
            for lane, group in requests.items():
                try:
                    self._send(lane, group)
                except KafkaConnectionError as error:
                    for sink, batch in group:
                        self._settle(sink, batch, NOT_SENT, error)
                except ProtocolError as error:
                    self._fail(group, error)
        wants_epoch = any(sink.sequencer.wants_epoch(self.identity) for sink in self._waiting.values())
        if wants_epoch and self.transactions is None:
            self._run("identity", self._next_epoch())

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
        """A sink with nothing to send leaves the round; one that waits for an outcome comes back with it."""
        sequencer = sink.sequencer
        if not sink.fresh and not sink.sealed and not sequencer.retries:
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
        self.counters.sent(group, self.cluster.engine.now_ms())

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
        outcomes: dict[tuple[str, int], protocol.ProduceResponse.PartitionProduceResponse] = {}
        if frame is not None:
            try:
                _, response = protocol.decode_response(protocol.ProduceRequest, frame, version)
            except ProtocolError as problem:
                lane.fail(f"the answer to a produce request could not be read: {problem}")
                error = KafkaConnectionError(f"{lane.where} answered with what is not a ProduceResponse: {problem}")
            else:
                lane.note_throttle(response.throttle_time_ms)
                if response.throttle_time_ms > 0 and self._express is not None:
                    self._express.recall_all(lane)
                endpoints = [(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints]
                for topic in response.responses:
                    key = topic.topic_id.bytes if version >= FIRST_VERSION_WITH_TOPIC_IDS else topic.name.encode()
                    name = names.get(key, "")
                    for part in topic.partition_responses:
                        outcomes[name, part.index] = part
                        if part.error_code in MOVED and part.current_leader.leader_id >= 0:
                            self._take_hint(name, part, endpoints)
        for sink, batch in group:
            if frame is None and error is None:  # acks=0: it left this process, more is not to be known
                self._settle(sink, batch, 0, None)
                batch.succeed(-1, -1)
                continue
            outcome = outcomes.get((sink.topic, sink.partition))
            if outcome is None:
                lost = error or KafkaConnectionError(f"{lane.where} did not answer for {sink.name}")
                self._settle(sink, batch, LOST, lost)
                continue
            refusal = error_of(outcome, sink, batch, lane)
            refused: dict[int, KafkaError] = {}
            if refusal is not None and not refusal.retriable and outcome.record_errors:
                refused = refused_records(outcome, sink, batch, lane)
            if self._settle(sink, batch, outcome.error_code, refusal, refused=refused, answered_by=lane.node):
                is_idle = sink.is_empty and (sink.topic, sink.partition) not in self._waiting
                batch.succeed(outcome.base_offset, outcome.log_append_time_ms)
                if self._express is not None and len(group) == 1:
                    self._express.look_at(sink, lane, version, is_idle=is_idle)
        self.on_outcomes()

    def on_outcomes(self) -> None:
        """Batches came back: go on with what waited for that."""
        # Whoever waits for one of these wants the GIL now: no turn without a reason.
        is_wanted = self._waiting or self._balance.uneven or self.accumulator.budget.waiting
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
        retriable = not isinstance(error, BrokerError) or error.retriable
        # A transaction with a refused record cannot be committed: its neighbours need not be saved.
        divisible = 0 < len(refused) < batch.count and self.transactions is None
        divisible = divisible or (code == MESSAGE_TOO_LARGE and batch.count > 1)
        self.counters.refused(sink, error)
        verdict = sink.sequencer.outcome(batch, code, retriable=retriable, divisible=divisible)
        if verdict is Verdict.DIVIDE:
            verdict = self._divide(sink, batch, refused)
        where = (sink.topic, sink.partition)
        if sink.fresh or sink.sealed or sink.sequencer.retries:
            self._waiting[where] = sink
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
        if code in MOVED and self.cluster.metadata.leader(*where) not in (-1, answered_by):
            self._not_before.pop(where, None)  # who leads now is known already
            return False
        wait = delay_ms(batch.attempts, self.config.retry_backoff_ms, self.config.retry_backoff_max_ms, random.random())
        self._not_before[where] = self.cluster.engine.now_ms() + wait
        if code in MOVED or code in (LOST, NOT_SENT):
            self._run("metadata", self._refresh(sink.topic))
        return False

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

    def _run(self, name: str, coroutine: Any) -> None:
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
            self.last_problem = str(error)
            self._failures += 1
            wait = delay_ms(
                self._failures, self.config.retry_backoff_ms, self.config.retry_backoff_max_ms, random.random()
            )
            self._wake_in(wait)

        task.add_done_callback(done)

    async def _refresh(self, topic: str) -> None:
        await asyncio.sleep(self.config.retry_backoff_ms / 1000)
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
        response = await self.cluster.call(
            protocol.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        )
        if response.error_code:
            raise broker_error(response.error_code, "getting a producer id")
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
        waiting = [batch for sink in self._waiting.values() for batch in (*sink.fresh, *tuple(sink.sealed))]
        return [*self._unfinished, *waiting]

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
        for where, sink in list(self._waiting.items()):
            for batch in list(sink.sequencer.retries):
                sink.sequencer.give_up(batch)
                self._give_up(batch, error)
            fresh = sink.advance()
            while fresh:
                self._give_up(fresh.popleft(), error, numbered=False)
            self._dismiss(where, sink)
        return not self.accumulator.passes and not self._all_batches()

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
    sequencer = sink.sequencer
    return {
        "batches_waiting": len(sink.fresh) + len(sink.sealed) + len(sequencer.retries),
        "batches_in_flight": len(sequencer.in_flight) + (sink.express is not None and sink.express.batch is not None),
    }
