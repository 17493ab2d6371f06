"""A topic, its copy, and the copy that it should be: random steps of both, for tests of `kafwire copy`.

The model knows each committed record by its place. A run of the command may be killed, or may run twice at a time.
After each run the copy has the first committed records of each partition, each once and in order; after a run that
succeeded it has all of them up to the first open transaction.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Sequence
from typing import Any

import pyarrow.parquet as pq

import kafwire
from tests.support.copy_zygote import Copies, Ran
from tests.support.deadlines import until

LOST = "were deleted before they were copied"
RECREATED = "was deleted and recreated"
# What one of two runs at the same time may end with.
SECOND = ("another copier", "was continued or rolled back", "other writers were faster")
Where = tuple[int, int]


class CopyModel:
    """One topic and one copy of it. `target` is folder, iceberg or topic."""

    def __init__(self, seed: int, bootstrap: str, copies: Copies, target: str, name: str) -> None:
        """Create the topic `name`."""
        self._chance = random.Random(seed)
        self._bootstrap = bootstrap
        self._copies = copies
        self._target = target
        self._client = kafwire.Client(bootstrap)
        self._admin = kafwire.Admin(bootstrap)
        self._topic = name
        self._generation = 0
        self._serial = 0
        self.log: list[str] = []
        self._partitions = self._chance.randrange(1, 4)
        self._client.create_topic(name, partitions=self._partitions)
        self._begin()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self._admin.close()

    def _begin(self) -> None:
        """The topic is new, and so is its copy."""
        self._generation += 1
        self._committed: dict[Where, bytes] = {}
        self._lost: set[Where] = set()
        self._deletes = 0
        self._copied: set[Where] = set()  # after the last run
        self._open: tuple[kafwire.Producer, dict[Where, bytes]] | None = None
        if self._target == "topic":
            self._client.create_topic(self._copy_name, partitions=self._partitions)

    @property
    def _copy_name(self) -> str:
        return f"{self._topic}-{self._generation}"

    def step(self) -> None:
        """Do a random step, and judge the copy."""
        steps: list[Any] = [
            *([self.produce] * 4 + [self.copy] * 5 + [self.copy_twice]),
            *(self.delete_records, self.add_partitions, self.recreate, self.hang, self.end_hanging),
        ]
        weights = [1.0] * 10 + [0.6, 0.6, 0.3, 0.5, 0.7]
        self._chance.choices(steps, weights)[0]()

    def finish(self) -> None:
        """Copy the remaining records in two runs: the second continues behind the first."""
        self.end_hanging()
        for _ in range(2):
            self.produce("plain")
            self._run(0)

    def produce(self, kind: str = "") -> None:
        """Send records, in a transaction or without; an aborted one leaves a hole in the offsets."""
        kind = kind or self._chance.choice(["plain", "commit", "abort"])
        options: Any = {} if kind == "plain" else {"transactional_id": self._topic}
        with kafwire.Producer(self._bootstrap, linger_ms=0, batch_size=120, **options) as producer:
            if kind != "plain":
                producer.init_transactions()
                producer.begin_transaction()
            sent = self._sent(producer, self._chance.randrange(1, 40))
            if kind == "commit":
                producer.commit_transaction()
            if kind == "abort":
                producer.abort_transaction()
            else:
                self._committed |= sent
        self.log.append(f"{kind} {len(sent)}")

    def _sent(self, producer: kafwire.Producer, count: int) -> dict[Where, bytes]:
        deliveries = []
        for _ in range(count):
            self._serial += 1
            value, partition = b"%d" % self._serial, self._chance.randrange(self._partitions)
            deliveries.append((value, producer.send(self._topic, value, key=value, partition=partition)))
        producer.flush()
        found = {}
        for value, delivery in deliveries:
            place = delivery.result(60)
            found[place.partition, place.offset] = value
        return found

    def hang(self) -> None:
        """Send records in a transaction that stays open: the copy ends before them."""
        if self._open is None:
            producer = kafwire.Producer(self._bootstrap, linger_ms=0, transactional_id=f"{self._topic}-open")
            producer.init_transactions()
            producer.begin_transaction()
            self._open = producer, self._sent(producer, self._chance.randrange(1, 5))
            self.log.append(f"hang {len(self._open[1])}")

    def end_hanging(self) -> None:
        """End the open transaction."""
        if self._open is not None:
            producer, sent = self._open
            self._open = None
            is_kept = self._chance.random() < 0.5
            if is_kept:
                producer.commit_transaction()
                self._committed |= sent
            else:
                producer.abort_transaction()
            producer.close()
            self.log.append(f"end {is_kept}")

    def delete_records(self) -> None:
        """Delete the first records of a partition, copied or not."""
        if self._open is None:  # the offsets behind the last stable one cannot be deleted
            where = kafwire.TopicPartition(self._topic, self._chance.randrange(self._partitions))
            low, end = self._client.offsets([where], "earliest")[where], self._client.offsets([where], "latest")[where]
            to = self._chance.randint(low, end)
            self._admin.delete_records({where: to})
            self._deletes += 1
            self._lost |= {place for place in self._committed if place[0] == where.partition and place[1] < to}
            self.log.append(f"delete {where.partition} to {to}")

    def add_partitions(self) -> None:
        """Add a partition to the topic, and perhaps not to its copy."""
        if self._partitions < 5:
            self._partitions += 1
            self._admin.create_partitions({self._topic: self._partitions})
            until(lambda: self._seen().get(self._topic) == self._partitions, "another partition")
            self.log.append(f"{self._partitions} partitions")

    def _seen(self) -> dict[str, int]:
        return {each.name: len(each.partitions) for each in self._client.metadata().topics}

    def recreate(self) -> None:
        """Recreate the topic: its copy is refused, and begins at another place."""
        if self._open is not None:
            return
        self._client.delete_topic(self._topic)
        until(lambda: self._topic not in self._seen(), "the topic is gone")
        self._client.create_topic(self._topic, partitions=self._partitions)
        self.log.append("recreate")
        if self._copied:
            [(code, _, errors)] = self._copies.run((self._words(), 0, self._target))
            assert code == 1, errors
            assert RECREATED in errors, errors
            self._judge({where: self._committed[where] for where in self._copied}, whole=True)
        self._begin()

    def copy(self) -> None:
        """Run the command, which may be killed at a step."""
        self._run(self._chance.choice([0, self._chance.randrange(1, 30)]))

    def copy_twice(self) -> None:
        """Run the command twice at the same time."""
        calls = [
            (self._words(), self._chance.choice([0, 0, self._chance.randrange(1, 30)]), self._target) for _ in "12"
        ]
        ran = self._copies.run(*calls)
        self.log.append(f"twice: {[each[0] for each in ran]}")
        self._check(ran, twice=True)

    def _run(self, step: int) -> None:
        ran = self._copies.run((self._words(), step, self._target))
        self.log.append(f"copy, step {step}: {ran[0][0]}")
        self._check(ran, twice=False)

    def _words(self) -> list[str]:
        target = {
            "folder": str(self._copies.home / self._copy_name),
            "iceberg": f"iceberg:main/lake.{self._copy_name}",
            "topic": f"topic:{self._copy_name}",
        }[self._target]
        rows = str(self._chance.choice([1, 5, 20, 10_000]))
        return [self._topic, "--to", target, "-b", self._bootstrap, "--rows", rows]

    def _check(self, ran: Sequence[Ran], *, twice: bool) -> None:
        succeeded = any(code == 0 for code, _, _ in ran)
        for code, _, errors in ran:
            assert "Traceback" not in errors, errors
            assert code in (0, 1, -signal.SIGKILL), (code, errors)
            if code == 1:
                assert errors.count("\n") == 1, errors
                assert LOST in errors or (twice and any(text in errors for text in SECOND)), errors
                assert LOST not in errors or self._deletes, errors
        self._judge(self._expected, whole=succeeded)
        if any(LOST in errors for _, _, errors in ran):
            self._skip()

    def _skip(self) -> None:
        """Continue behind the records that were deleted."""
        [(code, _, errors)] = self._copies.run(([*self._words(), "--skip-lost"], 0, self._target))
        assert code == 0, errors
        self.log.append("skip")
        self._judge(self._expected, whole=True)

    @property
    def _expected(self) -> dict[Where, bytes]:
        """The committed records before the open transaction, without those that were deleted before a copy."""
        ends = dict.fromkeys(range(self._partitions), 1 << 63)
        for partition, offset in self._open[1] if self._open else ():
            ends[partition] = min(ends[partition], offset)
        return {where: value for where, value in sorted(self._committed.items()) if where[1] < ends[where[0]]}

    def _judge(self, expected: dict[Where, bytes], *, whole: bool) -> None:
        """Compare the copy: `whole` if it has to have all records that were not lost."""
        found = self._found()
        places = {value: where for where, value in self._committed.items()}
        values = [value for part in found.values() for value in part]
        assert len(values) == len(set(values)), f"twice: {sorted(v for v in values if values.count(v) > 1)}"
        unknown = set(values) - set(places)
        assert not unknown, f"never committed: {unknown}"
        copied = {places[value] for value in values}
        assert copied >= self._copied, f"gone from the copy: {self._copied - copied}"
        assert copied <= set(expected) | self._copied
        missing = set(expected) - copied - self._lost
        assert not whole or not missing, f"missing: {sorted(missing)}"
        for partition in range(self._partitions):
            last = max((offset for number, offset in copied if number == partition), default=-1)
            early = {where for where in missing if where[0] == partition and where[1] < last}
            assert not early, f"skipped: {early}"
        if self._target != "topic" or self._keeps_partitions:
            for number, part in found.items():
                placed = [places[value] for value in part]
                assert placed == sorted(placed), f"out of order in {number}"
                assert {where[0] for where in placed} <= {number}
        self._copied = copied

    @property
    def _keeps_partitions(self) -> bool:
        return self._seen()[self._copy_name] == self._partitions

    def _found(self) -> dict[int, list[bytes]]:
        """The values of the copy by their partitions, in its order."""
        found: dict[int, list[bytes]] = {}
        if self._target == "folder":
            for path in sorted((self._copies.home / self._copy_name).glob("*/*/*.parquet")):
                found.setdefault(int(path.parent.name), []).extend(pq.read_table(path)["value"].to_pylist())
        elif self._target == "topic":
            with kafwire.scan(self._bootstrap, self._copy_name, isolation_level="read_committed") as scan:
                for record in scan:
                    found.setdefault(record.partition or 0, []).append(record.value or b"")
        elif (catalog := self._copies.catalog).table_exists(f"lake.{self._copy_name}"):
            rows = catalog.load_table(f"lake.{self._copy_name}").scan().to_arrow()
            for row in rows.sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist():
                found.setdefault(row["partition"], []).append(row["value"])
        return found
