"""The state of the simulated world's brokers: topics, logs with leaders, replicas and epochs, and waiting requests."""

from __future__ import annotations

import asyncio
import itertools
import struct
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from kafwire.errors import ErrorCode
from kafwire.records import decode_batches, encode_batch

NO_TOPIC_ID = uuid.UUID(int=0)
FOR_EVER = 1 << 62
INDEX_INTERVAL = 4096  # index.interval.bytes


@dataclass(slots=True)
class Call:
    """A request as a broker sees it."""

    at_ms: float
    node: int
    connection: int
    version: int
    correlation_id: int
    message: Any

    @property
    def name(self) -> str:
        """The name of its API."""
        return type(self.message).__name__.removesuffix("Request")


class Never:
    """A response that does not come."""


class Hangup:
    """The broker closes the connection instead of sending a response."""


class Dropped:
    """A response lost in transit: the broker serves the requests after it, but the next response breaks the
    connection.
    """


DROPPED = Dropped()
NEVER = Never()
HANGUP = Hangup()
# bytes: a raw frame after the correlation id. None: the next handler, and at last the model, makes the response.
Response = Any
Handler = Callable[[Call], Response]


@dataclass(slots=True)
class Stored:
    """One batch in a log: its offsets [base, next) and bytes."""

    base: int
    next: int
    data: bytes

    @property
    def ends_transaction_of(self) -> int | None:
        """The producer id of the transaction marker that this batch is, or None."""
        attributes, producer_id = struct.unpack_from(">h20xq", self.data, 21) if self.data[16] >= 2 else (0, -1)
        return int(producer_id) if attributes & 0x20 else None


