"""A broker's side of fetch sessions (KIP-227), as in Kafka 4.4: the oracle for `consumer/fetch/session.py`.

Some rules may surprise. Partitions are forgotten after others are added. A session without partitions is closed. The
session of a full request has the order of its response. A throttled session's epoch goes on. The model knows nothing of
logs: `share` divides a response's bytes among partitions, and `finish` chooses the partitions that it may leave out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from kafwire.errors import ErrorCode

K = TypeVar("K", bound=Hashable)
A = TypeVar("A")

LAST_EPOCH = 2**31 - 1
SLOTS = 1000
EVICTION_MS = 120_000


@dataclass(slots=True)
class Read:
    """The log's result for one partition. `urgent`: reported even unchanged (preferred replica, diverging epoch)."""

    size: int = 0
    high_watermark: int = -1
    log_start: int = -1
    error: int = 0
    urgent: bool = False


@dataclass(slots=True)
class Cached(Generic[A]):
    """One partition of a session: its request, and its state in the last response."""

    asked: A
    high_watermark: int = -1
    log_start: int = -1

    def tell(self, read: Read) -> bool:
        """True if the response must have the partition; its state is then known to the client."""
        included = read.size > 0 or read.urgent or read.error != 0
        included |= self.high_watermark != read.high_watermark or self.log_start != read.log_start
        self.high_watermark = -1 if read.error else read.high_watermark
        self.log_start = read.log_start
        return included


@dataclass(slots=True)
class Session(Generic[K, A]):
    """A fetch session at its broker."""

    session_id: int
    by_id: bool  # True if partitions are named by topic ids
    partitions: dict[K, Cached[A]]
    created_ms: float
    used_ms: float
    epoch: int = 1
    size: int = 0  # the number of partitions at its last use


@dataclass(slots=True)
class Context(Generic[K, A]):
    """One request: the partitions to read, in this order; `finish` returns the head of the response."""

    broker: SessionBroker[K, A]
    asked: dict[K, A]
    error: int = 0
    session: Session[K, A] | None = None  # the session that goes on
    epoch: int = 0
    opens: bool = False
    by_id: bool = True
    now_ms: float = 0

    def finish(self, reads: dict[K, Read]) -> tuple[int, int, list[K]]:
        """Return the response's error code, session id and partitions, in the order of `reads`."""
        if self.error:
            return self.error, 0, []
        if self.session is None:
            session_id = self.broker.open_session(self.now_ms, self.asked, reads, by_id=self.by_id) if self.opens else 0
            return 0, session_id, list(reads)
        if self.session.epoch != self.broker.next_epoch(self.epoch):
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, self.session.session_id, []
        included = []
        for key, read in reads.items():
            cached = self.session.partitions.get(key)
            if cached is None or not cached.tell(read):
                continue
            included.append(key)
            if read.size:
                self.session.partitions[key] = self.session.partitions.pop(key)
        return 0, self.session.session_id, included

    def throttled(self) -> tuple[int, int, list[K]]:
        """Return the head of the empty response for a client over its quota."""
        if self.error or self.session is None:
            return self.error, 0, []
        wrong = self.session.epoch != self.broker.next_epoch(self.epoch)
        return ErrorCode.INVALID_FETCH_SESSION_EPOCH if wrong else 0, self.session.session_id, []


class SessionBroker(Generic[K, A]):
    """The sessions of one broker, at most `slots`. A session without requests for `eviction_ms` may be evicted."""

    def __init__(
        self,
        *,
        slots: int = SLOTS,
        eviction_ms: float = EVICTION_MS,
        ids: Iterator[int] | None = None,
        last_epoch: int = LAST_EPOCH,
    ) -> None:
        self.last_epoch = last_epoch
        self.slots = slots
        self.eviction_ms = eviction_ms
        self.sessions: dict[int, Session[K, A]] = {}
        self._ids = itertools.count(1) if ids is None else ids

    def begin(
        self,
        now_ms: float,
        session_id: int,
        epoch: int,
        add: Iterable[tuple[K, A]],
        forget: Iterable[K] = (),
        *,
        by_id: bool = True,
    ) -> Context[K, A]:
        """Process the head of a request."""
        add = list(add)
        if epoch <= 0:
            self.sessions.pop(session_id, None)
            return Context(self, dict(add), opens=epoch == 0, by_id=by_id, now_ms=now_ms)
        session = self.sessions.get(session_id)
        if session is None:
            return Context(self, {}, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return Context(self, {}, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            return Context(self, {}, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        for key, asked in add:
            if key in session.partitions:
                session.partitions[key].asked = asked
            else:
                session.partitions[key] = Cached(asked)
        for key in forget:
            session.partitions.pop(key, None)
        if not session.partitions:
            del self.sessions[session_id]
            return Context(self, dict(add))
        session.used_ms = now_ms
        session.size = len(session.partitions)
        session.epoch = self.next_epoch(epoch)
        order = {key: cached.asked for key, cached in session.partitions.items()}
        return Context(self, order, session=session, epoch=epoch)

    def open_session(self, now_ms: float, asked: dict[K, A], reads: dict[K, Read], *, by_id: bool) -> int:
        """Return a new session's id, or 0 if there is no free slot and no session to evict."""
        if len(self.sessions) >= self.slots and not self._evict(now_ms, len(reads)):
            return 0
        partitions = {key: Cached(asked[key], read.high_watermark, read.log_start) for key, read in reads.items()}
        session_id = next(self._ids)
        self.sessions[session_id] = Session(session_id, by_id, partitions, now_ms, now_ms, size=len(partitions))
        return session_id

    def next_epoch(self, epoch: int) -> int:
        """Return the epoch after this one: 1 after the last."""
        return epoch % self.last_epoch + 1

    def _evict(self, now_ms: float, size: int) -> bool:
        """Evict the longest unused session, if unused for long; else the smallest old one below the new one's size."""
        if not self.sessions:
            return False
        oldest = min(self.sessions.values(), key=lambda s: (s.used_ms, s.session_id))
        if now_ms - oldest.used_ms > self.eviction_ms:
            del self.sessions[oldest.session_id]
            return True
        old = [s for s in self.sessions.values() if s.used_ms - s.created_ms > self.eviction_ms]
        smallest = min(old, key=lambda s: (s.size, s.session_id), default=None)
        if smallest is None or smallest.size >= size:
            return False
        del self.sessions[smallest.session_id]
        return True


def share(asked: Iterable[tuple[K, int]], batches: Callable[[K], Sequence[int]], max_bytes: int) -> dict[K, int]:
    """Return the bytes of each partition, out of batches of these sizes. See `share_available`."""

    def available(key: K) -> tuple[int, int]:
        sizes = batches(key)
        return (sizes[0], sum(sizes)) if sizes else (0, 0)

    return share_available(asked, available, max_bytes)


def share_available(
    asked: Iterable[tuple[K, int]], available: Callable[[K], tuple[int, int]], max_bytes: int
) -> dict[K, int]:
    """Return the bytes of each partition; `available` has those of its first batch, and of all batches.

    `asked` has the partitions' own limits, in order. The first partition with data gives at least one whole batch.
    Others give as many bytes as fit, perhaps with a part of a batch at the end; but a partition whose first batch does
    not fit gives none.
    """
    left = max_bytes
    first = True
    sizes = {}
    for key, partition_max in asked:
        first_size, total = available(key)
        size = max(0, min(left, partition_max, total))  # a limit may be below 0
        if total and size < first_size:
            size = first_size if first else 0
        sizes[key] = size
        first &= size == 0
        left = max(0, left - size)
    return sizes
