"""`python -m tests.soak.group_member SPEC`: a member of a group, which writes down what it processes.

Lines come in: "join" and "leave" are done in order; without its parent it ends at once. It appends lines to its
journal, each written at once, so that what a SIGKILL leaves is whole; times are in milliseconds since the epoch:

    R time partition first next     records of these offsets are processed (before anything of them is committed)
    A time generation partitions    its assignment, when that changed
    C time result                   a commit of its own: "ok", or the error's name
    E time error                    an error of reading; it starts over then
    L time                          it has left
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka as ck

import kafwire
from kafwire.errors import KafkaError
from kafwire.types import TopicPartition
from tests.soak.runner import name_of

POLL_S = 0.1
_PAUSE_S = 0.2
_SLOW_EVERY, _SLOW_S, _WORK_S = 50, 0.3, 0.01
_TRANSACTION_MS = 10_000
_CALL_S = 30.0
_FILE_MODE = 0o600


class Journal:
    """The lines that a member appends to its file, from any thread."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _FILE_MODE)
        self._assigned: tuple[int, list[int]] | None = None

    def processed(self, partition: int, first: int, following: int) -> None:
        """All records from an offset to before another."""
        self._write("R", partition, first, following)

    def assigned(self, generation: int, partitions: Iterable[int]) -> None:
        """Note the assignment, if it changed."""
        now = generation, sorted(partitions)
        if now != self._assigned:
            self._assigned = now
            self._write("A", generation, ",".join(map(str, now[1])) or "-")

    def committed(self, error: BaseException | None) -> None:
        """A commit that the member made itself."""
        self._write("C", "ok" if error is None else name_of(error).replace(" ", ":"))

    def failed(self, error: BaseException) -> None:
        """Note the error that ended its reading."""
        self._write("E", name_of(error).replace(" ", ":"), str(error).replace("\n", " "))

    def left(self) -> None:
        """Record that the client is no longer a member."""
        self._assigned = None
        self._write("L")

    def _write(self, kind: str, *fields: object) -> None:
        os.write(self._file, f"{' '.join(map(str, (kind, int(time.time() * 1000), *fields)))}\n".encode())


class Client(ABC):
    """A consumer of some kind, read in a thread of its own from `start` to `stop`."""

    def __init__(self, spec: dict[str, Any], journal: Journal) -> None:
        self.spec = spec
        self.journal = journal
        self.chance = random.Random(f"{spec['seed']}/{os.getpid()}")
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def stops(self) -> bool:
        """True if it is to leave."""
        return self._stops.is_set()

    def stop(self) -> None:
        """Leave the group, and return when it has left."""
        self._stops.set()
        self._thread.join()
        self.journal.left()

    def command(self, line: str) -> None:
        """Take a line that is neither "join" nor "leave"."""
        raise ValueError(f"{type(self).__name__} has no command {line!r}")

    @abstractmethod
    def read(self) -> None:
        """Be a member until `stops`."""

    def work(self) -> None:
        """Take as long as it takes to process a batch."""
        slow = self.chance.randrange(_SLOW_EVERY) == 0
        time.sleep(_SLOW_S if slow else self.chance.random() * _WORK_S)

    def _run(self) -> None:
        while not self.stops:
            try:
                self.read()
            except (KafkaError, ck.KafkaException) as error:
                self.journal.failed(error)
                time.sleep(_PAUSE_S)


class KafwireClient(Client):
    """kafwire's consumer. `spec["how"]` says how it reads and commits."""

    def read(self) -> None:
        spec = self.spec
        commits = spec["how"].endswith("commit")
        with kafwire.Consumer(
            spec["bootstrap"],
            topics=[spec["topic"]],
            group_id=spec["group"],
            auto_offset_reset="earliest",
            enable_auto_commit=not commits,
            client_id=spec["name"],
            **spec["options"],
        ) as consumer:
            if spec["how"].startswith("streams"):
                self._streams(consumer, commits)
            elif spec["how"].startswith("batches"):
                self._batches(consumer, commits)
            else:
                self._poll(consumer, commits)

    def _poll(self, consumer: kafwire.Consumer, commits: bool) -> None:
        while not self.stops:
            for batch in consumer.poll(POLL_S):
                self._process(batch)
            if commits:
                self._commit(consumer.commit)
            self._look(consumer)

    def _batches(self, consumer: kafwire.Consumer, commits: bool) -> None:
        while not self.stops:
            for batch in consumer.batches(POLL_S):
                self._process(batch)
                if commits:
                    self._commit(partial(consumer.commit, batch))
                if self.stops:
                    return
            self._look(consumer)

    def _streams(self, consumer: kafwire.Consumer, commits: bool) -> None:
        def handle(stream: kafwire.PartitionStream) -> None:
            for batch in stream:
                self._process(batch)
                if commits:  # earlier records, by the partition's owner
                    self._commit(stream.commit)
                self._look(consumer)

        def watch() -> None:
            self._stops.wait()
            consumer.stop()

        threading.Thread(target=watch, daemon=True).start()
        consumer.for_each_partition(handle)

    def _process(self, batch: kafwire.Batch) -> None:
        if len(batch):
            self.work()
            assert batch.partition is not None
            self.journal.processed(batch.partition, batch.base_offset, batch.next_offset)

    def _commit(self, commit: Callable[[], None]) -> None:
        try:
            commit()
        except KafkaError as error:
            self.journal.committed(error)
        else:
            self.journal.committed(None)

    def _look(self, consumer: kafwire.Consumer) -> None:
        self.journal.assigned(
            consumer.group_metadata().generation_id, (where.partition for where in consumer.assignment)
        )


