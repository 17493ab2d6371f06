# decoder: its lines are counted by scripts/coverage.py
# distutils: sources = kafwire/memory/native/buf.c
"""Codec of Fetch requests and responses: thousands of partitions without an object for each field.

Requests are encoded from tuples. A response's envelope becomes small objects; the records stay in the frame.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport INT16_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy

from kafwire.memory._buffer cimport (
    Buffer, Reader, kw_be16, kw_be32, kw_be64, kw_put_be16, kw_put_be32, kw_put_be64, kw_put_uvarint, read_bytes,
    read_i16, read_i32, read_i64, read_uvarint,
)
from kafwire.protocol._layout cimport MOST_TAG

from kafwire.errors import ProtocolError
from kafwire.protocol.api.fetch import FetchRequest, FetchResponse

cdef extern from "kafwire/records/native/batch.h" nogil:
    ctypedef struct Batches "kw_batches":
        size_t size
        int64_t first
        int64_t next
        int32_t leader_epoch
    int read_batches "kw_batches_read"(const uint8_t *data, size_t size, int64_t start, int64_t high_watermark,
                                       Batches *out, const char **reason)


# No field refers back to the object, so no cycle arises; without the garbage collector, creation is twice as fast.
@cython.final
@cython.no_gc
@cython.freelist(1024)
cdef class ParsedPartition:
    """One partition of a Fetch response. The records stay in the frame: [position, position + size)."""

    cdef readonly object topic  # the id's 16 bytes from `BY_TOPIC_ID` on, the name before
    cdef readonly int32_t partition
    cdef readonly int16_t error_code
    cdef readonly int64_t high_watermark
    cdef readonly int64_t last_stable_offset
    cdef readonly int64_t log_start_offset
    cdef list _aborted  # None: the response names no aborted transactions
    cdef readonly size_t position
    cdef readonly size_t size
    cdef readonly int32_t preferred_read_replica  # KIP-392; -1: this broker (-1 is the default of all fields below)
    cdef readonly int32_t diverging_epoch  # KIP-320: the largest epoch not above the one that was fetched last, ...
    cdef readonly int64_t diverging_end_offset  # ... and its end: from there on the log differs from fetched records
    cdef readonly int32_t leader_id  # KIP-951
    cdef readonly int32_t leader_epoch

    @property
    def aborted(self):
        """[(producer id, first offset)] of the aborted transactions in the records."""
        return [] if self._aborted is None else self._aborted

    def __repr__(self):
        return f"<response for {self.topic!r}-{self.partition}: error {self.error_code}, {self.size} bytes>"


@cython.final
cdef class ParsedResponse:
    """A parsed Fetch response."""

    cdef readonly Buffer frame
    cdef readonly int32_t throttle_time_ms
    cdef readonly int16_t error_code
    cdef readonly int32_t session_id
    cdef readonly list partitions
    cdef readonly list endpoints  # [(node id, host, port, rack or None)] of the leaders that it names (KIP-951)


cdef enum:
    # Memory of a response's objects, and the limit of their sum, as with any other message: entries of thirty bytes
    # become objects of two hundred.
    PARTITION_BYTES = 256
    ABORTED_BYTES = 160
    ENDPOINT_BYTES = 320
    MOST_BYTES = 268435456

    TAG_DIVERGING_EPOCH = 0
    TAG_CURRENT_LEADER = 1
    TAG_NODE_ENDPOINTS = 0

    ENTRY_ROOM = 32  # bytes of a partition in a request, at most


# The thresholds of `protocol/api/fetch.py`, as numbers of C.
cdef int16_t API_KEY = FetchRequest.api_key
cdef int FIRST_VERSION = FetchRequest.min_version
cdef int LAST_VERSION = FetchRequest.max_version
cdef int FLEXIBLE = FetchRequest.flexible_from
cdef int SESSIONS = FetchRequest.SESSIONS
cdef int FROM_FOLLOWERS = FetchRequest.FROM_FOLLOWERS
cdef int BY_TOPIC_ID = FetchRequest.BY_TOPIC_ID
cdef int REPLICA_STATE = FetchRequest.REPLICA_STATE
cdef int NAMES_LEADERS = FetchRequest.NAMES_LEADERS


# A partition of a response. An offset of -1 here and below: the version lacks the field.
cdef struct ReadLayout:
    PartitionLayout shared  # with the fast path
    int log_start_offset


# A partition of a request. Fields without an offset here keep their defaults, which `blank` has.
cdef struct AskedLayout:
    int size
    uint8_t blank[ENTRY_ROOM]
    int partition
    int current_leader_epoch
    int fetch_offset
    int last_fetched_epoch
    int partition_max_bytes


# By version, for the life of the process.
cdef ReadLayout *READ = <ReadLayout *> calloc(LAST_VERSION + 1, sizeof(ReadLayout))
cdef AskedLayout *ASKED = <AskedLayout *> calloc(LAST_VERSION + 1, sizeof(AskedLayout))


cdef int _lay_out(int version) except -1:
    """Take the offsets of a version's fields from the declaration of the message."""
    cdef PartitionLayout *part = &READ[version].shared
    cdef AskedLayout *asked = &ASKED[version]
    head, middle, tail = FetchResponse.PartitionData.fixed_runs(version, "aborted_transactions", "records")
    part.head = len(head.blank)
    part.middle = len(middle.blank)
    part.tail = len(tail.blank)
    part.partition = head.offsets["partition_index"]
    part.error_code = head.offsets["error_code"]
    part.high_watermark = head.offsets["high_watermark"]
    part.last_stable_offset = head.offsets["last_stable_offset"]
    READ[version].log_start_offset = head.offsets.get("log_start_offset", -1)
    part.preferred_read_replica = middle.offsets.get("preferred_read_replica", -1)
    (entry,) = FetchRequest.FetchPartition.fixed_runs(version)
    asked.size = len(entry.blank)
    if asked.size > ENTRY_ROOM:
        raise AssertionError(f"a partition of a FetchRequest has {asked.size} bytes: raise ENTRY_ROOM")
    memcpy(asked.blank, PyBytes_AS_STRING(entry.blank), asked.size)
    asked.partition = entry.offsets["partition"]
    asked.current_leader_epoch = entry.offsets.get("current_leader_epoch", -1)
    asked.fetch_offset = entry.offsets["fetch_offset"]
    asked.last_fetched_epoch = entry.offsets.get("last_fetched_epoch", -1)
    asked.partition_max_bytes = entry.offsets["partition_max_bytes"]
    return 0