@dataclass(slots=True)
class Log:
    """A partition: its leader and followers, its batches, and the broker's memory of epochs and producers."""

    leader: int
    epoch: int = 0
    batches: list[Stored] = field(default_factory=list)
    start: int = 0
    end: int = 0  # the end of the leader's log; the last batch may end before it
    replicated: int | None = None  # the high watermark, if followers do not have all records
    stable: int | None = None  # the last stable offset, if open transactions do not decide it
    open: dict[int, int] = field(default_factory=dict)  # the first offset of each producer's open transaction
    aborted: list[tuple[int, int]] = field(default_factory=list)  # producer id, first offset
    error: int = 0
    producers: dict[int, tuple[int, deque[tuple[int, int, int]]]] = field(default_factory=dict)
    verified: dict[int, int] = field(
        default_factory=dict
    )  # the lowest sequence of a producer that began no transaction
    marked: dict[int, int] = field(default_factory=dict)  # by producer: the offset of its last marker
    # By node and producer: batches before this offset are forgotten.
    forgotten: dict[int, dict[int, int]] = field(default_factory=dict)
    replicas: list[int] = field(default_factory=list)  # the leader's node among them
    follower_ends: dict[int, int] = field(default_factory=dict)  # of followers that lag: the ends of their logs
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])  # each leader epoch and its first offset
    on_append: Callable[[], None] = lambda: None

    def append(self, data: bytes, *, next_offset: int | None = None) -> None:
        """Store one encoded batch at the end; `next_offset` leaves a hole after it."""
        batch = decode_batches(data)[0]
        data = _as_leader_writes(data, self.end, self.epoch)
        stored = Stored(self.end, self.end + batch.last_offset - batch.base_offset + 1, data)
        self.batches.append(stored)
        self.end = stored.next if next_offset is None else next_offset
        self.on_append()

    def append_values(self, values: Iterable[bytes]) -> None:
        """Append a batch of records with these values."""
        self.append(encode_batch(list(values)))

    def values(self) -> list[bytes | None]:
        """Return the values of all stored records."""
        return [record.value for stored in self.batches for batch in decode_batches(stored.data) for record in batch]

    @property
    def high_watermark(self) -> int:
        """The high watermark: readers get records before this offset."""
        return self.end if self.replicated is None else min(self.end, self.replicated)

    @property
    def last_stable(self) -> int:
        """The last stable offset: readers of committed records get records before it."""
        stable = self.high_watermark if self.stable is None else min(self.stable, self.high_watermark)
        return min([stable, *self.open.values()])

    def end_transaction(self, producer_id: int, epoch: int, marker: bytes, *, commit: bool) -> None:
        """Write a producer's marker, which sets its epoch, and end its transaction if it has one in this partition."""
        first = self.open.pop(producer_id, None)
        self.verified.pop(producer_id, None)
        if first is not None and not commit:
            self.aborted.append((producer_id, first))
        self.marked[producer_id] = self.end
        known, recent = self.producers.get(producer_id, (-1, deque()))
        self.producers[producer_id] = (epoch, recent if known == epoch else deque())
        self.append(marker)

    def forget_producers(self, node: int, kept: int) -> None:
        """Restart `node`, which then remembers only the last `kept` batches of each producer.

        That is one after a clean stop, as a snapshot has no more, and one after a crash, as recovery writes a snapshot
        too. It is up to five where no snapshot covers the end of the log, and none of an expired producer.
        """
        cuts = self.forgotten.setdefault(node, {})
        for producer_id, (_, recent) in self.producers.items():
            known = [offset for _, _, offset in recent if offset >= cuts.get(producer_id, 0)]
            if not kept:
                cuts[producer_id] = self.end
            elif known:
                cuts[producer_id] = min(known[-kept:])

    def remembered(self, producer_id: int) -> tuple[int, list[tuple[int, int, int]]]:
        """Return the leader's state of a producer: its epoch, -1 if unknown, and its last batches."""
        epoch, recent = self.producers.get(producer_id, (-1, deque()))
        cut = self.forgotten.get(self.leader, {}).get(producer_id, 0)
        kept = [batch for batch in recent if batch[2] >= cut]
        return (-1, []) if cut and not kept and self.marked.get(producer_id, -1) < cut else (epoch, kept)

    def lead(self, node: int, epoch: int) -> None:
        """Make `node` the leader from now on; if it was no replica, it takes the place of the last leader."""
        if node not in self.replicas:
            self.replicas = [node if replica == self.leader else replica for replica in self.replicas]
        self.leader, self.epoch = node, epoch
        self.follower_ends.pop(node, None)
        self.epochs.append((epoch, self.end))
        self.on_append()

    def truncate(self, offset: int) -> None:
        """Remove the records from `offset` on, as a new leader that lags does in its followers' logs."""
        self.batches = [stored for stored in self.batches if stored.next <= offset]
        self.end = min(self.end, offset)
        self.epochs = [(epoch, first) for epoch, first in self.epochs if first < offset or (epoch, first) == (0, 0)]
        self.aborted = [(producer, first) for producer, first in self.aborted if first < offset]
        self.open = {producer: first for producer, first in self.open.items() if first < offset}

    def delete_before(self, offset: int) -> None:
        """Remove whole batches below `offset`, as retention and DeleteRecords do."""
        self.start = max(self.start, offset)
        self.batches = [stored for stored in self.batches if stored.next > self.start]
        self.on_append()

    def end_of(self, epoch: int) -> tuple[int, int]:
        """Return the greatest epoch up to `epoch` and the offset after its last record; (-1, -1) for a future epoch."""
        if epoch < 0 or epoch > self.epochs[-1][0]:
            return -1, -1
        if epoch == self.epochs[-1][0]:
            return epoch, self.end
        found = epoch
        for known, first in self.epochs:
            if known > epoch:
                return found, first
            found = known
        raise AssertionError("unreachable")

    def end_at(self, node: int) -> int:
        """Return the offset up to which `node` serves the log."""
        return self.end if node == self.leader else min(self.end, self.follower_ends.get(node, self.end))

    def aborted_in(self, first: int, end: int) -> list[tuple[int, int]]:
        """Return the aborted transactions with records in [first, end)."""
        return [(p, begin) for p, begin in self.aborted if begin < end and self._end_of_transaction(p, begin) > first]

    def reported_to(self, end: int) -> int:
        """Return the offset up to which a response for records up to `end` lists aborted transactions.

        It is the offset of the next entry of the offset index, which has one for every 4 KiB of batches, or the log's
        end.
        """
        since = 0
        for stored in self.batches:
            if since > INDEX_INTERVAL:
                if stored.base >= end:
                    return stored.next - 1
                since = 0
            since += len(stored.data)
        return self.end

    def _end_of_transaction(self, producer: int, begin: int) -> int:
        marks = (s.next for s in self.batches if s.base >= begin and s.ends_transaction_of == producer)
        return next(marks, FOR_EVER)

    def refuses(self, node: int, current_leader_epoch: int, *, followers: bool = False) -> int:
        """Return the error code of `node` for a request with this leader epoch, or 0."""
        if self.error:
            return self.error
        if node not in self.replicas and node != self.leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if 0 <= current_leader_epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if current_leader_epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return 0 if followers or node == self.leader else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _as_leader_writes(data: bytes, offset: int, epoch: int) -> bytes:
    """Return the batch with its offset, and in format 2 the leader's epoch. Neither is under the checksum."""
    head = struct.pack(">q", offset) + data[8:12]
    return head + (struct.pack(">i", epoch) if data[16] >= 2 else data[12:16]) + data[16:]


