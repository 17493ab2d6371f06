"""The decoding of values into columns: the reader's schema, fixed when a read is planned, and the decoder of a worker.

A `ValueDecoding` is made on the driver and travels to the workers as a pickle. Spark keeps the id of a registered
schema in the metadata of the column, so that a query that is planned has the schema that `load()` found.
"""

from __future__ import annotations

import functools
import os
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kafwire.errors import ConfigError
from kafwire.schemas.text import Text
from kafwire.serialization import ColumnContext
from kafwire.spark.avro_types import chosen_fields, readable, spark_type
from kafwire.spark.ddl import parse_columns
from kafwire.spark.processes import naming_this_host
from kafwire.spark.schema import arrow_type, top_columns, value_fields
from kafwire.spark.value_options import BAD_RECORD, TEXT, ValueFormat

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from kafwire.avro.schema import Type
    from kafwire.bad_records import BadRecord
    from kafwire.registry import SchemaRegistry
    from kafwire.spark.options import ReadOptions

SCHEMA_ID = "kafwire.schema.id"  # in the metadata of the column
DEAD_LETTERS = StructType(
    [StructField("cause", StringType()), StructField("schemaId", IntegerType()), StructField("value", BinaryType())]
)
_OF_JSON = (
    *(BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType, DecimalType),
    *(StringType, DateType, TimestampType, TimestampNTZType),
)
# Decoders and registries that a worker keeps, each for a query.
_MOST_KEPT = 16


@dataclass(frozen=True, slots=True)
class ValueDecoding:
    """The decoding of one column of a query. `type` is that of the column, `avro` the reader's schema of Avro.

    `key` names the decoder that a worker keeps from task to task.
    """

    format: ValueFormat
    type: DataType
    avro: Type | None = None
    schema_id: int | None = None
    key: str = field(default_factory=lambda: uuid.uuid4().hex)

    def columns(self) -> dict[str, StructField]:
        """The columns that decoding adds or changes."""
        metadata = None if self.schema_id is None else {SCHEMA_ID: self.schema_id}
        part = self.format.part
        found = {part: StructField(part, self.type, nullable=True, metadata=metadata)}
        if self.format.keeps_bad:
            found[BAD_RECORD] = StructField(BAD_RECORD, DEAD_LETTERS)
        return found

    def decoder(self) -> Decoder:
        """This process's decoder."""
        return _decoder(os.getpid(), _Keyed(self.key, self))


@dataclass(frozen=True, slots=True)
class Decodings:
    """The decodings of a query: those of the columns `key` and `value` that it reads."""

    key: ValueDecoding | None
    value: ValueDecoding | None

    def columns(self) -> dict[str, StructField]:
        """The columns that decoding adds or changes."""
        found: dict[str, StructField] = {}
        for each in (self.key, self.value):
            found |= {} if each is None else each.columns()
        return found


def decoding_of(options: ReadOptions, schema: StructType | None = None) -> Decodings | None:
    """The decodings that a read needs; None if the columns that it reads are not decoded.

    `schema` is the one that Spark gives, None while Spark requests it. Raises as `plan_decoding`.
    """
    chosen = None if options.columns is None else top_columns(options.columns)
    if schema is not None:
        if chosen is not None and chosen != schema.names:
            raise ConfigError(
                f"the schema has the columns {', '.join(schema.names)} and the option columns names "
                f"{', '.join(chosen)}: give one of the two"
            )
        chosen = schema.names
    fields = value_fields(options.columns)
    if options.value is None and fields:
        raise ConfigError(f"column value.{fields[0]} needs valueFormat=avro or valueFormat=json")
    found: dict[str, ValueDecoding | None] = {}
    for part, given in (("key", options.key), ("value", options.value)):
        if given is not None and given.keeps_bad and chosen is not None and BAD_RECORD not in chosen:
            raise ConfigError(f"option badRecords=deadLetter needs the column {BAD_RECORD}: choose that column too")
        if given is None or (chosen is not None and not {part, BAD_RECORD} & set(chosen)):
            found[part] = None
            continue
        declared = schema[part] if schema is not None and part in schema.names else None
        found[part] = plan_decoding(given, fields if part == "value" else None, declared)
    return Decodings(found["key"], found["value"]) if any(found.values()) else None


def plan_decoding(
    options: ValueFormat, names: Sequence[str] | None, declared: StructField | None = None
) -> ValueDecoding:
    """Find the schema of values; raises `ConfigError`, `SchemaError` and `SchemaRegistryError`.

    Args:
        options: how values are decoded.
        names: the fields that are read; None: all of them.
        declared: the column `value` of a schema that Spark gives.
    """
    if options.is_avro:
        return _plan_avro(options, names, declared)
    part = options.part
    if options.kind == TEXT:
        if names is not None:
            raise ConfigError(f"column value.{names[0]} needs valueFormat=avro or valueFormat=json")
        return ValueDecoding(options, StringType())
    if options.schema is not None:
        columns = parse_columns(f"{part}Schema", options.schema)
    elif declared is not None and isinstance(declared.dataType, StructType):
        columns = declared.dataType
    else:
        raise ConfigError(
            f"{part}Format=json needs the option {part}Schema, such as 'carrier STRING, delay INT', or a schema that "
            f"declares {part} as a struct"
        )
    _check_json(columns, part)
    if names is None and declared is not None and isinstance(declared.dataType, StructType):
        names = declared.dataType.names
    if names is not None:
        unknown = [name for name in names if name not in columns.names]
        if unknown:
            raise ConfigError(f"{part}Schema has no field {unknown[0]!r}: choose from {', '.join(columns.names)}")
        columns = StructType([columns[name] for name in names])
    return ValueDecoding(options, columns)


