"""Predicates of polars as filters of a scan.

polars has no other way to look into an expression than its JSON form, whose names differ between releases. A node that
this module does not know is a condition on other columns: it bounds nothing, and polars applies it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import polars as pl

from kafwire.scanner.row_filter import (
    FALSE,
    OTHER,
    TRUE,
    All,
    Column,
    Comparison,
    Either,
    Expression,
    IsNull,
    Membership,
    Negation,
    Pair,
    Sign,
)

Names = Mapping[str, Column]

_SIGNS: dict[str, Sign] = {"Eq": "==", "EqValidity": "==", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_UNEQUAL = {"NotEq": "Eq", "NotEqValidity": "EqValidity"}
_TURNED = {"Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq"}
_CLOSED: dict[str, tuple[Sign, Sign]] = {
    "Both": (">=", "<="),
    "Left": (">=", "<"),
    "Right": (">", "<="),
    "None": (">", "<"),
}
_PER_MS = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_UNREADABLE = (pl.exceptions.PolarsError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def expression_of(predicate: pl.Expr, names: Names) -> Expression:
    """Return the predicate as far as it compares the columns in `names` with values."""
    try:
        return _read(json.loads(predicate.meta.serialize(format="json")), names)
    except _UNREADABLE:  # another release has another form
        return OTHER


def _read(node: Any, names: Names) -> Expression:
    match node:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            return All((_read(left, names), _read(right, names)))
        case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
            return Either((_read(left, names), _read(right, names)))
        case {"BinaryExpr": {"left": left, "op": str(sign), "right": right}}:
            return _compared(left, sign, right, names)
        case {"Function": {"input": list(given), "function": {"Boolean": called}}}:
            return _called(called, given, names)
        case {"Alias": [inner, _]}:
            return _read(inner, names)
        case {"Literal": _}:
            found = _series(node)
            return {True: TRUE, False: FALSE}.get(found.item(), OTHER) if found.dtype == pl.Boolean else OTHER
    return OTHER


def _compared(left: Any, sign: str, right: Any, names: Names) -> Expression:
    if sign in _UNEQUAL:
        return Negation(_compared(left, _UNEQUAL[sign], right, names))
    column = _column(left, names)
    if column is None:
        left, right, sign = right, left, _TURNED.get(sign, sign)
        column = _column(left, names)
    if column is None or sign not in _SIGNS:
        return OTHER
    return _comparison(column, _SIGNS[sign], right, null_safe=sign == "EqValidity")


def _comparison(column: Column, sign: Sign, node: Any, *, null_safe: bool = False) -> Expression:
    values = _values(_series(node), column) if _is_constant(node) else None
    if values is None or len(values) != 1:
        return OTHER  # a comparison with null, among others
    return Comparison(column, sign, *values[0], null_safe=null_safe)


def _called(called: Any, given: list[Any], names: Names) -> Expression:
    if called == "Not":
        return Negation(_read(given[0], names))
    column = _column(given[0], names)
    if column is None:
        return OTHER
    match called:
        case "IsNull":
            return IsNull(column)
        case "IsNotNull":
            return Negation(IsNull(column))
        case {"IsBetween": {"closed": closed}}:
            after, before = _CLOSED[closed]
            return All((_comparison(column, after, given[1]), _comparison(column, before, given[2])))
        case {"IsIn": {"nulls_equal": False}}:
            listed = _series(given[1]) if _is_constant(given[1]) else None
            if listed is not None and listed.dtype == pl.List and len(listed) == 1:
                listed = listed[0]
            members = None if listed is None else _values(listed, column)
            return OTHER if members is None else Membership(column, tuple(members))
    return OTHER


def _column(node: Any, names: Names) -> Column | None:
    """Return the column of a node; None for another column, or another kind of node."""
    match node:
        case {"Column": str(name)}:
            return names.get(name)
        case {"Cast": {"expr": {"Column": str(name)}, "dtype": {"Literal": "Int64"} | "Int64"}}:
            column = names.get(name)
            return column if column in ("partition", "offset") else None
    return None


def _is_constant(node: Any) -> bool:
    """True for a literal, and for one that is cast or gets a time zone, which older releases do not fold."""
    match node:
        case {"Literal": _}:
            return True
        case {"Cast": {"expr": inner}}:
            return _is_constant(inner)
        case {"Function": {"input": list(given), "function": {"TemporalExpr": _}}}:
            return all(map(_is_constant, given))
    return False


def _series(node: Any) -> pl.Series:
    """Return the value of a constant, whatever its form in this release."""
    constant = pl.Expr.deserialize(io.BytesIO(json.dumps(node).encode()), format="json")
    return pl.select(constant).to_series()


def _values(found: pl.Series, column: Column) -> list[Pair] | None:
    """Return the values that are not null; None if they are not of the column's type."""
    kind, found = found.dtype, found.drop_nulls()
    if column == "timestamp":
        if not isinstance(kind, pl.Datetime) or kind.time_zone is None:
            return None
        unit = _PER_MS[kind.time_unit]
        return [(each // unit, -(-each // unit)) for each in found.to_physical().to_list()]
    if kind != pl.String if column == "topic" else not kind.is_integer():
        return None
    return [(each, each) for each in found.to_list()]
