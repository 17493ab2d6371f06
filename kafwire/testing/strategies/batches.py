"""Strategies of record batches: bytes, and the records that they must decode to.

The batches are written here in plain Python, from the format's description (KIP-98, KIP-31, KIP-32); checksums and
compression are kafwire's. `message_sets.py` has the formats of older clients and brokers, magic 0 and 1.
"""

import struct
from collections.abc import Callable
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from kafwire._codec import crc32c_of
from kafwire.compression import CODECS, compress
from kafwire.testing.strategies.expected import (
    MAX_OFFSET,
    EncodedBatch,
    ExpectedRecord,
    RecordsBlob,
    draw_base,
    headers,
    timestamps,
)
from kafwire.testing.strategies.expected import data as any_data
from kafwire.testing.strategies.expected import gaps as any_gaps
from kafwire.testing.strategies.message_sets import draw_message_set
from kafwire.testing.strategies.wire import Wire, Writer, varint, with_right_checksums

__all__ = ["EncodedBatch", "ExpectedRecord", "RecordsBlob", "record_batches", "records_blobs"]

_LOG_APPEND, _TRANSACTIONAL, _CONTROL, _DELETE_HORIZON = 8, 16, 32, 64


def record_batches(
    *,
    magic: int | SearchStrategy[int] = 2,
    codec: str | SearchStrategy[str] | None = None,
    base_offset: int | SearchStrategy[int] | None = None,
    max_records: int = 5,
    control: bool | None = None,
    transactional: bool | None = None,
    values: SearchStrategy[bytes | None] | None = None,
    gaps: bool = True,
) -> SearchStrategy[EncodedBatch]:
    """Draw a valid batch of records.

    Records have null and empty keys and values, headers, gaps in their offsets, timestamps of any size. Batches have
    any codec, the broker's or the producer's time, idempotent and transactional producers, or one control record that
    ends a transaction. Some are empty, as compaction leaves them.

    Args:
        magic: 2, or 1 or 0 for batches from before Kafka 0.11, or a strategy of those. With 1 and 0 a batch is one
            message, or a compressed set of them, without headers, and `control` and `transactional` do not apply.
        codec: a name in `kafwire.compression.CODECS`, or a strategy of names; None: any that the magic has.
        base_offset: the batch's base offset; None: any that leaves room for its records.
        max_records: the most records.
        control: True for control batches, False for others; None: both.
        transactional: True for transactional batches, False for others; None: both.
        values: a strategy of values; None: null, empty, short and long bytes.
        gaps: let offsets skip, before the end and at it.

    Returns:
        A strategy of `EncodedBatch`.

    Example:
        >>> from hypothesis import given
        >>> from kafwire.testing.strategies import record_batches
        >>> @given(record_batches(codec="lz4"))
        ... def test_lz4(batch):
        ...     decoded, = kafwire.records.decode_batches(batch.data)
        ...     assert [record.value for record in decoded] == [record.value for record in batch.records]
        >>> test_lz4()
    """
    codecs = (
        st.sampled_from(CODECS) if codec is None else codec if isinstance(codec, SearchStrategy) else st.just(codec)
    )
    bases = st.integers(0, 1 << 40) | st.just(MAX_OFFSET) if base_offset is None else base_offset
    return _batches(
        magic if isinstance(magic, SearchStrategy) else st.just(magic),
        codecs,
        bases if isinstance(bases, SearchStrategy) else st.just(bases),
        max_records,
        control,
        transactional,
        any_data if values is None else values,
        gaps,
    )


@st.composite
def _batches(
    draw: DrawFn,
    magics: SearchStrategy[int],
    codecs: SearchStrategy[str],
    bases: SearchStrategy[int],
    max_records: int,
    control: bool | None,
    transactional: bool | None,
    values: SearchStrategy[bytes | None],
    gaps: bool,
) -> EncodedBatch:
    magic = draw(magics)
    if magic in {0, 1}:
        return draw_message_set(draw, magic, codecs, bases, max_records, values, gaps)
    if magic != 2:
        raise ValueError(f"magic {magic} does not exist; there are 0, 1 and 2")
    codec = draw(codecs)
    if control is None:
        control = draw(st.integers(0, 7)) == 7
    if transactional is None:
        transactional = control or draw(st.booleans())
    deltas: list[int] = []
    if control:
        deltas, last = [0], 0
    else:
        last = -1
        for _ in range(draw(st.integers(0, max_records))):
            last += 1 + (draw(any_gaps) if gaps else 0)
            deltas.append(last)
        last = max(last, 0) + (draw(any_gaps) if gaps else 0)
    base = draw_base(draw, bases, last)
    records = [_draw_record(draw, base + delta, control, values) for delta in deltas]
    if not records:
        codec = "none"  # a batch that compaction emptied is only a header
    producer = (-1, -1, -1)
    if transactional or control or draw(st.booleans()):
        sequence = -1 if control else draw(st.integers(0, (1 << 31) - 1))
        producer = (draw(st.integers(0, MAX_OFFSET)), draw(st.integers(0, 0x7FFF)), sequence)
    flags = _TRANSACTIONAL * transactional | _CONTROL * control
    flags |= draw(st.sampled_from([0, 0, 0, _LOG_APPEND, _DELETE_HORIZON])) if not control else 0
    base_timestamp = records[0].timestamp_ms if records else -1
    if flags & _DELETE_HORIZON or draw(st.booleans()):
        base_timestamp = draw(timestamps)
    max_timestamp = max((record.timestamp_ms for record in records), default=-1)
    if flags & _LOG_APPEND:
        max_timestamp = draw(st.integers(0, 2_000_000_000_000))
    batch = EncodedBatch(
        Wire(b""),
        tuple(records),
        2,
        codec,
        base,
        base + last,
        draw(st.integers(-1, 100)),
        bool(flags & _LOG_APPEND),
        transactional,
        control,
        max_timestamp,
        *producer,
    )
    return _finished(batch, flags, base_timestamp)