def _plan_avro(options: ValueFormat, names: Sequence[str] | None, declared: StructField | None) -> ValueDecoding:
    schema_id = None
    if options.schema is not None:
        from kafwire.avro.schema import parse

        reader, where = parse(options.schema), f"{options.part}Schema"
    else:
        registry = _registry(os.getpid(), tuple(sorted(options.registry.items())))
        schema_id = None if declared is None else (declared.metadata or {}).get(SCHEMA_ID)
        if schema_id is None:
            found = registry.latest(str(options.subject))
            reader, schema_id = found.schema, found.id
        else:
            reader = registry.schema(schema_id)
        where = f"schema {schema_id} of {options.subject}"
    if names is None and declared is not None and isinstance(declared.dataType, StructType) and reader.kind == "record":
        names = declared.dataType.names
    if names is not None:
        reader = chosen_fields(reader, names, where)
    reader = readable(reader)
    return ValueDecoding(options, spark_type(reader), reader, schema_id)


def _check_json(of: DataType, path: str) -> None:
    """Raise `ConfigError` for a type that JSON has no text for, or that the reader of JSON does not take."""
    if isinstance(of, StructType):
        for each in of:
            _check_json(each.dataType, f"{path}.{each.name}")
    elif isinstance(of, ArrayType):
        _check_json(of.elementType, f"{path}[]")
    elif not isinstance(of, _OF_JSON):
        instead = "a struct of its members" if isinstance(of, MapType) else "string"
        raise ConfigError(f"{path} is {of.simpleString()}, which valueFormat=json does not read: declare {instead}")


@dataclass(frozen=True, slots=True)
class Part:
    """Decoded rows `first` to `stop` of a chunk, in columns of exactly the types that Spark declares."""

    first: int
    stop: int
    values: pa.Array
    bad: Sequence[BadRecord]


class Decoder:
    """Decodes the values of one query in one process."""

    def __init__(self, decoding: ValueDecoding) -> None:
        self._type = arrow_type(decoding.type)
        self._avro: Any = None
        self._json: Any = None
        self._is_text = decoding.format.kind == TEXT
        if decoding.avro is not None:
            from kafwire.avro import AvroDecoder

            registry = _registry(os.getpid(), tuple(sorted(decoding.format.registry.items())))
            self._is_record = decoding.avro.kind == "record"
            self._avro = AvroDecoder(decoding.avro, schema_of=registry.schema, on_bad="null")
        elif not self._is_text:
            import pyarrow as pa

            from kafwire.json_columns import JsonDecoder

            self._json = JsonDecoder(pa.schema(list(arrow_type(_json_type(decoding.type)))), on_bad="null")

    def parts(self, values: pa.Array) -> Iterator[Part]:
        """Decode values. Bad ones are null, and listed; rows count from the first value."""
        import pyarrow as pa

        if self._is_text:
            bad: list[BadRecord] = []
            texts = Text(on_bad=bad.append).deserialize_column(values, ColumnContext("", "value"))
            yield Part(0, len(values), in_type(texts, self._type), bad)
            return
        if self._json is not None:
            decoded = self._json.decode(values)
            yield Part(0, len(values), in_type(pa.array(decoded), self._type), decoded.bad)
            return
        for part in self._avro.parts(values):
            found = pa.array(part) if self._is_record else part.to_arrow().column(0)
            yield Part(part.first, part.stop, in_type(found, self._type), part.bad)


def _json_type(of: DataType) -> Any:
    """Dates are read as times of midnight, since pyarrow's reader of JSON has no dates."""
    if isinstance(of, DateType):
        return TimestampType()
    if isinstance(of, StructType):
        return StructType([StructField(each.name, _json_type(each.dataType)) for each in of])
    return ArrayType(_json_type(of.elementType)) if isinstance(of, ArrayType) else of


def in_type(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """`array` as `wanted`: the same values in another of Arrow's types. It shares memory where the types are equal."""
    import pyarrow as pa

    found = array.type
    if found.equals(wanted):
        return array
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(wanted):
        children = [in_type(array.field(i), wanted.field(i).type) for i in range(wanted.num_fields)]
        if not children:
            return array
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)
    if pa.types.is_map(wanted):
        items = in_type(array.items, wanted.item_type)
        return pa.MapArray.from_arrays(array.offsets, array.keys, items, type=wanted, mask=mask)
    if pa.types.is_list(wanted):
        return pa.ListArray.from_arrays(array.offsets, in_type(array.values, wanted.value_type), type=wanted, mask=mask)
    return array.cast(wanted, safe=not pa.types.is_date(wanted))  # a date has been read as a time


@dataclass(frozen=True, slots=True)
class _Keyed:
    key: str
    decoding: ValueDecoding = field(compare=False)


@functools.lru_cache(maxsize=_MOST_KEPT)
def _decoder(pid: int, keyed: _Keyed) -> Decoder:
    """The decoder of a process, with the programs of all schema ids that it has met; a fork makes its own."""
    del pid
    return Decoder(keyed.decoding)


@functools.lru_cache(maxsize=_MOST_KEPT)
def _registry(pid: int, arguments: tuple[tuple[str, Any], ...]) -> SchemaRegistry:
    """The registry's client of a process, with the schemas that it has looked up."""
    del pid
    from kafwire.registry import SchemaRegistry

    given: Mapping[str, Any] = dict(arguments)
    try:
        with naming_this_host():
            return SchemaRegistry(**given)
    except ConfigError as error:
        raise ConfigError(f"schemaRegistry.* options: {error}") from None
