"""The native reader of JSON columns beside pyarrow's: the same rows, the same bad ones."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

import pyarrow as pa
import pytest

from kafwire.json_columns import JsonDecoder
from tests.support.seeds import examples, of_test

SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("small", pa.int8()),
        ("n", pa.int64()),
        ("u", pa.uint16()),
        ("big", pa.uint64()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("ok", pa.bool_()),
        ("grün", pa.string()),
    ]
)
NUMBERS = ["0", "-0", "7", "-7", "127", "128", "-128", "-129", "65535", "65536", "1.5", "-0.0", "1e3", "1E-3", "1e400"]
NUMBERS += ["0.1", "3.4028235e38", "3.5e38", "123456789012345678", "9223372036854775807", "9223372036854775808", "01"]
NUMBERS += ["18446744073709551615", "0.30000000000000004", "2.2250738585072014e-308", "5e-324", "1.", ".5", "+1", "1e"]
NUMBERS += ["16777217", "16777217.0000001", "9007199254740993", "1e22", "1e23", "1e-22", "8.5e10", "NaN", "Infinity"]
WORDS = ["true", "false", "null", "True", "nul", "{}", "[]", '{"a": [1, {"b": "}"}]}', "[1,]", '"x"', '""', "[[[]]]"]
TEXTS = ["", "a", "EWR-IAH", "grün", "😀", "\u0000", "\x1f", '"', "\\", "\n", "x" * 40, "\ud83d\ude00"]
ESCAPES = [r"\u0041", r"\ud83d\ude00", r"\ud83d", r"\ude00", r"\u00e9", r"\u0000", r"\x", r"\/", r"\b\f", r"\u12"]
SPACES = ["", "", "", " ", "\n", "\t\r ", "\v"]


def member(chance: random.Random) -> str:
    name = chance.choice([*SCHEMA.names, "other", "", "n\\u0020", "tex\\u0074"])
    value = chance.choice(
        [
            chance.choice(NUMBERS),
            repr(chance.uniform(-1e6, 1e6)),
            repr(struct.unpack("<d", chance.randbytes(8))[0]),
            str(chance.randrange(-(2 ** chance.randrange(1, 70)), 2 ** chance.randrange(1, 70))),
            chance.choice(WORDS),
            json.dumps(chance.choice(TEXTS), ensure_ascii=chance.random() < 0.5),
            f'"{chance.choice(TEXTS[:5])}{chance.choice(ESCAPES)}{chance.choice(TEXTS[:5])}"',
        ]
    )
    return (
        f'{chance.choice(SPACES)}"{name}"{chance.choice(SPACES)}:{chance.choice(SPACES)}{value}{chance.choice(SPACES)}'
    )


def fitting(chance: random.Random) -> dict[str, Any]:
    whole = {"text": chance.choice(TEXTS), "small": chance.randrange(-128, 128), "n": chance.randrange(10**17)}
    more = {"u": chance.randrange(65536), "x": chance.uniform(-9, 9), "f": chance.random(), "ok": True, "grün": "ü"}
    return {name: value for name, value in {**whole, **more}.items() if chance.random() < 0.8}


def document(chance: random.Random) -> bytes | None:
    draw = chance.random()
    if draw < 0.05:
        return None
    if draw < 0.4:
        made = json.dumps(fitting(chance), ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
    else:
        space = chance.choice(SPACES)
        members = ",".join(member(chance) for _ in range(chance.randrange(4)))
        made = f"{space}{{{members}}}{space}".encode("utf-8", "surrogatepass")
    if draw > 0.8 and made:
        data = bytearray(made)
        for _ in range(chance.randrange(1, 3)):
            data[chance.randrange(len(data))] = chance.choice(b'{}[]",:\\0e.-u \xff\xc3\xa9\x00')
        made = bytes(data)
    return made


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return struct.pack("<d", left) == struct.pack("<d", right)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    return bool(left == right)


@pytest.mark.parametrize("on_bad", ["null", "drop"])
def test_it_reads_what_pyarrow_reads(on_bad: Any) -> None:
    first = of_test()
    for seed in range(first, first + examples(60)):
        chance = random.Random(seed)
        values = pa.array([document(chance) for _ in range(chance.randrange(60))], pa.binary())
        if chance.random() < 0.5:
            values = values[chance.randrange(10) :]
        own = JsonDecoder(SCHEMA, on_bad=on_bad, null_values=chance.choice(["null", "bad"]))
        found, expected = own.decode(values), own._decode_slowly(values)
        array = found.to_struct()
        array.validate(full=True)
        rows = list(zip(array.to_pylist(), expected.to_struct().to_pylist(), strict=True))
        wrong = [(mine, theirs) for mine, theirs in rows if not same(mine, theirs)]
        assert not wrong, f"seed {seed}: {wrong[0]} of {values.to_pylist()}"
        assert [each.row for each in found.bad] == [each.row for each in expected.bad], f"seed {seed}"


def test_plain_rows_are_not_left_to_pyarrow() -> None:
    chance = random.Random(of_test())
    rows = [json.dumps({**fitting(chance), "text": "ü\n\\", "x": 0.30000000000000004}).encode() for _ in range(500)]
    found = JsonDecoder(SCHEMA)._read_natively(pa.array(rows, pa.binary()))
    assert found is not None
    assert found[1] == []


def test_a_schema_with_other_types_is_read_by_pyarrow_without_python_objects() -> None:
    schema = pa.schema([("at", pa.timestamp("ms")), ("tags", pa.list_(pa.string())), ("n", pa.int64())])
    decoder = JsonDecoder(schema, on_bad="null")
    values = pa.array([b"?", b'{"n": 1, "at": "2013-01-01 05:00:00"}', None, b'{"tags": ["a"]}'], pa.binary())
    assert decoder._read_natively(values) is None
    found = decoder._read_natively(values[1:])
    assert found is not None
    assert found[0].to_pylist() == decoder._decode_slowly(values[1:]).to_struct().to_pylist()
    assert [row is None for row in decoder.decode(values).to_struct().to_pylist()] == [True, False, True, False]
    assert decoder.decode(values[:0]).to_struct().to_pylist() == []
