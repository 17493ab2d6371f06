"""Spark's types of an Avro schema, and the reader's schema whose Arrow columns have those types.

Pure but for pyspark's type classes. Spark has no type for times of day without a date and for nanoseconds: they are the
numbers that Avro stores, as in Spark's `from_avro`. Its timestamps are microseconds, so milliseconds are read as such.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kafwire.avro.default import encode
from kafwire.avro.schema import MISSING, Field, Logical
from kafwire.errors import ConfigError, SchemaError

if TYPE_CHECKING:
    from kafwire.avro.schema import Type

_MOST_DIGITS = 38
_PLAIN: dict[str, DataType] = {
    "null": NullType(),
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "fixed": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
}
_TIMES: dict[str, DataType] = {
    "date": DateType(),
    "timestamp-micros": TimestampType(),
    "local-timestamp-micros": TimestampNTZType(),
}
_FINER = {"timestamp-millis": "timestamp-micros", "local-timestamp-millis": "local-timestamp-micros"}
_NUMBERS = ("time-millis", "time-micros", "timestamp-nanos", "local-timestamp-nanos")


def chosen_fields(of: Type, names: Sequence[str], where: str) -> Type:
    """Return the record `of` with the fields `names` in their order. Raises `ConfigError`, which names `where`."""
    if of.kind != "record":
        raise ConfigError(f"{where} is of type {of}, which has no fields: choose the column value instead")
    fields = {field.name: field for field in of.fields}
    unknown = [name for name in names if name not in fields]
    if unknown:
        raise ConfigError(f"{where} has no field {unknown[0]!r}: choose from {', '.join(fields)}")
    return replace(of, fields=tuple(fields[name] for name in names))


def readable(of: Type) -> Type:
    """Return `of` with only those logical types that Spark has; defaults are converted to their units."""
    if of.kind == "record":
        return replace(of, fields=tuple(_readable_field(field) for field in of.fields))
    if of.items is not None:
        return replace(of, items=readable(of.items))
    if of.branches:
        return replace(of, branches=tuple(readable(branch) for branch in of.branches))
    if of.logical is None:
        return of
    if of.logical.name in _FINER:
        return replace(of, logical=Logical(_FINER[of.logical.name]))
    return replace(of, logical=None) if of.logical.name in _NUMBERS else of


def spark_type(of: Type, path: str = "value") -> DataType:
    """The type in Spark of a schema that `readable` returned; raises `ConfigError` if there is none."""
    if of.kind == "record":
        names = [field.name.lower() for field in of.fields]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(
                f"{path} has several fields named {twice[0]}, in upper and lower case, which Spark takes for one: give "
                "the option valueSchema without one of them"
            )
        return StructType([StructField(f.name, spark_type(f.type, f"{path}.{f.name}")) for f in of.fields])
    if of.kind == "array":
        assert of.items is not None
        return ArrayType(spark_type(of.items, f"{path}[]"))
    if of.kind == "map":
        assert of.items is not None
        return MapType(StringType(), spark_type(of.items, f"{path}{{}}"))
    if of.kind == "union":
        return _union(of, path)
    if of.logical is None:
        return _PLAIN[of.kind]
    if of.logical.name == "decimal":
        if of.logical.precision > _MOST_DIGITS:
            raise ConfigError(
                f"{path} is a decimal of {of.logical.precision} digits, and Spark's have {_MOST_DIGITS} at most: give "
                "the option valueSchema without its logicalType, for the bytes"
            )
        return DecimalType(of.logical.precision, of.logical.scale)
    return _TIMES.get(of.logical.name, _PLAIN[of.kind])


def _union(of: Type, path: str) -> DataType:
    """Return the one type besides null; for several, a struct with a member for each, as in `from_avro`."""
    branches = [branch for branch in of.branches if branch.kind != "null"]
    if not branches:
        return NullType()
    if len(branches) == 1:
        return spark_type(branches[0], path)
    return StructType(
        [StructField(f"member{i}", spark_type(branch, f"{path}<{branch}>")) for i, branch in enumerate(branches)]
    )


def _readable_field(field: Field) -> Field:
    default = MISSING if field.default is MISSING else _in_micros(field.type, field.default)
    return replace(field, type=readable(field.type), default=default)


def _in_micros(of: Type, default: Any) -> Any:
    """Return a default with milliseconds as microseconds. A default that is no value of its type stays as it is."""
    if of.kind == "union":
        branch = next((branch for branch in of.branches if _is_one(branch, default)), None)
        return default if branch is None else _in_micros(branch, default)
    if not _is_one(of, default):
        return default
    if of.kind == "record":
        types = {field.name: field.type for field in of.fields}
        return {name: _in_micros(types[name], value) if name in types else value for name, value in default.items()}
    if of.kind == "array" and of.items is not None:
        return [_in_micros(of.items, value) for value in default]
    if of.kind == "map" and of.items is not None:
        return {name: _in_micros(of.items, value) for name, value in default.items()}
    is_finer = of.logical is not None and of.logical.name in _FINER
    return default * 1000 if is_finer else default


def _is_one(of: Type, value: Any) -> bool:
    try:
        encode(of, value)
    except SchemaError:
        return False
    return True
