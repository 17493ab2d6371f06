"""What the simulated world's brokers keep: topics, logs with leaders, replicas and epochs, and who waits for more."""

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
    """An answer that does not come."""


class Hangup:
    """The broker closes the connection instead of answering."""


class Dropped:
    """An answer that is lost on its way: requests behind it are served until one is answered, which nobody believes."""


DROPPED = Dropped()
NEVER = Never()
HANGUP = Hangup()
# bytes: a raw frame after the correlation id. None: let the next handler, and at last the model, answer.
Answer = Any
Handler = Callable[[Call], Answer]


@dataclass(slots=True)
class Stored:
    """One batch in a log: its offsets [base, next) and bytes."""

    base: int
    next: int
    data: bytes

    @property
    def ends_transaction_of(self) -> int | None:
        """The producer whose marker this is."""
        attributes, producer_id = struct.unpack_from(">h20xq", self.data, 21) if self.data[16] >= 2 else (0, -1)
        return int(producer_id) if attributes & 0x20 else None


@dataclass(slots=True)
class Log:
    """A partition: who leads and follows, its batches, and what the broker remembers of epochs and producers."""

    leader: int
    epoch: int = 0
    batches: list[Stored] = field(default_factory=list)
    start: int = 0
    end: int = 0  # where the leader's log ends; batches may end before it
    replicated: int | None = None  # the high watermark, if followers have not got all
    stable: int | None = None  # where the last stable offset stands, if open transactions do not say
    open: dict[int, int] = field(default_factory=dict)  # the first offset of each producer's open transaction
    aborted: list[tuple[int, int]] = field(default_factory=list)  # producer id, first offset
    error: int = 0
    producers: dict[int, tuple[int, deque[tuple[int, int, int]]]] = field(default_factory=dict)
    verified: dict[int, int] = field(
        default_factory=dict
    )  # the lowest sequence of a producer that began no transaction
    marked: dict[int, int] = field(default_factory=dict)  # by producer: the offset of its last marker
    forgotten: dict[int, dict[int, int]] = field(default_factory=dict)  # by node, producer: what lies before
    replicas: list[int] = field(default_factory=list)  # the leader's node among them
    follower_ends: dict[int, int] = field(default_factory=dict)  # of followers that lag: how far they got
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])  # each leader epoch and its first offset
    on_append: Callable[[], None] = lambda: None

    def append(self, data: bytes, *, next_offset: int | None = None) -> None:
        """Store one encoded batch at the end; `next_offset` leaves a hole behind it."""
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
        """The values of all records that are kept."""
        return [record.value for stored in self.batches for batch in decode_batches(stored.data) for record in batch]

    @property
    def high_watermark(self) -> int:
        """The offset behind what readers may have."""
        return self.end if self.replicated is None else min(self.end, self.replicated)

    @property
    def last_stable(self) -> int:
        """Up to where readers of committed records may read."""
        stable = self.high_watermark if self.stable is None else min(self.stable, self.high_watermark)
        return min([stable, *self.open.values()])

    def end_transaction(self, producer_id: int, epoch: int, marker: bytes, *, commit: bool) -> None:
        """Write a producer's marker, which gives it an epoch, and ends its transaction if it has one here."""
        first = self.open.pop(producer_id, None)
        self.verified.pop(producer_id, None)
        if first is not None and not commit:
            self.aborted.append((producer_id, first))
        self.marked[producer_id] = self.end
        known, recent = self.producers.get(producer_id, (-1, deque()))
        self.producers[producer_id] = (epoch, recent if known == epoch else deque())
        self.append(marker)

    def forget_producers(self, node: int, kept: int) -> None:
        """`node` restarts, and remembers only the last `kept` batches of each producer.

        One after a stop in order and after a crash, as a snapshot has no more, and recovery writes one, too; up to five
        where no snapshot covers the end of the log; none of a producer that has expired.
        """
        cuts = self.forgotten.setdefault(node, {})
        for producer_id, (_, recent) in self.producers.items():
            known = [offset for _, _, offset in recent if offset >= cuts.get(producer_id, 0)]
            if not kept:
                cuts[producer_id] = self.end
            elif known:
                cuts[producer_id] = min(known[-kept:])

    def remembered(self, producer_id: int) -> tuple[int, list[tuple[int, int, int]]]:
        """What the leader knows of a producer: its epoch, -1 if it knows nothing, and its last batches."""
        epoch, recent = self.producers.get(producer_id, (-1, deque()))
        cut = self.forgotten.get(self.leader, {}).get(producer_id, 0)
        kept = [batch for batch in recent if batch[2] >= cut]
        return (-1, []) if cut and not kept and self.marked.get(producer_id, -1) < cut else (epoch, kept)

    def lead(self, node: int, epoch: int) -> None:
        """`node` leads from here on; if it was no replica, in the place of the last leader."""
        if node not in self.replicas:
            self.replicas = [node if replica == self.leader else replica for replica in self.replicas]
        self.leader, self.epoch = node, epoch
        self.follower_ends.pop(node, None)
        self.epochs.append((epoch, self.end))
        self.on_append()

    def truncate(self, offset: int) -> None:
        """Take away what is at `offset` and after, as a new leader that lags does to its followers' logs."""
        self.batches = [stored for stored in self.batches if stored.next <= offset]
        self.end = min(self.end, offset)
        self.epochs = [(epoch, first) for epoch, first in self.epochs if first < offset or (epoch, first) == (0, 0)]
        self.aborted = [(producer, first) for producer, first in self.aborted if first < offset]
        self.open = {producer: first for producer, first in self.open.items() if first < offset}

    def delete_before(self, offset: int) -> None:
        """Take away whole batches below `offset`, as retention and DeleteRecords do."""
        self.start = max(self.start, offset)
        self.batches = [stored for stored in self.batches if stored.next > self.start]
        self.on_append()

    def end_of(self, epoch: int) -> tuple[int, int]:
        """The greatest epoch up to `epoch` and the offset after its last record; (-1, -1) for an epoch to come."""
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
        """How far `node` serves the log."""
        return self.end if node == self.leader else min(self.end, self.follower_ends.get(node, self.end))

    def aborted_in(self, first: int, end: int) -> list[tuple[int, int]]:
        """The aborted transactions with records in [first, end)."""
        return [(p, begin) for p, begin in self.aborted if begin < end and self._end_of_transaction(p, begin) > first]

    def told_to(self, end: int) -> int:
        """The offset up to which aborted transactions are told to who reads up to `end`.

        It is that of the next entry of the offset index, which has one for every 4 KiB of batches, or the log's end.
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
        """The error code for whoever asks `node` with this view of who leads."""
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
    """With its offset, and in format 2 its leader's epoch: neither is under the checksum."""
    head = struct.pack(">q", offset) + data[8:12]
    return head + (struct.pack(">i", epoch) if data[16] >= 2 else data[12:16]) + data[16:]


