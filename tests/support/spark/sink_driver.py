"""`python -m tests.support.spark.sink_driver SETTINGS` copies a topic exactly once, as Spark's driver and tasks do.

The program needs no Spark. It calls the sink's own classes, and keeps a checkpoint in Spark's order: `offsets/N`, the
tasks, the commit, `commits/N`. A step lies before each request of the sink, before each EndTxn, inside the transaction
of each state record, and between the parts of each task. The process stops (SIGSTOP) at the step `stop_at`; the parent
process kills it, or lets it go on.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import pyarrow as pa

import kafwire
from kafwire.errors import KafkaError
from kafwire.producer.outcome.sequencer import Identity
from kafwire.spark.exactly_once import sinks
from kafwire.spark.exactly_once.decisions import Prepared, Record, decode, prefix_of, task_id
from kafwire.spark.exactly_once.kafka import KafkaCoordination
from kafwire.spark.exactly_once.outcomes import Described
from kafwire.spark.exactly_once.sink import Plan
from kafwire.spark.exactly_once.task import prepare
from kafwire.spark.options import WriteOptions, write_options
from kafwire.types import Offset, TopicPartition, TransactionHandle
from tests.support.deadlines import until

FAILED = 1  # the exit code of a query that failed by an error of the sink


@dataclass(frozen=True)
class Settings:
    """One run. `cuts`: tasks for each source partition, as `minPartitions` makes; `rows`: of one task."""

    bootstrap: str
    topic: str
    checkpoint: str
    run: str
    stop_at: Sequence[int | str] = ()  # numbers or names of steps, in their order
    sink_name: str = ""
    is_alone: bool = True  # no other driver uses the sink now
    batches: int = 1_000
    cuts: int = 1
    rows: int = 3
    lost_attempt: bool = False
    options: dict[str, str] = field(default_factory=dict)

    @property
    def sink(self) -> WriteOptions:
        """The options of the sink."""
        given = {"kafka.bootstrap.servers": self.bootstrap, "delivery": "exactly-once", "sink": self.sink_name}
        return write_options(given | {"topic": f"{self.topic}-copy"} | self.options, is_stream=True)


@dataclass(frozen=True)
class Task:
    """A range of one source partition; `first` is the value of its first record, and the record's offset."""

    number: int
    partition: int
    first: int
    end: int


class Steps:
    """Counts and prints steps; stops the process at some of them."""

    def __init__(self, stop_at: Sequence[int | str]) -> None:
        self._stop_at = list(stop_at)
        self._count = 0

    def __call__(self, name: str) -> None:
        self._count += 1
        print(f"step {self._count}: {name}", flush=True)
        if self._stop_at and self._stop_at[0] in (self._count, name):
            self._stop_at.pop(0)
            os.kill(os.getpid(), signal.SIGSTOP)


step = Steps(())


class SteppedCoordination(KafkaCoordination):
    """The sink's coordination, with a step before each request."""

    async def fence(self) -> Identity:
        step("fence")
        return await super().fence()

    async def high_watermark(self) -> int:
        step("high watermark")
        return await super().high_watermark()

    async def last_stable_offset(self) -> int:
        step("last stable offset")
        return await super().last_stable_offset()

    async def read(self, end: int) -> Sequence[Record]:
        step("read")
        return await super().read(end)

    async def write(self, records: Sequence[Record]) -> Identity:
        decisions = list(decode(self._sink, records).values()) if records[0][1] else []
        what = "done" if decisions and decisions[0].is_done else "decision" if decisions else "marker"
        step(f"write the {what}")
        producer = self._coordinator
        assert producer is not None
        commit = producer.commit_transaction

        def stepped(timeout: float | None = None) -> None:
            producer.flush()
            step(f"commit the {what}")
            commit(timeout)

        producer.commit_transaction = stepped  # type: ignore[method-assign]
        try:
            return await super().write(records)
        finally:
            producer.commit_transaction = commit  # type: ignore[method-assign]

    async def end(self, handles: Sequence[TransactionHandle], *, commit: bool) -> Sequence[int]:
        codes: list[int] = []
        for number, handle in enumerate(handles):
            step(f"{'commit' if commit else 'abort'} transaction {number}")
            codes += await super().end([handle], commit=commit)
        return codes

    async def describe(self, transactional_ids: Sequence[str]) -> Mapping[str, Described]:
        step("describe")
        return await super().describe(transactional_ids)

    async def ongoing(self, prefix: str) -> Sequence[str]:
        step("list open transactions")
        return await super().ongoing(prefix)


