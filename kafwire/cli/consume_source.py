"""The source of `kafwire consume`: parses kcat's -o, and yields batches of a bounded or an endless read."""

import datetime as dt
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import click

from kafwire.cli.connection import isolation, only
from kafwire.errors import ConfigError, KafkaError
from kafwire.types import Tail, TopicPartition

if TYPE_CHECKING:
    from kafwire import Batch, Client

__all__ = [
    "SILENCE_S",
    "STORED",
    "Piece",
    "Reading",
    "Wanted",
    "Window",
    "available_offsets",
    "ends_of",
    "moment",
    "open_reading",
    "parse_window",
    "partitions_of",
    "rows_before",
    "warn_late",
    "warn_of_seconds",
]

STORED = "stored"
_NAMES = {"beginning": "earliest", "earliest": "earliest", "end": "latest", "latest": "latest", STORED: STORED}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# Seconds for 1973 to 2286; read as milliseconds, they are in the first four months of 1970.
_SECONDS = re.compile("[1-9][0-9]{8,9}")
_LAST_MS = 253_402_300_799_999  # the maximum of a datetime
# The longest wait for records between checks whether the output still has a reader.
SILENCE_S = 0.25

# Rows [0, rows) of a batch; None: no records arrived for a while.
Piece = tuple["Batch", int] | None


