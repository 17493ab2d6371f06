"""Truncation (KIP-320): tests if a partition's log was truncated below the position, and finds the new position.

An elected leader may lack records, and its log continues without them. Three signs show that:

- A Fetch response names a diverging epoch. `broker_fetcher.py` passes it on.
- A read replica's log differs from the fetched records: the leader is asked for the end of the last epoch in its log.
- The new leader's epoch is older than that of the last fetched record. Either the metadata is stale, or the log was
  truncated.

Pure: data of brokers comes in, decisions and errors go out. `position_validation.py` sends the requests, and carries
out the decisions.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.errors import LogTruncatedError


class Divergence(NamedTuple):
    """The point up to which a log may agree with the fetched records."""

    epoch: int  # the largest leader epoch in common
    end_offset: int  # the end of that epoch in the log


class Truncation:
    """A log that differs from the fetched records from `offset` on, which is below the position."""

    def __init__(self, cursor: FetchCursor, divergence: Divergence, where: str) -> None:
        """`where` names the broker of that log in messages."""
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


def parts_from(divergence: Divergence, position: int, epoch: int) -> bool:
    """Return True if the leader's log differs from the records fetched up to `position`, the last one of `epoch`.

    The divergence has the leader's largest epoch up to `epoch` (-1: none), and the end of that epoch.
    """
    return divergence.epoch >= 0 and (divergence.epoch < epoch or divergence.end_offset < position)


def is_behind(cursor: FetchCursor, leader_epoch: int) -> bool:
    """Return True if the leader's epoch is older than that of the last fetched record (or of a committed offset).

    Such a leader may be a former one, whose log lacks the later records.
    """
    return 0 <= leader_epoch < cursor.last_epoch


def why_behind(cursor: FetchCursor, leader_epoch: int) -> str:
    """Return the text of warnings and errors for such a partition."""
    return (
        f"{cursor.name} is to be read from offset {cursor.position}, after a record of leader epoch "
        f"{cursor.last_epoch}, and brokers know none newer than {leader_epoch}"
    )


class Place(enum.Enum):
    """The place of a position in a log whose brokers do not know the epoch of the record before it."""

    WITHIN = enum.auto()  # the log has the offset, and nothing shows that it is another record
    BEYOND = enum.auto()  # the log was truncated
    BEFORE = enum.auto()  # the records were deleted


def place_of(position: int, start: int, end: int) -> Place:
    """Return the place of `position` in a log from `start` to `end`."""
    if start <= position <= end:
        return Place.WITHIN
    return Place.BEYOND if position > end else Place.BEFORE


def beyond_end(cursor: FetchCursor, end: int, why: str) -> LogTruncatedError:
    """Return the error for a position beyond the end of a log whose brokers do not know the epoch; `why` begins it."""
    return LogTruncatedError(
        f"{why}; the log ends at {end}: seek to {end} to read what comes there",
        topic=cursor.topic,
        partition=cursor.partition,
        position=cursor.position,
        offset=end,
    )
