"""Random filters of polars, DuckDB and pyarrow over the columns of topics, with each form that could bound a read."""

from __future__ import annotations

import datetime as dt
import operator
import random
from collections.abc import Callable, Sequence
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tests.support.frame_rows import time_at

COMPARED: Sequence[Callable[[Any, Any], Any]] = [
    *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
]
_SIGNS = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
_ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "+05:30"]
_UNITS: Sequence[Any] = ["ms", "us", "ns"]
_CLOSED: Sequence[Any] = ["both", "left", "right", "none"]


class Drawn:
    """Values near those of a topic: `times` are milliseconds of its records, `offsets` is the highest end."""

    def __init__(self, chance: random.Random, topic: str, times: Sequence[int], offsets: int) -> None:
        self.chance = chance
        self._topic = topic
        self._times = times
        self._offsets = offsets

    def offset(self) -> int:
        near = self.chance.randrange(-2, self._offsets + 3)
        return self.chance.choice([near, near, near, near, 0, -(1 << 63), (1 << 63) - 1, 1 << 31])

    def partition(self) -> int:
        return self.chance.choice([0, 1, 2, 3, -1, (1 << 31) - 1])

    def topic(self) -> str:
        return self.chance.choice([self._topic, self._topic, "other", self._topic + "a", ""])

    def nanoseconds(self) -> int:
        near = self.chance.choice(self._times) * 1_000_000
        return near + self.chance.choice([0, 0, 0, 1, -1, 999, 1_000, 500_000, 999_999, -1_000_000, 1_000_000, 10**9])

    def time(self) -> dt.datetime:
        """A datetime in some zone, to the microsecond."""
        if self.chance.random() < 0.1:  # far from those of the topic
            return dt.datetime(self.chance.choice([1, 1600, 2300, 9998]), 1, 2, tzinfo=dt.UTC)
        zone = self.chance.choice(_ZONES)
        found = time_at(0) + dt.timedelta(microseconds=self.nanoseconds() // 1000)
        return found.astimezone(dt.timezone(dt.timedelta(hours=5.5)) if zone[0] == "+" else ZoneInfo(zone))

    def bytes(self) -> bytes:
        return self.chance.choice([b"", b"5", b"k1", b"zz"])

    def tree(self, leaf: Callable[[Drawn], Any], join: Callable[[Drawn, Any, Any], Any], depth: int = 3) -> Any:
        if depth and self.chance.random() < 0.6:
            return join(self, self.tree(leaf, join, depth - 1), self.tree(leaf, join, depth - 1))
        return leaf(self)


def of_polars(drawn: Drawn) -> pl.Expr:
    """A predicate of polars."""
    found: pl.Expr = drawn.tree(_polars_leaf, _polars_join)
    return found


def _polars_join(drawn: Drawn, left: pl.Expr, right: pl.Expr) -> pl.Expr:
    return drawn.chance.choice(
        [
            *(left & right, left & right, left | right, left | right, ~left, ~(left & right), ~(left | right)),
            *(left ^ right, left.and_(right), pl.all_horizontal(left, right), pl.any_horizontal(left, right)),
            *(pl.when(left).then(right).otherwise(pl.lit(value=None)), left.fill_null(value=False), left.is_null()),
            *(left.eq_missing(right), left == right, left.alias("x") & right, pl.coalesce(left, right)),
        ]
    )


def _polars_time(drawn: Drawn) -> Any:
    if drawn.chance.random() < 0.4:
        return drawn.time()
    whole, unit = drawn.nanoseconds(), drawn.chance.choice(_UNITS)
    value = pl.lit(whole // {"ms": 1_000_000, "us": 1_000, "ns": 1}[unit]).cast(pl.Datetime(unit))
    zoned = value.dt.replace_time_zone("UTC")
    return drawn.chance.choice([zoned, zoned, zoned.dt.convert_time_zone(drawn.chance.choice(_ZONES[:3]))])


def _literal(value: Any) -> pl.Expr:
    return value if isinstance(value, pl.Expr) else pl.lit(value)


def _polars_leaf(drawn: Drawn) -> pl.Expr:
    chance = drawn.chance
    name, value = chance.choice(
        [
            *(("offset", drawn.offset), ("offset", drawn.offset), ("partition", drawn.partition)),
            *(("topic", drawn.topic), ("timestamp", lambda: _polars_time(drawn))),
            *(("timestamp", lambda: _polars_time(drawn)), ("key", drawn.bytes), ("value", drawn.bytes)),
        ]
    )
    column, sign = pl.col(name), chance.choice(COMPARED)
    listed = [drawn.time().astimezone(dt.UTC) if name == "timestamp" else value() for _ in range(chance.randrange(4))]
    with_null = [*listed, None] if chance.random() < 0.3 else listed
    kind: Any = {"timestamp": pl.Datetime("us", "UTC"), "key": pl.Binary, "value": pl.Binary}.get(
        name, pl.String if name == "topic" else pl.Int64
    )
    members = pl.Series(with_null, dtype=kind)
    if name == "timestamp":  # null where nanoseconds cannot have the time
        members = members.cast(pl.Datetime(chance.choice(_UNITS), "UTC"), strict=False)
    choices: list[Callable[[], pl.Expr]] = [
        *([lambda: sign(column, value())] * 6),
        lambda: sign(_literal(value()), column),
        lambda: chance.choice([column.is_null(), column.is_not_null()]),
        lambda: column.is_in(members, nulls_equal=chance.random() < 0.3),
        lambda: ~column.is_in(members),
        lambda: column.is_between(value(), value(), closed=chance.choice(_CLOSED)),
        lambda: chance.choice([column.eq_missing(value()), column.ne_missing(value())]),
        lambda: sign(column, pl.lit(None)),
        lambda: pl.lit(chance.choice([True, False, None]), dtype=pl.Boolean),
    ]
    if name in ("offset", "partition"):
        choices += [
            lambda: sign(column, chance.choice([3.5, -0.5, 1e300, float("nan")])),
            lambda: sign(column + 1, value() % 1000),
            lambda: sign(column.cast(chance.choice([pl.Int64, pl.Int32, pl.UInt64, pl.Float64]), strict=False), 7),
            lambda: sign(column, pl.lit(5).cast(chance.choice([pl.Int8, pl.UInt64, pl.Float32, pl.Int128]))),
            lambda: sign(column, pl.col("partition")),
            lambda: column.is_in([1.5, 2.0, 3.0]),
        ]
    if name == "timestamp":
        naive = drawn.time().astimezone(dt.UTC).replace(tzinfo=None)
        choices += [
            lambda: sign(column.dt.replace_time_zone(None), naive),
            lambda: sign(column.cast(pl.Datetime(chance.choice(_UNITS), "UTC")), value()),
            lambda: sign(column.dt.truncate("1s"), value()),
            lambda: sign(column.dt.convert_time_zone("Europe/Berlin"), value()),
            lambda: sign(column.dt.date(), naive.date()),
            lambda: sign(column.cast(pl.Int64), drawn.nanoseconds() // 1_000_000),
            lambda: sign(column, pl.col("timestamp") + dt.timedelta(milliseconds=chance.randrange(-1, 2))),
        ]
    return chance.choice(choices)()


def of_duckdb(drawn: Drawn) -> str:
    """A condition of DuckDB."""
    found: str = drawn.tree(_duckdb_leaf, _duckdb_join)
    return found


def _duckdb_join(drawn: Drawn, left: str, right: str) -> str:
    return drawn.chance.choice(
        [
            *(f"({left} AND {right})", f"({left} OR {right})", f"(NOT {left})", f"NOT ({left} OR {right})"),
            *(f"({left} AND {right})", f"({left} OR {right})", f"(({left}) IS NOT TRUE)", f"(({left}) IS NULL)"),
            *(f"coalesce({left}, {right})", f"(CASE WHEN {left} THEN {right} END)", f"(({left}) = ({right}))"),
        ]
    )


def _duckdb_time(drawn: Drawn) -> str:
    whole = drawn.nanoseconds()
    return drawn.chance.choice(
        [
            f"make_timestamptz({whole // 1000})",
            f"TIMESTAMPTZ '{drawn.time().isoformat(sep=' ')}'",
            f"(make_timestamp({whole // 1000}) AT TIME ZONE 'UTC')",
            f"make_timestamp_ns({whole})::TIMESTAMPTZ",
            f"TIMESTAMP_MS '{time_at(whole // 1_000_000).replace(tzinfo=None)}'::TIMESTAMPTZ",
        ]
    )


def _duckdb_leaf(drawn: Drawn) -> str:
    chance = drawn.chance
    name, value = chance.choice(
        [
            *(('"offset"', drawn.offset), ('"offset"', drawn.offset), ("partition", drawn.partition)),
            *(("topic", lambda: f"'{drawn.topic()}'"), ("timestamp", lambda: _duckdb_time(drawn))),
            *(("timestamp", lambda: _duckdb_time(drawn)), ("key", lambda: f"'{drawn.bytes().decode()}'::BLOB")),
            ("value", lambda: f"'{drawn.bytes().decode()}'::BLOB"),
        ]
    )
    sign = chance.choice(_SIGNS)
    listed = ", ".join([str(value()) for _ in range(chance.randrange(1, 4))] + ["NULL"] * (chance.random() < 0.2))
    choices: list[Callable[[], str]] = [
        *([lambda: f"({name} {sign} {value()})"] * 6),
        lambda: f"({value()} {sign} {name})",
        lambda: f"({name} IS {chance.choice(['', 'NOT '])}NULL)",
        lambda: f"({name} {chance.choice(['', 'NOT '])}IN ({listed}))",
        lambda: f"({name} {chance.choice(['', 'NOT '])}BETWEEN {value()} AND {value()})",
        lambda: chance.choice(["true", "false", "NULL::BOOLEAN"]),
    ]
    if name in ('"offset"', "partition"):
        choices += [
            lambda: f"({name} {sign} 3.5)",
            lambda: f"({name}::DOUBLE {sign} 3.5)",
            lambda: f"({name} + 1 {sign} {chance.randrange(9)})",
            lambda: f"({name} {sign} partition)",
            lambda: f"({name}::UTINYINT {sign} 3)",
            lambda: f"({name} IN (SELECT * FROM range({chance.randrange(5)}, {chance.randrange(5, 30)}, 7)))",
        ]
    if name == "timestamp":
        choices += [
            lambda: f"(timestamp::TIMESTAMP {sign} make_timestamp({drawn.nanoseconds() // 1000}))",
            lambda: f"(date_trunc('second', timestamp) {sign} {value()})",
            lambda: f"(timestamp::DATE {sign} {value()}::DATE)",
            lambda: f"(epoch_ms(timestamp) {sign} {drawn.nanoseconds() // 1_000_000})",
            lambda: f"(timestamp AT TIME ZONE 'Europe/Berlin' {sign} make_timestamp({drawn.nanoseconds() // 1000}))",
        ]
    return chance.choice(choices)()


def of_arrow(drawn: Drawn) -> Any:
    """An expression of pyarrow."""
    return drawn.tree(_arrow_leaf, _arrow_join)


def _arrow_join(drawn: Drawn, left: Any, right: Any) -> Any:
    return drawn.chance.choice(
        [
            *(left & right, left & right, left | right, left | right, ~left, ~(left & right), left.is_null()),
            *(pc.and_(left, right), pc.or_(left, right), pc.xor(left, right), pc.and_not_kleene(left, right)),
            *(pc.if_else(left, right, pa.scalar(None, pa.bool_())), pc.coalesce(left, right), left == right),
        ]
    )


def _arrow_leaf(drawn: Drawn) -> Any:
    chance = drawn.chance
    name, value = chance.choice(
        [
            *(("offset", drawn.offset), ("offset", drawn.offset), ("partition", drawn.partition)),
            *(("topic", drawn.topic), ("timestamp", lambda: _arrow_time(drawn))),
            *(("timestamp", lambda: _arrow_time(drawn)), ("key", drawn.bytes), ("value", drawn.bytes)),
        ]
    )
    field, sign = pc.field(name), chance.choice(COMPARED)
    listed = [drawn.time() if name == "timestamp" else value() for _ in range(chance.randrange(4))]
    with_null = [*listed, None] if chance.random() < 0.3 else listed
    kind = {"topic": pa.string(), "timestamp": pa.timestamp("us", "UTC"), "key": pa.binary(), "value": pa.binary()}
    members = pa.array(with_null, kind.get(name, pa.int64()))
    choices: list[Callable[[], Any]] = [
        *([lambda: sign(field, value())] * 6),
        lambda: sign(pc.scalar(value()), field),
        lambda: chance.choice([field.is_null(), field.is_valid()]),
        lambda: field.isin(members),
        lambda: pc.is_in(field, value_set=members, skip_nulls=chance.random() < 0.5),
        lambda: (field >= value()) & (field <= value()),
        lambda: sign(field, pa.scalar(None)),
        lambda: pc.scalar(chance.choice([True, False])),
    ]
    if name in ("offset", "partition"):
        choices += [
            lambda: sign(field, 3.5),
            lambda: sign(field.cast(pa.float64()), 3.5),
            lambda: sign(field + 1, chance.randrange(9)),
            lambda: sign(field, pc.field("partition")),
            lambda: sign(field.cast(pa.int8(), safe=False), 3),
            lambda: field.isin(pa.array([1, 2], pa.int32())),
        ]
    if name == "timestamp":
        choices += [
            lambda: sign(pc.floor_temporal(field, unit="second"), value()),
            lambda: sign(field.cast(pa.timestamp("us", "Europe/Berlin"), safe=False), value()),
            lambda: sign(field.cast(pa.int64()), drawn.nanoseconds() // 1_000_000),
        ]
    return chance.choice(choices)()


def _arrow_time(drawn: Drawn) -> Any:
    if drawn.chance.random() < 0.4:
        return drawn.time()
    unit = drawn.chance.choice(_UNITS)
    whole = drawn.nanoseconds() // {"ms": 1_000_000, "us": 1_000, "ns": 1}[unit]
    return pa.scalar(whole, pa.timestamp(unit, drawn.chance.choice(_ZONES)))
