"""The offset where a copy continues, and the errors of a topic that does not fit to the copy. Pure."""

from __future__ import annotations

import uuid
from typing import NamedTuple

from kafwire.errors import KafkaError

_UNKNOWN = ("", str(uuid.UUID(int=0)))  # brokers before Kafka 2.8 have no topic ids


class Copied(NamedTuple):
    """The end of a partition's copy: `after` is exclusive, `where` names the place that recorded it."""

    after: int
    where: str


def resume_at(partition: str, copied: Copied | None, low: int, end: int, *, skip_lost: bool) -> int:
    """Return the next offset to copy of a partition with the offsets [low, end).

    Raises:
        KafkaError: records were deleted before they were copied, unless `skip_lost`, or after they were copied.
    """
    if copied is None:
        return low
    if copied.after < low:
        if not skip_lost:
            raise KafkaError(
                f"{partition}: the records from {copied.after} to {low} (exclusive) were deleted before they were "
                "copied; --skip-lost continues with the records behind them"
            )
        return low
    if copied.after > end:
        raise KafkaError(
            f"{partition} ends at {end}, before the offset {copied.after} of {copied.where}: records that were copied "
            "are no longer in the log"
        )
    return copied.after


def check_topic_id(name: str, found: str, known: uuid.UUID, *, where: str, remedy: str) -> None:
    """Raise `KafkaError` if `where` was copied from an earlier topic of the same name."""
    if found not in _UNKNOWN and str(known) not in _UNKNOWN and found != str(known):
        raise KafkaError(
            f"{name} was deleted and recreated since {where} was written: its offsets are those of another topic; "
            f"{remedy}"
        )