def _draw_record(draw: DrawFn, offset: int, control: bool, values: SearchStrategy[bytes | None]) -> ExpectedRecord:
    timestamp = draw(timestamps)
    if control:
        commit = draw(st.integers(0, 1))
        epoch = draw(st.integers(0, 1 << 20))
        return ExpectedRecord(offset, timestamp, struct.pack(">hh", 0, commit), struct.pack(">hi", 0, epoch))
    return ExpectedRecord(offset, timestamp, draw(any_data), draw(values), draw(headers))


def _finished(batch: EncodedBatch, flags: int, base_timestamp: int) -> EncodedBatch:
    """Encode the batch; with the broker's time, readers see that time instead of the records' own."""
    payload = Writer()
    for i, record in enumerate(batch.records):
        _put_record(payload, f"record {i}", record, record.offset - batch.base_offset, base_timestamp)
    body: bytes = payload.wire() if batch.codec == "none" else compress(batch.codec, bytes(payload.data))
    tail = Writer()
    tail.add(struct.pack(">h", CODECS.index(batch.codec) | flags))
    tail.mark("int32", "last offset delta", struct.pack(">i", batch.last_offset - batch.base_offset))
    tail.add(
        struct.pack(
            ">qqqhi",
            base_timestamp,
            batch.max_timestamp_ms,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
        )
    )
    tail.mark("int32", "number of records", struct.pack(">i", len(batch.records)))
    tail.add(body)
    out = Writer()
    out.add(struct.pack(">q", batch.base_offset))
    out.mark("int32", "batch length", struct.pack(">i", 9 + len(tail.data)))
    out.add(struct.pack(">i", batch.leader_epoch))
    out.mark("int8", "magic", b"\2")
    out.add(struct.pack(">I", crc32c_of(bytes(tail.data))))
    out.add(tail.wire())
    records = batch.records
    if batch.log_append_time:
        records = tuple(replace(record, timestamp_ms=batch.max_timestamp_ms) for record in records)
    return replace(batch, data=out.wire(with_right_checksums), records=records)


def _wrapped(value: int) -> int:
    """Return a difference of 64-bit numbers as Java computes it."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _put_record(out: Writer, name: str, record: ExpectedRecord, delta: int, base_timestamp: int) -> None:
    inner = Writer()
    inner.add(b"\0" + varint(_wrapped(record.timestamp_ms - base_timestamp)))
    inner.mark("varint", f"{name}: offset delta", varint(delta))
    for part, data in (("key", record.key), ("value", record.value)):
        _put_sized(inner, f"{name}: {part} length", data)
    inner.mark("varint", f"{name}: number of headers", varint(len(record.headers)))
    for key, data in record.headers:
        _put_sized(inner, f"{name}: header key length", key)
        _put_sized(inner, f"{name}: header value length", data)
    out.mark("varint", f"{name}: length", varint(len(inner.data)))
    out.add(inner.wire())


def _put_sized(out: Writer, name: str, data: bytes | None) -> None:
    out.mark("varint", name, varint(-1 if data is None else len(data)))
    out.add(data or b"")


def records_blobs(
    *,
    magic: int | SearchStrategy[int] = 2,
    codec: str | SearchStrategy[str] | None = None,
    max_records: int = 5,
    control: bool | None = None,
    transactional: bool | None = None,
    values: SearchStrategy[bytes | None] | None = None,
    max_batches: int = 3,
    partial_tail: bool = True,
) -> SearchStrategy[RecordsBlob]:
    """Draw the records of a partition in a Fetch response: batches with rising offsets, perhaps a cut one at the end.

    Offsets may skip between batches, and start anywhere.

    Args:
        magic: as for `record_batches`.
        codec: as for `record_batches`.
        max_records: the most records of each batch.
        control: as for `record_batches`.
        transactional: as for `record_batches`.
        values: as for `record_batches`.
        max_batches: the most whole batches; there may be none.
        partial_tail: let an incomplete batch follow, which readers must leave out.

    Returns:
        A strategy of `RecordsBlob`.

    Example:
        >>> from hypothesis import given
        >>> from kafwire.testing.strategies import records_blobs
        >>> @given(records_blobs())
        ... def test_whole_batches_are_decoded(blob):
        ...     assert len(kafwire.records.decode_batches(blob.data)) == len(blob.batches)
        >>> test_whole_batches_are_decoded()
    """

    def batches(base: SearchStrategy[int]) -> SearchStrategy[EncodedBatch]:
        return record_batches(
            magic=magic,
            codec=codec,
            base_offset=base,
            max_records=max_records,
            control=control,
            transactional=transactional,
            values=values,
        )

    return _blobs(batches, max_batches, partial_tail)


@st.composite
def _blobs(
    draw: DrawFn,
    batches: Callable[[SearchStrategy[int]], SearchStrategy[EncodedBatch]],
    max_batches: int,
    partial_tail: bool,
) -> RecordsBlob:
    out = Writer()
    whole: list[EncodedBatch] = []
    following = draw(st.integers(0, 1 << 40))
    for i in range(draw(st.integers(0, max_batches))):
        batch = draw(batches(st.integers(0, 2).map(following.__add__)))
        out.add(batch.data, f"batch {i}: ")
        whole.append(batch)
        following = batch.last_offset + 1
    tail = 0
    if partial_tail and draw(st.booleans()):
        more = draw(batches(st.just(following))).data
        tail = draw(st.integers(1, len(more) - 1))
        out.add(bytes(more[:tail]))
    return RecordsBlob(out.wire(with_right_checksums), tuple(whole), tail)