if READ is NULL or ASKED is NULL:
    raise MemoryError
for version in range(FIRST_VERSION, LAST_VERSION + 1):
    _lay_out(version)


cdef const PartitionLayout *partition_layout(int version) noexcept:
    """Return the layout of a partition in responses of `version`, or NULL for a version that does not exist."""
    return &READ[version].shared if FIRST_VERSION <= version <= LAST_VERSION else NULL


cdef inline int64_t _length(Reader *r, bint flexible, bint nullable) noexcept nogil:
    """Read a length or count; -1 is null, if `nullable`. Any other negative value sets `failed`."""
    cdef int64_t n = (<int64_t> read_uvarint(r)) - 1 if flexible else read_i32(r)
    if n < 0 and not (n == -1 and nullable):
        r.failed = True
        return -1
    return n


cdef inline int64_t _count(Reader *r, bint flexible, int least, bint nullable) noexcept nogil:
    """Read an array's count, -1 for null. A count that the remaining bytes cannot hold sets `failed`."""
    cdef int64_t n = _length(r, flexible, nullable)
    if n > (r.end - r.at) // least:
        r.failed = True
        return -1
    return n


cdef inline int64_t _next_tag(Reader *r, int64_t last, Reader *field) noexcept nogil:
    """Read the next field of a tagged section into `field`; return its tag, or -1. A tag up to `last` sets `failed`."""
    cdef int64_t tag = read_uvarint(r)
    cdef uint32_t size = read_uvarint(r)
    if tag <= last or tag > MOST_TAG:
        r.failed = True
    field.at = read_bytes(r, size)
    if field.at is NULL:
        return -1
    field.end = field.at + size
    field.failed = False
    return tag


