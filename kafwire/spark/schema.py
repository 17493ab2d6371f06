"""Spark's types, Arrow's types and Kafka's columns: the columns that a read declares and a write accepts.

Pure but for pyspark's type classes: no session, no cluster. Arrow types are made only where a task needs them.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kafwire.errors import ConfigError
from kafwire.spark.value_options import BAD_RECORD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from kafwire.spark.options import ReadOptions

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
# Spark trusts NOT NULL without a check, and fails later on a null.
_MAY_BE_NULL = ("key", "value", "timestamp", "timestampType", "headers", BAD_RECORD)
_NO_COLUMNS: Mapping[str, StructField] = MappingProxyType({})
# The columns' names in `kafwire.scan`.
SCAN_NAMES = {name: "timestamp_type" if name == "timestampType" else name for name in _COLUMNS}
# The layout of a scan's batches that Spark needs.
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


def read_schema(options: ReadOptions, decoded: Mapping[str, StructField] = _NO_COLUMNS) -> StructType:
    """The schema of a read; `decoded` are the columns that decoding adds or changes."""
    if options.columns is not None:
        return schema_of(top_columns(options.columns), decoded)
    plain = full_schema(include_headers=options.include_headers)
    fields = [decoded.get(field.name, field) for field in plain]
    return StructType([*fields, *(field for name, field in decoded.items() if name not in plain.names)])


def top_columns(columns: Sequence[str]) -> list[str]:
    """Return the source's columns of `columns`, each once; `value.<field>` is the column `value`."""
    return list(dict.fromkeys("value" if name.startswith("value.") else name for name in columns))


def value_fields(columns: Sequence[str] | None) -> list[str] | None:
    """Return the named fields of the value; None: all of them. Raises `ConfigError` for both at once."""
    if columns is None:
        return None
    fields = [name.removeprefix("value.") for name in columns if name.startswith("value.")]
    if fields and "value" in columns:
        raise ConfigError(f"the columns value and value.{fields[0]} have the same data: name one of them")
    if len(set(fields)) < len(fields):
        raise ConfigError(f"the columns name a field of the value twice: {', '.join(fields)}")
    return fields or None


def check_columns(columns: Sequence[str]) -> None:
    """Raise `ConfigError` unless `columns` names columns of the source, or fields of the value; each once."""
    if isinstance(columns, str):
        raise ConfigError(f"columns: a list of names is needed, not {columns!r}")
    value_fields(columns)
    known = {**_COLUMNS, BAD_RECORD: _COLUMNS["value"]}
    top = [name for name in columns if not name.startswith("value.")]
    unknown = [name for name in top if name not in known]
    if unknown:
        raise ConfigError(f"the source has no column {unknown[0]!r}: choose from {', '.join(known)}")
    if not columns:
        raise ConfigError(f"columns is empty: choose from {', '.join(known)}")
    if len(set(top)) < len(top):
        raise ConfigError(f"the columns name a column twice: {', '.join(top)}")


def schema_of(columns: Sequence[str], decoded: Mapping[str, StructField] = _NO_COLUMNS) -> StructType:
    """The schema of some of the source's columns; raises `ConfigError` for one that it does not have."""
    known = {name: StructField(name, kind) for name, kind in _COLUMNS.items()} | dict(decoded)
    unknown = [name for name in columns if name not in known]
    if unknown:
        raise ConfigError(f"the source has no column {unknown[0]!r}: choose from {', '.join(known)}")
    schema = StructType([known[name] for name in columns])
    check_read_schema(schema, decoded)
    return schema


def check_read_schema(schema: StructType, decoded: Mapping[str, StructField] = _NO_COLUMNS) -> None:
    """Raise `ConfigError` unless `schema` is a choice of the source's columns with their types."""
    known = _COLUMNS | {name: field.dataType for name, field in decoded.items()}
    names = schema.fieldNames()
    if not names:
        raise ConfigError(f"the schema names no column: choose from {', '.join(known)}")
    if len(set(names)) < len(names):
        raise ConfigError(f"the schema names a column twice: {', '.join(names)}")
    for field in schema:
        expected = known.get(field.name)
        if expected is None:
            raise ConfigError(f"the source has no column {field.name!r}: choose from {', '.join(known)}")
        if not _same(field.dataType, expected):
            raise ConfigError(
                f"column {field.name} is {expected.simpleString()}, not {field.dataType.simpleString()}: declare it so "
                "and cast it in the query"
            )
        if (not field.nullable and field.name in _MAY_BE_NULL) or (
            field.name in decoded and _has_not_null(field.dataType)
        ):
            raise ConfigError(f"column {field.name} may hold nulls: leave NOT NULL out")


def _has_not_null(of: DataType) -> bool:
    """True if a type excludes nulls somewhere inside."""
    if isinstance(of, StructType):
        return any(not each.nullable or _has_not_null(each.dataType) for each in of)
    if isinstance(of, ArrayType):
        return not of.containsNull or _has_not_null(of.elementType)
    return isinstance(of, MapType) and (not of.valueContainsNull or _has_not_null(of.valueType))


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema with which Spark compares batches; every detail must be equal."""
    import pyarrow as pa

    return pa.schema(list(arrow_type(schema)))


def arrow_type(of: DataType) -> Any:
    """The Arrow type that Spark has for a type."""
    import pyarrow as pa

    if isinstance(of, StructType):
        return pa.struct([pa.field(each.name, arrow_type(each.dataType), nullable=each.nullable) for each in of])
    if isinstance(of, ArrayType):
        return pa.list_(pa.field("element", arrow_type(of.elementType), nullable=of.containsNull))
    if isinstance(of, MapType):
        item = pa.field("value", arrow_type(of.valueType), nullable=of.valueContainsNull)
        return pa.map_(pa.field("key", arrow_type(of.keyType), nullable=False), item)
    if isinstance(of, DecimalType):
        return pa.decimal128(of.precision, of.scale)
    if isinstance(of, TimestampType):
        return pa.timestamp("us", tz="UTC")
    names = {
        "void": "null", "boolean": "bool_", "tinyint": "int8", "smallint": "int16", "int": "int32", "bigint": "int64",
        "float": "float32", "double": "float64", "binary": "binary", "string": "string", "date": "date32",
    }  # fmt: skip
    return pa.timestamp("us") if isinstance(of, TimestampNTZType) else getattr(pa, names[of.simpleString()])()


def check_write_schema(schema: StructType, topic: str | None) -> list[str]:
    """The columns of `schema` that are written, in a fixed order; raises `ConfigError` for one that cannot be written.

    Columns with other names are ignored, as in Spark's own sink.
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
    """Return True if the types are equal; nullability does not matter here."""
    return found.simpleString() == expected.simpleString() and type(found) is type(expected)