@dataclass(slots=True)
class Topic:
    """A topic and its partitions' logs."""

    name: str
    topic_id: uuid.UUID
    partitions: list[Log]


class Listening(Protocol):
    """Of a broker: where it listens, and what it has."""

    number: int
    host: str
    port: int
    down: bool
    rack: str | None
    versions: dict[str, tuple[int, int]]


class Topics:
    """What the brokers of a cluster have in common. A test reads and changes it as it likes."""

    nodes: Mapping[int, Listening]
    auto_create = False  # auto.create.topics.enable; a topic is made a while after it was asked for
    creation_takes_s = 0.3
    loop: asyncio.AbstractEventLoop
    least_partitions = 1  # of every topic that is made: more than a test asks for are there, and empty

    def __init__(self, *, topic_ids: bool) -> None:
        self.topic_ids = topic_ids
        self.topics: dict[str, Topic] = {}
        self.lagging: dict[int, dict[str, Topic]] = {}  # brokers that lag, and what they know
        self.throttle: Callable[[Call], int] = lambda _: 0  # milliseconds of quota that a request has overdrawn
        self.unreadable: set[str] = set()  # topics that nobody has the permission to read
        self._made = itertools.count()
        self._waiting: set[asyncio.Future[None]] = set()

    def create_topic(self, name: str, *, partitions: int = 1, replicas: int = 1) -> Topic:
        """A topic, its leaders in turn, their followers the nodes after them. Made anew it has another id."""
        again = next(self._made) if name in self.topics else ""
        topic_id = uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}{again}") if self.topic_ids else NO_TOPIC_ID
        self.topics[name] = Topic(name, topic_id, [])
        self.add_partitions(name, max(partitions, self.least_partitions), replicas=replicas)
        return self.topics[name]

    def add_partitions(self, name: str, count: int, *, replicas: int = 1) -> None:
        """`count` more partitions."""
        logs = self.topics[name].partitions
        nodes = list(self.nodes)
        for index in range(len(logs), len(logs) + count):
            placed = [nodes[(index + i) % len(nodes)] for i in range(min(replicas, len(nodes)))]
            logs.append(Log(leader=placed[0], replicas=placed, on_append=self.wake))

    def delete_topic(self, name: str) -> None:
        """A topic is there no more."""
        del self.topics[name]
        self.wake()

    def move_leader(self, name: str, partition: int, leader: int) -> None:
        """Another broker leads a partition, in the next epoch."""
        log = self.topics[name].partitions[partition]
        log.lead(leader, log.epoch + 1)

    def fail_over(self, name: str, partition: int, leader: int, *, stable: int, for_s: float) -> None:
        """`leader` leads, and has it all; but it does not know for a while that transactions from `stable` on ended.

        Their markers lie above the high watermark that it has heard of from the leader before.
        """
        log = self.topics[name].partitions[partition]
        log.stable = min(stable, log.stable if log.stable is not None else log.end)
        self.move_leader(name, partition, leader)

        def catch_up() -> None:
            log.stable = None
            self.wake()

        self.loop.call_later(for_s, catch_up)

    def lose_records(self, name: str, partition: int, leader: int, offset: int) -> None:
        """An unclean election: `leader`, who has nothing from `offset` on, leads (KIP-320)."""
        self.topics[name].partitions[partition].truncate(offset)
        self.move_leader(name, partition, leader)

    def lag(self, node: int) -> None:
        """From now on `node` answers Metadata with what is so now, until `catch_up`."""
        self.lagging[node] = {
            name: Topic(name, topic.topic_id, [replace(log) for log in topic.partitions])
            for name, topic in self.topics.items()
        }

    def catch_up(self, node: int) -> None:
        """A broker's metadata lag behind no more."""
        self.lagging.pop(node, None)

    def find(self, name: str | None, topic_id: uuid.UUID, topics: Mapping[str, Topic] | None = None) -> Topic | None:
        """A topic by its name or its id, among all, or `topics`."""
        known = self.topics if topics is None else topics
        if name:
            return known.get(name)
        return next((t for t in known.values() if t.topic_id == topic_id), None)

    def wake(self) -> None:
        """Let those who wait for records look again."""
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def changed(self, timeout_s: float) -> None:
        """Until a log has grown or moved, but not for longer."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await asyncio.wait([waiter], timeout=timeout_s)
        finally:
            self._waiting.discard(waiter)
