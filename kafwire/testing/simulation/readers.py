"""The readers of a run of the simulated world, and the position of each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import kafwire
from kafwire.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError
from kafwire.testing.simulation.roaming import NAME, Roamer, error_text, watch_chain
from kafwire.testing.simulation.schedule import MAIN, SECOND
from kafwire.testing.simulation.side import Side
from kafwire.testing.simulation.traces import Content, Trace, content_of
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from kafwire.testing.history import View
    from kafwire.testing.simulation.client_run import ClientRun

PLACED_S = 5.0  # the longest time, without a fault, to find the start position
STALLED_S = 15.0  # the longest time after all faults without a record, if there are records to read


@dataclass
class _Progress:
    """The position of a reader (-1: unknown) since `began`, the log's end then, and the time since which it should
    read.
    """

    at: int
    end: int
    began: float
    since: float


class Readers:
    """The readers of one run. `seen`: by reader and partition, the next offset."""

    def __init__(self, workload: ClientRun) -> None:
        self.seen: dict[tuple[str, TopicPartition], int] = {}
        self._workload = workload
        self._world, self._load, self._history = workload.world, workload.load, workload.history
        self._tasks: list[asyncio.Task[None]] = []
        self._topics: dict[str, str] = {}  # by reader: the topic whose ends it has to reach
        self._traces: dict[tuple[str, TopicPartition], Trace] = {}  # for topics that the history does not judge
        self._roamer: Roamer | None = None
        self.side = Side(workload)

    def roam(self) -> None:
        """Start the roaming reader and the watch over all readers, in the world's loop."""
        self._start(self._watch())
        self._start(self.side.read())
        self._roamer = Roamer(self._workload)
        self._begin(NAME, MAIN, self._roamer.run())

    def start(self) -> None:
        """Start the other readers, in the world's loop."""
        is_free = not self._load.transactional
        isolation = (
            self._workload.chance.choice(("read_uncommitted", "read_committed")) if is_free else "read_committed"
        )
        self._begin("reader", MAIN, self._read("reader", MAIN, isolation))
        if self._load.chained:
            self._begin("second reader", SECOND, self._read("second reader", SECOND, "read_committed"))
            self._start(watch_chain(self._workload))

    def _begin(self, name: str, topic: str, coroutine: Any) -> None:
        self._topics[name] = topic
        self._start(coroutine)

    def _start(self, coroutine: Any) -> None:
        self._tasks.append(self._world.loop.create_task(self._workload.watched(coroutine)))

    async def stop(self) -> None:
        """Close all readers."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def catch_up(self, ends: Callable[[str], dict[TopicPartition, int]], timeout_s: float) -> None:
        """Wait until the readers reach the ends of their topics, at most this long (I6)."""
        until = self._world.loop.time() + timeout_s
        while behind := self._behind(ends):
            if self._world.loop.time() > until:
                self._workload.problems += [
                    f"{name} does not read on: {where} at {at} of {end}" for name, where, at, end in behind
                ]
                return
            await asyncio.sleep(0.1)

    def _behind(self, ends: Callable[[str], dict[TopicPartition, int]]) -> list[tuple[str, TopicPartition, int, int]]:
        found = self.side.behind() if self._load.is_durable else []
        for name, topic in self._topics.items():
            for where, end in ends(topic).items():
                at = self.seen.get((name, where), 0)
                if at < end:
                    found.append((name, where, at, end))
        return found

    async def _watch(self) -> None:
        """Check that a reader with records to read gets them soon after the faults end, not only at the end of the run
        (I6).
        """
        last: dict[tuple[str, TopicPartition], _Progress] = {}
        while True:
            await asyncio.sleep(0.5)
            now, calm_since = self._world.loop.time(), self._world.calm_since_s
            places = {**self.seen, **(self._roamer.places() if self._roamer is not None else {})}
            for (name, where), at in places.items():
                end = self._world.state.topics.by_name[where.topic].partitions[where.partition].last_stable_offset
                its = last.get((name, where))
                if its is None or its.at != at:
                    its = last[name, where] = _Progress(at, end, now, now)
                if now - max(its.began, calm_since) <= PLACED_S:
                    its.end = end
                # A reader of unknown position may start at the end. Then it has no records to read until the end moves.
                if at >= end or (at < 0 and its.end == end):
                    its.since = now
                stalled_s = max(0.0, now - max(its.since, calm_since))
                if stalled_s > STALLED_S:
                    self._workload.problems.append(
                        f"{name} stays at {at} of {end} in {where.topic}-{where.partition}, and nothing has been wrong "
                        f"for {stalled_s:g} s"
                    )
                    its.since = now + 1e9

    def note(self, view: View, batch: Any, known: set[TopicPartition]) -> None:
        """Write a batch that was read live to the history."""
        where = TopicPartition(batch.topic or "", batch.partition or 0)
        if where not in known:
            known.add(where)
            view.move(where.topic, where.partition, 0, "the start")
        records = list(batch)
        view.add(where.topic, where.partition, [r.offset for r in records], [r.value for r in records])
        self._workload.counts["read"] += len(records)

    def options(self, name: str, isolation: str) -> dict[str, Any]:
        """Return the options of the consumer of that name."""
        return {
            "client_id": name.replace(" ", "-"),
            "isolation_level": isolation,
            "fetch_strategy": self._load.options["fetch_strategy"],
            "request_timeout_ms": 5_000,
            "auto_offset_reset": "earliest",
        }

    def consumer(self, name: str, isolation: str, **options: Any) -> kafwire.AsyncConsumer:
        """Return a consumer of this run; `options` override the run's own."""
        options = {**self.options(name, isolation), **options}
        return kafwire.AsyncConsumer(self._world.bootstrap, engine=self._world.engine, **options)

    async def _read(self, name: str, topic: str, isolation: str) -> None:
        view = self._history.view(name, isolation, live=self._load.is_durable)
        known: set[TopicPartition] = set()
        while True:
            try:
                async with self.consumer(name, isolation, topics=[topic], start="earliest") as consumer:
                    for (reader, where), offset in self.seen.items():
                        if reader == name and where in consumer.assignment:
                            await consumer.seek(where, offset)
                    await self._read_on(name, view, consumer, known, isolation)
            except KafkaError as error:
                self.note_error(name, error)
                await asyncio.sleep(0.5)

    def note_error(self, name: str, error: Exception) -> None:
        """Note the error that ended a reader: a time-out at its start, or a fault of the client."""
        self._workload.counts[f"error reader {type(error).__name__}"] += 1
        self._workload.say(f"{name}: {error}")
        if not isinstance(error, KafkaConnectionError | KafkaTimeoutError):
            self._workload.problems.append(error_text(name, error))

    async def _read_on(
        self, name: str, view: View, consumer: kafwire.AsyncConsumer, known: set[TopicPartition], isolation: str
    ) -> None:
        while True:
            batches = await consumer.poll(1.0)
            for batch in batches:
                where = TopicPartition(batch.topic or "", batch.partition or 0)
                self.note(view, batch, known)
                self.seen[name, where] = batch.next_offset
                if not self._load.is_durable:
                    self._trace(name, where, isolation).add(batch)
            # Markers, or a truncation, may follow the last record that was read.
            for where in consumer.assignment if not batches or not self._load.is_durable else ():
                self.seen[name, where] = position = await consumer.position(where)
                if not self._load.is_durable:
                    self._trace(name, where, isolation).reach(position)

    def _trace(self, name: str, where: TopicPartition, isolation: str) -> Trace:
        known = self._traces.get((name, where))
        if known is None:
            committed_only = isolation == "read_committed"
            known = self._traces[name, where] = Trace(name, where, 0, "began", committed_only, is_durable=False)
        return known

    def judge(self) -> list[str]:
        """Return the differences between the records that readers got and the logs. All readers are at the ends."""
        traces = list(self._traces.values())
        if self._roamer is not None:
            traces += [*self._roamer.finished, *self._roamer.traces.values()]
        contents: dict[tuple[TopicPartition, bool], Content] = {}
        found = []
        for trace in traces:
            key = trace.where, trace.committed_only
            if key not in contents:
                partition = self._world.state.topics.by_name[trace.where.topic].partitions[trace.where.partition]
                contents[key] = content_of(partition, committed_only=trace.committed_only)
            found.append(trace.judge(contents[key]))
        return [problem for problem in found if problem]
