"""A partition: its leader and followers, the end of each replica, and the leader's state of epochs and producers.

One log serves all replicas: a follower has a part of it, from the start up to its end in `replica_ends`. The high
watermark is the least end of the in-sync replicas. A new leader with fewer records truncates the log.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from kafwire.broker.log.batch_header import BatchHeader, read_header, stamp
from kafwire.broker.log.log import FileSpan, MemoryLog, PartitionLog, read_span
from kafwire.broker.log.producer_state import Marker, ProducerStates
from kafwire.errors import ErrorCode
from kafwire.records import decode_batches, encode_batch

NO_LEADER = -1
_MARKER_KEY = struct.Struct(">hh")  # version, type: 1 commits
_MARKER_VALUE = struct.Struct(">hi")  # version, coordinator epoch


class Watchers(dict["Watcher", None]):
    """Callbacks for changes, in the order of their addition, which is the same in each run."""

    def add(self, watcher: Watcher) -> None:
        """Add a callback."""
        self[watcher] = None

    def discard(self, watcher: Watcher) -> None:
        """Remove a callback."""
        self.pop(watcher, None)


class PartitionTopic(Protocol):
    """The topic of a partition: its names and its own options."""

    name: str
    topic_id: uuid.UUID
    configs: dict[str, str]
    is_internal: bool


@dataclass(slots=True, eq=False)
class Partition:
    """One partition of a topic."""

    topic: PartitionTopic
    index: int
    replicas: list[int]
    leader: int
    log: PartitionLog = field(default_factory=MemoryLog)
    leader_epoch: int = 0
    isr: list[int] = field(default_factory=list)
    partition_epoch: int = 0
    replica_ends: dict[int, int] = field(default_factory=dict)  # of followers without all records
    held_at: int | None = None  # the offset at which a fault holds the high watermark
    stable_at: int | None = None  # the offset at which an uninformed new leader holds the last stable offset
    error: int = 0  # the error code of all responses, for a broken partition
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])  # each leader epoch and its first offset
    producers: ProducerStates = field(default_factory=ProducerStates)
    # Callbacks of requests that wait for records or replication, called with the number of new readable bytes, or with
    # -1 for any other change.
    watchers: Watchers = field(default_factory=Watchers)

    def __post_init__(self) -> None:
        if not self.isr:
            self.isr = list(self.replicas)
        self.producers.node = self.leader

    @property
    def high_watermark(self) -> int:
        """The high watermark: readers get records before this offset."""
        ends = [self.replica_ends.get(node, self.log.end_offset) for node in self.isr if node != self.leader]
        mark = min([self.log.end_offset, *ends])
        mark = mark if self.held_at is None else min(mark, self.held_at)
        return max(mark, self.log.start_offset)

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset: readers of committed records get records before it."""
        mark = self.high_watermark
        mark = mark if self.stable_at is None else min(mark, self.stable_at)
        first = self.producers.first_unstable_offset(mark)
        return mark if first is None else min(mark, max(first, self.log.start_offset))

    def end_at(self, node: int) -> int:
        """Return the end of a replica's own log."""
        end = self.log.end_offset
        return end if node == self.leader else self.replica_ends.get(node, end)

    def refuses(self, node: int, current_leader_epoch: int, *, followers: bool = False) -> int:
        """Return the error code of `node` for a request with this leader epoch, or 0."""
        if self.error:
            return self.error
        if node not in self.replicas and node != self.leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if 0 <= current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if current_leader_epoch > self.leader_epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return 0 if followers or node == self.leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    # --- writing

    def append(self, data: bytes | bytearray, headers: list[BatchHeader] | None = None) -> int:
        """Store batches at the end, with their offsets and the leader's epoch. Return the first offset.

        The caller updates the producers' state (`produce`, `write_marker`).
        """
        stamped = data if isinstance(data, bytearray) else bytearray(data)
        position, base = 0, self.log.end_offset
        placed: list[BatchHeader] = []
        while position < len(stamped):
            header = headers[len(placed)] if headers is not None else read_header(stamped, position)
            offset = placed[-1].next_offset if placed else base
            placed.append(stamp(stamped, position, header, offset, self.leader_epoch))
            position += header.size
        mark = self.high_watermark
        self.log.append(bytes(stamped), placed)
        self.notify(len(stamped) if self.high_watermark > mark else 0)
        return base

    def write_marker(
        self, producer_id: int, epoch: int, now_ms: int, *, commit: bool, coordinator_epoch: int = 0
    ) -> int:
        """Append the marker that ends a producer's transaction. Return its offset."""
        key, value = _MARKER_KEY.pack(0, commit), _MARKER_VALUE.pack(0, coordinator_epoch)
        record: dict[str, object] = {"key": key, "value": value, "timestamp_ms": now_ms}
        data = encode_batch([record], producer_id=producer_id, producer_epoch=epoch, transactional=True, control=True)
        header = read_header(data)
        # The transaction ends before watchers learn that the log has grown.
        header.next_offset += self.log.end_offset - header.base_offset
        header.base_offset = self.log.end_offset
        self.producers.end(header, commit=commit, coordinator_epoch=coordinator_epoch)
        return self.append(data)

    def read_marker(self, header: BatchHeader) -> Marker:
        """Return the content of a transaction marker in the log."""
        data = self.log.read(header.base_offset, header.size)
        (batch,) = decode_batches(read_span(data) if isinstance(data, FileSpan) else data)
        (record,) = batch
        _, kind = _MARKER_KEY.unpack_from(record.key or b"")
        _, coordinator_epoch = _MARKER_VALUE.unpack_from(record.value or b"")
        return Marker(bool(kind), coordinator_epoch)

    def replay_producers(self) -> None:
        """Rebuild the producers' state from the log, as a broker does that has only the log."""
        self.producers.replay(self.log.headers(self.log.start_offset), self.read_marker)

    def append_values(self, values: Iterable[bytes]) -> int:
        """Append a batch of records with these values. Return its first offset."""
        return self.append(encode_batch(list(values)))

    def values(self) -> list[bytes | None]:
        """Return the values of all stored records."""
        size = self.log.size
        data = self.log.read(self.log.start_offset, size)
        data = read_span(data) if isinstance(data, FileSpan) else data
        return [record.value for batch in decode_batches(data) for record in batch if not batch.is_control]

    # --- replication and leaders

    def replicate(self, node: int, end: int | None = None) -> None:
        """Note that a follower has all records up to `end`, or all records."""
        if end is None or end >= self.log.end_offset:
            self.replica_ends.pop(node, None)
        else:
            self.replica_ends[node] = end
        self.notify(-1)

    def lead(self, node: int, *, end: int | None = None) -> None:
        """Make `node` the leader in the next epoch; records that it lacks are lost, for all.

        `end`: the end of its log; None: the known one. Waiting requests learn of the truncation with the new leader.
        """
        self.leader_epoch += 1
        self.partition_epoch += 1
        if node != NO_LEADER:
            end = self.end_at(node) if end is None else end
            self.replica_ends.pop(node, None)
            if end < self.log.end_offset:
                self._truncate(end)
            if node not in self.replicas:
                self.replicas = [node if replica == self.leader else replica for replica in self.replicas]
                self.isr = [node if replica == self.leader else replica for replica in self.isr]
            if node not in self.isr:
                self.isr.append(node)
            self.epochs.append((self.leader_epoch, self.log.end_offset))
        self.leader = node
        self.producers.lead(node)
        self.notify(-1)

    def truncate(self, offset: int) -> None:
        """Remove records at `offset` and after it, as a new leader that lags does in its followers' logs."""
        self._truncate(offset)
        self.notify(-1)

    def _truncate(self, offset: int) -> None:
        self.log.truncate(offset)
        offset = self.log.end_offset
        self.epochs = [(e, first) for e, first in self.epochs if first < offset or (e, first) == (0, 0)]
        self.producers.truncate(offset, self.read_marker, self.log.headers(self.log.start_offset))
        self.replica_ends = {node: end for node, end in self.replica_ends.items() if end < offset}

    def delete_before(self, offset: int) -> None:
        """Remove records before `offset`, as retention and DeleteRecords do."""
        self.log.delete_before(offset)
        start = self.log.start_offset
        before = [each for each in self.epochs if each[1] <= start]
        self.epochs = [(before[-1][0], start), *(e for e in self.epochs if e[1] > start)] if before else self.epochs
        self.producers.aborted = [each for each in self.producers.aborted if each.last_offset >= start]
        self.notify(-1)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the greatest epoch up to `epoch` and the offset after its last record; (-1, -1) for a future epoch."""
        if epoch < 0 or epoch > self.epochs[-1][0]:
            return -1, -1
        if epoch == self.epochs[-1][0]:
            return epoch, self.log.end_offset
        found = epoch
        for known, first in self.epochs:
            if known > epoch:
                return found, first
            found = known
        raise AssertionError("unreachable")

    def notify(self, grown: int) -> None:
        """Call all watchers."""
        for watcher in list(self.watchers):
            watcher(self, grown)


Watcher = Callable[[Partition, int], None]
