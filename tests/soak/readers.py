"""Readers that are there all the time: they follow topics through faults, and write down what they are given.

Each is of one flavour, one way of reading, one fetch strategy and one isolation level. Some commit offsets, by
themselves or by the consumer's own doing, and start over from the committed ones: never behind the records that they
got.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

import kafwire
from kafwire.errors import CorruptBatchError, KafkaError
from kafwire.records import Batch
from kafwire.testing.history import Dress, History
from kafwire.testing.history.observe import rows_of
from kafwire.types import TopicPartition
from tests.soak.access import Access
from tests.soak.matrix import ARROW, AUTO, BATCHES, BLOCKING, MANUAL, POLL, RECORDS, STREAMS, Reading
from tests.soak.runner import name_of

# After the faults have ended, and all others with them, so long a reader may take to come to the ends (I6).
END_S = 60.0
_POLL_S = 0.2
_STREAM_S = 0.15
_PAUSE_S = 0.1
_AT_ONCE = 20
# A turn of a stream that never falls silent. While others have theirs, many batches of single records may come to it.
TURN_S = 0.5
TURN_BATCHES = 1_000
_COMMIT_S = 1.0

# Where, offsets, values, what they have besides; and where it goes on.
Rows = tuple[TopicPartition, list[int], list[bytes | None], list[Dress], int]
Ends = Mapping[str, Mapping[TopicPartition, int]]


class Reader:
    """Follows topics in a thread of its own until it learns where they end, and then to there."""

    def __init__(self, reading: Reading, history: History, access: Access, seed: int) -> None:
        self.reading = reading
        self.access = access
        self.counts: Counter[str] = Counter()
        self.crash = ""
        self.positions: dict[TopicPartition, int] = {}
        self.change: Callable[[Rows], Iterator[Rows]] = _as_it_is
        self.isolation_level = reading.isolation_level
        self._view = history.view(reading.name, reading.isolation_level, live=True)
        self._chance = random.Random(f"{seed}/{reading.name}")
        self._places = [TopicPartition(topic.name, n) for topic in reading.topics for n in range(topic.partitions)]
        self._goal: dict[TopicPartition, int] = {}
        self._end: dict[TopicPartition, int] | None = None
        self._committed: dict[TopicPartition, int] = {}
        self._thread = threading.Thread(target=self._run, name=reading.name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def running(self) -> bool:
        """True if the thread runs."""
        return self._thread.is_alive()

    def want(self, ends: Ends) -> dict[TopicPartition, int]:
        """The ends that this reader is to reach, of those of all partitions."""
        goal = {where: end for where, end in ends[self.reading.isolation_level].items() if where in self._places}
        self._goal = goal
        return goal

    def finish(self, ends: Ends) -> None:
        """Read to these ends, and end."""
        self._end = self.want(ends)

    def has(self, goal: Mapping[TopicPartition, int]) -> bool:
        """True if it has read so far."""
        return all(self.positions.get(where, -1) >= end for where, end in goal.items())

    # -- the thread

    def _run(self) -> None:
        try:
            self._follow()
        except BaseException:
            self.crash = f"{self.reading.name}:\n{traceback.format_exc()}"

    def _follow(self) -> None:
        flavour = _Blocking() if self.reading.flavour == BLOCKING else _Async()
        try:
            while self._end is None or not self.has(self._end):
                try:
                    with_restart = time.monotonic() + self._chance.uniform(0.5, 1.5) * self.reading.restart_s
                    self._open(flavour)
                    self._read(flavour, with_restart)
                    flavour.close()
                except KafkaError as error:
                    self.counts[f"error read {name_of(error)}"] += 1
                    flavour.drop()
                    time.sleep(_PAUSE_S)
            self._view.close({where: (0, position) for where, position in self.positions.items()})
        finally:
            flavour.drop()
            flavour.end()

    def _open(self, flavour: _Flavour) -> None:
        reading = self.reading
        options = dict(reading.options)
        if reading.commits:
            options |= {"group_id": reading.name, "enable_auto_commit": reading.commits == AUTO}
            options |= {"auto_commit_interval_ms": 500}
        elif self.positions:
            options["start"] = dict(self.positions)
        flavour.open(
            assign=self._places,
            isolation_level=self.isolation_level,
            auto_offset_reset="earliest",
            **self.access.options(),
            **options,
        )
        for where in self._places:
            position = flavour.position(where)
            if position < self._committed.get(where, 0):
                message = f"{where} begins at {position}, and {self._committed[where]} was committed"
                raise AssertionError(message)
            # If it is behind the delivered records, those were not read: the checker finds whether there were any.
            self._view.move(*where, position, "starts over")
            self.positions[where] = position
        self.counts["begun"] += 1

    def _read(self, flavour: _Flavour, until: float) -> None:
        """Read until it is time to start over, or the end is there."""
        reading = self.reading
        committed_at = time.monotonic()
        ends_at: float | None = None
        while True:
            found: list[Rows] = []
            failed: KafkaError | None = None
            try:
                flavour.read(reading.way, self._places, found)
            except KafkaError as error:  # what was given before it counts
                failed = error
            for rows in itertools.chain.from_iterable(map(self.change, found)):
                where, offsets, values, dresses, next_offset = rows
                self._view.add(*where, offsets, values, dresses)
                self.positions[where] = next_offset
                self.counts["read"] += len(offsets)
            if isinstance(failed, CorruptBatchError):  # damaged on its way: it is read again
                self.counts[f"error read {name_of(failed)}"] += 1
                flavour.seek(TopicPartition(failed.topic, failed.partition))
            elif failed is not None:
                raise failed
            self._look(flavour)
            now = time.monotonic()
            if reading.commits == MANUAL and now - committed_at > _COMMIT_S:
                committed_at = now
                self._commit(flavour)
            if self._end is not None:
                ends_at = ends_at or now + END_S
                if self.has(self._end):
                    return
                if now > ends_at:
                    message = f"is at {self.positions} {END_S:g} s after all is over; the ends are {self._end}"
                    raise AssertionError(message)
            elif now > until:
                if reading.commits == MANUAL:
                    self._commit(flavour)
                return

    def _look(self, flavour: _Flavour) -> None:
        """Take note of positions behind offsets that no reader gets: markers, and records of transactions aborted."""
        for where, end in self._goal.items():
            if self.positions.get(where, 0) < end:
                position = flavour.position(where)
                if position < self.positions.get(where, 0):
                    message = f"the position of {where} is {position}, after {self.positions[where]}"
                    raise AssertionError(message)
                self.positions[where] = position

    def _commit(self, flavour: _Flavour) -> None:
        positions = dict(self.positions)
        flavour.commit(positions)
        self._committed = positions


def ends_of(text: str) -> Ends:
    """Ends by isolation level, from what `text_of` made of them."""
    return {
        level: {TopicPartition(topic, partition): end for topic, partition, end in ends}
        for level, ends in json.loads(text).items()
    }


def text_of(ends: Ends) -> str:
    """Ends by isolation level as one line."""
    return json.dumps({level: [[*where, end] for where, end in found.items()] for level, found in ends.items()})


def _as_it_is(rows: Rows) -> Iterator[Rows]:
    yield rows


def placed_rows(batch: Batch) -> Rows:
    return TopicPartition(batch.topic or "", batch.partition or 0), *rows_of(batch), batch.next_offset


class _Flavour(ABC):
    """The calls that a reader needs of a consumer, blocking."""

    @abstractmethod
    def open(self, **options: Any) -> None:
        """Begin to read."""

    @abstractmethod
    def read(self, way: str, places: list[TopicPartition], found: list[Rows]) -> None:
        """Add the delivered rows, also if it ends with an error."""

    @abstractmethod
    def position(self, where: TopicPartition) -> int:
        """Where it reads on."""

    @abstractmethod
    def seek(self, where: TopicPartition) -> None:
        """Read on where it is."""

    @abstractmethod
    def commit(self, offsets: dict[TopicPartition, int]) -> None:
        """Commit these."""

    @abstractmethod
    def close(self) -> None:
        """Close."""

    @abstractmethod
    def drop(self) -> None:
        """Close the open clients, and ignore their errors."""

    def end(self) -> None:
        """Free what it has: nothing."""
        return


class _Blocking(_Flavour):
    _consumer: kafwire.Consumer | None = None

    def open(self, **options: Any) -> None:
        self._consumer = kafwire.Consumer(**options)

    @property
    def consumer(self) -> kafwire.Consumer:
        assert self._consumer is not None
        return self._consumer

    def read(self, way: str, places: list[TopicPartition], found: list[Rows]) -> None:
        consumer = self.consumer
        if way == POLL:
            found += map(placed_rows, consumer.poll(_POLL_S))
        elif way == BATCHES:
            for batch in itertools.islice(consumer.batches(_POLL_S), _AT_ONCE):
                found.append(placed_rows(batch))
        elif way == STREAMS:
            for where in places:
                stream: Any = consumer.partition_stream(where, _STREAM_S)
                try:
                    ends_at = time.monotonic() + TURN_S
                    for batch in itertools.islice(stream, TURN_BATCHES):
                        found.append(placed_rows(batch))
                        if time.monotonic() > ends_at:
                            break
                finally:
                    stream.close()
        else:
            assert way == ARROW
            self._read_arrow(found)

    def _read_arrow(self, found: list[Rows]) -> None:
        with pa.RecordBatchReader.from_stream(self.consumer.arrow_stream(_POLL_S)) as reader:
            try:
                for table in itertools.islice(reader, _AT_ONCE):
                    found += _of_arrow(table)
                return
            except OSError:  # Arrow knows no other errors
                pass
        # It comes again, with its partition, where errors are kafwire's.
        found += map(placed_rows, self.consumer.poll(_POLL_S))

    def position(self, where: TopicPartition) -> int:
        return self.consumer.position(where)

    def seek(self, where: TopicPartition) -> None:
        self.consumer.seek(where, self.consumer.position(where))

    def commit(self, offsets: dict[TopicPartition, int]) -> None:
        self.consumer.commit(offsets)

    def close(self) -> None:
        self.consumer.close()
        self._consumer = None

    def drop(self) -> None:
        if self._consumer is not None:
            with contextlib.suppress(KafkaError):
                self._consumer.close()
            self._consumer = None


class _Async(_Flavour):
    """Runs a loop of its own, as far as it is needed."""

    def __init__(self) -> None:
        self._loop = asyncio.Runner()
        self._consumer: kafwire.AsyncConsumer | None = None

    def open(self, **options: Any) -> None:
        self._loop.run(self._open(options))

    async def _open(self, options: dict[str, Any]) -> None:
        self._consumer = kafwire.AsyncConsumer(**options)
        await self._consumer.start()

    @property
    def consumer(self) -> kafwire.AsyncConsumer:
        assert self._consumer is not None
        return self._consumer

    def read(self, way: str, places: list[TopicPartition], found: list[Rows]) -> None:
        self._loop.run(self._read(way, places, found))

    async def _read(self, way: str, places: list[TopicPartition], found: list[Rows]) -> None:
        consumer = self.consumer
        if way == POLL:
            found += map(placed_rows, await consumer.poll(_POLL_S))
        elif way == BATCHES:
            async for batch in consumer.batches(_POLL_S):
                found.append(placed_rows(batch))
                if len(found) == _AT_ONCE:
                    break
        elif way == STREAMS:
            for where in places:
                stream = consumer.partition_stream(where, _STREAM_S)
                left, ends_at = TURN_BATCHES, time.monotonic() + TURN_S
                try:
                    async for batch in stream:
                        found.append(placed_rows(batch))
                        left -= 1
                        if not left or time.monotonic() > ends_at:
                            break
                finally:
                    await stream.aclose()
        else:
            assert way == RECORDS
            await self._records(found)

    async def _records(self, found: list[Rows]) -> None:
        """One by one; being cancelled in between loses nothing."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_POLL_S):
                async for record in self.consumer:
                    where = TopicPartition(record.topic or "", record.partition or 0)
                    if not found or found[-1][0] != where:
                        found.append((where, [], [], [], 0))
                    _, offsets, values, dresses, _ = found[-1]
                    offsets.append(record.offset)
                    values.append(record.value)
                    dresses.append(Dress(record.key, record.headers, record.timestamp_ms, record.partition))
                    found[-1] = (where, offsets, values, dresses, record.offset + 1)

    def position(self, where: TopicPartition) -> int:
        return self._loop.run(self.consumer.position(where))

    def seek(self, where: TopicPartition) -> None:
        async def seek() -> None:
            await self.consumer.seek(where, await self.consumer.position(where))

        self._loop.run(seek())

    def commit(self, offsets: dict[TopicPartition, int]) -> None:
        self._loop.run(self.consumer.commit(offsets))

    def close(self) -> None:
        self._loop.run(self.consumer.close())
        self._consumer = None

    def drop(self) -> None:
        if self._consumer is not None:
            with contextlib.suppress(KafkaError):
                self._loop.run(self._consumer.close())
            self._consumer = None

    def end(self) -> None:
        self._loop.close()


def _of_arrow(batch: pa.RecordBatch) -> Iterator[Rows]:
    """Runs of one partition."""
    columns = {name: batch.column(name).to_pylist() for name in ("topic", "partition", "offset", "key", "value")}
    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    headers = batch.column("headers").to_pylist()
    places = [TopicPartition(*where) for where in zip(columns["topic"], columns["partition"], strict=True)]
    at = 0
    for where, run in itertools.groupby(places):
        upto = at + len(list(run))
        dresses = [Dress(columns["key"][n], _headers(headers[n]), times[n], where.partition) for n in range(at, upto)]
        offsets = columns["offset"][at:upto]
        yield where, offsets, columns["value"][at:upto], dresses, offsets[-1] + 1
        at = upto


def _headers(pairs: Any) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((pair["key"], pair["value"]) if isinstance(pair, dict) else tuple(pair) for pair in pairs or ())
