"""Batch headers read as a slow, obvious reader reads them; a Fetch response parses, its slices inside the frame, or
raises ProtocolError.

Input: one byte that chooses. Even: the rest is a records slice. Odd: it is a Fetch response, and half the byte
chooses its version.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kafwire.records._batch_header cimport BatchHeader, batch_header

import traceback

from kafwire.memory._buffer import Buffer
from kafwire.consumer.fetch._fetch import parse_response, scan_headers
from kafwire.errors import ProtocolError
from kafwire.protocol.api.fetch import FetchRequest

VERSIONS = range(FetchRequest.min_version, FetchRequest.max_version + 1)


def prepare():
    """Nothing to make ready."""


cdef uint64_t unsigned(const uint8_t *data, size_t at, size_t width) noexcept nogil:
    cdef uint64_t value = 0
    cdef size_t i
    for i in range(width):
        value = value * 256 + data[at + i]
    return value


cdef int64_t signed_(const uint8_t *data, size_t at, size_t width) noexcept nogil:
    """Big-endian, two's complement."""
    cdef uint64_t value = unsigned(data, at, width), half = <uint64_t>1 << (8 * width - 1)
    return <int64_t>(value & (half - 1)) - (<int64_t>(half - 1) + 1 if value & half and width < 8 else 0) \
        if width < 8 or not value & half else -<int64_t>(~value) - 1


cdef int slow_header(const uint8_t *data, size_t size) noexcept nogil:
    """1: a whole batch, 0: maybe the beginning of one, -1: no batch."""
    cdef int64_t length, least
    if size < 12:
        return 0
    length = signed_(data, 8, 4)
    if length < 14:
        return -1
    if size < 17:
        return 0
    if data[16] > 2:
        return -1
    least = 14
    if data[16] == 1:
        least = 22
    if data[16] == 2:
        least = 49
    if length < least:
        return -1
    return 1 if <int64_t>size >= 12 + length else 0


cdef const char *one_header(const uint8_t *data, size_t size, BatchHeader *header, int *got) noexcept nogil:
    cdef const char *reason = NULL
    got[0] = batch_header(data, size, header, &reason)
    if got[0] != slow_header(data, size):
        return b"the two readers disagree on what is a batch"
    if got[0] < 0 and reason is NULL:
        return b"refused without a reason"
    if got[0] != 1:
        return NULL
    if header.base_offset != signed_(data, 0, 8) or header.length != signed_(data, 8, 4) or header.magic != data[16]:
        return b"base offset, length or magic differ"
    if header.magic < 2:
        if header.crc != unsigned(data, 12, 4) or (header.magic == 1 and header.max_timestamp != signed_(data, 18, 8)):
            return b"CRC or timestamp of a message differ"
        return NULL
    if (header.leader_epoch != signed_(data, 12, 4) or header.crc != unsigned(data, 17, 4)
            or header.attributes != signed_(data, 21, 2) or header.last_offset_delta != signed_(data, 23, 4)
            or header.base_timestamp != signed_(data, 27, 8) or header.max_timestamp != signed_(data, 35, 8)
            or header.producer_id != signed_(data, 43, 8) or header.producer_epoch != signed_(data, 51, 2)
            or header.base_sequence != signed_(data, 53, 4) or header.count != signed_(data, 57, 4)):
        return b"a field of a batch header differs"
    return NULL


cdef const char *slice_(const uint8_t *data, size_t size) except? NULL:
    cdef BatchHeader header
    cdef const char *wrong
    cdef size_t at = 0
    cdef int got = 1
    cdef int64_t first = -1
    cdef int32_t epoch = -1
    while at < size:
        wrong = one_header(data + at, size - at, &header, &got)
        if wrong is not NULL:
            return wrong
        if got != 1:
            break
        if first < 0:
            first = header.base_offset
        epoch = header.leader_epoch if header.magic == 2 else -1
        at += 12 + <size_t>header.length
    frame = Buffer((<const char *>data)[:size])
    try:
        next_offset, whole, first_found, epoch_found = scan_headers(frame, 0, size)
    except ProtocolError:
        return NULL
    if got < 0:
        return b"scan_headers passes over what cannot be a batch"
    if whole != at or first_found != first or epoch_found != epoch:
        return b"scan_headers finds other batches"
    if whole and not next_offset > first_found >= 0:
        return b"a slice that ends before it begins"
    return NULL


cdef const char *response(const uint8_t *data, size_t size, int version) except? NULL:
    frame = Buffer((<const char *>data)[:size])
    try:
        found = parse_response(frame, version)
    except ProtocolError:
        return NULL
    for part in found.partitions:
        if part.position + part.size > size:
            return b"a slice reaches beyond its frame"
        try:
            _, whole, _, _ = scan_headers(frame, part.position, part.size)
        except ProtocolError:
            continue
        if whole > part.size:
            return b"more whole bytes than there are"
    return NULL


cdef public const char *fuzz_one(const uint8_t *data, size_t size) noexcept:
    if size == 0:
        return NULL
    try:
        if data[0] % 2 == 0:
            return slice_(data + 1, size - 1)
        return response(data + 1, size - 1, VERSIONS[data[0] // 2 % len(VERSIONS)])
    except BaseException:
        traceback.print_exc()
        return b"something else than ProtocolError escaped"