cdef void _tags(Reader *r) noexcept nogil:
    """Skip a tagged section without known fields."""
    cdef Reader field
    cdef int64_t last = -1
    cdef uint32_t count = read_uvarint(r)
    while count and not r.failed:
        last = _next_tag(r, last, &field)
        count -= 1


cdef inline void _pass_tags(Reader *r) noexcept nogil:
    """Skip a tagged section as `_tags` does, with a short cut for an empty one, as nearly all are."""
    if r.at < r.end and r.at[0] == 0 and not r.failed:
        r.at += 1
    else:
        _tags(r)


cdef inline void _field_end(Reader *r, Reader *field) noexcept nogil:
    """Check the end of a known tagged field: a tagged section of its own, then no more bytes."""
    _pass_tags(field)
    if field.failed or field.at != field.end:
        r.failed = True


cdef void _partition_tags(Reader *r, ParsedPartition part) noexcept:
    cdef Reader field
    cdef int64_t last = -1
    cdef uint32_t count = read_uvarint(r)
    while count and not r.failed:
        count -= 1
        last = _next_tag(r, last, &field)
        if last == TAG_DIVERGING_EPOCH:
            part.diverging_epoch = read_i32(&field)
            part.diverging_end_offset = read_i64(&field)
            _field_end(r, &field)
        elif last == TAG_CURRENT_LEADER:
            part.leader_id = read_i32(&field)
            part.leader_epoch = read_i32(&field)
            _field_end(r, &field)


cdef object _text(Reader *r, bint nullable):
    """Read a compact string."""
    cdef int64_t n = _length(r, True, nullable)
    cdef const uint8_t *at = read_bytes(r, n) if n >= 0 else NULL
    return None if at is NULL else at[:n].decode("utf-8", "replace")


cdef int _response_tags(Reader *r, ParsedResponse out, int version, int64_t *taken) except -1:
    cdef Reader field
    cdef int64_t n, last = -1
    cdef uint32_t count = read_uvarint(r)
    while count and not r.failed:
        count -= 1
        last = _next_tag(r, last, &field)
        if last != TAG_NODE_ENDPOINTS or version < NAMES_LEADERS:
            continue
        n = _count(&field, True, 11, False)
        taken[0] += ENDPOINT_BYTES * max(n, 0)
        while n > 0 and not field.failed and taken[0] <= MOST_BYTES:
            n -= 1
            node = read_i32(&field)
            host = _text(&field, False)
            port = read_i32(&field)
            rack = _text(&field, True)
            _pass_tags(&field)
            out.endpoints.append((node, host, port, rack))
        if field.failed or field.at != field.end:
            r.failed = True
    return 0


