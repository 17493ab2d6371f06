"""Random schemas, readers and values: the columns hold what Apache Avro's Java classes read."""

from __future__ import annotations

import json

import pyarrow as pa

from kafwire.avro import AvroDecoder
from tests.support import avro_samples
from tests.support.avro_samples import Samples, ordered
from tests.support.java import avro as java_avro
from tests.support.seeds import examples, of_test


def test_columns_agree_with_java() -> None:
    cases, schemas = [], []
    first = of_test()
    for seed in range(first, first + examples(500)):
        samples = Samples(seed, apart=seed % 2 == 0)
        writer = samples.record()
        reader = samples.reader(writer)
        plain = [json.dumps(avro_samples.without_logical(each)) for each in (writer, reader)]
        cases.append(java_avro.Case(plain[0], plain[1], samples.encode(writer, samples.value(writer))))
        schemas.append((seed, writer, reader))
    compared = 0
    for case, (seed, writer, reader), found in zip(cases, schemas, java_avro.read(cases), strict=True):
        assert "error" not in found, f"seed {seed}: {case} {found}"
        array = pa.array(AvroDecoder(reader, writer=writer).decode([case.data]))
        expected = avro_samples.expected(reader, found)
        assert ordered(avro_samples.storage(array)) == ordered([expected]), f"seed {seed}: {writer} read as {reader}"
        compared += 1
    assert compared == examples(500)
