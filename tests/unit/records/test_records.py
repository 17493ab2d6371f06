"""RecordBatch, Batch and Record as Python sees them."""

from __future__ import annotations

import gc
import pickle
import sys
from typing import Any

import pyarrow as pa
import pytest

from kafwire.errors import ConfigError, ProtocolError
from kafwire.memory._buffer import pool_bytes
from kafwire.records import Batch, Record, RecordBatch, decode_batches, encode_batch
from kafwire.records._arrow import Layout
from kafwire.records._record_batches import decode_chunks
from kafwire.types import OffsetRange, RecordMetadata, TopicPartition

ROWS: list[Any] = [
    (b"k0", b"v0", 1_700_000_000_000, [("h", b"1"), ("h", None)]),
    (None, b"", 1_700_000_000_001),
    (b"", None),
]


def one(data: bytes) -> RecordBatch:
    (batch,) = decode_batches(data)
    return batch


def test_a_record_batch_has_the_fields_of_its_header() -> None:
    batch = one(
        encode_batch(
            ROWS,
            compression="zstd",
            base_offset=100,
            producer_id=7,
            producer_epoch=3,
            base_sequence=2_147_483_647,
            transactional=True,
        )
    )
    assert (batch.magic, batch.compression, batch.base_offset, batch.last_offset) == (2, "zstd", 100, 102)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 3, 2_147_483_647)
    assert batch.is_transactional
    assert not batch.is_control
    assert batch.partition_leader_epoch == -1
    assert batch.max_timestamp_ms == 1_700_000_000_001
    assert (batch.topic, batch.partition, batch.timestamp_type) == (None, None, 0)
    assert isinstance(batch.crc, int)
    assert len(batch) == 3
    assert "3 records" in repr(batch)


def test_records_are_made_with_python_s_own_types() -> None:
    first, second, third = one(encode_batch(ROWS, base_offset=5))
    assert (first.offset, first.key, first.value, first.timestamp_ms) == (5, b"k0", b"v0", 1_700_000_000_000)
    assert first.headers == [("h", b"1"), ("h", None)]
    assert (first.topic, first.partition, first.timestamp_type) == (None, None, 0)
    assert (second.key, second.value, second.headers) == (None, b"", [])
    assert (third.key, third.value) == (b"", None)
    assert (third.timestamp_ms, third.timestamp_type) == (None, None)


def test_a_header_key_that_is_not_utf8_survives() -> None:
    data = encode_batch([Record(b"v", headers=[("caf\udce9", b"")])])
    (record,) = one(data)
    assert record.headers == [("caf\udce9", b"")]
    assert encode_batch([record]) == data
    assert one(data).to_arrow().column("headers").to_pylist() == [[{"key": "caf\ufffd", "value": b""}]]


def test_batches_are_sequences() -> None:
    batch = one(encode_batch([b"a", b"b", b"c"]))
    assert [record.value for record in batch] == [b"a", b"b", b"c"]
    assert batch[-1].value == b"c"
    assert [record.value for record in batch[::2]] == [b"a", b"c"]
    with pytest.raises(IndexError):
        batch[3]
    assert list(batch) == list(batch)
    with pytest.raises(TypeError):
        Batch()


def test_records_compare_hash_and_pickle() -> None:
    record = Record(b"v", b"k", headers=[("a", None)], timestamp_ms=5, offset=9, topic="t", partition=1)
    again = pickle.loads(pickle.dumps(record))
    assert again == record
    assert hash(again) == hash(record)
    assert record != Record(b"v", b"k", headers=[("a", b"")], timestamp_ms=5, offset=9, topic="t", partition=1)
    assert record != b"v"
    assert "offset=9" in repr(record)


def test_a_record_outlives_its_batch() -> None:
    record = one(encode_batch([b"x" * 100_000]))[0]
    gc.collect()
    one(encode_batch([b"y" * 100_000]))
    assert record.value == b"x" * 100_000


def test_log_append_time_is_every_record_s_time() -> None:
    batch = one(encode_batch(ROWS, timestamp_type="log_append", max_timestamp_ms=1234))
    assert [record.timestamp_ms for record in batch] == [1234] * 3
    assert [record.timestamp_type for record in batch] == [1] * 3
    assert batch.to_arrow().column("timestamp_type").to_pylist() == [1, 1, 1]


def test_a_chunk_spans_batches_and_knows_its_partition() -> None:
    data = encode_batch([b"a", b"b"]) + encode_batch([b"c"], base_offset=2) + encode_batch([b"d"], base_offset=9)
    (batch,) = decode_chunks(data, Layout("flights", 3), topic="flights", partition=3)
    assert (batch.topic, batch.partition, batch.base_offset, batch.next_offset) == ("flights", 3, 0, 10)
    assert [(record.topic, record.partition, record.offset) for record in batch] == [
        ("flights", 3, offset) for offset in (0, 1, 2, 9)
    ]
    arrow = batch.to_arrow()
    assert arrow.schema.names == [
        "topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers",
    ]  # fmt: skip
    assert arrow.column("topic").to_pylist() == ["flights"] * 4
    assert arrow.column("partition").to_pylist() == [3] * 4


