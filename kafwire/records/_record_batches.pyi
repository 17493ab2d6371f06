from collections.abc import Iterator, Sequence
from typing import final

from typing_extensions import Buffer

from kafwire.records._arrow import Layout
from kafwire.records._records import Batch, Records

@final
class RecordBatch(Records):
    """One wire batch (magic 2), or one message of magic 0 or 1 with its inner messages: a sequence of `Record`.

    Its fields are those on the wire. `producer_id`, `producer_epoch`, `base_sequence` and `partition_leader_epoch` are
    -1 if there is none; `max_timestamp_ms` is None if the wire has -1. `decode_batches` makes it.

    Example:
        >>> batch, = kafwire.records.decode_batches(kafwire.records.encode_batch([b"EWR-IAH"], base_offset=7))
        >>> batch.base_offset, batch.magic, batch[0].value
        (7, 2, b'EWR-IAH')
    """

    @property
    def base_offset(self) -> int:
        """The offset of the first record."""
    @property
    def last_offset(self) -> int:
        """The offset of the last record, even if compaction removed it."""
    @property
    def magic(self) -> int:
        """The format of the batch: 2, or 0 and 1 for messages of old Kafka versions."""
    @property
    def compression(self) -> str:
        """The name of the compression codec, one of `kafwire.compression.CODECS`."""
    @property
    def crc(self) -> int:
        """The checksum on the wire: CRC-32C for magic 2, CRC-32 for magic 0 and 1."""
    @property
    def attributes(self) -> int:
        """The attribute bits on the wire."""
    @property
    def producer_id(self) -> int:
        """The id of the idempotent producer; -1 if there is none."""
    @property
    def producer_epoch(self) -> int:
        """The epoch of the producer id; -1 if there is none."""
    @property
    def base_sequence(self) -> int:
        """The sequence number of the first record; -1 if there is none."""
    @property
    def is_transactional(self) -> bool:
        """True if the batch belongs to a transaction."""
    @property
    def is_control(self) -> bool:
        """True if the batch has a control record, such as a commit marker."""
    @property
    def timestamp_type(self) -> int:
        """0 for create time, 1 for log append time."""
    @property
    def partition_leader_epoch(self) -> int:
        """The epoch of the partition leader that wrote the batch; -1 if there is none."""
    @property
    def base_timestamp_ms(self) -> int | None:
        """The base of the records' timestamps, in milliseconds; None if the wire has -1."""
    @property
    def max_timestamp_ms(self) -> int | None:
        """The latest timestamp of the records, in milliseconds; None if the wire has -1."""

@final
class DecodedBatchCache:
    def __init__(self, data: Buffer, verify_crc: bool, max_decompressed: int) -> None: ...

@final
class BatchIterator:
    def __init__(self, data: Buffer, verify_crc: bool, max_decompressed: int) -> None: ...
    def __iter__(self) -> Iterator[RecordBatch]: ...
    def __next__(self) -> RecordBatch: ...

def decode_batches(data: Buffer, verify_crc: bool, max_decompressed: int) -> list[RecordBatch]: ...
def decode_chunks(
    data: Buffer,
    layout: Layout,
    *,
    topic: str | None = None,
    partition: int | None = None,
    chunk_bytes: int = 4194304,
    start: int | None = None,
    end: int | None = None,
    verify_crc: bool = True,
    check_order: bool = False,
    aborted: Sequence[tuple[int, int]] | None = None,
    max_decompressed: int = 268435456,
    timestamps: tuple[int, int] | None = None,
) -> list[Batch]: ...
