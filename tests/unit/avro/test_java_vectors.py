"""The columns hold the values that Apache Avro 1.12.1 in Java read (tests/support/java/avro.py wrote the file)."""

from __future__ import annotations

import json

import pyarrow as pa

from kafwire.avro import AvroDecoder
from tests.support import avro_samples
from tests.support.avro_samples import ordered
from tests.support.java.avro import VECTORS, value


def test_columns_agree_with_the_vectors_of_java() -> None:
    vectors = json.loads(VECTORS.read_text())
    assert len(vectors) == 60
    for number, vector in enumerate(vectors):
        decoder = AvroDecoder(vector["reader"], writer=vector["writer"])
        found = avro_samples.storage(pa.array(decoder.decode([bytes.fromhex(vector["hex"])])))
        expected = avro_samples.expected(vector["reader"], value(vector["java"]))
        assert ordered(found) == ordered([expected]), f"vector {number}"
