"""Random programs that read and commit in all ways, beside a model of what each commit covers."""

from __future__ import annotations

import random
from typing import Any

from kafwire.types import TopicPartition
from tests.support import seeds
from tests.support.group.committing_consumer import committed
from tests.support.simulated.consumer import fill
from tests.support.simulated.flavours import Flavour

PLACES = [TopicPartition("t", 0), TopicPartition("t", 1)]
STEPS = 40


class Program:
    """One consumer, what it handed out, and what its commits are to cover."""

    def __init__(self, flavour: Flavour, chance: random.Random) -> None:
        self.flavour = flavour
        self.chance = chance
        fill(flavour.world, "t", partitions=2, batches=12, records=3)
        self.consumer = flavour.consumer(
            assign=PLACES, group_id="g", start="earliest", enable_auto_commit=False, chunk_bytes=1
        )
        self.batches = self.consumer.batches(timeout=0)
        self.records = iter(self.consumer) if flavour.blocks else aiter(self.consumer)
        self.processed = dict.fromkeys(range(2), 0)
        self.in_hand: dict[int, int] = {}
        self.log: list[str] = []

    def asks(self) -> None:
        """The program asks for more: what it had in hand is processed."""
        self.processed |= self.in_hand
        self.in_hand = {}
        self.flavour.world.pass_time(1)

    def take(self, source: Any) -> Any:
        """The next batch or record, asked for by the task or thread that runs the program; None at the end."""
        try:
            return next(source) if self.flavour.blocks else self.flavour.get(anext(source))
        except (StopIteration, StopAsyncIteration):
            return None

    def poll(self) -> None:
        self.asks()
        for batch in self.flavour.get(self.consumer.poll()):
            self.in_hand[batch.partition] = batch.next_offset

    def batch(self) -> None:
        self.asks()
        batch = self.take(self.batches)
        if batch is None:
            self.batches = self.consumer.batches(timeout=0)
        else:
            self.in_hand[batch.partition] = batch.next_offset

    def record(self) -> None:
        lag = self.consumer.lag()
        if not sum(each or 0 for each in lag.values()):
            return  # a loop over records waits for ever
        self.asks()
        record = self.take(self.records)
        self.in_hand[record.partition] = record.offset + 1

    def commit(self) -> None:
        self.flavour.get(self.consumer.commit())
        self.processed |= self.in_hand
        self.judge(self.processed)

    def commit_elsewhere(self) -> None:
        self.flavour.elsewhere(self.consumer.commit)
        self.judge(self.processed)

    def seek(self) -> None:
        place = self.chance.choice(PLACES)
        offset = self.chance.randrange(36)
        self.flavour.get(self.consumer.seek(place, offset))
        self.in_hand.pop(place.partition, None)
        self.processed[place.partition] = offset

    def look(self) -> None:
        """Neither of these changes the processed offsets."""
        expected = {PLACES[number]: offset for number, offset in (self.processed | self.in_hand).items()}
        assert self.consumer.processed(in_hand=True) == expected, self.log
        expected = {PLACES[number]: offset for number, offset in self.processed.items()}
        assert self.consumer.processed() == expected, self.log

    def pause(self) -> None:
        place = self.chance.choice(PLACES)
        self.flavour.get(self.consumer.pause(place))
        self.flavour.get(self.consumer.resume(place))

    def judge(self, expected: dict[int, int]) -> None:
        assert committed(self.flavour.world) == expected, self.log

    def step(self) -> None:
        name = self.chance.choice(
            ["poll", "batch", "record", "record", "commit", "commit_elsewhere", "seek", "look", "pause"]
        )
        self.log.append(name)
        getattr(self, name)()


@seeds.several(12)
def test_each_commit_covers_the_records_of_the_table(flavour: Flavour, seed: int) -> None:
    program = Program(flavour, random.Random(seed))
    for _ in range(STEPS):
        program.step()
