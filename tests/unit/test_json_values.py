"""The format "json": one behaviour, whatever is installed."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any
from uuid import UUID

import pytest

from kafwire import json_values


class Colour(Enum):
    RED = "red"


class Rank(IntEnum):
    FIRST = 1


@dataclass
class Flight:
    to: str
    stops: frozenset[str]


Pair = namedtuple("Pair", "a b")  # noqa: PYI024

WRITTEN: list[tuple[Any, bytes]] = [
    ({"a": [1, None, True, "grün"]}, '{"a":[1,null,true,"grün"]}'.encode()),
    ('\x7f\u2028"\\\n', '"\x7f\u2028\\"\\\\\\n"'.encode()),
    (1e16, b"1e+16"),
    (1e-7, b"1e-07"),
    (10**30, b"1" + b"0" * 30),
    ({1: 2, 2.5: 3, None: 4, False: 5}, b'{"1":2,"2.5":3,"null":4,"false":5}'),
    (datetime(2026, 11, 28, 4, 5, tzinfo=UTC), b'"2026-11-28T04:05:00+00:00"'),
    (datetime(2026, 11, 28, 4, 5), b'"2026-11-28T04:05:00"'),  # noqa: DTZ001
    (date(2026, 11, 28), b'"2026-11-28"'),
    (time(4, 5), b'"04:05:00"'),
    (UUID(int=5), b'"00000000-0000-0000-0000-000000000005"'),
    (Decimal("1.10"), b'"1.10"'),
    ({3, 1, 2}, b"[1,2,3]"),
    (frozenset("a"), b'["a"]'),
    (Colour.RED, b'"red"'),
    (Rank.FIRST, b"1"),
    (Flight("IAH", frozenset({"ORD", "DEN"})), b'{"to":"IAH","stops":["DEN","ORD"]}'),
    (Pair(1, 2), b"[1,2]"),
]


@pytest.mark.parametrize(("value", "data"), WRITTEN)
def test_written(value: Any, data: bytes) -> None:
    assert json_values.encode(value) == data
    json.loads(data)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (math.nan, ValueError),
        ([-math.inf], ValueError),
        (b"x", TypeError),
        (object(), TypeError),
        (Flight, TypeError),
        ({(1, 2): 3}, TypeError),
        ("\ud800", ValueError),
    ],
)
def test_refused(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        json_values.encode(value)
    assert json_values.encode([value.__class__.__name__])  # a refusal leaves nothing behind


def test_a_cycle_is_an_error_and_the_same_value_twice_is_none() -> None:
    value: list[Any] = []
    value.append(value)
    for _ in range(2):
        with pytest.raises(RecursionError):
            json_values.encode(value)
    twice = [1]
    assert json_values.encode([twice, twice]) == b"[[1],[1]]"
    value.clear()
    assert json_values.encode(value) == b"[]"


@pytest.mark.parametrize(
    "text", ['{"a": [1, "\\ud83d\\ude00"]}', " [1]\n", "12", '"x"', "10000000000000000000000000", "1.5"]
)
def test_read(text: str) -> None:
    assert json_values.decode(text.encode()) == json.loads(text)


def test_reads_values_that_python_writes() -> None:
    assert math.isnan(json_values.decode(b"NaN"))
    assert json_values.decode(b"[-Infinity]") == [-math.inf]


@pytest.mark.parametrize("data", [b"", b"{", b"[1] x", b"\xff", b"\xef\xbb\xbf{}", "{}".encode("utf-16"), b"[1],"])
def test_not_json(data: bytes) -> None:
    with pytest.raises(ValueError):
        json_values.decode(data)


def test_the_bytes_are_those_of_a_process_without_other_packages() -> None:
    code = (
        "import sys\n"
        "for name in ('msgspec', 'orjson', 'simplejson', 'ujson', 'pydantic'): sys.modules[name] = None\n"
        "from kafwire.serialization import serializer, deserializer\n"
        "from tests.unit.test_json_values import WRITTEN\n"
        "for value, data in WRITTEN: assert serializer('json').convert(value, 't', []) == data, value\n"
        "assert deserializer('json').convert(b'NaN', 't', []) != 0\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