def parse_response(Buffer frame, int version):
    """Read a FetchResponse frame (from its correlation id on) of a valid version; raises `ProtocolError`."""
    cdef Reader reader
    cdef Reader *r = &reader
    cdef bint flexible = version >= FLEXIBLE
    cdef int64_t topics, partitions, n, size, taken = 0
    cdef ReadLayout read  # a copy: the compiler need not expect that a partition's fields overwrite it
    cdef PartitionLayout layout
    cdef const uint8_t *at
    cdef ParsedPartition part
    cdef list found = []
    cdef ParsedResponse out = ParsedResponse.__new__(ParsedResponse)
    if frame.buf is NULL or partition_layout(version) is NULL:
        what = "an empty frame" if frame.buf is NULL else "the version does not exist"
        raise ProtocolError(what, api="FetchResponse", version=version, offset=0)
    read = READ[version]
    layout = read.shared
    reader.at = frame.buf.data
    reader.end = frame.buf.data + frame.buf.size
    reader.failed = False
    out.frame = frame
    out.partitions = found
    out.endpoints = []
    read_i32(r)
    if flexible:
        _pass_tags(r)
    out.throttle_time_ms = read_i32(r)
    if version >= SESSIONS:
        out.error_code = read_i16(r)
        out.session_id = read_i32(r)
    topics = _count(r, flexible, 3, False)
    while topics > 0 and not r.failed and taken <= MOST_BYTES:
        topics -= 1
        if version >= BY_TOPIC_ID:
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
            at = read_bytes(r, layout.head)
            if at is NULL:
                break
            part = ParsedPartition.__new__(ParsedPartition)
            part.topic = topic
            part.partition = kw_be32(at + layout.partition)
            part.error_code = kw_be16(at + layout.error_code)
            part.high_watermark = kw_be64(at + layout.high_watermark)
            part.last_stable_offset = kw_be64(at + layout.last_stable_offset)
            part.log_start_offset = kw_be64(at + read.log_start_offset) if read.log_start_offset >= 0 else -1
            n = _count(r, flexible, 16, True)
            if n > 0:
                part._aborted = []
                taken += ABORTED_BYTES * n
            while n > 0 and not r.failed and taken <= MOST_BYTES:
                n -= 1
                part._aborted.append((read_i64(r), read_i64(r)))
                if flexible:
                    _pass_tags(r)
            at = read_bytes(r, layout.middle)
            if at is not NULL and layout.preferred_read_replica >= 0:
                part.preferred_read_replica = kw_be32(at + layout.preferred_read_replica)
            else:
                part.preferred_read_replica = -1
            size = _length(r, flexible, True)
            if size > 0:
                at = read_bytes(r, size)
                if at is not NULL:
                    part.position = at - frame.buf.data
                    part.size = size
            if layout.tail:
                read_bytes(r, layout.tail)
            part.diverging_epoch = part.leader_id = part.leader_epoch = -1
            part.diverging_end_offset = -1
            if flexible:
                if r.at < r.end and r.at[0] == 0 and not r.failed:
                    r.at += 1
                else:
                    _partition_tags(r, part)
            found.append(part)
        if flexible:
            _pass_tags(r)
    if flexible and taken <= MOST_BYTES:
        _response_tags(r, out, version, &taken)
    if taken > MOST_BYTES:
        raise ProtocolError(
            f"its partitions and aborted transactions would take more than {MOST_BYTES} bytes of memory",
            api="FetchResponse", version=version, offset=r.at - frame.buf.data,
        )
    if r.failed or r.at != r.end:
        raise ProtocolError(
            "a truncated or contradictory response" if r.failed else f"{r.end - r.at} bytes are left over",
            api="FetchResponse", version=version, offset=r.at - frame.buf.data,
        )
    return out


def scan_headers(Buffer frame, size_t position, size_t size, int64_t start=-1, int64_t high_watermark=-1):
    """Return (next offset, bytes, first base offset, last leader epoch) of a slice's complete batches.

    Without a complete batch: (-1, 0, -1, -1). The leader epoch is that of the last complete batch, and -1 before
    magic 2. The function reads headers only. Bytes that cannot be a batch, and base offsets that do not rise, raise
    `ProtocolError`.

    `start` is the requested offset, `high_watermark` the response's. Batches above the high watermark must continue
    the batches before them without holes (`records/native/batch.h` says why); others raise `ProtocolError`.
    """
    cdef const uint8_t *data
    cdef Batches found
    cdef const char *reason = NULL
    cdef int outcome
    if frame.buf is NULL or position > frame.buf.size or size > frame.buf.size - position:
        raise ValueError("the slice lies outside its frame")
    data = frame.buf.data + position
    with nogil:
        outcome = read_batches(data, size, start, high_watermark, &found, &reason)
    if outcome < 0:
        raise ProtocolError((<bytes> reason).decode(), api="FetchResponse", offset=position + found.size)
    return found.next, found.size, found.first, found.leader_epoch


# ---- requests

# A growing byte buffer. `at` and `capacity` are positions; call `_reserve` before writing.
cdef struct Writer:
    uint8_t *data
    size_t at
    size_t capacity


