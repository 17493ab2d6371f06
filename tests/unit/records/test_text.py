"""Renderer: a batch as text by a format, compared with the same made slowly from records."""

import base64
import json
import random
from collections.abc import Iterator
from typing import Literal

import pytest

from kafwire.errors import ConfigError
from kafwire.records import encode_batch
from kafwire.records._arrow import Layout
from kafwire.records._record_batches import decode_chunks
from kafwire.records._records import Batch, Record
from kafwire.records._text import Renderer
from tests.support import seeds

TOPIC = 'orders "ü"'
TIMESTAMP_TYPES: list[Literal[0, 1]] = [0, 1]
Part = bytes | tuple[str, str]


def batch_of(records: list[Record], columns: tuple[str, ...] | None = None, timestamp_type: Literal[0, 1] = 0) -> Batch:
    data = encode_batch(records, timestamp_type=timestamp_type)
    layout = Layout(TOPIC, 7, columns=columns)
    [batch] = decode_chunks(data, layout, topic=TOPIC, partition=7)
    return batch


def render(batch: Batch, *parts: Part, null: bytes = b"", start: int = 0, stop: int | None = None) -> bytes:
    return b"".join(Renderer(parts, null=null).render(batch, start, stop))


def some_bytes(chance: random.Random) -> bytes | None:
    kind = chance.randrange(6)
    if kind == 0:
        return None
    if kind == 1:
        return b""
    if kind == 2:
        return chance.randbytes(chance.randrange(40))
    if kind == 3:
        return bytes(range(256))[chance.randrange(256) :]
    alphabet = 'ab"\\/\n\t\r\b\f\x00\x1f\x7f\x80\x9f\xa0éß߿ࠀ퟿€￿\U00010000\U0010ffff'
    return "".join(chance.choices(alphabet, k=chance.randrange(30))).encode()


def some_records(chance: random.Random, count: int) -> list[Record]:
    return [
        Record(
            some_bytes(chance),
            some_bytes(chance),
            headers=[
                (chance.choice(["", "a", 'n"é', "x\n"]), some_bytes(chance)) for _ in range(chance.choice([0, 0, 1, 3]))
            ],
            timestamp_ms=chance.choice([0, 1, 1795290223198, 253402300799999]),
        )
        for _ in range(count)
    ]


