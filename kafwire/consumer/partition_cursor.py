"""A cursor: where a read is in one partition, whom to ask, whether to ask at all, and what answers mean for it.

Pure: events and times come in, decisions go out. `broker_fetcher.py` and `fetcher.py` carry them out.
"""

from __future__ import annotations

import enum
import uuid
from dataclasses import field
from typing import Protocol

from kafwire.cluster.leader_errors import LEADER_ERRORS
from kafwire.consumer.fetch_errors import may_pass
from kafwire.consumer.fetch_session import Asked
from kafwire.consumer.fetched_epochs import FetchedEpochs
from kafwire.consumer.group.ownership import PartitionOwnership
from kafwire.error_codes import ErrorCode
from kafwire.lazy_dataclass import dataclass

# What another replica answers, the leader may not: this one lags behind, or is damaged.
REPLICA_ERRORS = LEADER_ERRORS | {ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.CORRUPT_MESSAGE}
UNKNOWN = -1
NO_END = 2**63 - 1


class Part(Protocol):
    """What a Fetch answer says of one partition, apart from the records."""

    @property
    def error_code(self) -> int:
        """Kafka's error code, 0 for none."""

    @property
    def high_watermark(self) -> int:
        """The offset below which everything is replicated."""

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction has ended."""

    @property
    def log_start_offset(self) -> int:
        """The first offset there is."""

    @property
    def preferred_read_replica(self) -> int:
        """The broker to read from instead, -1 for none (KIP-392)."""

    @property
    def diverging_epoch(self) -> int:
        """The largest leader epoch in common, -1 where nothing diverges (KIP-320, KIP-595)."""

    @property
    def diverging_end_offset(self) -> int:
        """Where that epoch ends."""


class FetchDisposition(enum.Enum):
    """What an answer's part means for its cursor."""

    TAKE = enum.auto()  # its records, if any, are the next
    FOLLOW = enum.auto()  # ask the replica that the leader prefers for us
    RETURN = enum.auto()  # the replica cannot serve us: ask the leader again
    DOUBT = enum.auto()  # the replica's log is not what was read: the leader must say whose is right
    FIND_LEADER = enum.auto()  # look for the leader, then ask again; so too after an error that nobody knows
    TRUNCATED = enum.auto()  # what was read is not in the log any more
    OUT_OF_RANGE = enum.auto()  # there is no such offset
    FAILED = enum.auto()  # no retry mends it


@dataclass(slots=True, eq=False)
class FetchCursor:
    """One partition of a read. Offsets and epochs are -1 where they are not known; times are in milliseconds."""

    number: int
    topic: str
    topic_id: uuid.UUID
    partition: int
    generation: int = 0  # rises with every seek; what was asked for in an older one is not taken
    position: int = UNKNOWN  # the next offset to ask for
    lowest: int = field(init=False)  # nothing before this offset was asked for
    end: int = NO_END  # nothing is wanted from here on
    ended: bool = False  # there is nothing between the position and the end, nor will be
    last_epoch: int = UNKNOWN  # leader epoch of the batch before it
    leader_epoch: int = UNKNOWN  # of the leader that is asked
    high_watermark: int = UNKNOWN
    last_stable: int = UNKNOWN
    log_start: int = UNKNOWN
    replica: int = UNKNOWN  # the broker to read from instead of the leader, until
    replica_until_ms: float = 0.0
    asked_for: bool = False  # somebody reads this partition
    paused: bool = False
    halted: bool = False  # failed: nothing is fetched until a seek
    failure: Exception | None = None  # by that
    doubted: bool = False  # nothing is fetched until the leader has said where its log and what was read part
    returns: int = 0  # to the leader, in a row
    failing_since_ms: float | None = None
    warned: bool = False  # the user was told of that
    failures: int = 0  # to find where it is to be asked for, in a row
    batch_bytes: int = 0  # of a batch that came lately
    epochs: FetchedEpochs = field(default_factory=FetchedEpochs)
    ownership: PartitionOwnership = field(default_factory=PartitionOwnership)  # of this assignment
    # For metrics.
    fetches: int = 0
    bytes: int = 0

    def __post_init__(self) -> None:
        self.lowest = self.position

    @property
    def name(self) -> str:
        """As errors name it."""
        return f"{self.topic}-{self.partition}"

    @property
    def is_wanted(self) -> bool:
        """Whether more is to be fetched, as far as the room in its buffer allows."""
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
        """Whether everything below the end was received, or is known not to exist."""
        return self.ended or self.position >= self.end

    def asked(self, max_bytes: int, *, names_epochs: bool = True) -> Asked:
        """What the next request asks of this partition."""
        if not names_epochs:
            return Asked(self.position, max_bytes)
        return Asked(self.position, max_bytes, self.leader_epoch, self.last_epoch)

    def seek(self, position: int, generation: int, *, last_epoch: int = UNKNOWN) -> None:
        """Go on at `position`."""
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
        """Batches up to `next_offset` arrived, the last of them of that leader epoch."""
        self.position = next_offset
        self.last_epoch = epoch
        self.returns = 0
        self.recover()

    def recover(self) -> None:
        """All is well: the next failure is a first one again."""
        self.failing_since_ms = None
        self.warned = False
        self.failures = 0

    def failing_ms(self, now_ms: float) -> float:
        """For how long it has been failing; it begins to, if it was well."""
        if self.failing_since_ms is None:
            self.failing_since_ms = now_ms
        return now_ms - self.failing_since_ms

    def read_from(self, leader: int, now_ms: float) -> int:
        """The broker to ask: the preferred replica while its lease lasts, else the leader."""
        if self.replica >= 0 and now_ms >= self.replica_until_ms:
            self.replica = UNKNOWN
        return self.replica if self.replica >= 0 else leader

    def judge(self, part: Part, *, from_replica: bool, committed_only: bool = False) -> FetchDisposition:
        """What `part` means. Takes in watermarks, which are true whatever else the answer says.

        A replica may be behind the leader, or be gone: what it cannot serve is not lost, the leader is asked before
        anything is believed. And a new leader may not know yet that records below the end are committed, or may have
        lost them: an answer of its without records is no success.
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
        if from_replica and code in REPLICA_ERRORS:
            return FetchDisposition.RETURN
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return FetchDisposition.OUT_OF_RANGE
        return FetchDisposition.FIND_LEADER if may_pass(code) else FetchDisposition.FAILED

    def may_end(self, part: Part, *, committed_only: bool) -> bool:
        """Whether a broker that says `part` may answer up to the end: then records that it does not have do not exist.

        It answers up to the high watermark, or with committed records up to the last stable offset. Below that there is
        a batch at each position, unless its offsets were taken away (compaction, deletion). So a full answer without
        any records ends all partitions of which this is true.
        """
        stable = part.last_stable_offset
        return (stable if committed_only and stable >= 0 else part.high_watermark) >= self.end

    def why_stalled(self, seconds: float, *, committed_only: bool) -> str:
        """Why there were no records for so long, although there are, or were, some below the end."""
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
        """Records that are there and not delivered yet, as the last answer knew; None before the first.

        `fed_end` is the end that an answer told of which this cursor may not have judged yet.
        """
        end = self.last_stable if committed_only else self.high_watermark
        if delivered > end:
            end = max(end, fed_end)
        return max(0, end - delivered) if end >= 0 and delivered >= 0 else None
