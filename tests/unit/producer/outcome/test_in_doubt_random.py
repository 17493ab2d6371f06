"""Producers and brokers that forget, at random: nothing twice, nothing lost, and the outcome of each record is true."""

from __future__ import annotations

import random
from typing import Any

from kafwire.errors import ErrorCode, KafkaError
from kafwire.testing.simulation.calls import DROPPED, HANGUP, NEVER, Call
from tests.support import seeds
from tests.support.simulated.producer import Work, errors, log_of, produced, values
from tests.support.simulated.world import World

SEEDS_EACH = 40
TROUBLE_MS = 60_000


class Story:
    """One seed: the brokers that forget producers, and when."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.may_read = self.chance.random() < 0.7
        # Without permission to read, a producer that was forgotten altogether looks like a new one.
        self.least_kept = self.chance.choice([0, 1]) if self.may_read else 1
        self.may_expire = self.chance.random() < 0.3
        self.brokers = self.chance.choice([1, 2, 3])
        self.world = World(brokers=self.brokers, seed=seed)

    def play(self) -> None:
        with self.world as world:
            world.create_topic("t", partitions=2)
            if not self.may_read:
                world.unreadable.add("t")
            self.until_ms = world.engine.now_ms() + TROUBLE_MS
            world.on("Produce", self.trouble)
            world.on("DescribeProducers", self.hurdle)
            world.on("Fetch", self.hurdle)
            work = Work(
                world,
                "t",
                batch_size=self.chance.choice([1, 100]),
                linger_ms=self.chance.choice([0, 5]),
                request_timeout_ms=1_000,
                delivery_timeout_ms=3_000 if self.may_expire else 10_000_000,
            )
            sent: dict[int, list[tuple[bytes, Any]]] = {0: [], 1: []}
            for value in values(40):
                partition = self.chance.randrange(2)
                sent[partition].append((value, work.send("t", value, partition=partition)))
                if self.chance.random() < 0.4:
                    world.pass_time(self.chance.choice([0.001, 0.01, 0.5]))
                if self.chance.random() < 0.05:
                    self.restart(self.chance.randint(1, self.brokers))
            work.flush()
            for partition, records in sent.items():
                self.judge(log_of(world, partition).values(), records)
            assert work.used == 0

    def trouble(self, call: Call) -> Any:
        if call.at_ms > self.until_ms:
            return None
        event = self.chance.random()
        if event < 0.05:
            return HANGUP
        if event < 0.25:
            self.world.serve(call)
            if event < 0.10:
                self.restart(call.node)
            late = errors(
                self.chance.choice([ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT])
            )(call)
            return self.chance.choice([DROPPED, DROPPED, HANGUP, NEVER, late])
        if event < 0.35:
            return errors(
                self.chance.choice(
                    [
                        ErrorCode.NOT_LEADER_OR_FOLLOWER,
                        ErrorCode.REQUEST_TIMED_OUT,
                        ErrorCode.NOT_ENOUGH_REPLICAS,
                        ErrorCode.CORRUPT_MESSAGE,
                    ]
                )
            )(call)
        if event < 0.40:
            self.world.move_leader("t", produced(call)[0][0], self.chance.randint(1, self.brokers))
        return None

    def hurdle(self, call: Call) -> Any:
        return HANGUP if call.at_ms < self.until_ms and self.chance.random() < 0.2 else None

    def restart(self, node: int) -> None:
        self.world.forget_producers(node, self.chance.choice([self.least_kept, 1, 1, 2, 5]))
        self.world.break_connections(node)

    def judge(self, log: list[bytes | None], records: list[tuple[bytes, Any]]) -> None:
        assert len(log) == len(set(log)), "stored twice"
        if self.least_kept:  # a broker that has forgotten a producer takes its second batch before its first
            assert log == [value for value, _ in records if value in log], "out of order"
        for value, delivery in records:
            error = delivery.exception()
            if error is None:
                assert value in log, "lost"
                assert delivery.result().offset in {-1, log.index(value)}
            else:
                assert isinstance(error, KafkaError)
                assert error.in_doubt or value not in log, "reported as not in the log, where it is"
                assert error.in_doubt == ("may or may not be in the log" in str(error))
            assert error is None or self.may_expire or not self.may_read, error


@seeds.several(160 // SEEDS_EACH)
def test_brokers_that_forget_cost_neither_a_record_nor_the_truth(seed: int) -> None:
    for each in range(seed, seed + SEEDS_EACH):
        Story(each).play()
