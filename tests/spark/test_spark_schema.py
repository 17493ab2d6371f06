"""Types: what the source declares equals Spark's own, and what Arrow is asked for is what Spark compares with."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kafwire.errors import ConfigError
from kafwire.records._arrow import Layout
from kafwire.spark.row_batches import to_spark
from kafwire.spark.schema import (
    SCAN_LAYOUT,
    SCAN_NAMES,
    arrow_schema,
    check_read_schema,
    check_write_schema,
    full_schema,
)

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def columns(**types: object) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])  # type: ignore[arg-type]


def test_the_schema_is_that_of_sparks_own_source() -> None:
    plain = columns(
        key=BinaryType(),
        value=BinaryType(),
        topic=StringType(),
        partition=IntegerType(),
        offset=LongType(),
        timestamp=TimestampType(),
        timestampType=IntegerType(),
    )
    assert full_schema(include_headers=False) == plain
    assert full_schema(include_headers=True) == plain.add("headers", HEADERS)


def test_arrow_types_equal_those_that_spark_expects() -> None:
    schema = full_schema(include_headers=True)
    assert arrow_schema(schema).equals(to_arrow_schema(schema, timezone="UTC"), check_metadata=True)
    strict = StructType([StructField("offset", LongType(), nullable=False)])
    assert arrow_schema(strict).equals(to_arrow_schema(strict, timezone="UTC"))


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (columns(), "the schema names no column"),
        (columns(value=BinaryType(), body=BinaryType()), "the source has no column 'body': choose from key, value"),
        (columns(value=StringType()), "column value is binary, not string: declare it so and cast it"),
        (
            columns(headers=ArrayType(StringType())),
            "column headers is array<struct<key:string,value:binary>>, not array",
        ),
        (columns(timestamp=LongType()), "column timestamp is timestamp, not bigint"),
        (StructType([StructField("key", BinaryType(), nullable=False)]), "column key may hold nulls"),
        (StructType([StructField("key", BinaryType())] * 2), "the schema names a column twice: key, key"),
    ],
)
def test_a_read_schema_that_cannot_be_served(schema: StructType, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        check_read_schema(schema)


def test_any_choice_of_columns_can_be_read() -> None:
    check_read_schema(columns(offset=LongType(), headers=HEADERS, value=BinaryType()))


@pytest.mark.parametrize(
    ("schema", "topic", "said"),
    [
        (columns(key=BinaryType(), body=StringType()), "t", "a column named value is needed, string or binary"),
        (columns(value=LongType()), "t", "column value is bigint; it has to be string or binary: cast it"),
        (columns(value=StringType(), key=IntegerType()), "t", "column key is int; it has to be string or binary"),
        (columns(value=StringType(), partition=LongType()), "t", "column partition is bigint; it has to be int"),
        (
            columns(value=StringType(), headers=StringType()),
            "t",
            "column headers is string; it has to be array<struct<",
        ),
        (columns(value=StringType(), topic=BinaryType()), None, "column topic is binary; it has to be string"),
        (columns(value=StringType()), None, "no topic to write to: set the option topic"),
        (
            StructType([StructField("value", StringType())] * 2),
            "t",
            "the DataFrame has 2 columns named value: keep one",
        ),
    ],
)
def test_a_write_schema_that_cannot_be_taken(schema: StructType, topic: str | None, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        check_write_schema(schema, topic)


def test_the_topic_option_overrides_the_column_and_other_columns_stay_behind() -> None:
    schema = columns(offset=LongType(), topic=StringType(), key=StringType(), value=BinaryType())
    assert check_write_schema(schema, None) == ["value", "key", "topic"]
    assert check_write_schema(schema, "t") == ["value", "key"]


def test_a_scan_is_laid_out_for_spark() -> None:
    schema = full_schema(include_headers=True)
    layout = Layout("t", 0, columns=[SCAN_NAMES[name] for name in schema.names], **SCAN_LAYOUT)
    assert pa.schema(layout).equals(arrow_schema(schema), check_metadata=True)


def test_no_headers_are_null() -> None:
    schema = arrow_schema(columns(partition=IntegerType(), headers=HEADERS))
    headers = [[{"key": "a", "value": None}], [], [{"key": "b", "value": b"c"}] * 2, []]
    batch = pa.record_batch([pa.array([0] * 4, pa.int32()), pa.array(headers, schema.field("headers").type)], schema)
    for start in range(4):
        found = to_spark(batch.slice(start), schema)
        found.validate(full=True)
        assert found.schema.equals(schema)
        assert found["headers"].to_pylist() == [one or None for one in headers[start:]]


def test_a_column_that_may_not_be_null_keeps_its_mark() -> None:
    schema = arrow_schema(StructType([StructField("offset", LongType(), nullable=False)]))
    assert to_spark(pa.record_batch({"offset": pa.array([1, 2])}), schema).schema.equals(schema)
