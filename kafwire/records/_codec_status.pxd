"""The codecs, the results of their functions, and room in their output. A declaration only: no module of this name."""
from kafwire.memory._buffer cimport KW_OVER_BUDGET, kw_buf, kw_buf_new, kw_buf_reserve, kw_scratch_reserve, process_pool


cdef enum:
    CODEC_NONE = 0
    CODEC_GZIP = 1
    CODEC_SNAPPY = 2
    CODEC_LZ4 = 3
    CODEC_ZSTD = 4
    CODEC_COUNT = 5

    # return values of `decompress` and `compress`
    CODEC_OK = 0
    CODEC_UNRESOLVED = -1  # call resolve_codec(codec) with the GIL, then retry
    CODEC_NO_MEMORY = -2
    CODEC_TOO_LARGE = -3  # the output would exceed the limit
    CODEC_CORRUPT = -4  # *reason has the cause
    CODEC_UNKNOWN = -5  # no such codec id
    CODEC_OVER_BUDGET = -6  # the output exceeds the process's budget for decompression

    CODEC_LEVEL_DEFAULT = -2147483648  # no level given: the codec's own default

    SLACK = 64  # bytes after the used ones of every buffer made here that may be read and written


# --- output buffers, for implementations of codecs ----------------------------------------------------------------

cdef inline int make_room(kw_buf **out, size_t wanted) noexcept nogil:
    """Make room for `wanted` more bytes and the slack."""
    if out[0] is NULL:
        out[0] = kw_buf_new(process_pool(), wanted + SLACK)
        return CODEC_NO_MEMORY if out[0] is NULL else CODEC_OK
    if kw_buf_reserve(out, out[0].size + wanted + SLACK) != 0:
        return CODEC_NO_MEMORY
    return CODEC_OK


cdef inline int make_scratch(kw_buf **out, size_t wanted) noexcept nogil:
    """Make the same room for decompressed bytes, which are charged to the budget."""
    cdef size_t used = out[0].size if out[0] is not NULL else 0
    cdef int code = kw_scratch_reserve(process_pool(), out, used + wanted + SLACK)
    if code == 0:
        return CODEC_OK
    return CODEC_OVER_BUDGET if code == KW_OVER_BUDGET else CODEC_NO_MEMORY


cdef inline int begin_scratch(kw_buf **out, size_t guess) noexcept nogil:
    """Make the first room. A guess may exceed the budget, and the need."""
    cdef int code = make_scratch(out, guess)
    if code == CODEC_OVER_BUDGET and out[0] is not NULL and out[0].capacity >= 131072:
        return CODEC_OK
    return code


cdef inline size_t room(const kw_buf *out) noexcept nogil:
    return out.capacity - out.size - SLACK


cdef inline size_t first_guess(size_t size, size_t claim, size_t hint, size_t limit) noexcept nogil:
    """Return the first room: the size that the data claims, if plausible, else the caller's expectation."""
    cdef size_t plausible = max(max(hint, 16 * size), <size_t>65536)
    cdef size_t guess = claim if claim != 0 else (hint if hint != 0 else 4 * size)
    return min(min(guess, plausible), limit)
