"""The encoder's memory runs out anywhere without a leak, and threads share an encoder."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from fuzz.avro_schemas import PAIRS, corpus
from kafwire.avro import AvroDecoder, AvroEncoder
from kafwire.errors import ConfigError
from kafwire.memory._buffer import fail_after, pool_bytes

STRINGS = '{"type": "array", "items": "string"}'


def columns_of(number: int) -> tuple[object, pa.Array]:
    """A schema, and columns of it: enough values for several growths of a buffer."""
    schema, _ = PAIRS[number]
    good = next(each for each in corpus() if each[0] == number)
    values = [good[2 : 2 + good[1]]] * 400
    return schema, pa.array(AvroDecoder(schema, writer=schema).decode(values))


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_every_allocation_may_fail(number: int) -> None:
    schema, columns = columns_of(number)
    columns = pa.concat_arrays([columns, pa.nulls(1, columns.type)])
    encoder = AvroEncoder(schema, prefix=bytes(300))  # type: ignore[arg-type]
    failures = 0
    gc.collect()
    before = pool_bytes()[0]
    left = -1
    for count in range(50):
        fail_after(count)
        try:
            found = encoder.encode(columns).to_arrow()
        except MemoryError:
            failures += 1
        else:
            assert len(found) == len(columns)
            del found
        finally:
            left = fail_after(-1)
        gc.collect()
        assert pool_bytes()[0] == before
        if left >= 0:
            break
    assert failures >= 3
    assert left >= 0, "more allocations than were made to fail"


def test_a_wrong_value_leaks_nothing() -> None:
    encoder = AvroEncoder(STRINGS)
    columns = pa.array([["x" * 100]] * 1000 + [[None]])
    before = pool_bytes()[0]
    for _ in range(3):
        with pytest.raises(ConfigError, match="row 1000"):
            encoder.encode(columns)
        gc.collect()
        assert pool_bytes()[0] == before


def test_values_beyond_a_binary_column_are_an_error() -> None:
    text = pa.array(["x" * (1 << 20)])
    many = pa.DictionaryArray.from_arrays(pa.array([0] * 2100, pa.int16()), text)
    before = pool_bytes()[0]
    with pytest.raises(ConfigError, match="row 2047, value: the values exceed the 2 GiB"):
        AvroEncoder("string").encode(many)
    gc.collect()
    assert pool_bytes()[0] == before


def test_threads_share_an_encoder() -> None:
    given = [columns_of(number) for number in range(len(PAIRS))]
    encoders = [AvroEncoder(schema) for schema, _ in given]  # type: ignore[arg-type]
    expected = [AvroEncoder(schema).encode(columns).to_arrow() for schema, columns in given]  # type: ignore[arg-type]
    work = [i % len(PAIRS) for i in range(200)]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda i: encoders[i].encode(given[i][1]).to_arrow(), work))
    assert all(each.equals(expected[i]) for i, each in zip(work, made, strict=True))
