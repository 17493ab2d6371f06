"""Batches for logs on disk."""

from kafwire.broker.log.batch_header import BatchHeader, read_header, stamp
from kafwire.broker.storage.file_log import FileLog
from kafwire.records import encode_batch


def batch(
    offset: int, count: int = 1, size: int = 20, epoch: int = 0, timestamp: int = 1_000
) -> tuple[bytes, BatchHeader]:
    """A batch that has its place in a log, and its header."""
    records = [{"value": bytes([offset % 251]) * size, "timestamp_ms": timestamp + i} for i in range(count)]
    data = bytearray(encode_batch(records))
    header = stamp(data, 0, read_header(data), offset, epoch)
    return bytes(data), header


def contents(log: FileLog) -> list[bytes]:
    """The bytes of all batches of a log from its start on, one after the other."""
    from kafwire.broker.log.log import FileSpan, read_span

    found = []
    for header in list(log.headers(log.start_offset)):
        data = log.read(header.base_offset, header.size)
        found.append(read_span(data) if isinstance(data, FileSpan) else bytes(data))
    return found