cdef int _reserve(Writer *w, size_t n) except -1:
    """Make room for n more bytes."""
    cdef size_t wanted
    cdef uint8_t *moved
    if w.capacity - w.at >= n:
        return 0
    wanted = max(2 * w.capacity, w.at + n + 512)
    moved = <uint8_t *> realloc(w.data, wanted)
    if moved is NULL:
        raise MemoryError
    w.data = moved
    w.capacity = wanted
    return 0


cdef inline void _put8(Writer *w, int8_t value) noexcept nogil:
    w.data[w.at] = <uint8_t> value
    w.at += 1


cdef inline void _put16(Writer *w, int16_t value) noexcept nogil:
    kw_put_be16(w.data + w.at, value)
    w.at += 2


cdef inline void _put32(Writer *w, int32_t value) noexcept nogil:
    kw_put_be32(w.data + w.at, value)
    w.at += 4


cdef inline void _put_length(Writer *w, size_t n, bint flexible) noexcept nogil:
    """Write an array's count: at most 5 bytes."""
    if flexible:
        w.at = kw_put_uvarint(w.data + w.at, n + 1) - w.data
    else:
        _put32(w, <int32_t> n)


cdef inline void _set32(Writer *w, int offset, int32_t value) noexcept nogil:
    """Set a field of the entry at `w.at`, if its version has the field."""
    if offset >= 0:
        kw_put_be32(w.data + w.at + offset, value)


cdef int _put_text(Writer *w, str text, bint flexible, str what) except -1:
    cdef Py_ssize_t size
    cdef const char *data = PyUnicode_AsUTF8AndSize(text, &size)
    if size > INT16_MAX:
        raise ProtocolError(f"{what} of {size} bytes; Kafka takes {INT16_MAX}", api="FetchRequest")
    _reserve(w, size + 5)
    if flexible:
        _put_length(w, size, True)
    else:
        _put16(w, <int16_t> size)
    memcpy(w.data + w.at, data, size)
    w.at += size
    return 0


cdef int _put_topic(Writer *w, object name, object topic_id, int version) except -1:
    if version < BY_TOPIC_ID:
        return _put_text(w, name, version >= FLEXIBLE, "a topic's name")
    if not isinstance(topic_id, bytes) or PyBytes_GET_SIZE(topic_id) != 16:
        raise ValueError(f"the id of topic {name!r} is {topic_id!r}: 16 bytes are needed")
    _reserve(w, 16)
    memcpy(w.data + w.at, PyBytes_AS_STRING(topic_id), 16)
    w.at += 16
    return 0


cdef Py_ssize_t _run(list entries, Py_ssize_t first, int by) except -1:
    """Count the consecutive entries from `first` on that have its topic; `by` is the index of a topic's identity."""
    cdef Py_ssize_t end = first + 1
    cdef object topic = (<tuple> entries[first])[by]
    while end < len(entries):
        other = (<tuple> entries[end])[by]
        if other is not topic and other != topic:
            break
        end += 1
    return end - first


cdef list _topics_first(object entries, int size, int by, Py_ssize_t *topics):
    """Return the entries, all checked to be tuples of `size`; set `topics` to the count of topic entries they make."""
    cdef list out = list(entries)
    cdef Py_ssize_t at = 0
    for entry in out:
        if not isinstance(entry, tuple) or len(<tuple> entry) != size:
            raise ValueError(f"{entry!r} is no tuple of {size}")
    topics[0] = 0
    while at < len(out):
        at += _run(out, at, by)
        topics[0] += 1
    return out


