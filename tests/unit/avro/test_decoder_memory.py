"""Memory that runs out anywhere is a MemoryError, and leaks nothing."""

from __future__ import annotations

import gc
import random

import pyarrow as pa
import pytest

from fuzz.avro_schemas import PAIRS, corpus
from kafwire.avro import AvroDecoder
from kafwire.memory._buffer import fail_after, pool_bytes
from tests.support.seeds import of_test


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_every_allocation_may_fail(number: int) -> None:
    writer, reader = PAIRS[number]
    good = next(each for each in corpus() if each[0] == number)
    value = good[2 : 2 + good[1]]
    chance = random.Random(of_test())
    values = [*[value] * 200, value[: chance.randrange(len(value))], None]
    decoder = AvroDecoder(reader, writer=writer, on_bad="null")
    expected = pa.array(decoder.decode(values))
    failures = 0
    before = pool_bytes()[0]
    for count in range(200):
        fail_after(count)
        try:
            found = pa.array(decoder.decode(values))
        except MemoryError:
            failures += 1
        else:
            assert found.equals(expected)
            del found
        finally:
            left = fail_after(-1)
        gc.collect()
        assert pool_bytes()[0] == before
        if left >= 0:
            break
    assert failures
    assert left >= 0, "more allocations than were made to fail"
