"""Judges a peril: acknowledgements, logs and readers are compared with the records that it may remove.

Pure. A peril is a fault that may rightly remove acknowledged records. So it brings its oracle: of each acknowledged
record, whether the log lost it. Only these records may be missing; and a reader that reads on over the loss gets an
error first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from kafwire.types import TopicPartition

_SHOWN = 5


class Acked(NamedTuple):
    """A record that was acknowledged, `at` a time of `time.monotonic`; values are never used again."""

    where: TopicPartition
    offset: int
    value: bytes
    key: bytes
    at: float


class Reported(NamedTuple):
    """An event of a reader that cannot simply go on: it got an error, or it asked to begin elsewhere."""

    position: int
    why: str


@dataclass
class Reading:
    """The records of one partition that one reader got, in order: (offset, value), and its errors in between."""

    name: str
    events: list[tuple[int, bytes] | Reported] = field(default_factory=list)


@dataclass
class Ledger:
    """The events. `order` has the values of each sender and partition in the order of sending."""

    acked: list[Acked] = field(default_factory=list)
    unknown: set[bytes] = field(default_factory=set)
    failed: set[bytes] = field(default_factory=set)
    order: dict[tuple[str, TopicPartition], list[bytes]] = field(default_factory=lambda: defaultdict(list))
    readings: dict[TopicPartition, list[Reading]] = field(default_factory=lambda: defaultdict(list))


# The effect of a peril on logs: it cuts off their ends, lets them begin later, leaves holes in them, or nothing.
CUT: Final = "cut"
BEGINS: Final = "begins"
HOLES: Final = "holes"
NOTHING: Final = "nothing"
How = Literal["cut", "begins", "holes", "nothing"]
Logs = Mapping[TopicPartition, Sequence[tuple[int, bytes]]]


@dataclass
class Judgement:
    """`missing` acknowledged records are `excused`, and no other is missing; else `violations` name them."""

    violations: list[str]
    acked: int
    missing: int
    reported: int


def judge(ledger: Ledger, logs: Logs, lost: Callable[[Acked], bool], how: How) -> Judgement:
    """Judge logs as they are in the end; `lost` is the oracle, and `how` is what the peril does to logs.

    Where it leaves holes, `lost` says what may be gone: a cleaner goes on in its own time.
    """
    found: list[str] = []
    there = {where: dict(rows) for where, rows in logs.items()}
    missing = [one for one in ledger.acked if there.get(one.where, {}).get(one.offset) != one.value]
    gone = {one.value for one in missing}
    _tell(found, "lost, and no log lost them", (one for one in missing if not lost(one)))
    if how != HOLES:
        _tell(found, "lost by the log, and in it", (one for one in ledger.acked if one.value not in gone and lost(one)))
    _judge_logs(found, ledger, logs)
    for where, readings in ledger.readings.items():
        acked = {one.offset: one.value for one in ledger.acked if one.where == where}
        for reading in readings:
            _judge_reading(found, reading, f"{reading.name} of {where}", there.get(where, {}), acked, gone, ledger, how)
    reported = sum(
        isinstance(event, Reported) for some in ledger.readings.values() for one in some for event in one.events
    )
    return Judgement(found, len(ledger.acked), len(missing), reported)


def same(first: Logs, later: Logs, how: How) -> bool:
    """True if two have read the same; between them a cleaner may have made more holes."""
    if how != HOLES:
        return first == later
    return first.keys() == later.keys() and all(set(rows) <= set(first[where]) for where, rows in later.items())


def _judge_logs(found: list[str], ledger: Ledger, logs: Logs) -> None:
    known = {one.value for one in ledger.acked} | ledger.unknown
    seen = Counter(value for rows in logs.values() for _, value in rows)
    _tell(found, "in the logs more than once", (value for value, count in seen.items() if count > 1))
    _tell(found, "certainly not stored, and there", (value for value in seen if value in ledger.failed))
    _tell(found, "never sent", (value for value in seen if value not in known | ledger.failed))
    for (_, where), values in ledger.order.items():
        places = {value: place for place, (_, value) in enumerate(logs.get(where, ()))}
        came = [places[value] for value in values if value in places]
        wrong = [place for before, place in pairwise(came) if place < before]
        _tell(found, f"out of order in {where}", (logs[where][place] for place in wrong))


def _judge_reading(
    found: list[str],
    reading: Reading,
    name: str,
    log: Mapping[int, bytes],
    acked: Mapping[int, bytes],
    gone: set[bytes],
    ledger: Ledger,
    how: How,
) -> None:
    """Check that the reader got the log's records: none twice, none left out, an error before each loss."""
    last = -1
    reported = True
    cut: bytes | None = None
    skipped: list[int] = []
    for event in reading.events:
        if isinstance(event, Reported):
            last, reported, cut = event.position - 1, True, None
            continue
        offset, value = event
        if offset <= last:
            found.append(f"{name} was given {offset} after {last}")
        if not reported:
            places = [place for place in range(last + 1, offset) if place in acked]
            skipped += [place for place in places if how == BEGINS or acked[place] not in gone]
        if cut is not None and log.get(offset) == value:
            found.append(f"{name} read on at {offset}, and got no error that {cut!r} is gone")
            cut = None
        if log.get(offset) != value:
            if value not in gone and value not in ledger.unknown:
                found.append(f"{name} was given {value!r} at {offset}; the log has {log.get(offset)!r}")
            if how == CUT:
                cut = value
        last, reported = offset, False
    _tell(found, f"passed over by {name}", skipped)


def _tell(found: list[str], what: str, which: Iterable[object]) -> None:
    some = list(which)
    if some:
        found.append(f"{len(some)} {what}, as {', '.join(map(repr, some[:_SHOWN]))}")
