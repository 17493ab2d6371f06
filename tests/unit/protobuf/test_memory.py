"""Memory that runs out anywhere is a MemoryError, and leaks nothing."""

from __future__ import annotations

import gc

import pyarrow as pa

from kafwire.memory._buffer import fail_after, pool_bytes
from kafwire.protobuf import ProtobufDecoder, ProtobufEncoder
from tests.support.protobuf_samples import Samples
from tests.support.seeds import of_test


def test_every_allocation_may_fail() -> None:
    samples = Samples(of_test(), syntax="proto3")
    kind = samples.message()
    values = [samples.fill(kind()).SerializeToString() for _ in range(200)]
    decoder, encoder = ProtobufDecoder(kind, on_bad="null"), ProtobufEncoder(kind)
    columns = pa.array(decoder.decode(values))
    encoded = encoder.encode(columns).to_arrow()
    failures = 0
    before = pool_bytes()[0]
    for count in range(200):
        fail_after(count)
        try:
            found, made = pa.array(decoder.decode(values)), encoder.encode(columns).to_arrow()
        except MemoryError:
            failures += 1
        else:
            assert found.equals(columns)
            assert made.equals(encoded)
            del found, made
        finally:
            fail_after(-1)
        gc.collect()
        assert pool_bytes()[0] == before
    assert 5 < failures < 200
