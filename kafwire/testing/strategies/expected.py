"""The records that drawn batches must decode to, and the values that fill them."""

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from kafwire.testing.strategies.wire import Wire

__all__ = ["EncodedBatch", "ExpectedRecord", "RecordsBlob", "data", "draw_base", "gaps", "headers", "timestamps"]

MAX_OFFSET = (1 << 63) - 1

_INT64 = st.integers(-(1 << 63), MAX_OFFSET)
timestamps = st.integers(0, 2_000_000_000_000) | st.just(-1) | _INT64 | st.sampled_from([MAX_OFFSET, -(1 << 63)])
_LENGTHS = st.sampled_from([63, 64, 127, 128, 700, 8191, 8192])  # a zigzag varint grows at 64 and at 8,192
data = st.none() | st.binary(max_size=12) | _LENGTHS.map(lambda size: b"abcdefg".ljust(size, b"."))
_HEADER_KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).map(str.encode)
headers = st.lists(st.tuples(_HEADER_KEYS, data), max_size=3).map(tuple)
gaps = st.integers(0, 2) | st.integers(0, 100_000_000)


@dataclass(frozen=True)
class ExpectedRecord:
    """One record as a reader must see it.

    Args:
        offset: its offset.
        timestamp_ms: its timestamp; -1 if there is none: in magic 0, or if the producer set none.
        key: its key, or None.
        value: its value, or None.
        headers: its headers; their keys are UTF-8.

    Example:
        >>> from kafwire.testing.strategies import ExpectedRecord
        >>> ExpectedRecord(value=b"EWR-IAH").timestamp_ms
        -1
    """

    offset: int = 0
    timestamp_ms: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


@dataclass(frozen=True)
class EncodedBatch:
    """One batch as bytes, and its records as a reader must see them. `record_batches` makes it.

    `records` may be empty and have gaps in their offsets: compaction leaves both. A reader goes on at
    `last_offset + 1`. The record of a control batch is the marker, which readers of data do not show. With
    `log_append_time` the timestamp of the records is the batch's `max_timestamp_ms`. In magic 0 and 1 there are no
    producers: -1.

    Example:
        >>> from kafwire.testing.strategies import EncodedBatch, Wire
        >>> EncodedBatch(Wire(b""), ()).codec
        'none'
    """

    data: Wire
    records: tuple[ExpectedRecord, ...]
    magic: int = 2
    codec: str = "none"
    base_offset: int = 0
    last_offset: int = 0
    leader_epoch: int = -1
    log_append_time: bool = False
    transactional: bool = False
    control: bool = False
    max_timestamp_ms: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1


@dataclass(frozen=True)
class RecordsBlob:
    """Batches one after the other, as in a Fetch response and a log segment. `records_blobs` makes it.

    `tail` is the number of bytes at the end that belong to an incomplete batch: brokers cut at a size. `records` has
    the records of all whole batches, control batches included, with rising offsets.

    Example:
        >>> from kafwire.testing.strategies import RecordsBlob, Wire
        >>> RecordsBlob(Wire(b""), ()).records
        ()
    """

    data: Wire
    batches: tuple[EncodedBatch, ...]
    tail: int = 0

    @property
    def records(self) -> tuple[ExpectedRecord, ...]:
        """The records of all whole batches."""
        return tuple(record for batch in self.batches for record in batch.records)


def draw_base(draw: DrawFn, bases: SearchStrategy[int], last: int) -> int:
    """Return a base offset with room for a batch that reaches `last` beyond it."""
    return min(draw(bases), MAX_OFFSET - 1 - last)