class LoopClient(Client):
    """kafwire's consumer and transactional producer: each record is written on once. One id for each process."""

    def read(self) -> None:
        spec = self.spec
        with kafwire.Producer(
            spec["bootstrap"],
            transactional_id=spec.get("transactional_id", spec["name"]),
            transaction_timeout_ms=_TRANSACTION_MS,
            client_id=spec["name"],
        ) as producer:
            producer.init_transactions(_CALL_S)
            with kafwire.Consumer(
                spec["bootstrap"],
                topics=[spec["topic"]],
                group_id=spec["group"],
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level="read_committed",
                client_id=spec["name"],
                **spec["options"],
            ) as consumer:
                while not self.stops:
                    self._pass_on(producer, consumer)
                    self.journal.assigned(
                        consumer.group_metadata().generation_id, (where.partition for where in consumer.assignment)
                    )

    def _pass_on(self, producer: kafwire.Producer, consumer: kafwire.Consumer) -> None:
        batches = consumer.poll(POLL_S)
        if not any(map(len, batches)):
            return
        with producer.transaction(_CALL_S):
            self._write_on(producer, batches)
            if self.spec["how"] == "loop-processed":
                for batch in consumer.batches(0.0):  # what was polled counts as processed from here on
                    self._write_on(producer, [batch])
                producer.send_offsets(consumer.processed(), consumer.group_metadata(), _CALL_S)
            else:
                upto = {TopicPartition(b.topic or "", b.partition or 0): b.next_offset for b in batches}
                producer.send_offsets(upto, consumer.group_metadata(), _CALL_S)
        self.journal.committed(None)

    def _write_on(self, producer: kafwire.Producer, batches: Iterable[kafwire.Batch]) -> None:
        self.work()
        for batch in batches:
            if len(batch):
                self.journal.processed(batch.partition or 0, batch.base_offset, batch.next_offset)
            for record in batch:
                producer.send(self.spec["sink"], b"%d/%d" % (batch.partition or 0, record.offset), key=record.value)


class ConfluentClient(Client):
    """librdkafka's consumer, which stores processed offsets and commits them by itself, also when it gives up."""

    def read(self) -> None:
        spec = self.spec
        options = {name.replace("_", "."): value for name, value in spec["options"].items()}
        consumer = ck.Consumer(
            {
                "bootstrap.servers": spec["bootstrap"],
                "group.id": spec["group"],
                "auto.offset.reset": "earliest",
                "enable.auto.commit": True,
                "enable.auto.offset.store": False,
                "client.id": spec["name"],
                **options,
            }
        )
        try:
            consumer.subscribe([spec["topic"]])
            while not self.stops:
                message = consumer.poll(POLL_S)
                if message is not None:
                    self._process(consumer, message)
                self.journal.assigned(-1, (where.partition for where in consumer.assignment()))
        finally:
            consumer.close()

    def _process(self, consumer: ck.Consumer, message: ck.Message) -> None:
        problem = message.error()
        if problem is not None:
            if problem.fatal():
                raise ck.KafkaException(problem)
            self.journal.failed(ck.KafkaException(problem))
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        if self.chance.randrange(10) == 0:  # batches of others take as long
            self.work()
        self.journal.processed(partition, offset, offset + 1)
        try:
            consumer.store_offsets(message)
        except ck.KafkaException as error:  # it belongs to another by now
            self.journal.committed(error)


def _client(spec: dict[str, Any], journal: Journal) -> Client:
    if spec["client"] == "confluent":
        return ConfluentClient(spec, journal)
    return LoopClient(spec, journal) if spec["how"].startswith("loop") else KafwireClient(spec, journal)


def main(make: Callable[[dict[str, Any], Journal], Client] = _client) -> None:
    """Be the member of the file that is named."""
    faulthandler.register(signal.SIGUSR1)
    spec = json.loads(Path(sys.argv[1]).read_text())
    journal = Journal(Path(spec["journal"]))
    client: Client | None = None
    for line in sys.stdin:
        if line.strip() == "join" and client is None:
            client = make(spec, journal)
        elif line.strip() == "leave" and client is not None:
            client.stop()
            client = None
        elif client is not None:
            client.command(line.strip())
    os._exit(3)


if __name__ == "__main__":
    main()
