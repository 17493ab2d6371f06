"""The cost of a stranger's message: memory is bounded for any bytes."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from kafwire.errors import ProtocolError
from kafwire.protocol import MESSAGES, Message, MetadataRequest, MetadataResponse, decode_response
from kafwire.protocol.spec import MAX_MEMORY, Field, Struct
from tests.support import reference_messages as reference

SLACK = 64 << 20
FRAME = 32 << 20


def uvarint(value: int) -> bytes:
    return reference.uvarint(value)


# Values of few bytes that take an object of their own each.
DEAR = {"string": "ab", "bytes": b"ab", "records": b"ab", "uuid": UUID(int=1 << 127), "bool": True, "float64": 0.5}


def dear(field: Field, version: int, flexible: bool) -> bytes:
    """The fewest bytes that make objects of a field."""
    one = Field(**{**field._asdict(), "array": False})
    if field.kind == "struct":
        assert field.struct is not None
        mark = b"\1" if version in field.nullable and not field.array else b""
        value = mark + dear_struct(field.struct, version, flexible)
    else:
        value = reference.encode_value(
            one, DEAR.get(field.kind, 0x6F if field.kind == "int8" else 0x6FFF), version, flexible
        )
    if field.array:
        return (b"\2" if flexible and field.flexible else b"\0\0\0\1") + value
    return value


def dear_struct(cls: type[Struct], version: int, flexible: bool) -> bytes:
    present = [f for f in cls.__fields__ if version in f.versions and version not in f.tagged]
    unknown = b"\1\xff\xff\1\2ab" if flexible else b""
    return b"".join(dear(f, version, flexible) for f in present) + unknown


def smallest(field: Field, version: int, flexible: bool) -> bytes:
    """The fewest bytes that a field can be: null, empty or zero."""
    compact = flexible and field.flexible
    nullable = version in field.nullable
    if field.array:
        return (b"\0" if nullable else b"\1") if compact else (b"\xff" * 4 if nullable else bytes(4))
    if field.kind == "struct":
        assert field.struct is not None
        return b"\xff" if nullable else smallest_struct(field.struct, version, flexible)
    if field.kind in {"string", "bytes", "records"}:
        return (b"\0" if nullable else b"\1") if compact else bytes(2 if field.kind == "string" else 4)
    return bytes(16 if field.kind == "uuid" else len(reference.encode_value(field, 0, version, flexible)))


def smallest_struct(cls: type[Struct], version: int, flexible: bool) -> bytes:
    present = [f for f in cls.__fields__ if version in f.versions and version not in f.tagged]
    return b"".join(smallest(f, version, flexible) for f in present) + (b"\0" if flexible else b"")


Element = Callable[[Field, int, bool], bytes]


def crowded(cls: type[Message], version: int, size: int, make: Element = smallest) -> Iterator[tuple[str, bytes]]:
    """About `size` bytes for each array at the top of a message, with as many elements in it as fit."""
    flexible = version >= cls.flexible_from
    present = [f for f in cls.__fields__ if version in f.versions and version not in f.tagged]
    for crowd in present:
        if not crowd.array:
            continue
        one = Field(**{**crowd._asdict(), "array": False, "nullable": type(crowd.nullable)(1, 0)})
        element = make(one, version, flexible)
        count = size // len(element)
        body = b""
        for field in present:
            if field is crowd:
                compact = flexible and field.flexible
                body += (uvarint(count + 1) if compact else count.to_bytes(4, "big")) + element * count
            else:
                body += smallest(field, version, flexible)
        yield crowd.name, body + (b"\0" if flexible else b"")


PAIRS = [
    pytest.param(MESSAGES[name], version, id=f"{name}-v{version}")
    for name in MESSAGES
    for version in sorted({MESSAGES[name].oldest_version, MESSAGES[name].max_version})
    if any(field.array for field in MESSAGES[name].__fields__)
]


@pytest.mark.parametrize("make", [smallest, dear])
@pytest.mark.parametrize(("cls", "version"), PAIRS)
def test_the_charged_memory_covers_the_taken_memory(cls: type[Message], version: int, make: Element) -> None:
    """The memory that objects really take is never above the smallest allowance under which they are made."""
    for name, body in crowded(cls, version, 3000, make):
        cls.decode(body, version)  # compiles the version
        tracemalloc.start()
        try:
            message: Any = cls.decode(body, version)
            touch(message)
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        low, high = 0, 1 << 22
        while low < high:
            middle = (low + high) // 2
            try:
                cls.decode(body, version, max_memory=middle)
                high = middle
            except ProtocolError:
                low = middle + 1
        assert taken <= low + 2048, f"{cls.__name__}.{name}: {taken} bytes for {low}"


def touch(value: Any) -> None:
    """Make what was put off."""
    if isinstance(value, Struct):
        for field in type(value).__fields__:
            touch(getattr(value, field.name))
    elif isinstance(value, list):
        for element in value:
            touch(element)


def test_too_much_is_refused_with_the_place_and_the_way_out() -> None:
    body = dict(crowded(MetadataResponse, 12, 1 << 20))["topics"]
    with pytest.raises(
        ProtocolError, match=r"topics\[\d+\]\.partitions: the message would take more than 1000000 bytes"
    ):
        MetadataResponse.decode(body, 12, max_memory=1_000_000)
    assert len(MetadataResponse.decode(body, 12, max_memory=1 << 30).topics) == 40_329


def test_text_is_charged_its_size_as_text() -> None:
    """One character outside Latin-1 makes each of the others take four bytes."""
    host = "x" * 20_000 + "\U0001f600"
    message = MetadataResponse(brokers=[MetadataResponse.MetadataResponseBroker(host=host)] * 10)
    body = message.encode(9)
    assert MetadataResponse.decode(body, 9, max_memory=900_000) == message
    with pytest.raises(ProtocolError, match="the message would take more than 700000 bytes"):
        MetadataResponse.decode(body, 9, max_memory=700_000)


def tags(count: int) -> bytes:
    """Unknown tagged fields of no bytes."""
    return uvarint(count) + b"".join(uvarint(tag) + b"\0" for tag in range(1000, 1000 + count))


def test_unknown_tagged_fields_are_paid_for() -> None:
    body = smallest_struct(MetadataResponse, 12, flexible=True)[:-1] + tags(10_000)
    tracemalloc.start()
    message = MetadataResponse.decode(body, 12)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(message.unknown_tagged_fields) == 10_000
    with pytest.raises(ProtocolError, match="the message would take more than"):
        MetadataResponse.decode(body, 12, max_memory=taken - 2048)


def test_a_header_of_tagged_fields_is_bounded_too() -> None:
    response = b"\0\0\0\1" + tags(2_000_000)
    with pytest.raises(ProtocolError, match=f"would take more than {MAX_MEMORY} bytes"):
        decode_response(MetadataRequest, response, 12)


PROGRAM = """
import resource, sys
from kafwire.errors import ProtocolError
from kafwire.protocol import MESSAGES
name, version = sys.argv[1], int(sys.argv[2])
cls = MESSAGES[name]
body = sys.stdin.buffer.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    message = cls.decode(body, version)
except ProtocolError as error:
    assert "max_memory" in str(error), error
else:
    stack = [message]
    while stack:
        value = stack.pop()
        stack.extend(value if isinstance(value, list) else
                     [getattr(value, f.name) for f in type(value).__fields__] if hasattr(value, "__fields__") else ())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize(
    ("name", "version"),
    [("MetadataResponse", 12), ("MetadataResponse", 1), ("DeleteTopicsRequest", 6), ("FetchResponse", 17)],
)
def test_a_frame_of_32_mib_takes_no_more_than_the_cap(name: str, version: int) -> None:
    for field, body in crowded(MESSAGES[name], version, FRAME):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, name, str(version)], input=body, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        assert int(done.stdout) * 1024 <= MAX_MEMORY + SLACK, f"{name}.{field}"
