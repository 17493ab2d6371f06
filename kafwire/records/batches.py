"""Record batches as Kafka stores and sends them: bytes in, batches out, and back. Pure: no sockets, no clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kafwire.errors import ConfigError
from kafwire.records._record_batches import RecordBatch
from kafwire.records._record_batches import decode_batches as _decode_batches
from kafwire.records._records import Batch, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import Buffer

    from kafwire.arrow import ArrowArrayExportable, ArrowStreamExportable

    Headers = Iterable[tuple[str | bytes, bytes | str | None]]
    RecordLike = (
        Record
        | bytes
        | dict[str, object]
        | tuple[bytes | None, bytes | None]
        | tuple[bytes | None, bytes | None, int | None]
        | tuple[bytes | None, bytes | None, int | None, Headers | None]
    )

__all__ = ["Batch", "Record", "RecordBatch", "decode_batches", "encode_batch", "iter_batches"]

MAX_DECOMPRESSED = 256 << 20

# Positions in a batch, or a message of magic 0 or 1: its length, the size before its counted bytes, and its magic.
LENGTH_AT, OVERHEAD, MAGIC_AT = 8, 12, 16
# Positions in a batch of magic 2: the checksum, its first covered byte, the largest timestamp, and the records.
CRC_AT, CRC_FROM, MAX_TIMESTAMP_AT, HEADER_SIZE = 17, 21, 35, 61

_TIMESTAMP_TYPES = {0: 0, 1: 1, "create": 0, "log_append": 1}


def decode_batches(
    data: Buffer, *, verify_crc: bool = True, max_decompressed: int = MAX_DECOMPRESSED
) -> list[RecordBatch]:
    """Decode the record batches in a blob of Produce, Fetch or a log segment, of magic 0, 1 and 2.

    An incomplete batch at the end is left out, as brokers truncate there. Control batches are included.

    Every batch is decoded at once, so every error is raised here. All batches together take at most `max_decompressed`
    and 32 MiB. If that is not enough, batches keep their position in `data` instead of their columns, and are decoded
    again when they are used. `iter_batches` decodes each only once, whatever the size.

    Args:
        data: any contiguous bytes-like object. It must not change while its batches are in use.
        verify_crc: compare checksums. Without it, lengths are still checked.
        max_decompressed: the most bytes that one batch may decompress to, and with 32 MiB more the most memory that it
            may take with its columns; 256 MiB by default.

    Returns:
        The batches.

    Raises:
        ProtocolError: the bytes are not record batches; `offset` is the byte position in `data`.

    Example:
        >>> blob = kafwire.records.encode_batch([(b"UA", b"EWR-IAH"), (b"AA", b"JFK-MIA")], compression="lz4")
        >>> [(batch.compression, len(batch)) for batch in kafwire.records.decode_batches(blob)]
        [('lz4', 2)]
    """
    return _decode_batches(memoryview(data).cast("B"), verify_crc, max_decompressed)


def iter_batches(
    data: Buffer, *, verify_crc: bool = True, max_decompressed: int = MAX_DECOMPRESSED
) -> Iterator[RecordBatch]:
    """Decode the record batches in a blob one by one, on demand.

    A log segment of any size takes the memory of one batch.

    Args:
        data: any contiguous bytes-like object. It must not change while its batches are in use.
        verify_crc: compare checksums. Without it, lengths are still checked.
        max_decompressed: the most bytes that one batch may decompress to; 256 MiB by default.

    Returns:
        An iterator of `RecordBatch`.

    Raises:
        ProtocolError: the bytes are not record batches; raised after the batches before them.

    Example:
        >>> blob = kafwire.records.encode_batch([b"EWR-IAH"]) + kafwire.records.encode_batch([b"JFK-MIA"])
        >>> [batch[0].value for batch in kafwire.records.iter_batches(blob)]
        [b'EWR-IAH', b'JFK-MIA']
    """
    from kafwire.records._record_batches import BatchIterator

    return BatchIterator(memoryview(data).cast("B"), verify_crc, max_decompressed)


def encode_batch(
    records_or_arrow: Iterable[RecordLike] | ArrowArrayExportable | ArrowStreamExportable,
    *,
    compression: str = "none",
    level: int | None = None,
    base_offset: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    timestamp_type: Literal[0, 1, "create", "log_append"] = 0,
    max_timestamp_ms: int | None = None,
) -> bytes:
    """Encode one record batch of magic 2 (KIP-98), with its checksum.

    Args:
        records_or_arrow: records, or Arrow data with the columns value [, key, timestamp, headers]. A record is a
            `Record`, a dict (value, key, timestamp_ms, headers, offset), a tuple (key, value[, timestamp_ms[,
            headers]]), or the value as bytes. No timestamp means none on the wire (-1). A record keeps its offset if
            that is after the one before, so that gaps survive; other offsets count up.
        compression: one of `kafwire.compression.CODECS`.
        level: the codec's own level; None: its default.
        base_offset: the offset of the first record; brokers assign their own.
        producer_id: the id of an idempotent or transactional producer; -1 for none.
        producer_epoch: that producer's epoch; -1 for none.
        base_sequence: that producer's sequence number of the first record; -1 for none.
        transactional: set the batch's transactional flag.
        control: set the batch's control flag.
        timestamp_type: 0 or "create"; with 1 or "log_append" readers see `max_timestamp_ms` for every record.
        max_timestamp_ms: the batch's highest timestamp; None: the highest of the records.

    Returns:
        The batch.

    Raises:
        ConfigError: an argument is not a record, no usable Arrow data or no valid option value.
        RecordTooLargeError: the batch would exceed 2 GiB.

    Example:
        >>> blob = kafwire.records.encode_batch([{"value": b"EWR-IAH", "key": b"UA"}], compression="lz4")
        >>> kafwire.records.decode_batches(blob)[0][0].key
        b'UA'
    """
    from kafwire.records import _encode_batch  # three extensions, which readers do not need

    if timestamp_type not in _TIMESTAMP_TYPES:
        raise ConfigError(f"timestamp_type {timestamp_type!r}: expected 0 ('create') or 1 ('log_append')")
    try:
        return _encode_batch.encode_batch(
            records_or_arrow,
            compression,
            level,
            base_offset,
            producer_id,
            producer_epoch,
            base_sequence,
            transactional,
            control,
            _TIMESTAMP_TYPES[timestamp_type],
            max_timestamp_ms,
        )
    except OverflowError as error:
        raise ConfigError(f"a number does not fit its field: {error}") from None