def escaped(text: str) -> str:
    """A JSON string as it is expected: what a terminal may obey is escaped, and nothing else that need not be."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(f"\\u{ord(c):04x}" if "\x7f" <= c <= "\x9f" else c for c in quoted)


def as_json(data: bytes | None, form: str) -> str:
    if data is None:
        return "null"
    if form == "json_hex":
        return f'"{data.hex()}"'
    if form == "json_base64":
        return f'"{base64.b64encode(data).decode()}"'
    try:
        return escaped(data.decode())
    except UnicodeDecodeError:
        return f'{{"base64":"{base64.b64encode(data).decode()}"}}'


def as_bytes(data: bytes | None, form: str, null: bytes) -> bytes:
    if data is None:
        return null
    return {"raw": lambda: data, "hex": lambda: data.hex().encode(), "base64": lambda: base64.b64encode(data)}[form]()


def slowly(record: Record, parts: list[Part], null: bytes) -> bytes:
    out = b""
    for part in parts:
        if isinstance(part, bytes):
            out += part
            continue
        field, form = part
        if field in ("key", "value"):
            data = record.key if field == "key" else record.value
            size = -1 if data is None else len(data)
            if form == "size":
                out += b"%d" % size
            elif form == "size_binary":
                out += size.to_bytes(4, "big", signed=True)
            elif form.startswith("json"):
                out += as_json(data, form).encode()
            else:
                out += as_bytes(data, form, null)
        elif field == "headers" and form.startswith("json"):
            if record.headers:
                inner = ",".join(f"{escaped(n)},{as_json(v, form)}" for n, v in record.headers)
                out += f'"headers":[{inner}],'.encode()
        elif field == "headers":
            out += b",".join(n.encode() + b"=" + as_bytes(v, form, b"NULL") for n, v in record.headers)
        elif field == "topic":
            out += (escaped(TOPIC) if form == "json" else TOPIC).encode()
        elif field == "partition":
            out += b"7"
        elif field == "offset":
            out += b"%d" % record.offset
        elif form == "json":
            if record.timestamp_ms is not None:
                kind = "logappend" if record.timestamp_type else "create"
                out += f'"tstype":"{kind}","ts":{record.timestamp_ms},'.encode()
        else:
            out += b"%d" % (-1 if record.timestamp_ms is None else record.timestamp_ms)
    return out


def all_parts() -> Iterator[Part]:
    for field in ("key", "value"):
        for form in ("raw", "hex", "base64", "json", "json_hex", "json_base64", "size", "size_binary"):
            yield field, form
    for form in ("raw", "hex", "base64", "json", "json_hex", "json_base64"):
        yield "headers", form
    yield from (("topic", "raw"), ("topic", "json"), ("partition", "raw"), ("offset", "raw"))
    yield from (("timestamp", "raw"), ("timestamp", "json"), b"\n", b"", b"more than one")


def test_random_records_in_random_formats() -> None:
    seed = seeds.of_test()
    chance = random.Random(seed)
    known = list(all_parts())
    for _ in range(300):
        batch = batch_of(some_records(chance, chance.randrange(1, 20)), timestamp_type=chance.choice(TIMESTAMP_TYPES))
        parts = chance.choices(known, k=chance.randrange(1, 8))
        null = chance.choice([b"", b"NULL"])
        start, stop = chance.randrange(0, 22), chance.choice([None, chance.randrange(0, 25)])
        expected = [slowly(record, parts, null) for record in batch]
        assert render(batch, *parts, null=null) == b"".join(expected), parts
        assert render(batch, *parts, null=null, start=start, stop=stop) == b"".join(expected[start:stop]), parts


@pytest.mark.parametrize("part", [p for p in all_parts() if isinstance(p, tuple)], ids="-".join)
def test_only_the_columns_named_are_needed(part: tuple[str, str]) -> None:
    records = some_records(random.Random(5), 10)
    columns = Renderer([part]).columns
    assert render(batch_of(records, columns), part) == render(batch_of(records), part)
    expected = {"timestamp": 2}.get(part[0], 1)
    assert len(columns) == expected


def test_long_output_comes_in_pieces() -> None:
    batch = batch_of([Record(b"x" * 1000, b"\xff" * 500) for _ in range(5000)])
    parts: list[Part] = [("key", "json"), ("value", "json"), b"\n"]
    pieces = list(Renderer(parts).render(batch))
    assert len(pieces) > 5
    assert max(map(len, pieces)) <= 1 << 20
    assert b"".join(pieces) == b"".join(slowly(record, parts, b"") for record in batch)
    whole = list(Renderer([("value", "raw"), b"\n"]).render(batch))
    assert [len(piece) for piece in whole[:-1]] == [(1 << 20) // 1001 * 1001] * (
        len(whole) - 1
    )  # as full as they can be


def test_a_record_that_is_longer_than_a_piece() -> None:
    values = [b"a", b"\x00" * 3_000_000, b"b"]
    pieces = list(Renderer([("value", "json"), b"\n"]).render(batch_of([Record(value) for value in values])))
    assert b"".join(pieces) == b'"a"\n"' + b"\\u0000" * 3_000_000 + b'"\n"b"\n'


@pytest.mark.parametrize(
    "value",
    [
        b"\xc0\x80",  # an overlong NUL
        b"\xe0\x9f\xbf",
        b"\xf0\x8f\xbf\xbf",
        b"\xed\xa0\x80",  # a surrogate
        b"\xf4\x90\x80\x80",  # beyond U+10FFFF
        b"\xf8\x88\x80\x80\x80",
        b"ok\xe2\x82",  # cut off
        b"\x80",
        b"\xc3",
    ],
)
def test_bytes_that_are_no_utf_8_are_base64(value: bytes) -> None:
    shown = json.loads(render(batch_of([Record(value)]), ("value", "json")))
    assert base64.b64decode(shown["base64"]) == value


def test_a_character_does_not_go_on_in_the_next_record() -> None:
    batch = batch_of([Record(b"\xe2\x82"), Record(b"\xac"), Record(b"\xe2\x82\xac")])
    assert render(batch, ("value", "json"), b" ") == b'{"base64":"4oI="} {"base64":"rA=="} "\xe2\x82\xac" '


def test_a_batch_without_a_timestamp() -> None:
    batch = batch_of([Record(b"a", timestamp_ms=None)])
    assert render(batch, ("timestamp", "raw"), b" ", ("timestamp", "json")) == b"-1 "


def test_an_empty_range() -> None:
    batch = batch_of([Record(b"a")])
    assert render(batch, b"x", start=1) == b""
    assert render(batch, b"x", stop=0) == b""
    assert render(batch, b"x", stop=-1) == b""
    assert render(batch, b"x", start=-5) == b"x"


def test_extreme_numbers() -> None:
    data = encode_batch([Record(b"", timestamp_ms=-(2**62))], base_offset=2**63 - 2)
    [batch] = decode_chunks(data, Layout(TOPIC, 7), topic=TOPIC, partition=7)
    assert render(batch, ("offset", "raw"), b" ", ("timestamp", "raw")) == b"9223372036854775806 -4611686018427387904"


@pytest.mark.parametrize("part", [("value", "number"), ("colour", "raw"), ("offset", "hex"), ("headers", "size")])
def test_wrong_parts(part: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match=f"no field '{part[0]}' in the form '{part[1]}'"):
        Renderer([part])


def test_wrong_columns() -> None:
    batch = batch_of([Record(b"a")], ("offset",))
    with pytest.raises(ConfigError, match="no column value"):
        render(batch, ("value", "raw"))
    data = encode_batch([b"a"])
    [other] = decode_chunks(data, Layout(TOPIC, 7, timestamp_unit="us"), topic=TOPIC, partition=7)
    with pytest.raises(ConfigError, match="column timestamp is of format tsu:UTC, not tsm:UTC"):
        render(other, ("timestamp", "raw"))


def test_pieces_outlive_their_batch() -> None:
    renderer = Renderer([b"text %d" % 1, ("topic", "raw"), ("value", "raw"), b"\n"])
    pieces = [renderer.render(batch_of([Record(b"a" * 5000)])) for _ in range(20)]
    del renderer
    others = [batch_of([Record(b"b" * 5000)]) for _ in range(20)], [b"TEXT %d" % n for n in range(1000)]
    assert [b"".join(piece) for piece in pieces] == [b"text 1" + TOPIC.encode() + b"a" * 5000 + b"\n"] * 20
    del others
