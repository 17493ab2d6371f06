"""Decoding with a filter by timestamp: every record in [from, to) and no other, most batches by their headers alone."""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Sequence

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafwire.compression import CODECS
from kafwire.errors import ProtocolError
from kafwire.records import encode_batch
from kafwire.records._arrow import Layout
from kafwire.records._record_batches import decode_chunks
from kafwire.testing.strategies import EncodedBatch, record_batches
from tests.support import seeds

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
LOG_APPEND, CONTROL, TRANSACTIONAL = 8, 32, 16


def batch_of(*timestamps: int, base: int = 0, codec: str = "none", log_append: int | None = None) -> bytes:
    """A batch of records with these times; with `log_append` the broker has put its own time over them."""
    data = bytearray(encode_batch([(None, b"v" * 50, t) for t in timestamps], base_offset=base, compression=codec))
    if log_append is not None:
        struct.pack_into(">h", data, 21, struct.unpack_from(">h", data, 21)[0] | LOG_APPEND)
        struct.pack_into(">q", data, 35, log_append)
    return signed(data)


def signed(data: bytearray) -> bytes:
    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    return bytes(data)


def broken(data: bytes) -> bytes:
    """The same with a payload that is none, and whose checksum is wrong."""
    return data[:61] + b"\xff" * (len(data) - 61)


def found(
    blob: bytes, timestamps: tuple[int, int] | None, columns: Sequence[str] = ("offset", "timestamp"), **options: object
) -> list[tuple[int, int | None]]:
    layout = Layout(columns=columns)
    batches = decode_chunks(blob, layout, timestamps=timestamps, **options)  # type: ignore[arg-type]
    return [(record.offset, record.timestamp_ms) for batch in batches for record in batch]


def within(rows: list[tuple[int, int | None]], timestamps: tuple[int, int]) -> list[tuple[int, int | None]]:
    return [row for row in rows if row[1] is not None and timestamps[0] <= row[1] < timestamps[1]]


TIMES = st.integers(0, 40) | st.sampled_from([-1, LOWEST, HIGHEST])


@settings(max_examples=seeds.examples(150))
@given(st.lists(record_batches(magic=st.sampled_from([0, 1, 2])), max_size=4), st.data())
def test_the_kept_records_are_those_in_the_range(batches: list[EncodedBatch], data: st.DataObject) -> None:
    for batch in batches:
        everything = found(batch.data, None)
        known = [t for _, t in everything if t is not None]
        bounds = st.sampled_from(known + [t + 1 for t in known if t < HIGHEST]) if known else TIMES
        timestamps = (data.draw(bounds | TIMES), data.draw(bounds | TIMES))
        assert found(batch.data, timestamps) == within(everything, timestamps)


@pytest.mark.parametrize("codec", CODECS)
def test_many_batches_of_times_in_any_order(codec: str) -> None:
    seed = seeds.of_test()
    chance = random.Random(seed)
    for _ in range(30):
        blob, offset = b"", 0
        for _ in range(12):
            count = chance.randint(1, 6)
            stamps = [chance.choice([-1, chance.randint(0, 100), chance.randint(40, 60)]) for _ in range(count)]
            log_append = chance.choice([None, None, chance.randint(0, 100)])
            blob += batch_of(*stamps, base=offset, codec=codec, log_append=log_append)
            offset += count
        low, high = sorted(chance.choices(range(-2, 103), k=2))
        for timestamps in ((low, high), (LOWEST, high), (low, HIGHEST), (LOWEST, HIGHEST), (high, low)):
            for chunk in (1, 1 << 20):
                got = found(blob, timestamps, chunk_bytes=chunk)
                assert got == within(found(blob, None), timestamps)


def test_the_other_columns_are_those_of_the_same_records() -> None:
    """Also where the timestamps themselves are not asked for."""
    records = [
        (b"k%d" % i, None if i % 3 == 0 else b"v%d" % i, 10 * i, [("h", b"%d" % i)] * (i % 3)) for i in range(20)
    ]
    blob = encode_batch(records)
    for columns in (["value"], ["key", "headers"], ["timestamp_type", "value"], ["offset", "key", "value", "headers"]):
        layout = Layout(columns=columns)
        (whole,) = decode_chunks(blob, layout)
        (part,) = decode_chunks(blob, layout, timestamps=(45, 130))
        assert part.to_arrow().to_pylist() == whole.to_arrow().to_pylist()[5:13]


