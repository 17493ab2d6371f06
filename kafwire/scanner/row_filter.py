"""Filters of records by topic, partition, offset and timestamp, and the part of each partition that can pass one.

Pure. Each library that pushes a filter down (polars, Spark) has a translator into the expressions of this module. The
bounds never exclude a record that passes; they may include others. So the library applies its filter again, unless
`is_exact` shows that the bounds have exactly the records that pass.

A filter has SQL's three results: true, false and null. A record passes if the result is true.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal, Protocol

__all__ = [
    "END",
    "FALSE",
    "LOWEST",
    "NOTHING",
    "OTHER",
    "TRUE",
    "WHOLE",
    "All",
    "Bounds",
    "Comparison",
    "Constant",
    "Either",
    "Expression",
    "ExpressionFilter",
    "IsNull",
    "Membership",
    "Negation",
    "RowFilter",
]

# Of 64-bit values; the end is exclusive.
LOWEST, END = -(1 << 63), 1 << 63
Column = Literal["topic", "partition", "offset", "timestamp"]
Sign = Literal["==", "<", "<=", ">", ">="]
# An inclusive range of values: a time between two milliseconds has both, every other value is given twice.
Pair = tuple[Any, Any]

_COMPARED: Mapping[Sign, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NEGATED: Mapping[Sign, Sign] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True, slots=True)
class Bounds:
    """The records of a partition that can pass: offsets [first, stop), and milliseconds [since, until).

    `with_null` includes records without a timestamp.
    """

    first: int = 0
    stop: int = END
    since: int = LOWEST
    until: int = END
    with_null: bool = True

    @property
    def is_empty(self) -> bool:
        """True if no record can pass."""
        return self.first >= self.stop or (self.since >= self.until and not self.with_null)

    @property
    def window(self) -> tuple[int, int] | None:
        """The times by which a scan can filter; None if it cannot: its ends exclude the latest time of all."""
        return None if self.with_null or self.until == END else (self.since, self.until)

    def both(self, other: Bounds) -> Bounds:
        """Return the records within both."""
        return Bounds(
            max(self.first, other.first),
            min(self.stop, other.stop),
            max(self.since, other.since),
            min(self.until, other.until),
            self.with_null and other.with_null,
        )

    def hull(self, other: Bounds) -> Bounds:
        """Return the smallest bounds that include both."""
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        with_null = self.with_null or other.with_null
        if self.since >= self.until or other.since >= other.until:
            timed = other if self.since >= self.until else self
            since, until = timed.since, timed.until
        else:
            since, until = min(self.since, other.since), max(self.until, other.until)
        return Bounds(min(self.first, other.first), max(self.stop, other.stop), since, until, with_null)


WHOLE = Bounds()
NOTHING = Bounds(0, 0, 0, 0, with_null=False)
_NO_TIME = Bounds(since=0, until=0)
_SOME_TIME = Bounds(with_null=False)


class RowFilter(Protocol):
    """The use of a filter by a scan."""

    def bounds(self, topic: str | None = None, partition: int | None = None) -> Bounds:
        """Return the part of a partition that can pass; None stands for any topic or partition."""


@dataclass(frozen=True, slots=True)
class Constant:
    """True, false, or (None) a condition on other columns, which can be either."""

    value: bool | None

    def outcomes(self, topic: str | None, partition: int | None) -> tuple[Bounds, Bounds]:  # noqa: ARG002
        """Return the whole partition for each possible result."""
        return (NOTHING if self.value is False else WHOLE), (NOTHING if self.value is True else WHOLE)

    def is_exact(self, *, negated: bool = False) -> bool:  # noqa: ARG002
        """True for true and false."""
        return self.value is not None


TRUE, FALSE, OTHER = Constant(value=True), Constant(value=False), Constant(value=None)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a column with a value. Timestamps are milliseconds.

    A value between two milliseconds is [low, high]: the comparison then holds where it would hold for one of the two,
    as libraries round it in their own ways. `null_safe` makes a null unequal, without the result null.
    """

    column: Column
    sign: Sign
    low: Any
    high: Any
    null_safe: bool = False

    def outcomes(self, topic: str | None, partition: int | None) -> tuple[Bounds, Bounds]:
        """Return the bounds on either side of the value."""
        if self.column in ("topic", "partition"):
            found = topic if self.column == "topic" else partition
            if found is None:
                return WHOLE, WHOLE
            is_true = _COMPARED[self.sign](found, self.low)
            return (WHOLE, NOTHING) if is_true else (NOTHING, WHOLE)
        true = self._within(self.sign)
        false = self._within(_NEGATED[self.sign]) if self.sign != "==" else self._unequal()
        if self.column == "timestamp" and self.null_safe:
            false = false.hull(_NO_TIME)
        return true, false

    def is_exact(self, *, negated: bool = False) -> bool:
        """True for topics and partitions, and for each offset but a middle one that is left out."""
        return self.column in ("topic", "partition") or (
            self.column == "offset" and not (negated and self.sign == "==")
        )

    def _within(self, sign: Sign) -> Bounds:
        low, high = LOWEST, END
        if sign in ("==", ">", ">="):
            low = max(low, self.low + (sign == ">" and self.low == self.high))
        if sign in ("==", "<", "<="):
            high = max(low, min(high, self.high + (sign != "<")))
        if self.column == "offset":
            return Bounds(first=max(0, low), stop=high)
        return Bounds(since=low, until=high, with_null=False)

    def _unequal(self) -> Bounds:
        if self.column == "timestamp":
            return _SOME_TIME
        return Bounds(first=1) if self.low == self.high == 0 else WHOLE