def test_both_timestamp_types_fit_one_chunk() -> None:
    data = b"".join(
        encode_batch([(None, b"v", i)] * 3, base_offset=3 * i, timestamp_type=1 if i % 2 else 0) for i in range(1, 40)
    )
    (batch,) = decode_chunks(data, Layout("t", 0))
    assert [record.timestamp_type for record in batch] == [i % 2 for i in range(1, 40) for _ in range(3)]
    assert batch.to_arrow().column("timestamp_type").to_pylist() == [i % 2 for i in range(1, 40) for _ in range(3)]


def test_only_the_columns_asked_for_are_there() -> None:
    (batch,) = decode_chunks(encode_batch(ROWS), Layout("t", 0, columns=["value", "partition"]))
    assert batch.to_arrow().to_pydict() == {"value": [b"v0", b"", None], "partition": [0, 0, 0]}
    assert [(record.value, record.key, record.offset) for record in batch] == [
        (b"v0", None, -1),
        (b"", None, -1),
        (None, None, -1),
    ]


def test_base_offsets_must_rise_where_that_is_asked_for() -> None:
    data = encode_batch([b"a", b"b"], base_offset=5) + encode_batch([b"c"], base_offset=6)
    with pytest.raises(ProtocolError, match="base offset 6 after a batch that ended at 6"):
        decode_chunks(data, Layout("t", 0), check_order=True)
    assert len(decode_batches(data)) == 2


def test_no_python_object_is_made_per_record() -> None:
    rows = 50_000
    table = pa.table(
        {
            "value": pa.array([b"%064d" % i for i in range(rows)], pa.binary()),
            "key": pa.array([None if i % 3 else b"key" for i in range(rows)], pa.binary()),
            "headers": pa.array([[{"key": "h", "value": b"v"}]] * rows),
        }
    )
    data = b"".join(encode_batch(table, compression="lz4", base_offset=rows * i) for i in range(20))
    layout = Layout("t", 0)
    decode_chunks(data[: len(data) // 20], layout, chunk_bytes=0)  # codecs are found, caches filled
    gc.collect()
    before = sys.getallocatedblocks()
    (batch,) = decode_chunks(data, layout, chunk_bytes=0)
    capsules = batch.__arrow_c_array__()
    made = sys.getallocatedblocks() - before
    assert len(batch) == 20 * rows == 1_000_000
    print("blocks", made)
    assert made < 100
    del capsules
    arrow = batch.to_arrow()
    arrow.validate(full=True)
    assert arrow.num_rows == 1_000_000


def test_exported_columns_live_as_long_as_a_reference() -> None:
    live_before, _ = pool_bytes()
    (batch,) = decode_chunks(encode_batch([(b"k%d" % i, b"v" * 500, i) for i in range(2000)]), Layout("t", 0))
    values = batch.to_arrow().column("value")
    expected = [b"v" * 500] * 2000
    del batch
    gc.collect()
    assert values.to_pylist() == expected
    live_with_values, _ = pool_bytes()
    assert live_with_values - live_before < 3 << 20
    del values
    gc.collect()
    assert pool_bytes()[0] <= live_before


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ([("k",)], "not a record"),
        ([{"vlaue": b""}], "vlaue"),
        ([(None, "text")], "must be bytes"),
        ([("text", b"")], "must be bytes"),
        ([(None, b"", None, [("h",)])], r"\(key, value\) pair"),
        ([(None, b"", None, [(None, b"")])], "header key"),
        ([(None, b"", None, [("h", 5)])], "header value"),
        ([(None, b"", 1 << 63)], "does not fit"),
    ],
)
def test_a_value_that_is_no_record_is_named(records: list[Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        encode_batch(records)


def test_wrong_options_are_named() -> None:
    with pytest.raises(ConfigError, match="brotli"):
        encode_batch([], compression="brotli")
    with pytest.raises(ConfigError, match="timestamp_type"):
        encode_batch([], timestamp_type=2)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="does not fit"):
        encode_batch([], base_sequence=1 << 31)


def test_dicts_bytes_and_tuples_are_records() -> None:
    batch = one(
        encode_batch([{"value": b"v", "key": b"k", "timestamp_ms": 3, "headers": {"h": b"1"}}, b"w", (b"k", b"x")])
    )
    assert [(r.key, r.value, r.timestamp_ms, r.headers) for r in batch] == [
        (b"k", b"v", 3, [("h", b"1")]),
        (None, b"w", None, []),
        (b"k", b"x", None, []),
    ]


def test_an_empty_batch_has_no_rows() -> None:
    batch = one(encode_batch([], base_offset=8))
    assert list(batch) == []
    assert batch.to_arrow().num_rows == 0
    assert (batch.base_offset, batch.last_offset, batch.max_timestamp_ms) == (8, 8, None)


def test_small_values_are_tuples_with_names() -> None:
    assert TopicPartition("t", 1) == ("t", 1)
    assert min(TopicPartition("b", 0), TopicPartition("a", 9)).topic == "a"
    assert RecordMetadata("t", 1, 5, None).timestamp_ms is None
    topic, _, first, count = OffsetRange("t", 1, 5, 3)
    assert (topic, first, count) == ("t", 5, 3)
