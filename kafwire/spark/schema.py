"""Spark's types, Arrow's types and Kafka's columns: what a read declares, what a write accepts.

Pure but for pyspark's type classes: no session, no cluster. Arrow types are made only where a task asks for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kafwire.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

_HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_COLUMNS: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": _HEADERS,
}
# Spark trusts NOT NULL without looking, and falls over a null later.
_MAY_BE_NULL = ("key", "value", "timestamp", "timestampType", "headers")
# What `kafwire.scan` calls them.
SCAN_NAMES = {name: "timestamp_type" if name == "timestampType" else name for name in _COLUMNS}
# How a scan has to lay out its batches for Spark.
SCAN_LAYOUT: dict[str, Any] = {
    "names": {"timestamp_type": "timestampType"},
    "timestamp_unit": "us",
    "timestamp_type": "int32",
}
_WRITABLE: dict[str, tuple[DataType, ...]] = {
    "value": (StringType(), BinaryType()),
    "key": (StringType(), BinaryType()),
    "headers": (_HEADERS,),
    "topic": (StringType(),),
    "partition": (IntegerType(),),
    "timestamp": (TimestampType(),),
}


def full_schema(*, include_headers: bool) -> StructType:
    """The schema of Spark's own Kafka source."""
    names = [name for name in _COLUMNS if name != "headers" or include_headers]
    return StructType([StructField(name, _COLUMNS[name]) for name in names])


def schema_of(columns: Sequence[str]) -> StructType:
    """The schema of some of the source's columns; raises `ConfigError` for one that it does not have."""
    if isinstance(columns, str):
        raise ConfigError(f"columns: a list of names is needed, not {columns!r}")
    unknown = [name for name in columns if name not in _COLUMNS]
    if unknown:
        raise ConfigError(f"the source has no column {unknown[0]!r}: choose from {', '.join(_COLUMNS)}")
    schema = StructType([StructField(name, _COLUMNS[name]) for name in columns])
    check_read_schema(schema)
    return schema


def check_read_schema(schema: StructType) -> None:
    """Raise `ConfigError` unless `schema` is a choice of the source's columns with their types."""
    names = schema.fieldNames()
    if not names:
        raise ConfigError(f"the schema names no column: choose from {', '.join(_COLUMNS)}")
    if len(set(names)) < len(names):
        raise ConfigError(f"the schema names a column twice: {', '.join(names)}")
    for field in schema:
        expected = _COLUMNS.get(field.name)
        if expected is None:
            raise ConfigError(f"the source has no column {field.name!r}: choose from {', '.join(_COLUMNS)}")
        if not _same(field.dataType, expected):
            raise ConfigError(
                f"column {field.name} is {expected.simpleString()}, not {field.dataType.simpleString()}: declare it so "
                "and cast it in the query"
            )
        if not field.nullable and field.name in _MAY_BE_NULL:
            raise ConfigError(f"column {field.name} may hold nulls: leave NOT NULL out")


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark compares batches with, which has to be equal in every detail."""
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        "headers": pa.list_(pa.field("element", header)),
    }
    return pa.schema([pa.field(field.name, types[field.name], nullable=field.nullable) for field in schema])


def check_write_schema(schema: StructType, topic: str | None) -> list[str]:
    """The columns of `schema` that are written, in a fixed order; raises `ConfigError` for what cannot be.

    Columns with other names are left alone, as in Spark's own sink.
    """
    names = schema.fieldNames()
    written = [name for name in _WRITABLE if name in names and not (name == "topic" and topic is not None)]
    if "value" not in written:
        raise ConfigError(f"a column named value is needed, string or binary; the DataFrame has {', '.join(names)}")
    if topic is None and "topic" not in written:
        raise ConfigError("no topic to write to: set the option topic, or add a string column of that name")
    for name in written:
        if names.count(name) > 1:
            raise ConfigError(f"the DataFrame has {names.count(name)} columns named {name}: keep one")
        found = schema[name].dataType
        accepts = _WRITABLE[name]
        # A collation changes how Spark compares text, not its bytes.
        if not any(_same(found, one) or (isinstance(found, StringType) and one == StringType()) for one in accepts):
            accepted = " or ".join(one.simpleString() for one in accepts)
            raise ConfigError(f"column {name} is {found.simpleString()}; it has to be {accepted}: cast it")
    return written


def _same(found: DataType, expected: DataType) -> bool:
    """Equal but for nullability, which says nothing about how to read or write."""
    return found.simpleString() == expected.simpleString() and type(found) is type(expected)