@dataclass(frozen=True, slots=True)
class Membership:
    """A column has one of these values, given as those of a `Comparison`."""

    column: Column
    values: tuple[Pair, ...]

    def outcomes(self, topic: str | None, partition: int | None) -> tuple[Bounds, Bounds]:
        """Return the bounds from the smallest value to the largest one."""
        if self.column in ("topic", "partition"):
            found = topic if self.column == "topic" else partition
            if found is None:
                return WHOLE, WHOLE
            is_true = any(found == low for low, _ in self.values)
            return (WHOLE, NOTHING) if is_true else (NOTHING, WHOLE)
        others = _SOME_TIME if self.column == "timestamp" else WHOLE
        if not self.values:
            return NOTHING, others
        low, high = min(low for low, _ in self.values), max(high for _, high in self.values)
        return Comparison(self.column, "==", low, high)._within("=="), others

    def is_exact(self, *, negated: bool = False) -> bool:
        """True for topics and partitions, and for offsets without a gap."""
        if self.column in ("topic", "partition"):
            return True
        found = {low for low, _ in self.values}
        return self.column == "offset" and not negated and (not found or max(found) - min(found) + 1 == len(found))


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column has no value. Only a timestamp can be null."""

    column: Column

    def outcomes(self, topic: str | None, partition: int | None) -> tuple[Bounds, Bounds]:  # noqa: ARG002
        """Return the records without a timestamp, and those with one."""
        return (_NO_TIME, _SOME_TIME) if self.column == "timestamp" else (NOTHING, WHOLE)

    def is_exact(self, *, negated: bool = False) -> bool:  # noqa: ARG002
        """True unless it is the timestamp."""
        return self.column != "timestamp"


@dataclass(frozen=True, slots=True)
class Negation:
    """Not `inner`; null remains null."""

    inner: Expression

    def outcomes(self, topic: str | None, partition: int | None) -> tuple[Bounds, Bounds]:
        """Return those of `inner` the other way round."""
        true, false = self.inner.outcomes(topic, partition)
        return false, true

    def is_exact(self, *, negated: bool = False) -> bool:
        """True if the other outcome of `inner` is exact."""
        return self.inner.is_exact(negated=not negated)


@dataclass(frozen=True, slots=True)
class All:
    """All parts are true."""

    parts: tuple[Expression, ...]

    def outcomes(self, topic: str | None, partition: int | None) -> tuple[Bounds, Bounds]:
        """Return the intersection of the parts, and the hull of the cases in which a part is false."""
        found = [part.outcomes(topic, partition) for part in self.parts]
        true = reduce(Bounds.both, (each for each, _ in found), WHOLE)
        return (NOTHING if true.is_empty else true), reduce(Bounds.hull, (each for _, each in found), NOTHING)

    def is_exact(self, *, negated: bool = False) -> bool:
        """True if each part is exact, and no part of a negated one bounds offsets."""
        return all(part.is_exact(negated=negated) and not (negated and _bounds_offsets(part)) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Either:
    """One part at least is true."""

    parts: tuple[Expression, ...]

    def outcomes(self, topic: str | None, partition: int | None) -> tuple[Bounds, Bounds]:
        """Return the outcomes of "not all parts are false"."""
        false, true = self._all_false().outcomes(topic, partition)
        return true, false

    def is_exact(self, *, negated: bool = False) -> bool:
        """True if "not all parts are false" is exact."""
        return self._all_false().is_exact(negated=not negated)

    def _all_false(self) -> All:
        return All(tuple(Negation(part) for part in self.parts))


# `outcomes` of each returns the bounds of the records for which it can be true, and of those for which it can be false.
# `is_exact` is true if the bounds of each partition have exactly the records for which it is true, or (negated) false.
Expression = Constant | Comparison | Membership | IsNull | Negation | All | Either


def _bounds_offsets(part: Expression) -> bool:
    match part:
        case Constant():
            return False
        case Negation():
            return _bounds_offsets(part.inner)
        case All() | Either():
            return any(_bounds_offsets(each) for each in part.parts)
    return part.column not in ("topic", "partition")


@dataclass(frozen=True, slots=True)
class ExpressionFilter:
    """A `RowFilter` of an expression."""

    expression: Expression

    def bounds(self, topic: str | None = None, partition: int | None = None) -> Bounds:
        """Return the part of a partition for which the expression can be true."""
        true, _ = self.expression.outcomes(topic, partition)
        return NOTHING if true.is_empty else true