@dataclass(frozen=True, slots=True)
class Window:
    """The selected part of a partition: from a name, an offset, -n (the last n) or a time on; up to a time."""

    start: str | int | None = None
    start_ms: int | None = None
    end_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to read: the given partitions of the topics, or all; for a group, the partitions it assigns."""

    topics: Sequence[str]
    partitions: Collection[int]
    window: Window
    columns: Sequence[str]
    group: str | None = None
    pattern: str | None = None


def parse_window(given: Sequence[str]) -> Window:
    """Parse the values of -o: at most one start, and one end."""
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
        raise click.UsageError("-o gives two start positions; only e@TIME can be combined with another -o")
    return Window(start, start_ms, end_ms)


def warn_of_seconds(command: str, given: Sequence[str], option: str = "-o ") -> None:
    """Warn on standard error of times that look like seconds since the epoch: as milliseconds, they are in 1970."""
    for text in given:
        mark, at, number = text.rpartition("@")
        if _SECONDS.fullmatch(number) and mark + at in ("", "s@", "e@"):
            when = f"{moment(int(number)):%Y-%m-%dT%H:%M:%SZ}"
            click.echo(
                f"kafwire {command}: {option}{text} is {when}: times are in milliseconds, as in kcat. "
                f"If {number} is in seconds, write {option}{text}000",
                err=True,
            )


def milliseconds(option: str, text: str, value: str) -> int:
    """Return a time in the user's notation as milliseconds since the epoch. `option` and `text` are for errors.

    Raises:
        click.UsageError: `value` is not a time.
    """
    if value.isdecimal():
        if int(value) > _LAST_MS:
            raise click.UsageError(f"{option} {text}: milliseconds since the epoch must be before the year 10000")
        return int(value)
    try:
        moment = dt.datetime.fromisoformat(value)
    except ValueError:
        raise click.UsageError(
            f"{option} {text}: expected milliseconds since the epoch, or a time like 2026-01-31T12:00:00Z"
        ) from None
    if moment.tzinfo is None:
        raise click.UsageError(f"{option} {text}: the time has no zone: add Z, or +01:00")
    from kafwire.cluster.offset_spec import milliseconds_of

    return milliseconds_of(moment)


def moment(ms: int) -> dt.datetime:
    """Return milliseconds since the epoch as a datetime."""
    return _EPOCH + dt.timedelta(milliseconds=ms)


class Reading(Protocol):
    """The input of a command: pieces, until it ends or without end."""

    total: int | None  # number of offsets to read; None: without end
    done: int  # number of offsets read so far

    def __iter__(self) -> Iterator[Piece]: ...
    def close(self) -> None:
        """Stop reading."""


def open_reading(client: "Client", wanted: Wanted, options: Mapping[str, Any], *, ends: bool) -> Reading:
    """Start a read without a group: of the existing records (`ends`), or of these and all new ones."""
    from kafwire.config import ScanConfig

    given = {"auto_offset_reset": "error", **options}
    found, late = partitions_of(client, wanted), dict[TopicPartition, KafkaError]()
    available = available_offsets(client, found, "latest", late)  # raises if no partition can be read
    if not ends:
        warn_late("consume", late)
        return _Endless(_consumer(client, wanted, given))
    scan_options = only(options, ScanConfig)
    del scan_options["bootstrap_servers"]

    def scan(partitions: Collection[TopicPartition] | None) -> Any:
        return _scan(client, wanted, scan_options, given["auto_offset_reset"], partitions)

    if not late:
        return _Bounded(scan(None))
    warn_late("consume", late)
    return _Bounded(scan(available), lambda: scan(late))


def available_offsets(
    client: "Client",
    partitions: Collection[TopicPartition],
    when: Any,
    late: dict[TopicPartition, KafkaError],
    **options: Any,
) -> dict[TopicPartition, int]:
    """Look up offsets; `late` gets the error of each partition that is not available yet.

    If no partition is available, wait for all of them, as nothing can be read meanwhile.
    """
    found = client.offsets(partitions, when, on_error=late.__setitem__, **options)
    if found or not partitions:
        return found
    late.clear()
    return client.offsets(partitions, when, **options)


def warn_late(
    command: str, late: Mapping[TopicPartition, KafkaError], outcome: str = "is read after the others"
) -> None:
    """Print the partitions that are not available yet to standard error."""
    for where, why in late.items():
        click.echo(f"kafwire {command}: {where.topic}-{where.partition} {outcome}: {why}", err=True)


class _Bounded:
    """A scan, followed by another one of the partitions that were not available at first."""

    def __init__(self, scan: Any, rest: Callable[[], Any] | None = None) -> None:
        self._rest = rest
        self.total: int | None = 0
        self.done = 0
        self._begin(scan)

    def _begin(self, scan: Any) -> None:
        self._scan = scan
        self._positions = {(r.topic, r.partition): r.start for r in scan.ranges}
        self._ends = {(r.topic, r.partition): r.end for r in scan.ranges}
        self.total = self.done + sum(r.end - r.start for r in scan.ranges)

    def __iter__(self) -> Iterator[Piece]:
        yield from self._pieces()
        if self._rest is not None:
            rest, self._rest = self._rest, None
            self._scan.close()
            self._begin(rest())  # an error names the partitions that are still unavailable
            yield from self._pieces()

    def _pieces(self) -> Iterator[Piece]:
        for batch in self._scan.batches():
            where = (batch.topic, batch.partition)
            position = min(batch.next_offset, self._ends[where])
            self.done += position - self._positions[where]
            self._positions[where] = position
            yield batch, len(batch)
        self.done = self.total or 0  # the tail may be invisible

    def close(self) -> None:
        self._scan.close()


class _Endless:
    """A consumer that reads without end."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self.total: int | None = None
        self.done = 0

    def __iter__(self) -> Iterator[Piece]:
        while True:
            for batch in self._consumer.batches(SILENCE_S):
                yield batch, len(batch)
            yield None

    def close(self) -> None:
        self._consumer.close()


def rows_before(batch: "Batch", end: int) -> int:
    """Return the number of records in a batch before an offset."""
    if batch.next_offset <= end:
        return len(batch)
    return bisect_left(range(len(batch)), end, key=lambda row: batch[row].offset)


