"""Types of decoded values: Spark's DDL, Avro schemas, and Arrow arrays in Spark's types. No session."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import IntegerType, StructType

from kafwire.avro import AvroDecoder
from kafwire.avro.schema import parse
from kafwire.errors import ConfigError
from kafwire.spark.avro_types import chosen_fields, readable, spark_type
from kafwire.spark.ddl import parse_columns
from kafwire.spark.schema import arrow_type
from kafwire.spark.value_decoding import in_type
from tests.support import avro_samples
from tests.support.avro_samples import Samples
from tests.support.seeds import examples, of_test


def record(*fields: tuple[str, Any], **defaults: Any) -> dict[str, Any]:
    made = [
        {"name": name, "type": kind} | ({"default": defaults[name]} if name in defaults else {})
        for name, kind in fields
    ]
    return {"type": "record", "name": "R", "fields": made}


def logical(kind: str, name: str, **more: int) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("n int", "struct<n:int>"),
        (" carrier STRING , delay:Integer ", "struct<carrier:string,delay:int>"),
        ("a array<array<bigint>>, m map<string, double>", "struct<a:array<array<bigint>>,m:map<string,double>>"),
        ("s struct<x: tinyint, y smallint>, `a ``b` date", "struct<s:struct<x:tinyint,y:smallint>,a `b:date>"),
        ("d decimal, e DECIMAL(9), f numeric(38, 6)", "struct<d:decimal(10,0),e:decimal(9,0),f:decimal(38,6)>"),
        (
            "a boolean, b byte, c short, d long, e real, f binary, g timestamp, h timestamp_ntz, i float",
            "struct<a:boolean,b:tinyint,c:smallint,d:bigint,e:float,f:binary,g:timestamp,h:timestamp_ntz,i:float>",
        ),
    ],
)
def test_columns_in_ddl(text: str, found: str) -> None:
    assert parse_columns("valueSchema", text).simpleString() == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a column's name is missing"),
        ("n", "'' is no type: use boolean,"),
        ("n number", "'number' is no type: use boolean, tinyint,"),
        ("n int m int", "a comma or the end is needed before 'm'"),
        ("n int, N string", "the column n is named twice"),
        ("n int,", "a column's name is missing"),
        ("(n int)", "a column's name is needed, not '('"),
        ("n array<int", "> is missing"),
        ("n array int", "< is needed before 'int'"),
        ("n map<string>", ", is needed before '>'"),
        ("n struct<a int", "> is missing"),
        ("n int NOT NULL", "column n may hold nulls: leave NOT NULL out"),
        ("n decimal(39)", "decimal(39,0) has 1 to 38 digits"),
        ("n decimal(2,3)", "decimal(2,3) has 1 to 38 digits"),
        ("n decimal(x)", "a number is needed, not 'x'"),
        ("n " + "array<" * 70 + "int" + ">" * 70, "types are nested more than 64 deep"),
    ],
)
def test_wrong_ddl_is_named(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        parse_columns("valueSchema", text)


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ("int", "int"),
        (["null", "long"], "bigint"),
        (["null"], "void"),
        (["null", "int", "string"], "struct<member0:int,member1:string>"),
        (logical("int", "date"), "date"),
        (logical("int", "time-millis"), "int"),
        (logical("long", "time-micros"), "bigint"),
        (logical("long", "timestamp-millis"), "timestamp"),
        (logical("long", "timestamp-micros"), "timestamp"),
        (logical("long", "timestamp-nanos"), "bigint"),
        (logical("long", "local-timestamp-millis"), "timestamp_ntz"),
        (logical("bytes", "decimal", precision=38, scale=2), "decimal(38,2)"),
        (logical("string", "uuid"), "string"),
        ({"type": "fixed", "name": "F", "size": 3}, "binary"),
        ({"type": "enum", "name": "E", "symbols": ["a"]}, "string"),
        ({"type": "map", "values": {"type": "array", "items": "float"}}, "map<string,array<float>>"),
        (record(("a", "bytes"), ("b", record())), "struct<a:binary,b:struct<>>"),
    ],
)
def test_types_of_avro(schema: Any, found: str) -> None:
    if isinstance(schema, dict) and schema.get("name") == "R":
        schema["fields"][1]["type"]["name"] = "S"
    assert spark_type(readable(parse(schema))).simpleString() == found


def test_avro_types_without_one_of_spark_are_named() -> None:
    wide = record(("d", logical("bytes", "decimal", precision=39, scale=0)))
    with pytest.raises(ConfigError, match=re.escape("value.d is a decimal of 39 digits, and Spark's have 38")):
        spark_type(readable(parse(wide)))
    with pytest.raises(ConfigError, match="value has several fields named a, in upper and lower case"):
        spark_type(readable(parse(record(("a", "int"), ("A", "int")))))


def test_fields_are_chosen_in_order() -> None:
    of = parse(record(("a", "int"), ("b", "string"), ("c", "int")))
    assert spark_type(chosen_fields(of, ["c", "a"], "it")).simpleString() == "struct<c:int,a:int>"
    with pytest.raises(ConfigError, match="schema 7 has no field 'x': choose from a, b, c"):
        chosen_fields(of, ["a", "x"], "schema 7")
    with pytest.raises(ConfigError, match="it is of type string, which has no fields"):
        chosen_fields(parse("string"), ["x"], "it")


def test_defaults_of_times_are_those_of_the_schema() -> None:
    millis = logical("long", "timestamp-millis")
    reader = record(
        ("t", millis),
        ("o", ["null", millis]),
        ("p", [millis, "null"]),
        ("l", {"type": "array", "items": millis}),
        ("m", {"type": "map", "values": logical("long", "local-timestamp-millis")}),
        ("n", "long"),
        ("r", record(("t", millis), ("u", millis), u=9) | {"name": "S"}),
        t=1500, o=None, p=1500, l=[1500], m={"a": 1500}, n=1500, r={"t": 1500},
    )  # fmt: skip
    of = readable(parse(reader))
    found = in_type(pa.array(AvroDecoder(of, writer=record()).decode([b""])), arrow_type(spark_type(of)))
    at = dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, dt.UTC)
    local = at.replace(tzinfo=None)
    (row,) = found.to_pylist()
    assert (row["t"], row["o"], row["p"], row["l"], row["m"], row["n"]) == (at, None, at, [at], [("a", local)], 1500)
    assert row["r"] == {"t": at, "u": at.replace(second=0, microsecond=9000)}


def test_a_time_that_is_no_microsecond_is_a_bad_value() -> None:
    of = readable(parse(logical("long", "timestamp-millis")))
    decoded = AvroDecoder(of, writer=logical("long", "timestamp-millis"), on_bad="null").decode(
        [avro_samples.number(1), avro_samples.number(1 << 62)]
    )
    assert [bad.row for bad in decoded.bad] == [1]


def test_random_values_keep_their_bits_in_spark_s_types() -> None:
    first, compared = of_test(), 0
    for seed in range(first, first + examples(300)):
        samples = Samples(seed)
        writer = samples.record() if seed % 3 else samples.schema()
        of = parse(avro_samples.text(writer))
        try:
            kind = spark_type(readable(of))
        except ConfigError:
            continue  # a decimal of more digits than Spark has
        data = [samples.encode(writer, samples.value(writer)) for _ in range(5)]
        plain = pa.array(AvroDecoder(of, writer=of).decode(data))
        decoded = AvroDecoder(readable(of), writer=of, on_bad="null").decode(data)
        found = pa.array(decoded)
        if of.kind != "record":
            plain, found = plain.field(0), found.field(0)
        found = in_type(found, arrow_type(kind))
        found.validate(full=True)
        assert found.type.equals(to_arrow_type(kind, timezone="UTC"), check_metadata=True), f"seed {seed}: {writer}"
        if '"timestamp-millis"' in avro_samples.text(writer) or "local-timestamp-millis" in avro_samples.text(writer):
            continue  # other numbers, tested above
        assert avro_samples.storage(found) == avro_samples.storage(plain), f"seed {seed}: {writer}"
        compared += 1
    assert compared


def test_an_array_of_the_type_is_not_copied() -> None:
    array = pa.array([{"a": 1}], pa.struct([pa.field("a", pa.int32())]))
    assert in_type(array, arrow_type(StructType().add("a", IntegerType()))) is array


def test_nulls_stay_where_types_change() -> None:
    found = pa.array([[{"f": b"ab"}, None], None, []], pa.list_(pa.struct([pa.field("f", pa.binary(2))])))
    wanted = pa.list_(pa.field("element", pa.struct([pa.field("f", pa.binary())])))
    assert in_type(found, wanted).to_pylist() == [[{"f": b"ab"}, None], None, []]
    maps = pa.array([[("a", b"ab"), ("b", None)], None], pa.map_(pa.string(), pa.binary(2)))
    assert in_type(maps, pa.map_(pa.string(), pa.binary())).to_pylist() == [[("a", b"ab"), ("b", None)], None]
