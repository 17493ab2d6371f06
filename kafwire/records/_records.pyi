from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, SupportsIndex, final, overload

import pyarrow as pa

from kafwire.records._record_batches import RecordBatch

@final
class Record:
    """One record.

    Args:
        value: bytes or None, or a deserializer's result.
        key: bytes or None, or a deserializer's result.
        headers: pairs of str and bytes, str (kept as UTF-8) or None. A name that is not UTF-8 is kept by
            surrogateescape.
        timestamp_ms: milliseconds since the epoch; None if it has no timestamp.
        timestamp_type: 0 for create time, 1 for log append time; None if it has no timestamp.
        offset: its offset; -1 if it was not read from a topic.
        topic: its topic; None if it was decoded from plain bytes.
        partition: its partition; None if it was decoded from plain bytes.

    Example:
        >>> kafwire.Record(b"EWR-IAH", b"UA", headers=[("source", b"radar")]).headers
        [('source', b'radar')]
    """

    def __init__(
        self,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        headers: Iterable[tuple[str, bytes | str | None]] | Mapping[str, bytes | str | None] = (),
        timestamp_ms: int | None = None,
        timestamp_type: int | None = 0,
        offset: int = -1,
        topic: str | None = None,
        partition: int | None = None,
    ) -> None: ...
    @property
    def topic(self) -> str | None:
        """The topic; None if the record was decoded from plain bytes."""
    @property
    def partition(self) -> int | None:
        """The partition; None if the record was decoded from plain bytes."""
    @property
    def offset(self) -> int:
        """The offset; -1 if the record was not read from a topic."""
    @property
    def timestamp_ms(self) -> int | None:
        """The timestamp in milliseconds since the epoch; None if the record has none."""
    @property
    def timestamp_type(self) -> int | None:
        """0 for create time, 1 for log append time; None if the record has no timestamp."""
    @property
    def key(self) -> Any:
        """The key: bytes, None for null, or the deserializer's result."""
    @property
    def value(self) -> Any:
        """The value: bytes, None for null, or the deserializer's result."""
    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """The headers: a list of pairs, of str and bytes or None. A name that is not UTF-8 has surrogate escapes."""
    def __hash__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...

class Records:
    """Decoded rows of one partition: a sequence of Record, and a struct array for Arrow."""

    @property
    def topic(self) -> str | None:
        """The topic of the records; None if they were decoded from plain bytes."""
    @property
    def partition(self) -> int | None:
        """The partition of the records; None if they were decoded from plain bytes."""
    def __len__(self) -> int: ...
    def __iter__(self) -> RecordIterator: ...
    def __aiter__(self) -> AsyncIterator[Record]: ...
    @overload
    def __getitem__(self, index: SupportsIndex) -> Record: ...
    @overload
    def __getitem__(self, index: slice[Any, Any, Any]) -> list[Record]: ...
    def _repr_html_(self) -> str: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def to_arrow(self) -> pa.RecordBatch:
        """Return the rows as a pyarrow.RecordBatch that shares their memory.

        Returns:
            The pyarrow.RecordBatch.

        Raises:
            ImportError: pyarrow is not installed.
            ProtocolError: the rows do not fit Arrow's columns.

        Example:
            >>> batch, = kafwire.records.decode_batches(kafwire.records.encode_batch([b"EWR-IAH", b"JFK-MIA"]))
            >>> batch.to_arrow()["value"].to_pylist()
            [b'EWR-IAH', b'JFK-MIA']
        """

def task_context() -> object: ...
def offsets_of(batch: Records) -> Sequence[int]:
    """Return the offsets of a batch with records, as a range if they have no gaps. They must have been decoded."""

def heads(batch: Records, keys: bool, length: int) -> dict[bytes, int]:
    """Return the first `length` bytes of the keys, or values, each once, with its first row."""

@final
class RecordIterator:
    def __init__(self, batches: Iterable[Batch] | Iterable[RecordBatch]) -> None: ...
    @property
    def batch(self) -> Batch | RecordBatch | None: ...
    @property
    def row(self) -> int: ...
    @property
    def thread(self) -> int: ...
    @property
    def context(self) -> object: ...
    @property
    def next_offset(self) -> int: ...
    def __iter__(self) -> RecordIterator: ...
    def __next__(self) -> Record: ...
    def called(self) -> None: ...
    def peek(self) -> Record: ...
    def skip(self) -> None: ...
    @property
    def offset(self) -> int: ...
    def __length_hint__(self) -> int: ...
    def drop(self) -> None: ...
    def refuse(self, batch: Batch | None) -> None: ...

@final
class Batch(Records):
    """Consecutive wire batches of one partition, decoded in one call: a sequence of `Record`.

    `topic` and `partition` are its source. `base_offset` is the first offset of the first wire batch, `next_offset` is
    where reading continues. Gaps left by compaction, and control records, count as read. A consumer or a scan makes it.

    Example:
        >>> batch, = kafwire.scan(bootstrap, topic).batches()
        >>> len(batch), batch[0].value, batch.next_offset
        (3, b'EWR-IAH', 3)
        >>> pa.record_batch(batch).num_rows
        3
    """

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the columns. Batches that share columns count them in proportion to their rows."""
    @property
    def base_offset(self) -> int:
        """The first offset of the first wire batch, or the offset at which reading began."""
    @property
    def next_offset(self) -> int:
        """The offset at which reading continues after these records."""
