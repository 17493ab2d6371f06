"""Truncation (KIP-320): whether a partition's log was cut below what was read of it, and where reading goes on then.

A leader may be elected that lacks records, and its log goes on without them. That is noticed in three ways:

- A Fetch answer names a diverging epoch. `broker_fetcher.py` hands on what it says.
- A replica's log is not what was read: the leader is asked where the last epoch ends in its own.
- Another broker leads, in an epoch before that of what was read last. Either the metadata is old, or the log was cut.

Pure: what brokers say comes in, decisions and errors go out. `position_validation.py` asks, and carries them out.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from kafwire.consumer.partition_cursor import FetchCursor
from kafwire.errors import LogTruncatedError


class Divergence(NamedTuple):
    """Up to where a log may be what was read."""

    epoch: int  # the largest leader epoch in common
    end_offset: int  # where that epoch ends in the log


class Truncation:
    """The log and what was read of a partition part at `offset`: below `position`, where reading was."""

    def __init__(self, cursor: FetchCursor, divergence: Divergence, where: str) -> None:
        """`where` is who has that log, as messages name him."""
        self.epoch = divergence.epoch
        self.offset = max(0, min(divergence.end_offset, cursor.position))
        self.text = (
            f"{cursor.name} was fetched up to offset {cursor.position}, but the log that {where} has agrees with that "
            f"only up to {self.offset}: a leader without the rest was elected"
        )
        self.error = LogTruncatedError(
            f"{self.text}; seek to {self.offset} to read the present records",
            topic=cursor.topic,
            partition=cursor.partition,
            position=cursor.position,
            offset=self.offset,
        )


def parts_from(told: Divergence, position: int, epoch: int) -> bool:
    """Whether the leader's log parts from what was read up to `position`, of `epoch` at last.

    The leader tells the largest epoch up to that one which it knows, -1 where it knows none, and where it ends.
    """
    return told.epoch >= 0 and (told.epoch < epoch or told.end_offset < position)


def is_behind(cursor: FetchCursor, leader_epoch: int) -> bool:
    """Whether the leader's epoch is older than that of what was read last, as a committed offset may tell.

    Such a leader may be one of before: what was read after it is not in its log.
    """
    return 0 <= leader_epoch < cursor.last_epoch


def why_behind(cursor: FetchCursor, leader_epoch: int) -> str:
    """What is to be told of such a partition."""
    return (
        f"{cursor.name} is to be read from offset {cursor.position}, after a record of leader epoch "
        f"{cursor.last_epoch}, and brokers know none newer than {leader_epoch}"
    )


class Place(enum.Enum):
    """Where a position is in a log whose brokers do not come to know the epoch of what was read before it."""

    WITHIN = enum.auto()  # there is such an offset: nothing says that it is another record
    BEYOND = enum.auto()  # the log was cut
    BEFORE = enum.auto()  # the records were deleted


def place_of(position: int, start: int, end: int) -> Place:
    """Where `position` is in a log from `start` to `end`."""
    if start <= position <= end:
        return Place.WITHIN
    return Place.BEYOND if position > end else Place.BEFORE


def beyond_end(cursor: FetchCursor, end: int, why: str) -> LogTruncatedError:
    """The error for a position beyond the end of a log whose brokers do not know the epoch, for the reason `why`."""
    return LogTruncatedError(
        f"{why}; the log ends at {end}: seek to {end} to read what comes there",
        topic=cursor.topic,
        partition=cursor.partition,
        position=cursor.position,
        offset=end,
    )
