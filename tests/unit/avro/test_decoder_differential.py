"""Random schemas, readers and values: the columns hold what fastavro reads, and damage never breaks them."""

from __future__ import annotations

import io
import random

import fastavro
import pyarrow as pa
import pytest

from kafwire.avro import AvroDecoder
from tests.support import avro_samples
from tests.support.avro_samples import Samples
from tests.support.seeds import examples, of_test

ROWS = 5


def read_by_fastavro(data: bytes, writer: object, reader: object) -> object:
    return fastavro.schemaless_reader(
        io.BytesIO(data), avro_samples.without_logical(writer), avro_samples.without_logical(reader)
    )


def wrapped(reader: object, rows: list[object]) -> list[object]:
    """Rows of a schema that is no record are structs with the field `value`."""
    is_record = isinstance(reader, dict) and reader["type"] == "record"
    found = [avro_samples.expected(reader, row) for row in rows]
    return found if is_record else [{"value": row} for row in found]


@pytest.mark.parametrize("evolved", [False, True])
def test_columns_agree_with_fastavro(evolved: bool) -> None:
    first = of_test()
    for seed in range(first, first + examples(600)):
        samples = Samples(seed, apart=evolved)
        writer = samples.record() if seed % 3 else samples.schema()
        reader = samples.reader(writer) if evolved else writer
        data = [samples.encode(writer, samples.value(writer)) for _ in range(ROWS)]
        decoder = AvroDecoder(avro_samples.text(reader), writer=avro_samples.text(writer))
        array = pa.array(decoder.decode(data))
        array.validate(full=True)
        read = [read_by_fastavro(each, writer, reader) for each in data]
        assert avro_samples.storage(array) == wrapped(reader, read), f"seed {seed}: {writer} read as {reader}"


def test_damaged_values_are_null_rows_and_the_others_stay() -> None:
    first = of_test()
    for seed in range(first, first + examples(400)):
        samples = Samples(seed)
        writer = samples.record()
        reader = samples.reader(writer)
        good = [samples.encode(writer, samples.value(writer)) for _ in range(ROWS)]
        bad = [damaged(each, samples.random) for each in good]
        mixed = [each for pair in zip(good, bad, strict=True) for each in pair]
        decoder = AvroDecoder(reader, writer=writer, on_bad="null", max_empty_items=100)
        decoded = decoder.decode(mixed)
        array = pa.array(decoded)
        array.validate(full=True)
        rows = avro_samples.storage(array)
        assert rows[::2] == avro_samples.storage(pa.array(decoder.decode(good))), f"seed {seed}"
        assert [rows[each.row] for each in decoded.bad] == [None] * len(decoded.bad)
        kept = AvroDecoder(reader, writer=writer, on_bad="drop", max_empty_items=100).decode(mixed)
        assert [each.row for each in kept.bad] == [each.row for each in decoded.bad]
        assert avro_samples.storage(pa.array(kept)) == [row for row in rows if row is not None], f"seed {seed}"


def damaged(data: bytes, chance: random.Random) -> bytes:
    kind = chance.randrange(4)
    at = chance.randint(0, len(data))
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data + chance.randbytes(1)
    lie = chance.choice([b"\xff" * 9 + b"\x01", b"\x01", b"\x7f", b"\xfe\xff\xff\xff\x0f", chance.randbytes(3)])
    return data[:at] + lie + data[at + (kind == 2) :]
