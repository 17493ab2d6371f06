"""Where `kafwire consume` reads: -o as kcat has it, and batches from a bounded read or from one without end."""

import datetime as dt
import time
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import click

from kafwire.errors import ConfigError, KafkaError
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from kafwire import Batch, Client

__all__ = ["STORED", "Piece", "Reading", "Wanted", "Window", "open_reading", "parse_window", "rows_before"]

STORED = "stored"
_NAMES = {"beginning": "earliest", "earliest": "earliest", "end": "latest", "latest": "latest", STORED: STORED}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LAST_MS = 253_402_300_799_999  # what a datetime can say
# How long to wait for records before looking whether somebody still reads the output.
_SILENCE_S = 0.25

# Rows [0, rows) of a batch; None: nothing has arrived for a while.
Piece = tuple["Batch", int] | None


@dataclass(frozen=True, slots=True)
class Window:
    """What of a partition is wanted: from a name, an offset, -n (the last n) or a time on; up to a time."""

    start: str | int | None = None
    start_ms: int | None = None
    end_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to read: all partitions of the topics where none are named."""

    topics: Sequence[str]
    partitions: Collection[int]
    window: Window
    columns: Sequence[str]
    group: str | None = None


def parse_window(given: Sequence[str]) -> Window:
    """Read the values of -o: at most one that says where to begin, and one that says where to end."""
    start: str | int | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    begins = 0
    for text in given:
        if text.startswith("e@"):
            if end_ms is not None:
                raise click.UsageError("-o e@ is given twice")
            end_ms = milliseconds("-o", text, text[2:])
            continue
        begins += 1
        if text.startswith("s@"):
            start_ms = milliseconds("-o", text, text[2:])
        elif text in _NAMES:
            start = _NAMES[text]
        else:
            try:
                start = int(text)
            except ValueError:
                raise click.UsageError(
                    f"-o {text}: expected beginning, end, stored, an offset, -N for the last N, s@TIME or e@TIME"
                ) from None
            if text == "-0":
                start = "latest"
    if begins > 1:
        raise click.UsageError("-o says twice where to begin; only e@TIME goes with another -o")
    return Window(start, start_ms, end_ms)


def milliseconds(option: str, text: str, value: str) -> int:
    """A time as a person gives it, since the epoch. `option` and `text` are what it stands in.

    Raises:
        click.UsageError: it is none.
    """
    if value.isdecimal():
        if int(value) > _LAST_MS:
            raise click.UsageError(f"{option} {text}: milliseconds since the epoch are needed, up to the year 9999")
        return int(value)
    try:
        moment = dt.datetime.fromisoformat(value)
    except ValueError:
        raise click.UsageError(
            f"{option} {text}: expected milliseconds since the epoch, or a time like 2026-01-31T12:00:00Z"
        ) from None
    if moment.tzinfo is None:
        raise click.UsageError(f"{option} {text}: the time has no zone: add Z, or +01:00")
    return round(moment.timestamp() * 1000)


def _moment(ms: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(milliseconds=ms)


class Reading(Protocol):
    """What a command reads: pieces, until it ends or for ever."""

    total: int | None  # offsets to cover; None: without end
    done: int  # of them

    def __iter__(self) -> Iterator[Piece]: ...
    def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """Tell the group, if there is one, where to go on."""

    def close(self) -> None:
        """Read no more."""


def open_reading(client: "Client", wanted: Wanted, options: Mapping[str, Any], *, ends: bool) -> Reading:
    """Begin to read: what is there now (`ends`), or that and all that arrives."""
    from kafwire.cli.connection import only
    from kafwire.config import ScanConfig

    # A group that has committed nothing begins at the beginning, as everybody does.
    from_group = wanted.group is not None and wanted.window.start in (None, STORED)
    given = {"auto_offset_reset": "earliest" if from_group else "error", **options}
    if not ends:
        return _Endless(_consumer(client, wanted, given))
    if wanted.group is not None:
        return _Group(_consumer(client, wanted, given), _ends(client, wanted, given))
    scan_options = only(options, ScanConfig)
    del scan_options["bootstrap_servers"]
    return _Bounded(_scan(client, wanted, scan_options, given["auto_offset_reset"]))


class _Bounded:
    """A scan."""

    def __init__(self, scan: Any) -> None:
        self._scan = scan
        self._positions = {(r.topic, r.partition): r.start for r in scan.ranges}
        self._ends = {(r.topic, r.partition): r.end for r in scan.ranges}
        self.total: int | None = sum(r.end - r.start for r in scan.ranges)
        self.done = 0

    def __iter__(self) -> Iterator[Piece]:
        for batch in self._scan.batches():
            where = (batch.topic, batch.partition)
            position = min(batch.next_offset, self._ends[where])
            self.done += position - self._positions[where]
            self._positions[where] = position
            yield batch, len(batch)
        self.done = self.total or 0  # the tail may be invisible

    def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """There is no group."""

    def close(self) -> None:
        self._scan.close()


class _Endless:
    """A consumer, as long as somebody wants."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self.total: int | None = None
        self.done = 0

    def __iter__(self) -> Iterator[Piece]:
        while True:
            for batch in self._consumer.batches(_SILENCE_S):
                yield batch, len(batch)
            yield None

    def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        self._consumer.commit(dict(positions))

    def close(self) -> None:
        self._consumer.close()