cdef int _put_request(Writer *w, int version, int32_t max_wait_ms, int32_t min_bytes, int32_t max_bytes,
                      int8_t isolation_level, int32_t session_id, int32_t session_epoch, object add, object forget,
                      str rack_id) except -1:
    cdef bint flexible = version >= FLEXIBLE
    cdef int by = 1 if version >= BY_TOPIC_ID else 0
    cdef AskedLayout asked = ASKED[version]
    cdef Py_ssize_t topics, at, end
    cdef list entries
    cdef tuple entry
    _reserve(w, 40)
    if version < REPLICA_STATE:
        _put32(w, -1)  # replica id: a consumer
    _put32(w, max_wait_ms)
    _put32(w, min_bytes)
    _put32(w, max_bytes)
    _put8(w, isolation_level)
    if version >= SESSIONS:
        _put32(w, session_id)
        _put32(w, session_epoch)
    entries = _topics_first(add, 7, by, &topics)
    _put_length(w, topics, flexible)
    at = 0
    while at < len(entries):
        end = at + _run(entries, at, by)
        entry = <tuple> entries[at]
        _put_topic(w, entry[0], entry[1], version)
        _reserve(w, 6 + (asked.size + 1) * (end - at) + ENTRY_ROOM)
        _put_length(w, end - at, flexible)
        while at < end:
            entry = <tuple> entries[at]
            at += 1
            memcpy(w.data + w.at, asked.blank, ENTRY_ROOM)  # of constant size: no call
            _set32(w, asked.partition, entry[2])
            _set32(w, asked.current_leader_epoch, entry[5])
            kw_put_be64(w.data + w.at + asked.fetch_offset, <int64_t> entry[3])
            _set32(w, asked.last_fetched_epoch, entry[6])
            _set32(w, asked.partition_max_bytes, entry[4])
            w.at += asked.size
            if flexible:
                _put8(w, 0)
        if flexible:
            _put8(w, 0)
        _reserve(w, 16)
    if version >= SESSIONS:
        entries = _topics_first(forget, 3, by, &topics)
        _reserve(w, 16)
        _put_length(w, topics, flexible)
        at = 0
        while at < len(entries):
            end = at + _run(entries, at, by)
            entry = <tuple> entries[at]
            _put_topic(w, entry[0], entry[1], version)
            _reserve(w, 6 + 4 * (end - at))
            _put_length(w, end - at, flexible)
            while at < end:
                _put32(w, (<tuple> entries[at])[2])
                at += 1
            if flexible:
                _put8(w, 0)
    elif len(forget):
        raise ProtocolError(
            f"version {version} has no fetch sessions: nothing can be forgotten", api="FetchRequest", version=version
        )
    if version >= FROM_FOLLOWERS:
        _put_text(w, rack_id, flexible, "a rack")
    if flexible:
        _reserve(w, 1)
        _put8(w, 0)
    return 0


def encode_fetch(int version, int32_t correlation_id, str client_id, *, int32_t max_wait_ms, int32_t min_bytes,
                 int32_t max_bytes, int8_t isolation_level=0, int32_t session_id=0, int32_t session_epoch=-1, add=(),
                 forget=(), str rack_id not None=""):
    """Encode a FetchRequest of a valid version: header and body, without the size prefix.

    `add` has (topic name, topic id as 16 bytes, partition, offset, max bytes, leader epoch, last fetched epoch) for
    each partition, `forget` (topic name, topic id, partition). Their order is kept; consecutive entries of one topic
    (by id from `BY_TOPIC_ID` on, by name before) share a topic entry. Fields that a version lacks are left out: leader
    epochs, last fetched epochs, the rack, the session. Raises `ProtocolError` for forgotten partitions without fetch
    sessions, and text above Kafka's 32,767 bytes.
    """
    cdef Writer w
    if not FIRST_VERSION <= version <= LAST_VERSION:
        raise ProtocolError(
            f"FetchRequest has the versions {FIRST_VERSION} to {LAST_VERSION}, not {version}", api="FetchRequest"
        )
    w.at = 0
    w.capacity = 512
    w.data = <uint8_t *> malloc(w.capacity)
    if w.data is NULL:
        raise MemoryError
    try:
        _put16(&w, API_KEY)
        _put16(&w, <int16_t> version)
        _put32(&w, correlation_id)
        if client_id is None:
            _put16(&w, -1)
        else:
            _put_text(&w, client_id, False, "a client id")
        if version >= FLEXIBLE:
            _reserve(&w, 1)
            _put8(&w, 0)
        _put_request(&w, version, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, add,
                     forget, rack_id)
        return PyBytes_FromStringAndSize(<const char *> w.data, w.at)
    finally:
        free(w.data)
