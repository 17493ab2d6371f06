"""Record batches and message sets made by seven other clients decode to what independent decoders found in them."""

import gzip
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kafwire.errors import ProtocolError
from kafwire.producer.buffer._partitioner import hash_key
from kafwire.records import RecordBatch, decode_batches, encode_batch

VECTORS = json.loads(gzip.decompress((Path(__file__).parents[2] / "data" / "made.json.gz").read_bytes()))["vectors"]


def of_kind(*kinds: str) -> list[Any]:
    return [pytest.param(vector, id=vector["id"]) for vector in VECTORS if vector["kind"] in kinds]


def shown(data: bytes | None) -> Any:
    if data is None:
        return None
    if len(data) > 1024:
        return {"len": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return data.hex()


def records_of(batches: list[RecordBatch]) -> list[dict[str, Any]]:
    return [
        {
            "offset": record.offset,
            "timestamp": -1 if record.timestamp_ms is None else record.timestamp_ms,
            "key": shown(record.key),
            "value": shown(record.value),
            "headers": [[key, shown(value)] for key, value in record.headers],
        }
        for batch in batches
        for record in batch
    ]


def header_of(batch: RecordBatch) -> dict[str, Any]:
    return {
        "magic": batch.magic,
        "base_offset": batch.base_offset,
        "leader_epoch": batch.partition_leader_epoch,
        "crc": batch.crc,
        "attributes": batch.attributes,
        "codec": batch.compression,
        "timestamp_type": ("create", "append")[batch.timestamp_type],
        "transactional": batch.is_transactional,
        "control": batch.is_control,
        "last_offset": batch.last_offset,
        "base_timestamp": -1 if batch.base_timestamp_ms is None else batch.base_timestamp_ms,
        "max_timestamp": -1 if batch.max_timestamp_ms is None else batch.max_timestamp_ms,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "count": len(batch),
    }


@pytest.mark.parametrize("vector", of_kind("record_batches", "concatenation", "message_set"))
def test_decodes_to_the_expected_records(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    batches = decode_batches(data)
    expected = vector["expect"]
    assert records_of(batches) == expected["records"]
    for batch, header in zip(batches, expected["batches"], strict=True):
        if header["magic"] == 2:
            assert header_of(batch) == {name: value for name, value in header.items() if name != "length"}
        else:
            assert (batch.magic, batch.crc, batch.compression) == (header["magic"], header["crc"], header["codec"])


@pytest.mark.parametrize("vector", of_kind("record_batches"))
def test_encodes_to_the_same_again(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    for batch in decode_batches(data):
        again = encode_batch(
            batch,
            compression=batch.compression,
            base_offset=batch.base_offset,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            transactional=batch.is_transactional,
            control=batch.is_control,
            timestamp_type=1 if batch.timestamp_type else 0,
            max_timestamp_ms=batch.max_timestamp_ms,
        )
        (copied,) = decode_batches(again)
        assert records_of([copied]) == records_of([batch])
        expected, found = header_of(batch), header_of(copied)
        # an encoder's choice: what timestamp deltas count from; and the end, where compaction took the last records
        for name in ("crc", "leader_epoch", "base_timestamp", "max_timestamp", "last_offset"):
            del expected[name], found[name]
        assert found == expected
        same_choice = (copied.base_timestamp_ms, copied.last_offset) == (batch.base_timestamp_ms, batch.last_offset)
        if batch.compression == "none" and same_choice:
            assert again[16:] == data[16:]  # all but the leader epoch


@pytest.mark.parametrize("vector", of_kind("malformed_records"))
def test_malformed_bytes_are_judged_as_they_say(vector: dict[str, Any]) -> None:
    data, expected = bytes.fromhex(vector["hex"]), vector["expect"]
    try:
        found = records_of(decode_batches(data))
    except ProtocolError as error:
        assert expected["outcome"] in ("error", "either"), str(error)
        assert error.offset is not None
        assert 0 <= error.offset <= len(data)
    else:
        assert expected["outcome"] in ("ok", "partial", "either")
        if expected["records"] is not None:
            assert len(found) == expected["records"]


@pytest.mark.parametrize("vector", of_kind("murmur2"))
def test_murmur2_is_java_s(vector: dict[str, Any]) -> None:
    hashed = hash_key("murmur2", bytes.fromhex(vector["hex"]))
    assert hashed == vector["expect"] % (1 << 32)
    for count, partition in vector["partition"].items():
        assert (hashed & 0x7FFFFFFF) % int(count) == partition


def test_every_vector_about_records_was_used() -> None:
    kinds = Counter(vector["kind"] for vector in VECTORS)
    print({kind: kinds[kind] for kind in ("record_batches", "concatenation", "message_set", "malformed_records")})
    assert kinds["record_batches"] == 124
    assert kinds["message_set"] == 37
    assert kinds["concatenation"] == 5
    assert kinds["malformed_records"] == 69