def test_a_batch_without_a_record_in_the_range_is_passed_over_by_its_header() -> None:
    """Its checksum is not computed, and nothing is decompressed: what it holds is not looked at."""
    late = batch_of(100, base=3)
    for early in (batch_of(10, 30, 20), batch_of(1, 2, 3, log_append=30)):
        assert found(broken(early) + late, (31, HIGHEST)) == [(3, 100)]
        with pytest.raises(ProtocolError, match="CRC"):
            found(broken(early) + late, (30, HIGHEST))


def test_the_broker_s_time_is_that_of_all_records() -> None:
    blob = batch_of(1, 2, 3, log_append=50)
    assert found(broken(blob), (0, 50)) == []
    assert found(blob, (50, 51)) == [(0, 50), (1, 50), (2, 50)]
    assert found(blob, (0, 4)) == []
    with pytest.raises(ProtocolError, match="CRC"):
        found(broken(blob), (50, 51))


def test_no_header_says_which_is_the_earliest_of_a_producer_s_times() -> None:
    """The base timestamp is the first record's: later ones may be earlier. So it must be looked into."""
    assert found(batch_of(100, 5, 100), (0, 10)) == [(1, 5)]
    with pytest.raises(ProtocolError, match="CRC"):
        found(broken(batch_of(100, 5, 100)), (0, 10))


def test_a_tombstone_s_horizon_in_place_of_the_base_timestamp_does_not_matter() -> None:
    """A compacted batch (KIP-534) counts its deltas from the time up to which tombstones are kept."""
    data = bytearray(batch_of(1000, 1010))
    horizon = 990  # deltas 0 and 10 stay: so do the records' times relative to it
    struct.pack_into(">h", data, 21, 64)
    struct.pack_into(">qq", data, 27, horizon, horizon + 10)
    blob = signed(data)
    assert found(blob, (horizon, horizon + 1)) == [(0, horizon)]
    assert found(blob, (horizon + 5, HIGHEST)) == [(1, horizon + 10)]


def test_records_without_a_timestamp_are_in_no_range() -> None:
    assert found(batch_of(-1, 5, -1), (LOWEST, HIGHEST)) == [(1, 5)]
    assert found(batch_of(-1, -1), (-1, HIGHEST)) == []


def test_the_end_of_a_transaction_counts_whenever_it_was() -> None:
    """A control batch outside the range still says what follows it: its producer's next transaction is not aborted."""

    def transactional(data: bytes, attributes: int = TRANSACTIONAL) -> bytes:
        made = bytearray(data)
        struct.pack_into(">h", made, 21, attributes)
        struct.pack_into(">qh", made, 43, 7, 0)
        return signed(made)

    marker = encode_batch([(struct.pack(">hh", 0, 0), struct.pack(">hi", 0, 0), 1)], base_offset=2)
    blob = transactional(batch_of(50, 51))
    blob += transactional(marker, TRANSACTIONAL | CONTROL)
    blob += transactional(batch_of(52, 53, base=3))
    assert found(blob, (50, HIGHEST), aborted=[(7, 0)]) == [(3, 52), (4, 53)]


def test_offsets_and_times_both_bound() -> None:
    blob = b"".join(batch_of(10 * i, 10 * i + 5, base=2 * i) for i in range(10))
    for start, end, low, high in itertools.product((0, 3, 8), (9, 14, 20), (0, 25, 40), (55, 70, 200)):
        expected = [row for row in within(found(blob, None), (low, high)) if start <= row[0] < end]
        assert found(blob, (low, high), start=start, end=end) == expected


def test_offsets_of_skipped_batches_must_rise_too() -> None:
    blob = batch_of(1, 2, base=5) + batch_of(1, base=3) + batch_of(100, base=9)
    with pytest.raises(ProtocolError, match="after a batch that ended at 6"):
        found(blob, (50, HIGHEST), check_order=True)
