"""Fetch answers, read where they are: the envelope becomes small objects, the records stay in the frame."""
cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kafwire._buffer cimport (
    Buffer,
    Reader,
    read_bytes,
    read_i16,
    read_i32,
    read_i64,
    read_uvarint,
    skip_tags,
)
from kafwire._codec cimport BatchHeader, batch_header

from kafwire.errors import ProtocolError


@cython.final
cdef class PartitionAnswer:
    """What a Fetch answer says of one partition. The records stay in the frame: [position, position + size)."""

    cdef readonly object topic  # name up to version 12, the id's 16 bytes from 13
    cdef readonly int32_t partition
    cdef readonly int16_t error_code
    cdef readonly int64_t high_watermark
    cdef readonly int64_t last_stable_offset
    cdef readonly int64_t log_start_offset
    cdef readonly list aborted  # [(producer id, first offset)]
    cdef readonly size_t position
    cdef readonly size_t size

    def __repr__(self):
        return f"<answer for {self.topic!r}-{self.partition}: error {self.error_code}, {self.size} bytes>"


@cython.final
cdef class FetchAnswer:
    """A parsed Fetch answer."""

    cdef readonly Buffer frame
    cdef readonly int32_t throttle_time_ms
    cdef readonly int16_t error_code
    cdef readonly int32_t session_id
    cdef readonly list partitions


cdef enum:
    # What the objects of an answer take, and what they may take together, as with any other message: entries of
    # thirty bytes become objects of two hundred.
    PARTITION_BYTES = 256
    ABORTED_BYTES = 160
    MOST_BYTES = 268435456


cdef int64_t _length(Reader *r, bint flexible, bint nullable) noexcept nogil:
    """A length or count, -1 for null where null may be; anything else below zero is a failure."""
    cdef int64_t n = (<int64_t> read_uvarint(r)) - 1 if flexible else read_i32(r)
    if n < 0 and not (n == -1 and nullable):
        r.failed = True
        return -1
    return n


cdef int64_t _count(Reader *r, bint flexible, int least, bint nullable) noexcept nogil:
    """An array's count, -1 for null; one that the bytes left cannot hold is a failure."""
    cdef int64_t n = _length(r, flexible, nullable)
    if n > (r.end - r.at) // least:
        r.failed = True
        return -1
    return n


def parse_answer(Buffer frame, int version):
    """Read a FetchResponse frame (from its correlation id on) of version 4 to 18; raises `ProtocolError`."""
    cdef Reader reader
    cdef Reader *r = &reader
    cdef bint flexible = version >= 12
    cdef int64_t topics, partitions, n, size, taken = 0
    cdef const uint8_t *at
    cdef PartitionAnswer answer
    cdef FetchAnswer out = FetchAnswer.__new__(FetchAnswer)
    if frame.buf is NULL:
        raise ProtocolError("an empty frame", api="FetchResponse", version=version, offset=0)
    reader.at = frame.buf.data
    reader.end = frame.buf.data + frame.buf.size
    reader.failed = False
    out.frame = frame
    out.partitions = []
    read_i32(r)
    if flexible:
        skip_tags(r)
    out.throttle_time_ms = read_i32(r)
    if version >= 7:
        out.error_code = read_i16(r)
        out.session_id = read_i32(r)
    topics = _count(r, flexible, 3, False)
    while topics > 0 and not r.failed and taken <= MOST_BYTES:
        topics -= 1
        if version >= 13:
            at = read_bytes(r, 16)
            topic = at[:16] if at is not NULL else b""
        else:
            n = _length(r, True, False) if flexible else read_i16(r)
            r.failed = r.failed or n < 0
            at = read_bytes(r, n)
            topic = at[:n].decode("utf-8", "replace") if at is not NULL else ""
        partitions = _count(r, flexible, 26, False)
        taken += PARTITION_BYTES * max(partitions, 0)
        while partitions > 0 and not r.failed and taken <= MOST_BYTES:
            partitions -= 1
            answer = PartitionAnswer.__new__(PartitionAnswer)
            answer.topic = topic
            answer.partition = read_i32(r)
            answer.error_code = read_i16(r)
            answer.high_watermark = read_i64(r)
            answer.last_stable_offset = read_i64(r)
            answer.log_start_offset = read_i64(r) if version >= 5 else -1
            answer.aborted = []
            n = _count(r, flexible, 16, True)
            taken += ABORTED_BYTES * max(n, 0)
            while n > 0 and not r.failed and taken <= MOST_BYTES:
                n -= 1
                answer.aborted.append((read_i64(r), read_i64(r)))
                if flexible:
                    skip_tags(r)
            if version >= 11:
                read_i32(r)  # the preferred read replica
            size = _length(r, flexible, True)
            if size > 0:
                at = read_bytes(r, size)
                if at is not NULL:
                    answer.position = at - frame.buf.data
                    answer.size = size
            if flexible:
                skip_tags(r)
            out.partitions.append(answer)
        if flexible:
            skip_tags(r)
    if flexible:
        skip_tags(r)
    if taken > MOST_BYTES:
        raise ProtocolError(
            f"its partitions and aborted transactions would take more than {MOST_BYTES} bytes of memory",
            api="FetchResponse", version=version, offset=r.at - frame.buf.data,
        )
    if r.failed or r.at != r.end:
        raise ProtocolError(
            "a truncated or contradictory answer" if r.failed else f"{r.end - r.at} bytes are left over",
            api="FetchResponse", version=version, offset=r.at - frame.buf.data,
        )
    return out


def scan_headers(Buffer frame, size_t position, size_t size):
    """(next offset, whole bytes, first base offset) of the batches in a records slice; (-1, 0, -1) when none is whole.

    Reads headers only. Raises `ProtocolError` for what cannot be a batch, and for base offsets that do not rise.
    """
    cdef const uint8_t *data
    cdef size_t at = 0
    cdef int64_t next_offset = -1
    cdef int64_t first = -1
    cdef BatchHeader header
    cdef const char *reason = NULL
    cdef int got
    if frame.buf is NULL or position > frame.buf.size or size > frame.buf.size - position:
        raise ValueError("the slice lies outside its frame")
    data = frame.buf.data + position
    with nogil:
        while at < size:
            got = batch_header(data + at, size - at, &header, &reason)
            if got <= 0:
                break
            if header.base_offset < 0 or header.last_offset_delta < 0 or \
                    header.base_offset > 0x7FFFFFFFFFFFFFFELL - header.last_offset_delta:
                reason = "offsets below zero or above the largest"
                got = -1
                break
            if header.base_offset < next_offset:
                reason = "base offsets do not rise"
                got = -1
                break
            if first < 0:
                first = header.base_offset
            next_offset = header.base_offset + header.last_offset_delta + 1
            at += 12 + <size_t> header.length
            got = 0
    if reason is not NULL and got < 0:
        raise ProtocolError((<bytes> reason).decode(), api="FetchResponse", offset=position + at)
    return next_offset, at, first
