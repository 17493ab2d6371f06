"""Filters that Spark pushes down to a batch read. The plan applies some of them, and Spark the others.

Pure but for pyspark's filter classes. `kafwire.scanner.row_filter` turns filters into bounds. Spark does not repeat a
filter of topic, partition or offset whose bounds are exact. A filter of the timestamp bounds the read, and Spark
applies it again: Kafka's timestamps are milliseconds and Spark's microseconds.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from kafwire.scanner.row_filter import (
    END,
    OTHER,
    All,
    Bounds,
    Column,
    Comparison,
    Expression,
    ExpressionFilter,
    Membership,
    Negation,
    Pair,
    Sign,
)
from kafwire.scanner.row_filter import IsNull as IsNullColumn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafwire.spark.plan import OffsetRange

_SIGNS: dict[type[Filter], Sign] = {
    EqualTo: "==",
    EqualNullSafe: "==",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_TYPES: dict[str, type] = {"topic": str, "partition": int, "offset": int, "timestamp": dt.datetime}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class PushedFilters:
    """Filters that a read applies, all of them."""

    expressions: tuple[Expression, ...] = ()

    @property
    def since_ms(self) -> int | None:
        """The earliest time that can pass; None if any can."""
        bounds = self._bounds()
        return None if bounds.with_null or bounds.since <= 0 else bounds.since

    @property
    def window(self) -> tuple[int | None, int | None] | None:
        """The times that a scan filters by; None without a filter of the timestamp."""
        bounds = self._bounds()
        until = None if bounds.with_null or bounds.until == END else max(0, bounds.until)
        return None if self.since_ms is None and until is None else (self.since_ms, until)

    def narrowed(self, piece: OffsetRange) -> OffsetRange:
        """Return the part of a range that can pass; empty if there is none."""
        bounds = self._bounds(piece.topic, piece.partition)
        if bounds.is_empty:
            return replace(piece, end=piece.start)
        return replace(piece, start=max(piece.start, bounds.first), end=min(piece.end, bounds.stop))

    def _bounds(self, topic: str | None = None, partition: int | None = None) -> Bounds:
        return ExpressionFilter(All(self.expressions)).bounds(topic, partition)


def push(filters: Iterable[Filter]) -> tuple[PushedFilters, list[Filter]]:
    """Return the filters that a read applies, and those that Spark has to apply."""
    pushed, left = [], []
    for each in filters:
        found = _expression_of(each)
        if found != OTHER:
            pushed.append(found)
        if not found.is_exact():
            left.append(each)
    return PushedFilters(tuple(pushed)), left


def _expression_of(given: Filter) -> Expression:
    if isinstance(given, Not):
        inner = _expression_of(given.child)
        return OTHER if inner == OTHER else Negation(inner)
    path: tuple[str, ...] = getattr(given, "attribute", ())
    if len(path) != 1 or path[0] not in _TYPES:  # a field inside a column has a longer path
        return OTHER
    column = cast("Column", path[0])
    if isinstance(given, IsNull):
        return IsNullColumn(column)
    if isinstance(given, IsNotNull):
        return Negation(IsNullColumn(column))
    values = _values(given, _TYPES[column])
    if values is None:
        return OTHER
    if isinstance(given, In):
        return Membership(column, tuple(values))
    return Comparison(column, _SIGNS[type(given)], *values[0], null_safe=isinstance(given, EqualNullSafe))


def _values(given: Filter, kind: type) -> list[Pair] | None:
    """Return the values of a comparison; None if it is no comparison, or a value is not of type `kind`."""
    if type(given) not in (*_SIGNS, In):
        return None
    value: Any = getattr(given, "value", None)
    values = tuple(value) if isinstance(given, In) else (value,)
    if not values or not all(type(value) is kind for value in values):
        return None
    if kind is not dt.datetime:
        return [(value, value) for value in values]
    if any(value.tzinfo is None for value in values):
        return None  # a time without a zone
    return [((value - _EPOCH) // _MILLISECOND, -((_EPOCH - value) // _MILLISECOND)) for value in values]