class _Group(_Endless):
    """A consumer, to the ends that were there at the beginning."""

    def __init__(self, consumer: Any, ends: Mapping[TopicPartition, int]) -> None:
        super().__init__(consumer)
        self._ends = ends
        self._positions = {tp: min(consumer.position(tp), end) for tp, end in ends.items()}
        self.total = sum(end - self._positions[tp] for tp, end in ends.items())

    def __iter__(self) -> Iterator[Piece]:
        left = {tp for tp, end in self._ends.items() if self._positions[tp] < end}
        self._consumer.pause(*(self._ends.keys() - left))
        while left:
            for batch in self._consumer.batches(_SILENCE_S):
                tp = TopicPartition(batch.topic, batch.partition)
                self._reach(tp, batch.next_offset)
                yield batch, rows_before(batch, self._ends[tp])
                self._leave_out(left)
                if not left:
                    return
            yield None
            for tp in left:  # the tail of a partition may be invisible
                self._reach(tp, self._consumer.position(tp))
            self._leave_out(left)

    def _leave_out(self, left: set[TopicPartition]) -> None:
        """Read no more of what is at its end."""
        for tp in [tp for tp in left if self._positions[tp] >= self._ends[tp]]:
            left.remove(tp)
            self._consumer.pause(tp)

    def _reach(self, tp: TopicPartition, offset: int) -> None:
        offset = min(offset, self._ends[tp])
        self.done += offset - self._positions[tp]
        self._positions[tp] = offset


def rows_before(batch: "Batch", end: int) -> int:
    """Return how many records of a batch come before an offset."""
    if batch.next_offset <= end:
        return len(batch)
    return bisect_left(range(len(batch)), end, key=lambda row: batch[row].offset)


def _scan(client: "Client", wanted: Wanted, options: Mapping[str, Any], reset: str) -> Any:
    window = wanted.window
    start: Any = "earliest"
    end: Any = "latest" if window.end_ms is None else _moment(window.end_ms)
    partitions: list[int] | None = sorted(wanted.partitions) or None
    if window.start_ms is not None:
        start = _moment(window.start_ms)
    elif isinstance(window.start, int):
        start, ends = _start_offsets(client, wanted, window.start, options, reset)
        if window.end_ms is None:
            end = ends  # so that -N is N records, whatever arrives meanwhile
        partitions = None  # the offsets name them
    elif window.start is not None:
        start = window.start
    return client.scan(
        list(wanted.topics), partitions=partitions, start=start, end=end, columns=wanted.columns, **options
    )


def _consumer(client: "Client", wanted: Wanted, options: Mapping[str, Any]) -> Any:
    from kafwire import Consumer

    window = wanted.window
    arguments: dict[str, Any] = {"columns": wanted.columns, **options}
    start: Any = "earliest"
    if window.start_ms is not None:
        start = _moment(window.start_ms)
    elif isinstance(window.start, int):
        start, _ = _start_offsets(client, wanted, window.start, options, options["auto_offset_reset"])
    elif window.start == STORED or (window.start is None and wanted.group is not None):
        start = None
    elif window.start is not None:
        start = window.start
    if wanted.group is not None:
        # What is committed is what has been written; nobody but the writer knows that.
        arguments |= {"group_id": wanted.group, "enable_auto_commit": False}
    if wanted.group is not None or wanted.partitions or isinstance(start, dict):
        return Consumer(assign=_partitions(client, wanted), start=start, **arguments)
    return Consumer(topics=list(wanted.topics), start=start, **arguments)


def _partitions(client: "Client", wanted: Wanted) -> list[TopicPartition]:
    found = []
    for topic in wanted.topics:
        numbers = sorted(client.topic(topic).partitions)
        for number in sorted(wanted.partitions) or numbers:
            if number not in numbers:
                raise ConfigError(f"topic {topic!r} has partitions 0 to {numbers[-1]}, not {number}")
            found.append(TopicPartition(topic, number))
    return found


def _ends(client: "Client", wanted: Wanted, options: Mapping[str, Any]) -> dict[TopicPartition, int]:
    found = _partitions(client, wanted)
    ends = client.offsets(found, "latest", **_isolation(options))
    if wanted.window.end_ms is not None:
        at = client.offsets(found, wanted.window.end_ms)
        ends.update({tp: min(offset, ends[tp]) for tp, offset in at.items() if offset >= 0})
    return ends


def _isolation(options: Mapping[str, Any]) -> dict[str, Any]:
    return {"isolation_level": options["isolation_level"]} if "isolation_level" in options else {}


def _start_offsets(
    client: "Client", wanted: Wanted, asked: int, options: Mapping[str, Any], reset: str
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Where to begin for an offset or -n, and the ends. `reset` is the policy for an offset that does not exist."""
    found = _partitions(client, wanted)
    low = client.offsets(found, "earliest")
    high = client.offsets(found, "latest", **_isolation(options))
    if asked < 0:
        return {tp: max(low[tp], high[tp] + asked) for tp in found}, high
    start = dict.fromkeys(found, asked)
    missing = [tp for tp in found if not low[tp] <= asked <= high[tp]]
    if missing:
        start.update(_reset(client, missing, asked, low, high, reset))
    return start, high


def _reset(
    client: "Client",
    missing: Sequence[TopicPartition],
    asked: int,
    low: Mapping[TopicPartition, int],
    high: Mapping[TopicPartition, int],
    policy: str,
) -> dict[TopicPartition, int]:
    from kafwire.config import duration_ms

    if policy in ("earliest", "latest"):
        return {tp: (low if policy == "earliest" else high)[tp] for tp in missing}
    duration = duration_ms(policy)
    if duration is None:
        tp = missing[0]
        raise KafkaError(
            f"{tp.topic}-{tp.partition} has the offsets {low[tp]} to {high[tp]} (exclusive), not {asked}: choose "
            "partitions with -p, or say what to do with -X auto.offset.reset=earliest"
        )
    found = client.offsets(missing, max(0, round(time.time() * 1000) - duration))
    return {tp: found[tp] if found[tp] >= 0 else high[tp] for tp in missing}
