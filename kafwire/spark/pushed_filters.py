"""Filters that Spark pushes down to a batch read. The plan applies some of them, and Spark the others.

Pure but for pyspark's filter classes. The plan applies filters of topic, partition and offset exactly, so that Spark
does not repeat them. A filter of the timestamp bounds the read, and Spark applies it again: Kafka's timestamps are
milliseconds and Spark's microseconds.
"""

from __future__ import annotations

import datetime as dt
import operator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafwire.spark.plan import OffsetRange

_EQUAL = (EqualTo, EqualNullSafe)
_COMPARED: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)
_NO_END = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Test:
    """One condition on a partition's topic or number; `is_negated` inverts it."""

    column: str
    compared: type[Filter]
    value: Any
    is_negated: bool

    def admits(self, piece: OffsetRange) -> bool:
        found = piece.topic if self.column == "topic" else piece.partition
        is_true = found in self.value if self.compared is In else _COMPARED[self.compared](found, self.value)
        return is_true is not self.is_negated


@dataclass(frozen=True, slots=True)
class PushedFilters:
    """Filters that a read applies. Offsets and milliseconds are half open: `[first, stop)`, `[since_ms, until_ms)`."""

    tests: tuple[_Test, ...] = ()
    first: int = 0
    stop: int = _NO_END
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def window(self) -> tuple[int | None, int | None] | None:
        """The times that a scan filters by; None without a filter of the timestamp."""
        return None if self.since_ms is None and self.until_ms is None else (self.since_ms, self.until_ms)

    @property
    def excludes_all(self) -> bool:
        """True if no timestamp can pass."""
        return self.since_ms is not None and self.until_ms is not None and self.since_ms >= self.until_ms

    def narrowed(self, piece: OffsetRange) -> OffsetRange:
        """Return the part of a range that can pass; empty if there is none."""
        if self.excludes_all or not all(test.admits(piece) for test in self.tests):
            return replace(piece, end=piece.start)
        return replace(piece, start=max(piece.start, self.first), end=min(piece.end, self.stop))


def push(filters: Iterable[Filter]) -> tuple[PushedFilters, list[Filter]]:
    """Return the filters that a read applies, and those that Spark has to apply."""
    pushed, left = PushedFilters(), []
    for each in filters:
        found = _pushed(pushed, each)
        pushed = pushed if found is None else found
        if found is None or _column(each) == "timestamp":
            left.append(each)
    return pushed, left


def _pushed(before: PushedFilters, given: Filter) -> PushedFilters | None:
    """Return `before` with one more filter; None if a read cannot apply it."""
    column = _column(given)
    is_negated = isinstance(given, Not)
    inner = given.child if isinstance(given, Not) else given
    if isinstance(inner, IsNotNull):
        return before if column in ("topic", "partition", "offset") and not is_negated else None
    values = _values(inner, {"topic": str, "partition": int, "offset": int, "timestamp": dt.datetime}.get(column))
    if values is None:
        return None
    if column in ("topic", "partition"):
        value = values if isinstance(inner, In) else values[0]
        return replace(before, tests=(*before.tests, _Test(column, type(inner), value, is_negated)))
    if is_negated:
        return None
    return _by_offset(before, inner, values) if column == "offset" else _by_time(before, inner, values)


def _by_offset(before: PushedFilters, given: Filter, values: tuple[int, ...]) -> PushedFilters | None:
    if isinstance(given, In) and max(values) - min(values) + 1 != len(set(values)):
        return None  # not one range
    first, stop = before.first, before.stop
    if isinstance(given, (*_EQUAL, In, GreaterThan, GreaterThanOrEqual)):
        first = max(first, min(values) + isinstance(given, GreaterThan))
    if isinstance(given, (*_EQUAL, In, LessThan, LessThanOrEqual)):
        stop = min(stop, max(values) + (not isinstance(given, LessThan)))
    return replace(before, first=first, stop=stop)


def _by_time(before: PushedFilters, given: Filter, values: tuple[dt.datetime, ...]) -> PushedFilters | None:
    if any(value.tzinfo is None for value in values):
        return None  # a time without a zone
    low, high = (each // _MILLISECOND for each in (min(values) - _EPOCH, max(values) - _EPOCH))
    since, until = before.since_ms, before.until_ms
    if isinstance(given, (*_EQUAL, In, GreaterThan, GreaterThanOrEqual)) and low > 0:
        since = low if since is None else max(since, low)
    if isinstance(given, (*_EQUAL, In, LessThan, LessThanOrEqual)) and high >= 0:
        until = high + 1 if until is None else min(until, high + 1)
    return replace(before, since_ms=since, until_ms=until)


def _column(given: Filter) -> str:
    """Return the column of a filter; empty for a field inside a column."""
    inner: Any = given.child if isinstance(given, Not) else given
    path: tuple[str, ...] = getattr(inner, "attribute", ())
    return path[0] if len(path) == 1 else ""


def _values(given: Filter, kind: type | None) -> tuple[Any, ...] | None:
    """Return the values of a comparison; None if it is no comparison, or a value is not of type `kind`."""
    if kind is None or type(given) not in (*_COMPARED, In):
        return None
    value: Any = getattr(given, "value", None)
    values = tuple(value) if isinstance(given, In) else (value,)
    return values if values and all(type(value) is kind for value in values) else None