class Checkpoint:
    """The batches of a query: planned ends by partition, and those that are committed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def next_batch(self) -> int:
        """The batch to run: the last planned one without a commit, or the one after it."""
        planned = self._last("offsets")
        return planned if planned > self._last("commits") else planned + 1

    def ends(self, batch: int) -> list[int] | None:
        """The planned ends of a batch."""
        path = self._folder / "offsets" / str(batch)
        return json.loads(path.read_text()) if path.exists() else None

    def write(self, kind: str, batch: int, content: object) -> None:
        """Write a file in whole."""
        folder = self._folder / kind
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f".{batch}.{os.getpid()}"
        fresh.write_text(json.dumps(content))
        fresh.rename(folder / str(batch))

    def _last(self, kind: str) -> int:
        names = [path.name for path in (self._folder / kind).glob("[0-9]*")]
        return max(map(int, names), default=-1)


class Copy:
    """The query."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._options = settings.sink
        self._checkpoint = Checkpoint(Path(settings.checkpoint))
        self._client = kafwire.Client(settings.bootstrap)

    def run(self) -> None:
        """Run batches to the end of the source topic."""
        for _ in range(self._settings.batches):
            batch = self._checkpoint.next_batch()
            starts = self._checkpoint.ends(batch - 1) or [0] * len(self._tops())
            ends = self._checkpoint.ends(batch)
            if ends is None:
                ends = [
                    min(top, start + self._settings.rows * self._settings.cuts)
                    for start, top in zip(starts, self._tops(), strict=True)
                ]
                if ends == starts:
                    return
                self._checkpoint.write("offsets", batch, ends)
            self._run_batch(batch, starts, ends)
            self._checkpoint.write("commits", batch, {})

    def write_task(self, task: Task, batch: int, attempt: int, *, is_killed: bool = False) -> Prepared | None:
        """One attempt of a task; a killed one ends after its first rows reached the broker."""
        name = task_id(self._settings.sink_name, self._settings.run, task.number, attempt, attempt, batch)

        def batches() -> Iterator[pa.RecordBatch]:
            before = self._written() if is_killed else 0
            step(f"task {task.number} begins")
            start = {TopicPartition(self._settings.topic, task.partition): Offset(task.first)}
            end = {TopicPartition(self._settings.topic, task.partition): Offset(task.end)}
            with self._client.scan(self._settings.topic, start=start, end=end) as scan:
                values = [record.value for some in scan.batches() for record in some]
            for some in (values[:1], values[1:]):
                yield pa.record_batch(
                    {
                        "value": pa.array(some, pa.binary()),
                        "partition": pa.array([task.partition] * len(some), pa.int32()),
                    }
                )
                step(f"task {task.number} has sent {some}")
                if is_killed:
                    until(lambda: self._written() > before, "the first rows are in the topic")
                    os.kill(os.getpid(), signal.SIGKILL)

        return prepare(self._options, ["value", "partition"], batches(), name)

    def _written(self) -> int:
        """The records of the copy, those of open and aborted transactions included."""
        return sum(self._tops(f"{self._settings.topic}-copy"))

    def _tops(self, topic: str | None = None) -> list[int]:
        topic = topic or self._settings.topic
        places = [TopicPartition(topic, number) for number in self._client.partitions_for(topic)]
        found = self._client.offsets(places, "latest")
        return [found[place] for place in sorted(places)]

    def _tasks(self, starts: Sequence[int], ends: Sequence[int]) -> list[Task]:
        tasks: list[Task] = []
        for partition, (start, end) in enumerate(zip(starts, ends, strict=True)):
            cuts = [start + (end - start) * cut // self._settings.cuts for cut in range(self._settings.cuts + 1)]
            tasks += [
                Task(len(tasks) + number, partition, first, last)
                for number, (first, last) in enumerate(itertools.pairwise(cuts))
                if first < last
            ]
        return [replace(task, number=number) for number, task in enumerate(tasks)]

    def _run_batch(self, batch: int, starts: Sequence[int], ends: Sequence[int]) -> None:
        plan: Plan = sinks.run(self._options, lambda sink: sink.plan())
        prepared: list[Prepared] = []
        if not plan.is_done(self._settings.topic, batch):
            for task in self._tasks(starts, ends):
                if self._settings.lost_attempt and task.number == 0:
                    self._lose_attempt(task, batch)
                found = self.write_task(task, batch, attempt=1)
                step(f"task {task.number} is prepared")
                prepared += [] if found is None else [found]
        try:
            sinks.run(self._options, lambda sink: sink.commit(self._settings.topic, batch, prepared, plan.identity))
        except KafkaError as error:
            print(f"the commit of batch {batch} failed: {type(error).__name__}: {error}", flush=True)
            is_decided = sinks.run(self._options, lambda sink: sink.abort(self._settings.topic, batch, prepared))
            print(f"aborted batch {batch}, decided: {is_decided}", flush=True)
            raise
        self._check_open_transactions()
        step(f"batch {batch} is committed")

    def _check_open_transactions(self) -> None:
        request = kafwire.protocol.ListTransactionsRequest(state_filters=["Ongoing"])
        if not self._settings.is_alone:
            return
        for broker in self._client.metadata([]).brokers:
            for each in self._client.call(request, broker=broker.node_id).transaction_states:
                assert not each.transactional_id.startswith(prefix_of(self._settings.sink_name)), each

    def _lose_attempt(self, task: Task, batch: int) -> None:
        """A first attempt in a process of its own, which is killed."""
        given = json.dumps([asdict(self._settings), asdict(task), batch])
        command = [sys.executable, "-m", "tests.support.spark.sink_driver", given, "attempt"]
        assert subprocess.run(command, check=False).returncode == -signal.SIGKILL


def main(given: str, what: str = "query") -> int:
    """Run a query, or a task's attempt that is killed."""
    global step
    if what == "attempt":
        settings, task, batch = json.loads(given)
        Copy(Settings(**settings)).write_task(Task(**task), batch, attempt=0, is_killed=True)
        return 0
    settings = Settings(**json.loads(given))
    step = Steps(settings.stop_at)
    sinks.KafkaCoordination = SteppedCoordination  # type: ignore[attr-defined]
    try:
        Copy(settings).run()
    except KafkaError as error:
        print(f"failed: {type(error).__name__}: {error}", flush=True)
        for note in getattr(error, "__notes__", ()):
            print(f"note: {note}", flush=True)
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
