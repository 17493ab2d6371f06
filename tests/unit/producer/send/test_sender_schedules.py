"""`producer.send.sender`: random schedules of what brokers, connections and topics do while records are sent.

    KAFWIRE_EXAMPLES=50 KAFWIRE_SEED=7 pytest tests/unit/producer/send/test_sender_schedules.py

A schedule prints its seed. Whatever happens: nothing hangs; nothing is stored twice, or out of order; a delivered
record is at the reported place; a record that failed, and is not in doubt, is in no log; the memory is given back; and
nothing is raised that is only logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from kafwire.broker.topics.topics import Topic
from kafwire.errors import ConfigError, ErrorCode, KafkaError
from kafwire.testing.simulation.calls import HANGUP, NEVER, Call
from tests.support import seeds
from tests.support.simulated.producer import Work, errors, values
from tests.support.simulated.world import World

SCHEDULES = seeds.examples(80)
BROKERS = 3
RECORDS = 80
TROUBLE_MS = 60_000
# REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND, KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE
CODES = [ErrorCode.NOT_LEADER_OR_FOLLOWER, 7, 19, 20, 56, 2]
AFTER_STORING = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    7,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
}  # a leader may have stored a batch with this error


@dataclass
class Schedule:
    """One run: a producer, and all that happens to it."""

    seed: int
    moves: bool = False  # brokers come to listen elsewhere
    recreates: bool = False  # topics, with any number of partitions
    lags: bool = False  # brokers respond with old metadata
    forgets: bool = False  # brokers restart, and remember few batches of each producer
    purges: bool = False  # the user purges waiting batches, or those in flight too
    slow: bool = False  # brokers take up to longer than a request may
    hints: bool = False  # a broker that does not lead a partition names the leader (KIP-951)
    idles: bool = False  # topics without a record for a moment are forgotten
    sent: list[tuple[bytes, object, Any]] = field(default_factory=list)  # (value, key or partition, delivery)
    topics: list[Topic] = field(default_factory=list)  # each that there has been

    def run(self) -> None:
        self.chance = random.Random(self.seed)
        with World(brokers=BROKERS, seed=self.seed) as world:
            self.world = world
            self.began_ms = world.engine.now_ms()
            self.grows = self.chance.random() < 0.5
            self.topics.append(world.create_topic("t", partitions=self.chance.randint(1, 5), replicas=BROKERS))
            self.by_name = self.chance.random() < 0.2
            if self.by_name:  # topics go by name, not by id
                for node in world.nodes.values():
                    node.versions["Produce"] = (3, 12)
            world.on("Produce", self.trouble)
            world.create_topic("busy")
            self.work = Work(
                world,
                "t",
                "busy",
                batch_size=self.chance.choice([1, 100, 200, 1000]),
                linger_ms=self.chance.choice([0, 5]),
                request_timeout_ms=2_000,
                delivery_timeout_ms=self.chance.choice([5_000, 10_000_000]),
                compression_type=self.chance.choice(["none", "lz4"]),
                **({"metadata_max_age_ms": 1_000, "metadata_max_idle_ms": 5_000} if self.idles else {}),
            )
            for value in values(RECORDS):
                self.send(value)
                if self.chance.random() < 0.3:
                    world.pass_time(self.chance.choice([0.001, 0.01, 0.5]))
                if self.chance.random() < 0.15:
                    self.disturb()
                if self.idles and self.chance.random() < 0.1:
                    self.forget_topic()
            for number in world.nodes:
                world.catch_up(number)
            world.run(self.work.core.flush(3_000.0))
            world.pass_time(10)  # a batch purged in flight comes back
            self.judge()

    def send(self, value: bytes) -> None:
        chance = self.chance
        by_key = chance.random() < 0.5
        key = b"k%d" % chance.randrange(6) if by_key else None
        if "t" not in self.work.accumulator.topics:  # as a thread does that does not know it any more
            self.world.run(self.work.core.ensure_metadata(["t"], 60_000))
        partition = None if by_key else chance.randrange(len(self.work.accumulator.topics["t"].queues))
        try:
            delivery = self.work.send("t", value, key=key, partition=partition)
        except ConfigError:  # it is gone since
            return
        self.sent.append((value, key if by_key else partition, delivery))

    def trouble(self, call: Call) -> Any:
        """The fate of a request to write."""
        event = self.chance.random()
        if self.world.engine.now_ms() > self.began_ms + TROUBLE_MS or event >= 0.34:
            if self.slow and event > 0.8:
                return self.respond_late(call, self.chance.choice([0.05, 0.5, 1.9, 3.0]))
            return self.hinted(call) if self.hints else None
        if event < 0.06:
            return HANGUP
        if event < 0.12:
            self.world.serve(call)
            return HANGUP
        if event < 0.20:
            code = self.chance.choice(CODES)
            if code in AFTER_STORING and (
                code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND or self.chance.random() < 0.5
            ):
                self.world.serve(call)
            return errors(code)(call)
        if event < 0.26:
            self.move_leader()
            return None
        if event < 0.30:
            return NEVER
        self.world.serve(call)
        return NEVER

    async def respond_late(self, call: Call, seconds: float) -> Any:
        if self.chance.random() < 0.5:
            await asyncio.sleep(seconds)
            return self.hinted(call)
        response = self.hinted(call)
        await asyncio.sleep(seconds)
        return response

    def hinted(self, call: Call) -> Any:
        response = self.world.serve(call)
        if not self.hints or call.version < 10:
            return response
        for topic in response.responses:
            known = self.world.state.topics.find(topic.name, topic.topic_id)
            for part in topic.partition_responses:
                if part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and known is not None:
                    log = known.partitions[part.index]
                    part.current_leader.leader_id, part.current_leader.leader_epoch = log.leader, log.leader_epoch
                    node = self.world.nodes[log.leader]
                    response.node_endpoints = [
                        *response.node_endpoints,
                        response.NodeEndpoint(node_id=node.number, host=node.host, port=node.port),
                    ]
        return response

    def disturb(self) -> None:
        """Something else happens."""
        possible: list[Callable[[], object]] = [self.move_leader, self.break_off]
        possible += [self.add_partition] * self.grows
        possible += [self.move_broker] * 3 * self.moves
        possible += [self.recreate] * self.recreates
        possible += [self.lag, self.catch_up] * 2 * self.lags
        possible += [self.forget] * 3 * self.forgets
        possible += [self.purge] * 2 * self.purges
        self.chance.choice(possible)()
        if self.chance.random() < 0.5:
            with contextlib.suppress(KafkaError):  # a broker hung up
                self.world.run(self.work.cluster.refresh())

    def node(self) -> int:
        return self.chance.randint(1, BROKERS)

    def move_leader(self) -> None:
        self.world.move_leader("t", self.chance.randrange(len(self.world.topics["t"].partitions)), self.node())

    def break_off(self) -> None:
        self.world.break_connections(self.node())

    def move_broker(self) -> None:
        """Another address, unless the client would then have no address with a broker, and could never find one."""
        moved = self.node()
        known = {(broker.host, broker.port) for broker in self.work.cluster.metadata.brokers.values()}
        known.update(self.work.config.bootstrap_servers)
        if any((node.host, node.port) in known for node in self.world.nodes.values() if node.number != moved):
            self.world.move_broker(moved)

    def add_partition(self) -> None:
        if len(self.world.topics["t"].partitions) < 8:
            self.world.add_partitions("t", 1, replicas=BROKERS)

    def recreate(self) -> None:
        partitions = self.chance.randint(1, 6)
        self.topics.append(self.world.create_topic("t", partitions=partitions, replicas=BROKERS))

    def lag(self) -> None:
        self.world.lag(self.node())

    def catch_up(self) -> None:
        self.world.catch_up(self.node())

    def forget(self) -> None:
        node = self.node()
        self.world.forget_producers(node, self.chance.choice([0, 1, 5]))
        self.world.break_connections(node)

    def forget_topic(self) -> None:
        """Only another one is used for a while."""
        for _ in range(self.chance.choice([2, 8])):
            self.work.send("busy", b"v")
            self.world.pass_time(1.1)

    def purge(self) -> None:
        self.world.run(self.work.core.purge(in_flight=self.chance.random() < 0.5))

    def judge(self) -> None:
        logs = [[log.values() for log in topic.partitions] for topic in self.topics]
        by_topic = [[value for log in topic for value in log] for topic in logs]
        stored = [value for one in by_topic for value in one]
        # A request in flight as its topic is recreated reaches the new topic if it has the name alone.
        for once in by_topic if self.by_name else [stored]:
            assert len(once) == len(set(once)), f"stored twice: {[v for v in once if once.count(v) > 1]}"
        sources: dict[object, list[bytes]] = {}
        for value, source, delivery in self.sent:
            assert delivery.done(), f"{value!r} hangs"
            sources.setdefault(source, []).append(value)
            error = delivery.exception(0)
            if error is None:
                meta = delivery.result(0)
                if meta.offset >= 0:
                    places = [topic[meta.partition] for topic in logs if meta.partition < len(topic)]
                    there = [log[meta.offset] for log in places if meta.offset < len(log)]
                    assert value in there, f"{value!r} is not at its reported place"
                else:
                    assert value in stored, f"{value!r} is nowhere"
            elif not error.in_doubt:
                assert value not in stored, f"{value!r} was reported as not in the log: {error}"
        for source, expected in sources.items():
            if isinstance(source, bytes) and self.grows and len(self.topics) > 1:
                continue  # with more partitions a key goes elsewhere, and then meets what came before
            for log in (log for topic in logs for log in topic):
                found = [value for value in log if value in set(expected)]
                assert found == sorted(found), f"out of order of {source!r}: {found}"
        assert self.work.used == 0
        assert not self.work.core.sender.outcomes.sent
        assert not self.work.core.sender._backlog.deleted


KINDS: dict[str, Callable[[int], Schedule]] = {
    "nothing more": Schedule,
    "brokers move": lambda seed: Schedule(seed, moves=True),
    "topics recreated": lambda seed: Schedule(seed, recreates=True),
    "topics recreated, brokers lag": lambda seed: Schedule(seed, recreates=True, lags=True),
    "brokers forget": lambda seed: Schedule(seed, forgets=True),
    "everything": lambda seed: Schedule(seed, moves=True, recreates=True, lags=True, forgets=True),
    "the user purges": lambda seed: Schedule(seed, purges=True, slow=True),
    "slow, with hints": lambda seed: Schedule(seed, slow=True, hints=True, moves=True),
    "topics are forgotten": lambda seed: Schedule(seed, idles=True, slow=True, hints=True),
    "everything and more": lambda seed: Schedule(
        seed, True, True, True, True, purges=True, slow=True, hints=True, idles=True
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_doubled_or_reported_wrongly(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    first = seeds.of_test()
    for seed in range(first, first + SCHEDULES // len(KINDS)):
        try:
            KINDS[kind](seed).run()
        except Exception as problem:
            problem.add_note(f"schedule: KAFWIRE_SEED={seed}, {kind}")
            raise
        raised = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
        assert not raised, f"seed {seed}: {raised}"
        caplog.clear()