def _scan(
    client: "Client",
    wanted: Wanted,
    options: Mapping[str, Any],
    reset: str,
    partitions: Collection[TopicPartition] | None,
) -> Any:
    """Scan the selected topics, or only `partitions` of them."""
    window = wanted.window
    start: Any = "earliest"
    end: Any = "latest" if window.end_ms is None else moment(window.end_ms)
    numbers: list[int] | None = sorted(wanted.partitions) or None
    if window.start_ms is not None:
        start = moment(window.start_ms)
    elif isinstance(window.start, int):
        found = partitions_of(client, wanted) if partitions is None else partitions
        start, ends = _start_offsets(client, found, window.start, options, reset)
        if window.end_ms is None:
            end = ends  # so that -N is N records, even if new ones arrive meanwhile
    elif window.start is not None:
        start = window.start
    if partitions is not None and not isinstance(start, dict):
        start = dict.fromkeys(partitions, start)
    if isinstance(start, dict):
        numbers = None  # the offsets name the partitions
    return client.scan(list(wanted.topics), partitions=numbers, start=start, end=end, columns=wanted.columns, **options)


def _consumer(client: "Client", wanted: Wanted, options: Mapping[str, Any]) -> Any:
    from kafwire import Consumer

    window = wanted.window
    arguments: dict[str, Any] = {"columns": wanted.columns, **options}
    start: Any = "earliest"
    if window.start_ms is not None:
        start = moment(window.start_ms)
    elif isinstance(window.start, int) and window.start < 0:
        start = Tail(-window.start)
    elif isinstance(window.start, int):
        found, reset = partitions_of(client, wanted), options["auto_offset_reset"]
        start, _ = _start_offsets(client, found, window.start, options, reset, waits=False)
    elif window.start is not None:
        start = window.start
    if wanted.partitions or isinstance(start, dict):
        return Consumer(assign=partitions_of(client, wanted), start=start, **arguments)
    return Consumer(topics=list(wanted.topics), start=start, **arguments)


def partitions_of(client: "Client", wanted: Wanted, topics: Sequence[str] | None = None) -> list[TopicPartition]:
    """List the selected partitions of `topics`, or of all selected topics. Raises `ConfigError` for a missing one."""
    found = []
    for topic in wanted.topics if topics is None else topics:
        numbers = sorted(client.topic(topic).partitions)
        for number in sorted(wanted.partitions) or numbers:
            if number not in numbers:
                raise ConfigError(f"topic {topic!r} has partitions 0 to {numbers[-1]}, not {number}")
            found.append(TopicPartition(topic, number))
    return found


def ends_of(
    client: "Client",
    wanted: Wanted,
    options: Mapping[str, Any],
    partitions: Collection[TopicPartition],
    late: dict[TopicPartition, KafkaError] | None = None,
) -> dict[TopicPartition, int]:
    """Return the partitions' end offsets, or those of the time to stop at. See `available_offsets` for `late`."""

    def offsets(of: Collection[TopicPartition], when: Any, **level: Any) -> dict[TopicPartition, int]:
        return client.offsets(of, when, **level) if late is None else available_offsets(client, of, when, late, **level)

    ends = offsets(partitions, "latest", **isolation(options))
    if wanted.window.end_ms is not None:
        at = offsets(ends, wanted.window.end_ms)
        ends = {tp: min(offset, ends[tp]) if offset >= 0 else ends[tp] for tp, offset in at.items()}
    return ends


def _start_offsets(
    client: "Client",
    found: Collection[TopicPartition],
    asked: int,
    options: Mapping[str, Any],
    reset: str,
    *,
    waits: bool = True,
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return start offsets for an offset or -n, and end offsets. `reset` is the policy for an offset out of range.

    Without `waits`, an unavailable partition gets the unchecked offset, and no end offset.
    """
    patience: dict[str, Any] = {} if waits else {"on_error": lambda *_: None}
    low = client.offsets(found, "earliest", **patience)
    high = client.offsets(low, "latest", **isolation(options), **patience)
    if asked < 0:
        return {tp: max(low[tp], high[tp] + asked) for tp in found}, high
    start = dict.fromkeys(found, asked)
    missing = [tp for tp in high if not low[tp] <= asked <= high[tp]]
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
            "partitions with -p, or set -X auto.offset.reset=earliest"
        )
    found = client.offsets(missing, max(0, round(time.time() * 1000) - duration))
    return {tp: found[tp] if found[tp] >= 0 else high[tp] for tp in missing}
