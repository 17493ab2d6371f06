"""Each type of Avro has the Arrow type that docs/guide/avro.md says."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kafwire.avro import AvroDecoder

FIXED = {"type": "fixed", "name": "F", "size": 16}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("boolean", pa.bool_()),
        ("int", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("bytes", pa.binary()),
        ("string", pa.string()),
        ("null", pa.null()),
        (["null"], pa.null()),
        (FIXED, pa.binary(16)),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, pa.string()),
        ({"type": "array", "items": "int"}, pa.list_(pa.field("element", pa.int32()))),
        ({"type": "map", "values": "int"}, pa.map_(pa.string(), pa.int32())),
        (["null", "int"], pa.int32()),
        (["int"], pa.int32()),
        (["string", "null", "int"], pa.struct([("member0", pa.string()), ("member1", pa.int32())])),
        (logical("int", "date"), pa.date32()),
        (logical("int", "time-millis"), pa.time32("ms")),
        (logical("long", "time-micros"), pa.time64("us")),
        (logical("long", "timestamp-millis"), pa.timestamp("ms", "UTC")),
        (logical("long", "timestamp-micros"), pa.timestamp("us", "UTC")),
        (logical("long", "timestamp-nanos"), pa.timestamp("ns", "UTC")),
        (logical("long", "local-timestamp-millis"), pa.timestamp("ms")),
        (logical("long", "local-timestamp-micros"), pa.timestamp("us")),
        (logical("long", "local-timestamp-nanos"), pa.timestamp("ns")),
        (logical("bytes", "decimal", precision=38, scale=2), pa.decimal128(38, 2)),
        (logical("bytes", "decimal", precision=39, scale=2), pa.decimal256(39, 2)),
        ({**FIXED, "logicalType": "decimal", "precision": 9}, pa.decimal128(9, 0)),
        (logical("string", "uuid"), pa.string()),
        ({**FIXED, "logicalType": "uuid"}, pa.binary(16)),
        (logical("long", "fortnight"), pa.int64()),
    ],
)
def test_the_arrow_type_of(schema: Any, expected: pa.DataType) -> None:
    found = pa.schema(AvroDecoder(schema, writer=schema))
    assert found.names == ["value"]
    assert found.field(0).type == expected
    assert found.field(0).nullable


def test_a_record_is_its_fields() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "b", "type": "int"}]}
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": inner}, {"name": "c", "type": "I"}]}
    leaf = pa.struct([("b", pa.int32())])
    assert pa.schema(AvroDecoder(schema, writer=schema)) == pa.schema([("a", leaf), ("c", leaf)])
