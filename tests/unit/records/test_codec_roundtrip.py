"""Random records through kafwire's codec and through the reference codec, both ways."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafwire.records import Record, decode_batches, encode_batch
from kafwire.records._arrow import Layout
from kafwire.records._record_batches import decode_chunks
from tests.support import seeds
from tests.support.reference_codec import CODECS, PlainBatch, PlainRecord, decode_batch
from tests.support.reference_codec import encode_batch as reference_encode

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TIMES = st.one_of(st.just(-1), st.integers(0, 2_000_000_000_000), INT64)
DATA = st.one_of(st.none(), st.binary(max_size=40), st.integers(0, 700).map(lambda n: b"abcdefg" * n))
HEADER_KEYS = st.one_of(st.binary(max_size=12), st.text(max_size=8).map(str.encode))
HEADERS = st.lists(st.tuples(HEADER_KEYS, DATA), max_size=4)
BATCHES_TAKE_TIME = settings(suppress_health_check=[HealthCheck.too_slow])
Row = tuple[bytes | None, bytes | None, int | None, list[tuple[bytes, bytes | None]] | None]


@st.composite
def batches(draw: st.DrawFn) -> PlainBatch:
    codec = draw(st.sampled_from(CODECS))
    delta, records = -1, []
    for _ in range(draw(st.integers(0, 12))):
        delta += draw(st.integers(1, 3) | st.integers(1, 100_000_000))
        records.append(PlainRecord(delta, draw(TIMES), draw(DATA), draw(DATA), draw(HEADERS)))
    last = max(delta, 0) + draw(st.integers(0, 5))
    base_offset = draw(st.integers(0, 100) | st.integers(0, (1 << 63) - 2 - last))
    return PlainBatch(
        records,
        base_offset,
        codec=codec,
        flags=draw(st.sampled_from([0, 8, 16, 24, 32, 48])),
        last_offset_delta=last,
        base_timestamp=draw(TIMES),
        max_timestamp=draw(TIMES),
        producer_id=draw(INT64),
        producer_epoch=draw(st.integers(-(1 << 15), (1 << 15) - 1)),
        base_sequence=draw(st.integers(-(1 << 31), (1 << 31) - 1)),
    )


def plain(record: Record, base_offset: int) -> PlainRecord:
    headers = [(key.encode("utf-8", "surrogateescape"), value) for key, value in record.headers]
    timestamp = -1 if record.timestamp_ms is None else record.timestamp_ms
    return PlainRecord(record.offset - base_offset, timestamp, record.key, record.value, headers)


def seen_by_a_reader(batch: PlainBatch) -> list[PlainRecord]:
    if not batch.flags & 8:
        return batch.records
    return [PlainRecord(r.offset_delta, batch.max_timestamp, r.key, r.value, r.headers) for r in batch.records]


@BATCHES_TAKE_TIME
@given(batches())
def test_decodes_batches_of_the_reference(batch: PlainBatch) -> None:
    (decoded,) = decode_batches(reference_encode(batch))
    assert [plain(record, batch.base_offset) for record in decoded] == seen_by_a_reader(batch)
    assert decoded.base_offset == batch.base_offset
    assert decoded.last_offset == batch.base_offset + batch.last_offset_delta
    assert decoded.compression == batch.codec
    assert decoded.is_control == bool(batch.flags & 32)
    assert decoded.is_transactional == bool(batch.flags & 16)
    assert (decoded.producer_id, decoded.producer_epoch) == (batch.producer_id, batch.producer_epoch)
    assert decoded.base_sequence == batch.base_sequence
    assert len(decoded) == len(batch.records)


@BATCHES_TAKE_TIME
@given(batches(), st.sampled_from([None, 1, 5]))
def test_the_reference_decodes_encoded_batches(batch: PlainBatch, level: int | None) -> None:
    records = [
        Record(
            record.value,
            record.key,
            headers=[(key.decode("utf-8", "surrogateescape"), value) for key, value in record.headers],
            timestamp_ms=None if record.timestamp == -1 else record.timestamp,
            offset=batch.base_offset + record.offset_delta,
        )
        for record in batch.records
    ]
    encoded = encode_batch(
        records,
        compression=batch.codec,
        level=level,
        base_offset=batch.base_offset,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=bool(batch.flags & 16),
        control=bool(batch.flags & 32),
    )
    found = decode_batch(encoded)
    assert found.records == batch.records
    assert (found.base_offset, found.codec, found.flags) == (batch.base_offset, batch.codec, batch.flags & 48)
    assert (found.producer_id, found.producer_epoch) == (batch.producer_id, batch.producer_epoch)
    if batch.records:
        assert found.last_offset_delta == batch.records[-1].offset_delta
        assert found.max_timestamp == max(record.timestamp for record in batch.records)


@BATCHES_TAKE_TIME
@given(batches())
def test_arrow_and_records_say_the_same(batch: PlainBatch) -> None:
    (decoded,) = decode_batches(reference_encode(batch))
    arrow = decoded.to_arrow()
    arrow.validate(full=True)
    assert arrow.column("offset").to_pylist() == [record.offset for record in decoded]
    assert arrow.column("timestamp").cast(pa.int64()).to_pylist() == [record.timestamp_ms for record in decoded]
    assert arrow.column("timestamp_type").to_pylist() == [record.timestamp_type for record in decoded]
    assert arrow.column("key").to_pylist() == [record.key for record in decoded]
    assert arrow.column("value").to_pylist() == [record.value for record in decoded]
    headers = [
        [
            {"key": key.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), "value": value}
            for key, value in record.headers
        ]
        for record in decoded
    ]
    assert arrow.column("headers").to_pylist() == headers


@given(st.lists(st.tuples(DATA, DATA, st.none() | st.integers(0, 1 << 61), st.none() | HEADERS), max_size=20))
def test_rows_from_arrow_are_encoded_as_they_are(rows: list[Row]) -> None:
    table = pa.table(
        {
            "key": pa.array([row[0] for row in rows], pa.binary()),
            "value": pa.array([row[1] for row in rows], pa.large_binary()),
            "timestamp": pa.array([row[2] for row in rows], pa.timestamp("ms", "UTC")),
            "headers": pa.array(
                [None if row[3] is None else [{"key": k, "value": v} for k, v in row[3]] for row in rows],
                pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())])),
            ),
        }
    )
    found = decode_batch(encode_batch(table))
    assert found.records == [
        PlainRecord(i, -1 if time is None else time, key, value, headers or [])
        for i, (key, value, time, headers) in enumerate(rows)
    ]


@settings(max_examples=seeds.examples(20), suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(batches(), min_size=1, max_size=6), st.integers(1, 5000), st.data())
def test_chunks_hold_the_records_of_their_batches_within_the_range(
    parts: list[PlainBatch], chunk_bytes: int, data: st.DataObject
) -> None:
    """Invariant: whatever the chunk size, the chunks hold the records of all non-control batches in the range."""
    base, blob, expected = 0, b"", []
    for part in parts:
        part.base_offset = base
        blob += reference_encode(part)
        base += part.last_offset_delta + 1
        if not part.flags & 32:
            expected += [(part.base_offset + record.offset_delta, record.value) for record in part.records]
    start = data.draw(st.integers(0, base))
    end = data.draw(st.integers(start, base))
    chunks = decode_chunks(blob, Layout("t", 3), chunk_bytes=chunk_bytes, start=start, end=end, check_order=True)
    found = [(record.offset, record.value) for chunk in chunks for record in chunk]
    assert found == [pair for pair in expected if start <= pair[0] < end]
    for chunk, following in itertools.pairwise(chunks):
        assert chunk.next_offset <= following.base_offset


@pytest.mark.parametrize("codec", CODECS)
def test_large_batches_pass_through_every_codec(codec: str) -> None:
    rows = [(b"key-%d" % i, (b"value %d " % i) * (i % 40), i, [("h", b"%d" % i)]) for i in range(4_000)]
    encoded = encode_batch(rows, compression=codec)
    found = decode_batch(encoded)
    assert [(r.key, r.value, r.timestamp) for r in found.records] == [row[:3] for row in rows]
    (decoded,) = decode_batches(encoded)
    assert [(r.key, r.value, r.timestamp_ms, r.headers) for r in decoded] == rows
