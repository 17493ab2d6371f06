"""Kafka's compression codecs as C functions that need no GIL.

Snappy is kafwire's own. gzip, lz4 and zstd are C functions of libraries found at run time: `resolve_codec` does
that once, with the GIL; until then the functions below answer `CODEC_UNRESOLVED` and the caller resolves and tries
again.
"""
from libc.stdint cimport int64_t, uint8_t

from kafwire.memory._buffer cimport KW_OVER_BUDGET, kw_buf, kw_buf_new, kw_buf_reserve, kw_scratch_reserve, process_pool


cdef enum:
    CODEC_NONE = 0
    CODEC_GZIP = 1
    CODEC_SNAPPY = 2
    CODEC_LZ4 = 3
    CODEC_ZSTD = 4
    CODEC_COUNT = 5

    # what `decompress` and `compress` answer
    CODEC_OK = 0
    CODEC_UNRESOLVED = -1  # call resolve_codec(codec) with the GIL, then try again
    CODEC_NO_MEMORY = -2
    CODEC_TOO_LARGE = -3  # the output would pass the limit
    CODEC_CORRUPT = -4  # *reason says why
    CODEC_UNKNOWN = -5  # no such codec id
    CODEC_OVER_BUDGET = -6  # it takes more than the process's budget for decompression

    CODEC_LEVEL_DEFAULT = -2147483648  # "no level given": the codec's own default

    SLACK = 64  # bytes that may be read and written beyond the used bytes of every buffer made here


# Fill *out with the decompressed `source`. *out may be replaced by another buffer (NULL: made here); it grows with what
# is really produced, never by what the data claims. `hint`: expected output size, 0 for unknown.
#
# Buffers above 16 MiB are charged to the process's budget. Where that is used up by others, the output so far is
# dropped, and this call waits until all that `limit` allows can be had at once, and begins again: so nobody holds a
# part while waiting for the rest, and a sound batch never fails because of what other threads read at the time. The
# caller may hold no other buffer that is charged.
cdef int decompress(int codec, const uint8_t *source, size_t size, kw_buf **out, size_t limit, size_t hint,
                    const char **reason) noexcept nogil
# The same for an lz4 frame whose first `head_size` bytes are to be taken from `head`.
cdef int decompress_lz4(const uint8_t *head, size_t head_size, const uint8_t *source, size_t size, kw_buf **out,
                        size_t limit, const char **reason) noexcept nogil
# Append the compressed `source` to *out in the framing Kafka's Java client writes.
cdef int compress(int codec, int level, const uint8_t *source, size_t size, kw_buf **out,
                  const char **reason) noexcept nogil
# Whether `compress` calls Python for this codec, as no library was found: it then takes the GIL and may run anything.
cdef bint runs_python(int codec) noexcept nogil
# Find the library of `codec`. Needs the GIL. Raises ProtocolError for an unknown id. Cheap when already done.
cdef int resolve_codec(int codec) except -1


# --- output buffers, for those who write a codec ------------------------------------------------------------------

cdef inline int make_room(kw_buf **out, size_t wanted) noexcept nogil:
    """Room for `wanted` more bytes and the slack."""
    if out[0] is NULL:
        out[0] = kw_buf_new(process_pool(), wanted + SLACK)
        return CODEC_NO_MEMORY if out[0] is NULL else CODEC_OK
    if kw_buf_reserve(out, out[0].size + wanted + SLACK) != 0:
        return CODEC_NO_MEMORY
    return CODEC_OK


cdef inline int make_scratch(kw_buf **out, size_t wanted) noexcept nogil:
    """The same for decompressed bytes, which are charged to the budget."""
    cdef size_t used = out[0].size if out[0] is not NULL else 0
    cdef int answer = kw_scratch_reserve(process_pool(), out, used + wanted + SLACK)
    if answer == 0:
        return CODEC_OK
    return CODEC_OVER_BUDGET if answer == KW_OVER_BUDGET else CODEC_NO_MEMORY


cdef inline int begin_scratch(kw_buf **out, size_t guess) noexcept nogil:
    """Room to start with. A guess may be more than the budget allows, and than the content needs."""
    cdef int answer = make_scratch(out, guess)
    if answer == CODEC_OVER_BUDGET and out[0] is not NULL and out[0].capacity >= 131072:
        return CODEC_OK
    return answer


cdef inline size_t room(const kw_buf *out) noexcept nogil:
    return out.capacity - out.size - SLACK


cdef inline size_t first_guess(size_t size, size_t claim, size_t hint, size_t limit) noexcept nogil:
    """How much room to start with: what the data claims, as far as that is plausible, else what the caller expects."""
    cdef size_t plausible = max(max(hint, 16 * size), <size_t>65536)
    cdef size_t guess = claim if claim != 0 else (hint if hint != 0 else 4 * size)
    return min(min(guess, plausible), limit)
