"""A cursor: the state of one partition's fetching (position, broker, demand), and the effect of responses on it.

Pure: events and times come in, decisions go out. `broker_fetcher.py` and `engine.py` carry them out.
"""

from __future__ import annotations

import uuid
from dataclasses import field
from typing import Protocol

from kafwire.consumer.fetch.epochs import FetchedEpochs
from kafwire.consumer.fetch.errors import FetchDisposition, after_error
from kafwire.consumer.fetch.session import Asked
from kafwire.consumer.ownership import PartitionOwnership
from kafwire.lazy_dataclass import dataclass

UNKNOWN = -1
NO_END = 2**63 - 1


class Part(Protocol):
    """One partition of a Fetch response, without the records."""

    @property
    def error_code(self) -> int:
        """Kafka's error code, 0 for none."""

    @property
    def high_watermark(self) -> int:
        """The offset below which all records are replicated."""

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction has ended."""

    @property
    def log_start_offset(self) -> int:
        """The first offset of the log."""

    @property
    def preferred_read_replica(self) -> int:
        """The broker to read from instead, -1 for none (KIP-392)."""

    @property
    def diverging_epoch(self) -> int:
        """The largest leader epoch in common, -1 where nothing diverges (KIP-320, KIP-595)."""

    @property
    def diverging_end_offset(self) -> int:
        """The end offset of that epoch."""


@dataclass(slots=True, eq=False)
class FetchCursor:
    """One partition of a read. Offsets and epochs are -1 where they are not known; times are in milliseconds."""

    number: int
    topic: str
    topic_id: uuid.UUID
    partition: int
    generation: int = 0  # rises with every seek; responses to requests of an older one are not taken
    position: int = UNKNOWN  # the next offset to fetch
    lowest: int = field(init=False)  # the lowest position so far
    end: int = NO_END  # records from here on are not wanted
    ended: bool = False  # no record lies, or will lie, between the position and the end
    last_epoch: int = UNKNOWN  # leader epoch of the batch before the position
    leader_epoch: int = UNKNOWN  # of the current leader
    high_watermark: int = UNKNOWN
    last_stable: int = UNKNOWN
    log_start: int = UNKNOWN
    replica: int = UNKNOWN  # the broker to read from instead of the leader, until
    replica_until_ms: float = 0.0
    asked_for: bool = False  # demand: a reader reads this partition
    paused: bool = False
    halted: bool = False  # failed: not fetched until a seek
    failure: Exception | None = None  # the error that halted it
    doubted: bool = False  # not fetched until the position is validated
    returns: int = 0  # moves back to the leader, in a row
    failing_since_ms: float | None = None
    warned: bool = False  # a log line has reported the failure
    failures: int = 0  # failed look-ups of the broker, in a row
    batch_bytes: int = 0  # size of a recent batch
    epochs: FetchedEpochs = field(default_factory=FetchedEpochs)
    ownership: PartitionOwnership = field(default_factory=PartitionOwnership)  # of this assignment
    # For metrics.
    fetches: int = 0
    bytes: int = 0

    def __post_init__(self) -> None:
        self.lowest = self.position

    @property
    def name(self) -> str:
        """The partition's name in errors: topic-number."""
        return f"{self.topic}-{self.partition}"

    @property
    def is_wanted(self) -> bool:
        """True if the cursor must be fetched as soon as its buffer has room."""
        return (
            self.asked_for
            and not self.paused
            and not self.halted
            and not self.doubted
            and not self.done
            and self.position >= 0
        )

    @property
    def done(self) -> bool:
        """True if all records below the end were received, or do not exist."""
        return self.ended or self.position >= self.end

    def asked(self, max_bytes: int, *, names_epochs: bool = True) -> Asked:
        """Return the next request for this partition."""
        if not names_epochs:
            return Asked(self.position, max_bytes)
        return Asked(self.position, max_bytes, self.leader_epoch, self.last_epoch)

    def seek(self, position: int, generation: int, *, last_epoch: int = UNKNOWN) -> None:
        """Continue at `position`."""
        if position >= 0:
            self.lowest = position if self.lowest < 0 else min(self.lowest, position)
        self.position = position
        self.generation = generation
        self.last_epoch = last_epoch
        if last_epoch >= 0:
            self.epochs.note(position - 1, position, last_epoch)
        self.halted = self.doubted = self.ended = False
        self.failure = None
        self.failing_since_ms = None

    def advance(self, next_offset: int, epoch: int) -> None:
        """Move past batches that arrived, to `next_offset`; the last batch has leader epoch `epoch`."""
        self.position = next_offset
        self.last_epoch = epoch
        self.returns = 0
        self.recover()

    def recover(self) -> None:
        """Reset the failure timer, count and warning after a success."""
        self.failing_since_ms = None
        self.warned = False
        self.failures = 0

    def failing_ms(self, now_ms: float) -> float:
        """Return how long the cursor has been failing; a first failure begins now."""
        if self.failing_since_ms is None:
            self.failing_since_ms = now_ms
        return now_ms - self.failing_since_ms

    def read_from(self, leader: int, now_ms: float) -> int:
        """Return the broker to fetch from: the preferred read replica while its lease lasts, else the leader."""
        if self.replica >= 0 and now_ms >= self.replica_until_ms:
            self.replica = UNKNOWN
        return self.replica if self.replica >= 0 else leader

    def judge(self, part: Part, *, from_replica: bool, committed_only: bool = False) -> FetchDisposition:
        """Return the effect of `part`, and take its watermarks, which are valid in any response without an error.

        A new leader may not know yet that records below the end are committed, or may have lost them: an empty response
        from it does not reset the failure timer.
        """
        code = part.error_code
        if code == 0:
            if self.end == NO_END or self.may_end(part, committed_only=committed_only):
                self.recover()
            if part.high_watermark >= 0:
                self.high_watermark = part.high_watermark
                self.last_stable = part.last_stable_offset
            if part.log_start_offset >= 0:
                self.log_start = part.log_start_offset
            if part.diverging_epoch >= 0:
                return FetchDisposition.DOUBT if from_replica else FetchDisposition.TRUNCATED
            if part.preferred_read_replica >= 0:
                return FetchDisposition.FOLLOW
            return FetchDisposition.TAKE
        return after_error(code, from_replica=from_replica)

    def may_end(self, part: Part, *, committed_only: bool) -> bool:
        """Return True if a broker that sent `part` serves records up to the end: records that it lacks do not exist.

        A broker serves up to the high watermark, or with read_committed up to the last stable offset. Below that, each
        offset is in a batch, unless compaction or deletion removed it. So a response without any records, to a full
        request, ends all partitions for which this is true.
        """
        stable = part.last_stable_offset
        return (stable if committed_only and stable >= 0 else part.high_watermark) >= self.end

    def why_stalled(self, seconds: float, *, committed_only: bool) -> str:
        """Return why no records came for so long, although the log has, or had, some below the end."""
        text = f"{self.name} gave no records from offset {self.position} on for {seconds:g} s"
        if committed_only and 0 <= self.last_stable < self.end <= self.high_watermark:
            return (
                f"{text}: its last stable offset is {self.last_stable}, and the read ends at {self.end}; a transaction "
                "that began there is still open, or its marker is not written"
            )
        return (
            f"{text}, although it had some up to {self.end}; now it ends at {self.high_watermark}: did an election of "
            "a leader cut the log?"
        )

    def lag(self, delivered: int, *, committed_only: bool, fed_end: int = -1) -> int | None:
        """Return the number of records not delivered yet, from the last response; None before the first.

        `fed_end` is the end of the log in a response that this cursor may not have judged yet.
        """
        end = self.last_stable if committed_only else self.high_watermark
        if delivered > end:
            end = max(end, fed_end)
        return max(0, end - delivered) if end >= 0 and delivered >= 0 else None
