"""The formats before record batches: messages of magic 0 and 1, single or compressed together in another message.

Magic 0 has absolute offsets and no timestamps. Magic 1 has timestamps (KIP-32). Inside a compressed message of magic 1,
offsets are relative; its own offset is that of the last message inside (KIP-31).
"""

import struct
import zlib

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from kafwire.compression import CODECS, compress
from kafwire.testing.strategies.expected import EncodedBatch, ExpectedRecord, data, draw_base, gaps, timestamps
from kafwire.testing.strategies.wire import Wire, Writer, with_right_checksums

__all__ = ["draw_message_set"]

_LOG_APPEND = 8


def draw_message_set(
    draw: DrawFn,
    magic: int,
    codecs: SearchStrategy[str],
    bases: SearchStrategy[int],
    max_records: int,
    values: SearchStrategy[bytes | None],
    with_gaps: bool,
) -> EncodedBatch:
    """Draw one message, or a compressed set of one or more. These formats have no zstd."""
    codec = draw(codecs.filter(lambda name: name != "zstd"))
    offsets, last = [0], 0
    if codec != "none":
        for _ in range(draw(st.integers(1, max(max_records, 1))) - 1):
            last += 1 + (draw(gaps) if with_gaps else 0)
            offsets.append(last)
    base = draw_base(draw, bases, last)
    append_time = magic == 1 and draw(st.booleans())
    now = draw(st.integers(0, 2_000_000_000_000)) if append_time else -1
    records, inside = [], Writer()
    # Compaction may have removed the first messages: then relative offsets do not start at zero.
    skipped = min(draw(gaps), base) if magic == 1 and with_gaps and codec != "none" else 0
    for i, delta in enumerate(offsets):
        written = draw(timestamps) if magic == 1 else -1
        if append_time and codec == "none":
            written = now
        record = ExpectedRecord(base + delta, now if append_time else written, draw(data), draw(values))
        records.append(record)
        relative = magic == 1 and codec != "none"
        offset = skipped + delta if relative else record.offset
        attributes = _LOG_APPEND * (append_time and codec == "none")
        message = _message(magic, offset, attributes, written, record.key, record.value)
        inside.add(message, "" if codec == "none" else f"message {i}: ")
    latest = max(record.timestamp_ms for record in records)
    if codec == "none":
        out = inside.wire(with_right_checksums)
    else:
        body = compress(codec, bytes(inside.data))
        if codec == "lz4" and magic == 0 and draw(st.booleans()):
            body = _with_old_checksum(body)
        attributes = CODECS.index(codec) | _LOG_APPEND * append_time
        wrapper = _message(magic, base + last, attributes, latest, None, body)
        out = Wire(wrapper, wrapper.places, with_right_checksums)
    return EncodedBatch(
        out,
        tuple(records),
        magic,
        codec,
        base_offset=base,
        last_offset=base + last,
        log_append_time=append_time,
        max_timestamp_ms=latest,
    )


def _message(magic: int, offset: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None) -> Wire:
    body = Writer()
    body.mark("int8", "magic", bytes([magic]))
    body.add(bytes([attributes]))
    if magic == 1:
        body.add(struct.pack(">q", timestamp))
    for name, part in (("key", key), ("value", value)):
        body.length(f"{name} length", -1 if part is None else len(part), compact=False, form="int32")
        body.add(part or b"")
    out = Writer()
    out.add(struct.pack(">q", offset))
    out.mark("int32", "message length", struct.pack(">i", 4 + len(body.data)))
    out.add(struct.pack(">I", zlib.crc32(body.data)))
    out.add(body.wire())
    return out.wire()


def _with_old_checksum(frame: bytes) -> bytes:
    """Return an lz4 frame with its header checksum as old clients computed it: over the frame's magic number too.

    See KAFKA-3160. Readers of magic 0 accept both.
    """
    end = 14 if frame[4] & 8 else 6
    return frame[:end] + bytes([_xxh32_short(frame[:end]) >> 8 & 255]) + frame[end + 1 :]


def _xxh32_short(part: bytes) -> int:
    """Return xxHash-32 with seed 0 of less than 16 bytes."""
    mask = 0xFFFFFFFF

    def rotated(value: int, bits: int) -> int:
        return (value << bits | value >> 32 - bits) & mask

    value = (374761393 + len(part)) & mask
    words = len(part) // 4 * 4
    for (word,) in struct.iter_unpack("<I", part[:words]):
        value = rotated((value + word * 3266489917) & mask, 17) * 668265263 & mask
    for byte in part[words:]:
        value = rotated((value + byte * 374761393) & mask, 11) * 2654435761 & mask
    value = (value ^ value >> 15) * 2246822519 & mask
    value = (value ^ value >> 13) * 3266489917 & mask
    return value ^ value >> 16