@dataclass(slots=True)
class Topic:
    """A topic and its partitions' logs."""

    name: str
    topic_id: uuid.UUID
    partitions: list[Log]


class Listening(Protocol):
    """A broker: its addresses and versions."""

    number: int
    host: str
    port: int
    down: bool
    rack: str | None
    versions: dict[str, tuple[int, int]]


class Topics:
    """The state that the brokers of a cluster share. A test reads and changes it freely."""

    nodes: Mapping[int, Listening]
    auto_create = False  # auto.create.topics.enable; a topic appears a while after the request for it
    creation_takes_s = 0.3
    loop: asyncio.AbstractEventLoop
    least_partitions = 1  # of every new topic: a topic can have more partitions than a test asks for; these are empty

    def __init__(self, *, topic_ids: bool) -> None:
        self.topic_ids = topic_ids
        self.topics: dict[str, Topic] = {}
        self.lagging: dict[int, dict[str, Topic]] = {}  # brokers that lag, and their stale metadata
        self.throttle: Callable[[Call], int] = lambda _: 0  # milliseconds by which a request is over its quota
        self.unreadable: set[str] = set()  # topics that no client may read
        self._made = itertools.count()
        self._waiting: set[asyncio.Future[None]] = set()

    def create_topic(self, name: str, *, partitions: int = 1, replicas: int = 1) -> Topic:
        """Create a topic; partitions get leaders in turn, the next nodes follow. A recreated topic has another id."""
        again = next(self._made) if name in self.topics else ""
        topic_id = uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}{again}") if self.topic_ids else NO_TOPIC_ID
        self.topics[name] = Topic(name, topic_id, [])
        self.add_partitions(name, max(partitions, self.least_partitions), replicas=replicas)
        return self.topics[name]

    def add_partitions(self, name: str, count: int, *, replicas: int = 1) -> None:
        """Add `count` partitions."""
        logs = self.topics[name].partitions
        nodes = list(self.nodes)
        for index in range(len(logs), len(logs) + count):
            placed = [nodes[(index + i) % len(nodes)] for i in range(min(replicas, len(nodes)))]
            logs.append(Log(leader=placed[0], replicas=placed, on_append=self.wake))

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        del self.topics[name]
        self.wake()

    def move_leader(self, name: str, partition: int, leader: int) -> None:
        """Make another broker the leader of a partition, in the next epoch."""
        log = self.topics[name].partitions[partition]
        log.lead(leader, log.epoch + 1)

    def fail_over(self, name: str, partition: int, leader: int, *, stable: int, for_s: float) -> None:
        """Make `leader` the leader with all records; for a while it does not know that transactions from `stable` on
        ended.

        Their markers lie above the high watermark that it got from the previous leader.
        """
        log = self.topics[name].partitions[partition]
        log.stable = min(stable, log.stable if log.stable is not None else log.end)
        self.move_leader(name, partition, leader)

        def catch_up() -> None:
            log.stable = None
            self.wake()

        self.loop.call_later(for_s, catch_up)

    def lose_records(self, name: str, partition: int, leader: int, offset: int) -> None:
        """Make `leader`, which has no records from `offset` on, the leader by an unclean election (KIP-320)."""
        self.topics[name].partitions[partition].truncate(offset)
        self.move_leader(name, partition, leader)

    def lag(self, node: int) -> None:
        """Freeze the Metadata response of `node` at the present state until `catch_up`."""
        self.lagging[node] = {
            name: Topic(name, topic.topic_id, [replace(log) for log in topic.partitions])
            for name, topic in self.topics.items()
        }

    def catch_up(self, node: int) -> None:
        """End the lag of a broker's metadata."""
        self.lagging.pop(node, None)

    def find(self, name: str | None, topic_id: uuid.UUID, topics: Mapping[str, Topic] | None = None) -> Topic | None:
        """Return a topic by its name or its id, from all topics or from `topics`."""
        known = self.topics if topics is None else topics
        if name:
            return known.get(name)
        return next((t for t in known.values() if t.topic_id == topic_id), None)

    def wake(self) -> None:
        """Make waiting requests look for records again."""
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def changed(self, timeout_s: float) -> None:
        """Wait until a log has grown or its leader moved, or until the timeout."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await asyncio.wait([waiter], timeout=timeout_s)
        finally:
            self._waiting.discard(waiter)
