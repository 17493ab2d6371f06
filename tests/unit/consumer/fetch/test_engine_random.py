"""A consumer among brokers to which anything happens: what can be read is read, once and in order.

`KAFWIRE_SEED=fresh KAFWIRE_EXAMPLES=25 pytest tests/unit/consumer/fetch/test_engine_random.py` runs more of them.
"""

from __future__ import annotations

import contextlib
import random
import uuid
from typing import Any

from kafwire import protocol
from kafwire.errors import BrokerError, KafkaError
from kafwire.testing.simulation.calls import HANGUP, NEVER, Call
from kafwire.testing.simulation.clock import START_S
from tests.support import seeds
from tests.support.simulated.consumer import STRATEGIES, Consuming, Rows, fill, log_of, write
from tests.support.simulated.world import World

SCHEDULES = 200
AT_ONCE = 20  # schedules in one test
PARTITIONS = 3
STEPS = 12
LAG_S = 0.9  # of metadata, at most: less than a doubt about a topic's id lasts


class Schedule:
    """One consumer's life, by a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.world = World(brokers=3, seed=seed)
        for node in self.world.nodes.values():
            node.rack = f"r{node.number}"
        self.troubled = True
        self.port = 20000
        self.reported: list[tuple[float, Any]] = []  # responses to Metadata, and when
        self.old_id: uuid.UUID | None = None
        if self.chance.random() < 0.5:  # it was recreated a moment ago: brokers that lag show the one before
            self.old_id = self.world.create_topic("t", partitions=PARTITIONS).topic_id
        self.expected: Rows = fill(self.world, "t", partitions=PARTITIONS, batches=2, records=2, replicas=3)
        self.world.on("Fetch", self._fetch)
        options: dict[str, Any] = dict(self.chance.choice(STRATEGIES))
        if self.chance.random() < 0.5:
            options["client_rack"] = f"r{self.chance.randint(1, 3)}"
        self.committed_only = self.chance.random() < 0.4
        if self.committed_only:
            options["isolation_level"] = "read_committed"
        age = self.chance.choice([300_000, 3_000])
        options["max_poll_records"] = random.Random(f"limit {seed}").choice([None, None, 1, 2, 5])
        self.consuming = Consuming(self.world, topics="t", request_timeout_ms=2000, metadata_max_age_ms=age, **options)
        self.world.on("Metadata", self._metadata)

    def _metadata(self, call: Call) -> Any:
        """Some brokers lag."""
        now = self.world.loop.time()
        response = self.world.serve(call)
        self.reported = [(when, reported) for when, reported in self.reported if when >= now - LAG_S]
        self.reported.append((now, response))
        if self.old_id is not None and now < START_S + LAG_S and self.chance.random() < 0.5:
            for topic in response.topics:
                topic.topic_id = self.old_id
            return self.reported.pop()[1]
        return self.chance.choice(self.reported)[1] if self.troubled and self.chance.random() < 0.3 else response

    def _fetch(self, call: Call) -> Any:
        if not self.troubled:
            return None
        chance, number = self.chance, self.chance.randrange(PARTITIONS)
        log = log_of(self.world, "t", number)
        what = chance.random()
        if what < 0.04:
            return HANGUP
        if what < 0.06:
            return NEVER
        if what < 0.10:
            self.world.move_leader("t", number, chance.randint(1, 3))
        elif what < 0.13:
            log.replica_ends[chance.randint(1, 3)] = max(log.start, log.end - chance.randint(0, 3))
        elif what < 0.16:
            log.error = chance.choice([0, 5, 56, 78, -1, 0, 0])
        elif what < 0.18:
            return protocol.FetchResponse(error_code=chance.choice([70, 71, 106, -1]))
        elif what < 0.20:
            self.world.sessions(call.node).sessions.clear()
        elif what < 0.22 and self.committed_only:
            stable = max(log.start, log.end - chance.randint(0, 4))
            self.world.fail_over("t", number, chance.randint(1, 3), stable=stable, for_s=chance.choice([0.1, 3.0]))
        return None

    def run(self) -> None:
        chance, world, consuming = self.chance, self.world, self.consuming
        for _ in range(STEPS):
            number = chance.randrange(PARTITIONS)
            self.expected["t", number] += write(world, "t", number, 1, chance.randint(1, 3))
            world.pass_time(chance.choice([0.001, 0.02, 0.3, 1.0]))
            consuming.drain()
            what = chance.random()
            if what < 0.08:
                self.port += 1  # not the bootstrap server's: if all moved, no broker could be found
                world.nodes[chance.randint(2, 3)].port = self.port
                with contextlib.suppress(KafkaError):
                    world.run(consuming.cluster.refresh())
            elif what < 0.14:
                world.kill(chance.randint(1, 3))
            elif what < 0.4:
                self._revive()
            elif what < 0.45:
                consuming.pause(number)
            elif what < 0.55:
                consuming.resume(*range(PARTITIONS))
        self.troubled = False
        self._revive()
        for log in world.topics["t"].partitions:
            log.error = 0
            log.replica_ends.clear()
        consuming.resume(*range(PARTITIONS))
        consuming.until_read(self.expected, 300)
        if chance.random() < 0.3:
            self._recreate()
        consuming.close()
        assert not world.loop.problems, world.loop.problems

    def _revive(self) -> None:
        for node in self.world.nodes.values():
            node.down = False

    def _recreate(self) -> None:
        """A consumer that reads on gets an error of each partition, and nothing of the new one."""
        self.troubled = True
        self.world.off("Fetch")
        before = {where: list(rows) for where, rows in self.consuming.rows.items()}
        fill(self.world, "t", partitions=PARTITIONS, batches=20)
        reported: set[str] = set()
        for _ in range(40):
            self.world.pass_time(0.5)
            try:
                self.consuming.drain()
            except BrokerError as error:
                assert "'t' was deleted and recreated" in str(error)
                reported.add(str(error).split(" was read")[0].split()[-1])
        assert reported == {f"t-{number}" for number in range(PARTITIONS)}
        assert self.consuming.rows == before
        self.troubled = False


@seeds.several(SCHEDULES // AT_ONCE)
def test_everything_is_read_once_and_in_order_whatever_happens(seed: int) -> None:
    for each in range(seed, seed + AT_ONCE):
        print(f"seed={each}")
        schedule = Schedule(each)
        with schedule.world:
            schedule.run()
