"""Random types and columns: the package protobuf reads from the encoded values what the columns hold."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kafwire.protobuf import ProtobufDecoder, ProtobufEncoder
from tests.support.protobuf_samples import Samples, expected
from tests.support.seeds import examples, of_test

ROWS = 5


@pytest.mark.parametrize("enums", ["string", "dictionary", "number"])
@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
def test_protobuf_reads_the_columns_back(syntax: str, enums: str) -> None:
    first = of_test()
    for seed in range(first, first + examples(150)):
        samples = Samples(seed, syntax=syntax, open_enums=enums != "dictionary", whole_micros=True)
        kind = samples.message()
        messages = [samples.fill(kind()) for _ in range(ROWS)]
        values = [each.SerializeToString(deterministic=True) for each in messages]
        decoder = ProtobufDecoder(kind, enums=enums)  # type: ignore[arg-type]
        columns = decoder.decode([values[0], None, *values[1:]])
        encoded = ProtobufEncoder(kind).encode(columns).to_arrow().to_pylist()
        assert encoded.pop(1) is None
        read = [kind.FromString(each) for each in encoded]
        assert repr([expected(each) for each in read]) == repr([expected(each) for each in messages]), seed
        if syntax == "proto3":
            assert [len(each) for each in encoded] == [len(each) for each in values], seed


def test_slices_of_columns_are_their_rows() -> None:
    first = of_test()
    for seed in range(first, first + examples(100)):
        samples = Samples(seed, syntax="proto3")
        kind = samples.message()
        values = [samples.fill(kind()).SerializeToString() for _ in range(20)]
        encoder = ProtobufEncoder(kind)
        columns = pa.array(ProtobufDecoder(kind).decode(values))
        whole = encoder.encode(columns).to_arrow()
        assert encoder.encode(columns.slice(7, 9)).to_arrow().equals(whole.slice(7, 9)), seed
