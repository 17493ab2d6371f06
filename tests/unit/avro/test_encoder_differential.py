"""Random schemas and values: the bytes are those that fastavro writes, and the decoder reads them back."""

from __future__ import annotations

import io
import json
from decimal import Context, Decimal
from typing import Any

import fastavro
import pyarrow as pa

from kafwire.avro import AvroDecoder, AvroEncoder
from tests.support import avro_samples
from tests.support.avro_samples import Branch, Samples
from tests.support.seeds import examples, of_test

ROWS = 6
EXACT = Context(prec=100)


def for_fastavro(schema: Any) -> Any:
    """The schema with decimals as its only logical types: times are given as numbers."""
    if isinstance(schema, list):
        return [for_fastavro(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    out = dict(schema)
    if out.get("logicalType") != "decimal":
        out.pop("logicalType", None)
    for key in ("items", "values"):
        if key in out:
            out[key] = for_fastavro(out[key])
    if "fields" in out:
        out["fields"] = [{**field, "type": for_fastavro(field["type"])} for field in out["fields"]]
    return out


def datum(schema: Any, value: Any) -> Any:
    """A sample as fastavro takes it."""
    if isinstance(schema, list):
        chosen = schema[value.index]
        inner = datum(chosen, value.value)
        if isinstance(chosen, dict) and chosen["type"] == "record":
            return chosen["name"], inner
        return (chosen, inner) if isinstance(chosen, str) and chosen != "null" else inner
    if not isinstance(schema, dict):
        return value
    if schema.get("logicalType") == "decimal":
        return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-schema["scale"], EXACT)
    if schema["type"] == "record":
        return {field["name"]: datum(field["type"], value[field["name"]]) for field in schema["fields"]}
    if schema["type"] == "array":
        return [datum(schema["items"], each) for each in value]
    if schema["type"] == "map":
        return {key: datum(schema["values"], each) for key, each in value.items()}
    return value


def written_by_fastavro(schema: Any, value: Any) -> bytes:
    return plainly_written(for_fastavro(schema), datum(schema, value))


def plainly_written(schema: Any, value: Any) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, schema, value)
    return file.getvalue()


def is_null(value: Any) -> bool:
    return value is None or (isinstance(value, Branch) and value.value is None)


def fields(array: pa.Array) -> list[Any]:
    return [avro_samples.storage(each) for each in array.flatten()]


def cut(array: pa.Array) -> pa.Array:
    """The same rows as a slice of a longer array."""
    return pa.concat_arrays([array[:1], array, array[:1]])[1 : len(array) + 1]


def test_bytes_are_those_of_fastavro() -> None:
    first = of_test()
    for seed in range(first, first + examples(600)):
        samples = Samples(seed, apart=True)
        schema = samples.record() if seed % 3 else samples.schema()
        values = [samples.value(schema) for _ in range(ROWS)]
        text = json.dumps(schema)
        decoder = AvroDecoder(text, writer=text, enums="dictionary" if seed % 2 else "string")
        columns = pa.array(decoder.decode([samples.encode(schema, each) for each in values]))
        expected: list[bytes | None] = [written_by_fastavro(schema, each) for each in values]
        if not (isinstance(schema, dict) and schema["type"] == "record"):  # a null is a null value
            expected = [None if is_null(each) else data for each, data in zip(values, expected, strict=True)]
        for given in (columns, cut(columns)):
            made = AvroEncoder(text, prefix=b"\0\0\0\0\7").encode(given).to_arrow()
            made.validate(full=True)
            framed = [None if each is None else b"\0\0\0\0\7" + each for each in expected]
            assert made.to_pylist() == framed, f"seed {seed}: {text}"
        again = pa.array(decoder.decode(AvroEncoder(text).encode(columns)))
        assert fields(again) == fields(columns), f"seed {seed}: {text}"


def test_large_forms_and_views_give_the_same_bytes() -> None:
    schema: dict[str, Any] = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "a", "type": ["null", "string"]},
            {"name": "b", "type": "bytes"},
            {"name": "c", "type": {"type": "array", "items": ["null", "long"]}},
            {"name": "d", "type": {"type": "enum", "name": "E", "symbols": ["LONG_NAME", "A", "B"]}},
            {"name": "e", "type": "double"},
        ],
    }
    text = json.dumps(schema)
    rows = [
        {
            "a": None if row % 3 == 0 else "é" * row,
            "b": b"x" * (row * 3),
            "c": [None, row, -row],
            "d": ("A", "LONG_NAME", "B")[row % 3],
            "e": row / 2,
        }
        for row in range(20)
    ]
    forms = [
        (pa.string(), pa.binary(), pa.list_(pa.int64()), pa.string(), pa.float64()),
        (pa.large_string(), pa.large_binary(), pa.large_list(pa.int32()), pa.large_string(), pa.float32()),
        (pa.string_view(), pa.binary_view(), pa.list_(pa.int8(), 3), pa.string_view(), pa.float64()),
        (
            pa.dictionary(pa.int8(), pa.string()),
            pa.dictionary(pa.uint16(), pa.binary()),
            pa.list_(pa.dictionary(pa.int64(), pa.int16())),
            pa.dictionary(pa.uint8(), pa.string()),
            pa.float64(),
        ),
    ]
    expected = [plainly_written(schema, row) for row in rows]
    for kinds in forms:
        names = [field["name"] for field in schema["fields"]]
        columns = pa.RecordBatch.from_pylist(rows, pa.schema(list(zip(names, kinds, strict=True))))
        assert AvroEncoder(text).encode(columns).to_arrow().to_pylist() == expected, kinds
        assert AvroEncoder(text).encode(columns[3:9]).to_arrow().to_pylist() == expected[3:9], kinds
