"""JSON documents into columns: what one value holds never reaches another."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from kafwire.errors import ConfigError, DecodeError
from kafwire.json_columns import JsonDecoder
from tests.support.seeds import examples, of_test

SCHEMA = pa.schema([("n", pa.int64()), ("t", pa.string()), ("xs", pa.list_(pa.float64()))])

BAD = [
    b"",
    b"?",
    b"{",
    b"}",
    b"[]",
    b"null",
    b"3",
    b'{"n": 1',
    b'{"n": "x"}',
    b'{"n": 1.5}',
    b'{"n": 1} {"n": 2}',
    b'{"n": 1}}\n{"v":{"n": 2}',
    b'{"n": 1},"v":{"n": 2}',
    b'{"t": "a\nb"}',
    b'{"xs": {}}',
    b'{"t": "\xff"}',
    b'{"n": 1}, {"n": 2}',
    b'{"n": 99999999999999999999}',
]


def test_documents_become_columns() -> None:
    schema = pa.schema(
        [("at", pa.timestamp("us", "UTC")), ("leg", pa.struct([("a", pa.string())])), ("d", pa.decimal128(9, 2))]
    )
    values = [b'{"at": "2013-01-01T05:15:00Z", "leg": {"a": "EWR", "b": 1}, "d": "1.50"}', b'{"more": [1]}']
    batch = JsonDecoder(schema).decode(values).to_arrow()
    assert batch.schema == schema
    assert batch["at"][0].as_py() == datetime(2013, 1, 1, 5, 15, tzinfo=UTC)
    assert batch["leg"].to_pylist() == [{"a": "EWR"}, None]
    assert batch["d"].to_pylist()[0].as_tuple().digits == (1, 5, 0)


@pytest.mark.parametrize("value", BAD)
def test_a_bad_value_is_alone(value: bytes) -> None:
    good = [b'{"n": 1}', b'{\n "n": 2,\n "t": "x"}\n']
    for values, row in ([value, *good], 0), ([good[0], value, good[1]], 1), ([*good, value], 2):
        decoded = JsonDecoder(SCHEMA, on_bad="null").decode(values)
        assert [each.row for each in decoded.bad] == [row]
        assert decoded.to_arrow()["n"].to_pylist() == [
            None if i == row else values[i] == good[0] or 2 for i in range(3)
        ]
        assert JsonDecoder(SCHEMA, on_bad="drop").decode(values).to_arrow()["n"].to_pylist() == [1, 2]
        with pytest.raises(DecodeError, match=f"row {row}: "):
            JsonDecoder(SCHEMA).decode(values)


def test_random_values_as_python_reads_them() -> None:
    chance = random.Random(of_test())
    for _ in range(examples(100)):
        values = [
            chance.choice([None, b'{"n": %d}' % chance.randrange(9), b'{"t": "\xc3\xa9"}', *BAD]) for _ in range(20)
        ]
        decoded = JsonDecoder(SCHEMA, on_bad="null").decode(pa.array(values, pa.binary()))
        rows = pa.array(decoded).to_pylist()
        assert [each.row for each in decoded.bad] == [row for row, value in enumerate(values) if value in BAD]
        for value, row in zip(values, rows, strict=True):
            expected: Any = (
                None if value is None or value in BAD else {"n": None, "t": None, "xs": None, **json.loads(value)}
            )
            assert row == expected


def test_null_values_and_no_values() -> None:
    assert JsonDecoder(SCHEMA).decode([None]).to_arrow().to_pylist() == [{"n": None, "t": None, "xs": None}]
    assert JsonDecoder(SCHEMA, on_bad="drop", null_values="bad").decode([None, b"{}"]).good().to_pylist() == [
        False,
        True,
    ]
    assert JsonDecoder(SCHEMA).decode([]).to_arrow().schema == SCHEMA


@pytest.mark.parametrize("options", [{"on_bad": "skip"}, {"null_values": "drop"}, {"schema": "n int"}])
def test_options_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        JsonDecoder(**{"schema": SCHEMA, **options})
