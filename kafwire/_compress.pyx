"""Compression without the GIL; `_compress.pxd` is the contract.

Libraries are reached by `dlopen` and `dlsym`: first the shared object inside the wheel of the package kafwire
depends on, then the system's library, and last the package's Python call, which takes the GIL and says so in a
warning. Contexts that cost more to make than to use are kept in a few lock-free slots, which any thread (or a
forked child) may use.
"""
import importlib.machinery
import importlib.util
import os
import warnings

from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from kafwire._buffer cimport kw_buf, kw_buf_new, kw_buf_reserve, kw_buf_unref, process_pool

from kafwire.errors import ConfigError, ProtocolError


cdef extern from "dlfcn.h" nogil:
    void *dlopen(const char *path, int flags)
    void *dlsym(void *handle, const char *name)
    enum:
        RTLD_NOW
        RTLD_LOCAL


cdef extern from "native/atomic.h" nogil:
    int kw_acquire(int *p)
    void kw_release(int *p, int value)
    void *kw_swap(void **p, void *value)
    bint kw_put_if_null(void **p, void *value)


cdef extern from "native/snappy.h" nogil:
    size_t kw_snappy_length(const uint8_t *source, size_t size, size_t *length)
    int kw_snappy_decode(const uint8_t *source, size_t size, uint8_t *out, size_t length)
    size_t kw_snappy_bound(size_t size)
    size_t kw_snappy_encode(const uint8_t *source, size_t size, uint8_t *out)


NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
IDS = {name: number for number, name in enumerate(NAMES)}

# Where a codec's functions come from: index into _STATES, stored last (release) and read first (acquire).
cdef enum:
    NOT_RESOLVED = 0
    NATIVE = 1  # kafwire's own, or the library's C functions
    SYSTEM_ZLIB = 2  # gzip only: the stream API of zlib instead of ISA-L's
    PYTHON = 3

cdef int _state[CODEC_COUNT]
_state[:] = [NATIVE, NOT_RESOLVED, NATIVE, NOT_RESOLVED, NOT_RESOLVED]
_origin = {"none": "not compressed", "snappy": "kafwire"}


# --- contexts kept for reuse ----------------------------------------------------------------------------------------

cdef enum:
    SLOTS = 4

cdef void *_lz4_contexts[SLOTS]
cdef void *_zstd_readers[SLOTS]
cdef void *_zstd_writers[SLOTS]


cdef void *take(void **slots) noexcept nogil:
    cdef void *context
    for i in range(SLOTS):
        context = kw_swap(&slots[i], NULL)
        if context is not NULL:
            return context
    return NULL


cdef bint give(void **slots, void *context) noexcept nogil:
    """False: all slots are taken, the caller frees the context."""
    for i in range(SLOTS):
        if kw_put_if_null(&slots[i], context):
            return True
    return False


# --- output buffers -------------------------------------------------------------------------------------------------

cdef int make_room(kw_buf **out, size_t wanted) noexcept nogil:
    """Room for `wanted` more bytes and the slack."""
    if out[0] is NULL:
        out[0] = kw_buf_new(process_pool(), wanted + SLACK)
        return CODEC_NO_MEMORY if out[0] is NULL else CODEC_OK
    if kw_buf_reserve(out, out[0].size + wanted + SLACK) != 0:
        return CODEC_NO_MEMORY
    return CODEC_OK


cdef size_t room(const kw_buf *out) noexcept nogil:
    return out.capacity - out.size - SLACK


cdef size_t first_guess(size_t size, size_t claim, size_t hint, size_t limit) noexcept nogil:
    """How much room to start with: what the data claims, as far as that is plausible, else what the caller expects."""
    cdef size_t plausible = max(max(hint, 16 * size), <size_t>65536)
    cdef size_t guess = claim if claim != 0 else (hint if hint != 0 else 4 * size)
    return min(min(guess, plausible), limit)


# --- snappy ---------------------------------------------------------------------------------------------------------

cdef const uint8_t *XERIAL = <const uint8_t *>b"\x82SNAPPY\0"
cdef enum:
    XERIAL_HEADER = 16  # magic, version, lowest compatible version: two int32 that nobody checks
    XERIAL_BLOCK = 32768  # what Java's stream compresses at once


cdef uint32_t big32(const uint8_t *p) noexcept nogil:
    return <uint32_t>p[0] << 24 | <uint32_t>p[1] << 16 | <uint32_t>p[2] << 8 | p[3]


cdef void put_big32(uint8_t *p, uint32_t value) noexcept nogil:
    p[0] = value >> 24
    p[1] = value >> 16 & 255
    p[2] = value >> 8 & 255
    p[3] = value & 255


cdef int snappy_block(const uint8_t *source, size_t size, kw_buf **out, size_t limit,
                      const char **reason) noexcept nogil:
    cdef size_t length
    if kw_snappy_length(source, size, &length) == 0:
        reason[0] = "snappy: the block's length is not plausible"
        return CODEC_CORRUPT
    if length > limit - min(limit, out[0].size if out[0] is not NULL else 0):
        return CODEC_TOO_LARGE
    # the length is backed by enough input to make it, so this allocation is in proportion to the bytes that are there
    if make_room(out, length) != CODEC_OK:
        return CODEC_NO_MEMORY
    if kw_snappy_decode(source, size, out[0].data + out[0].size, length) != 0:
        reason[0] = "snappy: the block is corrupt"
        return CODEC_CORRUPT
    out[0].size += length
    return CODEC_OK


cdef int snappy_decompress(const uint8_t *source, size_t size, kw_buf **out, size_t limit, size_t hint,
                           const char **reason) noexcept nogil:
    cdef size_t at = XERIAL_HEADER
    cdef uint32_t block
    cdef int status
    if size < 8 or memcmp(source, XERIAL, 8) != 0:
        return snappy_block(source, size, out, limit, reason)
    if size < XERIAL_HEADER:
        reason[0] = "snappy: the xerial header is cut off"
        return CODEC_CORRUPT
    if make_room(out, hint) != CODEC_OK:
        return CODEC_NO_MEMORY
    while at < size:
        if size - at < 4:
            reason[0] = "snappy: a xerial block's length is cut off"
            return CODEC_CORRUPT
        block = big32(source + at)
        at += 4
        if block > size - at:
            reason[0] = "snappy: a xerial block is longer than the data"
            return CODEC_CORRUPT
        status = snappy_block(source + at, block, out, limit, reason)
        if status != CODEC_OK:
            return status
        at += block
    return CODEC_OK


cdef int snappy_compress(const uint8_t *source, size_t size, kw_buf **out) noexcept nogil:
    cdef size_t at = 0, block, blocks = size // XERIAL_BLOCK + 1
    cdef uint8_t *to
    if make_room(out, XERIAL_HEADER + blocks * (4 + kw_snappy_bound(XERIAL_BLOCK))) != CODEC_OK:
        return CODEC_NO_MEMORY
    to = out[0].data + out[0].size
    memcpy(to, XERIAL, 8)
    put_big32(to + 8, 1)
    put_big32(to + 12, 1)
    to += XERIAL_HEADER
    while at < size:
        block = min(size - at, <size_t>XERIAL_BLOCK)
        put_big32(to, <uint32_t>kw_snappy_encode(source + at, block, to + 4))
        to += 4 + big32(to)
        at += block
    out[0].size = to - out[0].data
    return CODEC_OK


# --- lz4: the frame API (lz4frame.h) --------------------------------------------------------------------------------

cdef enum:
    LZ4F_VERSION = 100
    LZ4F_MAX_64KB = 4
    LZ4F_INDEPENDENT = 1


cdef struct LZ4FPreferences:
    int block_size
    int block_mode
    int content_checksum
    int frame_type
    uint64_t content_size
    uint32_t dictionary
    int block_checksum
    int level
    uint32_t auto_flush
    uint32_t favor_decompression
    uint32_t reserved[3]


cdef unsigned (*LZ4F_isError)(size_t code) noexcept nogil
cdef size_t (*LZ4F_createDecompressionContext)(void **context, unsigned version) noexcept nogil
cdef size_t (*LZ4F_freeDecompressionContext)(void *context) noexcept nogil
cdef void (*LZ4F_resetDecompressionContext)(void *context) noexcept nogil
cdef size_t (*LZ4F_decompress)(void *context, void *to, size_t *to_size, const void *source, size_t *size,
                               const void *options) noexcept nogil
cdef size_t (*LZ4F_compressFrameBound)(size_t size, const LZ4FPreferences *preferences) noexcept nogil
cdef size_t (*LZ4F_compressFrame)(void *to, size_t to_size, const void *source, size_t size,
                                  const LZ4FPreferences *preferences) noexcept nogil


cdef int lz4_frames(void *context, const uint8_t *source, size_t size, kw_buf **out, size_t limit,
                    const char **reason) noexcept nogil:
    cdef size_t at = 0, consumed, produced, left = 1, space
    cdef size_t start = out[0].size
    while at < size or left != 0:
        # A whole block of room lets lz4 decode in place; below that it decodes aside and copies.
        space = room(out[0])
        if space < 65536:
            if out[0].size - start > limit:
                return CODEC_TOO_LARGE
            if make_room(out, max(out[0].size - start, <size_t>65536)) != CODEC_OK:
                return CODEC_NO_MEMORY
            space = room(out[0])
        produced = space
        consumed = size - at
        left = LZ4F_decompress(context, out[0].data + out[0].size, &produced, source + at, &consumed, NULL)
        if LZ4F_isError(left):
            reason[0] = "lz4: the frame is corrupt"
            return CODEC_CORRUPT
        at += consumed
        out[0].size += produced
        if out[0].size - start > limit:
            return CODEC_TOO_LARGE
        if at == size and left != 0 and produced < space and consumed == 0 and produced == 0:
            reason[0] = "lz4: the frame is cut off"
            return CODEC_CORRUPT
    return CODEC_OK


cdef int lz4_decompress(const uint8_t *source, size_t size, kw_buf **out, size_t limit, size_t hint,
                        const char **reason) noexcept nogil:
    cdef void *context = take(_lz4_contexts)
    cdef int status
    if context is NULL and LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)):
        return CODEC_NO_MEMORY
    status = make_room(out, max(first_guess(size, 0, hint, limit), <size_t>65536))
    if status == CODEC_OK:
        status = lz4_frames(context, source, size, out, limit, reason)
    if status != CODEC_OK:
        LZ4F_resetDecompressionContext(context)
    if not give(_lz4_contexts, context):
        LZ4F_freeDecompressionContext(context)
    return status


cdef int lz4_compress(int level, const uint8_t *source, size_t size, kw_buf **out,
                      const char **reason) noexcept nogil:
    cdef LZ4FPreferences preferences
    cdef size_t written
    memset(&preferences, 0, sizeof(preferences))
    preferences.block_size = LZ4F_MAX_64KB
    preferences.block_mode = LZ4F_INDEPENDENT
    preferences.level = 0 if level == CODEC_LEVEL_DEFAULT else level
    if make_room(out, LZ4F_compressFrameBound(size, &preferences)) != CODEC_OK:
        return CODEC_NO_MEMORY
    written = LZ4F_compressFrame(out[0].data + out[0].size, room(out[0]), source, size, &preferences)
    if LZ4F_isError(written):
        reason[0] = "lz4: compression failed"
        return CODEC_CORRUPT
    out[0].size += written
    return CODEC_OK


# --- zstd (zstd.h) --------------------------------------------------------------------------------------------------

cdef enum:
    ZSTD_TOO_SMALL = 70  # ZSTD_error_dstSize_tooSmall
    ZSTD_LEVEL = 3

cdef unsigned (*ZSTD_isError)(size_t code) noexcept nogil
cdef int (*ZSTD_getErrorCode)(size_t code) noexcept nogil
cdef uint64_t (*ZSTD_getFrameContentSize)(const void *source, size_t size) noexcept nogil
cdef unsigned long long (*ZSTD_decompressBound)(const void *source, size_t size) noexcept nogil  # NULL: not exported
cdef void *(*ZSTD_createDCtx)() noexcept nogil
cdef size_t (*ZSTD_freeDCtx)(void *context) noexcept nogil
cdef size_t (*ZSTD_decompressDCtx)(void *context, void *to, size_t to_size, const void *source,
                                   size_t size) noexcept nogil
cdef void *(*ZSTD_createCCtx)() noexcept nogil
cdef size_t (*ZSTD_freeCCtx)(void *context) noexcept nogil
cdef size_t (*ZSTD_compressBound)(size_t size) noexcept nogil
cdef size_t (*ZSTD_compressCCtx)(void *context, void *to, size_t to_size, const void *source, size_t size,
                                 int level) noexcept nogil


cdef int zstd_frames(void *context, const uint8_t *source, size_t size, kw_buf **out, size_t limit, size_t hint,
                     const char **reason) noexcept nogil:
    """Decode into one flat buffer, which needs no window buffer beside it; begin again with twice the room if it
    was too small, so that all attempts together cost at most twice the last."""
    cdef uint64_t claim = ZSTD_getFrameContentSize(source, size)
    cdef size_t space, produced
    if claim >= <uint64_t>-2:  # not known, or not a frame
        claim = 0
        if ZSTD_decompressBound is not NULL:  # what the blocks that are there can hold at most
            claim = ZSTD_decompressBound(source, size)
            claim = 0 if ZSTD_isError(claim) else min(claim, limit)
    elif claim > limit:
        return CODEC_TOO_LARGE
    if make_room(out, first_guess(size, claim, hint, limit)) != CODEC_OK:
        return CODEC_NO_MEMORY
    while True:
        space = min(room(out[0]), limit)
        produced = ZSTD_decompressDCtx(context, out[0].data + out[0].size, space, source, size)
        if not ZSTD_isError(produced):
            out[0].size += produced
            return CODEC_OK
        if ZSTD_getErrorCode(produced) != ZSTD_TOO_SMALL:
            reason[0] = "zstd: the frame is corrupt"
            return CODEC_CORRUPT
        if space >= limit:
            return CODEC_TOO_LARGE
        if make_room(out, min(2 * space + 65536, limit)) != CODEC_OK:
            return CODEC_NO_MEMORY


cdef int zstd_decompress(const uint8_t *source, size_t size, kw_buf **out, size_t limit, size_t hint,
                         const char **reason) noexcept nogil:
    cdef void *context = take(_zstd_readers)
    cdef int status
    if context is NULL:
        context = ZSTD_createDCtx()
        if context is NULL:
            return CODEC_NO_MEMORY
    status = zstd_frames(context, source, size, out, limit, hint, reason)
    if not give(_zstd_readers, context):
        ZSTD_freeDCtx(context)
    return status


cdef int zstd_compress(int level, const uint8_t *source, size_t size, kw_buf **out,
                       const char **reason) noexcept nogil:
    cdef void *context
    cdef size_t written
    if make_room(out, ZSTD_compressBound(size)) != CODEC_OK:
        return CODEC_NO_MEMORY
    context = take(_zstd_writers)
    if context is NULL:
        context = ZSTD_createCCtx()
        if context is NULL:
            return CODEC_NO_MEMORY
    written = ZSTD_compressCCtx(context, out[0].data + out[0].size, room(out[0]), source, size,
                                ZSTD_LEVEL if level == CODEC_LEVEL_DEFAULT else level)
    if not give(_zstd_writers, context):
        ZSTD_freeCCtx(context)
    if ZSTD_isError(written):
        reason[0] = "zstd: compression failed"
        return CODEC_CORRUPT
    out[0].size += written
    return CODEC_OK


# --- gzip: RFC 1952 around ISA-L's deflate (igzip_lib.h) ------------------------------------------------------------
# ISA-L's structures are large and their later fields move between versions. Only the leading fields, fixed since
# 2.20, are used here, and the stateless calls, whose answers say all there is to know; the gzip wrapper is read
# here.

cdef enum:
    ISAL_END_INPUT = 1
    ISAL_OUT_OVERFLOW = 2
    ISAL_STATE_BYTES = 262144  # far above sizeof(struct inflate_state) and sizeof(struct isal_zstream), about 90 KiB
    ISAL_LEVEL_BYTES = 1048576  # level_buf: above what the highest level asks for
    ISAL_GZIP = 1

    GZIP_FHCRC = 2
    GZIP_FEXTRA = 4
    GZIP_FNAME = 8
    GZIP_FCOMMENT = 16
    GZIP_RESERVED = 224
    GZIP_TRAILER = 8
    DEFLATE_RATIO = 1032  # no deflate stream expands more


cdef struct IsalInflate:
    uint8_t *next_out
    uint32_t avail_out
    uint32_t total_out
    const uint8_t *next_in
    uint64_t read_in
    uint32_t avail_in
    int32_t read_in_length


cdef struct IsalDeflate:
    const uint8_t *next_in
    uint32_t avail_in
    uint32_t total_in
    uint8_t *next_out
    uint32_t avail_out
    uint32_t total_out
    void *hufftables
    uint32_t level
    uint32_t level_buf_size
    uint8_t *level_buf
    uint16_t end_of_stream
    uint16_t flush
    uint16_t gzip_flag
    uint16_t hist_bits


cdef void (*isal_inflate_init)(void *state) noexcept nogil
cdef int (*isal_inflate_stateless)(void *state) noexcept nogil
cdef void (*isal_deflate_stateless_init)(void *stream) noexcept nogil
cdef int (*isal_deflate_stateless)(void *stream) noexcept nogil
cdef uint32_t (*crc32_gzip_refl)(uint32_t crc, const uint8_t *data, uint64_t size) noexcept nogil


cdef uint32_t little32(const uint8_t *p) noexcept nogil:
    return <uint32_t>p[3] << 24 | <uint32_t>p[2] << 16 | <uint32_t>p[1] << 8 | p[0]


cdef size_t gzip_header(const uint8_t *source, size_t size) noexcept nogil:
    """The bytes of the member header, 0 for a bad one."""
    cdef size_t at = 10
    cdef int flags, field
    if size < 10 + GZIP_TRAILER or source[0] != 0x1F or source[1] != 0x8B or source[2] != 8:
        return 0
    flags = source[3]
    if flags & GZIP_RESERVED:
        return 0
    if flags & GZIP_FEXTRA:
        if size - at < 2:
            return 0
        at += 2 + (source[at] | <size_t>source[at + 1] << 8)
    for field in range(2):
        if flags & (GZIP_FNAME if field == 0 else GZIP_FCOMMENT):
            while at < size and source[at] != 0:
                at += 1
            at += 1
    if flags & GZIP_FHCRC:
        at += 2
    return at if at + GZIP_TRAILER <= size else 0


cdef int gzip_member(kw_buf *memory, const uint8_t *source, size_t size, kw_buf **out, size_t limit, size_t hint,
                     size_t *consumed, const char **reason) noexcept nogil:
    cdef IsalInflate *state = <IsalInflate *>memory.data
    cdef size_t header = gzip_header(source, size), space, produced
    cdef const uint8_t *end
    cdef int status
    if header == 0:
        reason[0] = "gzip: not a gzip header"
        return CODEC_CORRUPT
    # The last four bytes are this member's length if it is the only one: a hint, as good as the bytes behind it.
    space = min(first_guess(size, little32(source + size - 4), hint, limit), size * DEFLATE_RATIO)
    if make_room(out, space) != CODEC_OK:
        return CODEC_NO_MEMORY
    while True:
        space = min(min(room(out[0]), limit), <size_t>0xFFFFFFFF)
        isal_inflate_init(state)
        state.next_in = source + header
        state.avail_in = <uint32_t>(size - header)
        state.next_out = out[0].data + out[0].size
        state.avail_out = <uint32_t>space
        status = isal_inflate_stateless(state)
        if status == 0:
            break
        if status != ISAL_OUT_OVERFLOW:
            reason[0] = "gzip: cut off" if status == ISAL_END_INPUT else "gzip: the deflate stream is corrupt"
            return CODEC_CORRUPT
        if space >= limit:
            return CODEC_TOO_LARGE
        if make_room(out, min(2 * space + 65536, limit)) != CODEC_OK:
            return CODEC_NO_MEMORY
    end = source + size - state.avail_in
    if state.avail_in < GZIP_TRAILER:
        reason[0] = "gzip: the trailer is cut off"
        return CODEC_CORRUPT
    produced = space - state.avail_out
    if little32(end) != crc32_gzip_refl(0, out[0].data + out[0].size, produced) or little32(end + 4) != produced:
        reason[0] = "gzip: the trailer does not match the content"
        return CODEC_CORRUPT
    out[0].size += produced
    consumed[0] = <size_t>(end - source) + GZIP_TRAILER
    return CODEC_OK


cdef int isal_decompress(const uint8_t *source, size_t size, kw_buf **out, size_t limit, size_t hint,
                         const char **reason) noexcept nogil:
    cdef kw_buf *memory = kw_buf_new(process_pool(), ISAL_STATE_BYTES)
    cdef size_t at = 0, consumed = 0, start = out[0].size if out[0] is not NULL else 0
    cdef int status = CODEC_OK
    if memory is NULL:
        return CODEC_NO_MEMORY
    while status == CODEC_OK and (at < size or at == 0):
        status = gzip_member(memory, source + at, size - at, out,
                             limit - ((out[0].size - start) if out[0] is not NULL else 0), hint, &consumed, reason)
        at += consumed
    kw_buf_unref(memory)
    return status


cdef int isal_compress(int level, const uint8_t *source, size_t size, kw_buf **out,
                       const char **reason) noexcept nogil:
    cdef kw_buf *memory
    cdef IsalDeflate *stream
    cdef size_t bound = size + 5 * (size // 65535 + 1) + 64  # stored blocks, header and trailer
    cdef int status
    if make_room(out, bound) != CODEC_OK:
        return CODEC_NO_MEMORY
    memory = kw_buf_new(process_pool(), ISAL_STATE_BYTES + ISAL_LEVEL_BYTES)
    if memory is NULL:
        return CODEC_NO_MEMORY
    stream = <IsalDeflate *>memory.data
    isal_deflate_stateless_init(stream)
    stream.next_in = source
    stream.avail_in = <uint32_t>size
    stream.next_out = out[0].data + out[0].size
    stream.avail_out = <uint32_t>bound
    # ISA-L has levels 0 to 3 for zlib's 1 to 9; its 2 is near zlib's 6 in speed of the network, not in size
    stream.level = 2 if level == CODEC_LEVEL_DEFAULT or level < 0 else (1 if level <= 3 else (2 if level <= 6 else 3))
    stream.level_buf = memory.data + ISAL_STATE_BYTES
    stream.level_buf_size = ISAL_LEVEL_BYTES
    stream.end_of_stream = 1
    stream.flush = 0
    stream.gzip_flag = ISAL_GZIP
    status = isal_deflate_stateless(stream)
    if status == 0:
        out[0].size += bound - stream.avail_out
    kw_buf_unref(memory)
    if status != 0:
        reason[0] = "gzip: compression failed"
        return CODEC_CORRUPT
    return CODEC_OK


# --- gzip by zlib (zlib.h), where ISA-L is not to be had ------------------------------------------------------------

cdef struct ZStream:
    const uint8_t *next_in
    unsigned avail_in
    unsigned long total_in
    uint8_t *next_out
    unsigned avail_out
    unsigned long total_out
    const char *msg
    void *state
    void *zalloc
    void *zfree
    void *opaque
    int data_type
    unsigned long adler
    unsigned long reserved


cdef enum:
    Z_OK = 0
    Z_STREAM_END = 1
    Z_BUF_ERROR = -5
    Z_FINISH = 4
    Z_GZIP_BITS = 31

cdef int (*inflateInit2_)(ZStream *stream, int bits, const char *version, int size) noexcept nogil
cdef int (*inflate)(ZStream *stream, int flush) noexcept nogil
cdef int (*inflateReset)(ZStream *stream) noexcept nogil
cdef int (*inflateEnd)(ZStream *stream) noexcept nogil
cdef int (*deflateInit2_)(ZStream *stream, int level, int method, int bits, int memory, int strategy,
                          const char *version, int size) noexcept nogil
cdef int (*deflate)(ZStream *stream, int flush) noexcept nogil
cdef int (*deflateEnd)(ZStream *stream) noexcept nogil
cdef unsigned long (*deflateBound)(ZStream *stream, unsigned long size) noexcept nogil


cdef int zlib_members(ZStream *stream, kw_buf **out, size_t limit, const char **reason) noexcept nogil:
    cdef size_t start = out[0].size, space
    cdef int status
    while True:
        if room(out[0]) == 0 and make_room(out, out[0].size - start + 65536) != CODEC_OK:
            return CODEC_NO_MEMORY
        space = min(room(out[0]), <size_t>0x7FFFFFFF)
        stream.next_out = out[0].data + out[0].size
        stream.avail_out = <unsigned>space
        status = inflate(stream, 0)
        out[0].size += space - stream.avail_out
        if out[0].size - start > limit:
            return CODEC_TOO_LARGE
        if status == Z_STREAM_END:
            if stream.avail_in == 0:
                return CODEC_OK
            inflateReset(stream)
        elif status == Z_BUF_ERROR or (status == Z_OK and stream.avail_in == 0 and stream.avail_out != 0):
            reason[0] = "gzip: cut off"
            return CODEC_CORRUPT
        elif status != Z_OK:
            reason[0] = "gzip: the stream is corrupt"
            return CODEC_CORRUPT


cdef int zlib_decompress(const uint8_t *source, size_t size, kw_buf **out, size_t limit, size_t hint,
                         const char **reason) noexcept nogil:
    cdef ZStream stream
    cdef int status
    if make_room(out, first_guess(size, 0, hint, limit) + 1) != CODEC_OK:
        return CODEC_NO_MEMORY
    memset(&stream, 0, sizeof(stream))
    stream.next_in = source
    stream.avail_in = <unsigned>size
    if inflateInit2_(&stream, Z_GZIP_BITS, b"1.2", sizeof(stream)) != Z_OK:
        return CODEC_NO_MEMORY
    status = zlib_members(&stream, out, limit, reason)
    inflateEnd(&stream)
    return status


cdef int zlib_compress(int level, const uint8_t *source, size_t size, kw_buf **out,
                       const char **reason) noexcept nogil:
    cdef ZStream stream
    cdef int status
    memset(&stream, 0, sizeof(stream))
    if deflateInit2_(&stream, -1 if level == CODEC_LEVEL_DEFAULT else level, 8, Z_GZIP_BITS, 8, 0, b"1.2",
                     sizeof(stream)) != Z_OK:
        return CODEC_NO_MEMORY
    status = make_room(out, deflateBound(&stream, size))
    if status == CODEC_OK:
        stream.next_in = source
        stream.avail_in = <unsigned>size
        stream.next_out = out[0].data + out[0].size
        stream.avail_out = <unsigned>min(room(out[0]), <size_t>0xFFFFFFFF)
        if deflate(&stream, Z_FINISH) == Z_STREAM_END:
            out[0].size = stream.next_out - out[0].data
        else:
            reason[0] = "gzip: compression failed"
            status = CODEC_CORRUPT
    deflateEnd(&stream)
    return status


# --- the slow road: the package's Python call -----------------------------------------------------------------------

def _python_reader(codec):
    """An object with decompress(data[, limit]), eof and unused_data, for one frame or member."""
    if codec == CODEC_GZIP:
        import zlib
        return zlib.decompressobj(wbits=31)
    if codec == CODEC_LZ4:
        import lz4.frame
        return lz4.frame.LZ4FrameDecompressor()
    import zstandard
    return zstandard.ZstdDecompressor().decompressobj()


def _python_inflate(codec, data, limit):
    """All frames or members in `data`, at most about `limit` bytes; raises whatever the package raises."""
    pieces, produced, at = [], 0, 0
    while at < len(data) or not pieces:
        reader = _python_reader(codec)
        while not reader.eof:
            if codec == CODEC_ZSTD:  # this one takes no limit: feed it little by little
                piece = reader.decompress(data[at:at + 1024])
                at = min(at + 1024, len(data))
            else:
                piece = reader.decompress(data[at:], limit + 1 - produced)
                at = len(data)
            pieces.append(piece)
            produced += len(piece)
            if produced > limit:
                return b"".join(pieces)
            if at == len(data) and not reader.eof:
                raise EOFError("cut off")
        at -= len(reader.unused_data or b"")
    return b"".join(pieces)


def _python_deflate(codec, data, level):
    if codec == CODEC_GZIP:
        import zlib
        writer = zlib.compressobj(-1 if level is None else level, wbits=31)
        return writer.compress(data) + writer.flush()
    if codec == CODEC_LZ4:
        import lz4.frame
        return lz4.frame.compress(data, compression_level=level or 0, block_size=lz4.frame.BLOCKSIZE_MAX64KB,
                                  block_linked=False, store_size=False)
    import zstandard
    return zstandard.ZstdCompressor(level=ZSTD_LEVEL if level is None else level).compress(data)


cdef int append_bytes(kw_buf **out, bytes data) except *:
    if make_room(out, len(data)) != CODEC_OK:
        return CODEC_NO_MEMORY
    memcpy(out[0].data + out[0].size, <const char *>data, len(data))
    out[0].size += len(data)
    return CODEC_OK


cdef int python_decompress(int codec, const uint8_t *source, size_t size, kw_buf **out, size_t limit,
                           const char **reason) noexcept with gil:
    try:
        data = _python_inflate(codec, (<const char *>source)[:size], limit)
        if <size_t>len(data) > limit:
            return CODEC_TOO_LARGE
        return append_bytes(out, data)
    except MemoryError:
        return CODEC_NO_MEMORY
    except Exception:
        reason[0] = "the compressed data is corrupt"
        return CODEC_CORRUPT


cdef int python_compress(int codec, int level, const uint8_t *source, size_t size, kw_buf **out,
                         const char **reason) noexcept with gil:
    try:
        return append_bytes(out, _python_deflate(codec, (<const char *>source)[:size],
                                                 None if level == CODEC_LEVEL_DEFAULT else level))
    except MemoryError:
        return CODEC_NO_MEMORY
    except Exception:
        reason[0] = "compression failed"
        return CODEC_CORRUPT


# --- the two calls --------------------------------------------------------------------------------------------------

cdef int decompress(int codec, const uint8_t *source, size_t size, kw_buf **out, size_t limit, size_t hint,
                    const char **reason) noexcept nogil:
    cdef int state
    reason[0] = ""
    if codec < 0 or codec >= CODEC_COUNT:
        return CODEC_UNKNOWN
    state = kw_acquire(&_state[codec])
    if state == NOT_RESOLVED:
        return CODEC_UNRESOLVED
    if size > 0x7FFFFFFF:
        return CODEC_TOO_LARGE
    if state == PYTHON:
        return python_decompress(codec, source, size, out, limit, reason)
    if codec == CODEC_LZ4:
        return lz4_decompress(source, size, out, limit, hint, reason)
    if codec == CODEC_ZSTD:
        return zstd_decompress(source, size, out, limit, hint, reason)
    if codec == CODEC_SNAPPY:
        return snappy_decompress(source, size, out, limit, hint, reason)
    if codec == CODEC_GZIP:
        if state == SYSTEM_ZLIB:
            return zlib_decompress(source, size, out, limit, hint, reason)
        return isal_decompress(source, size, out, limit, hint, reason)
    if size > limit:
        return CODEC_TOO_LARGE
    if make_room(out, size) != CODEC_OK:
        return CODEC_NO_MEMORY
    memcpy(out[0].data + out[0].size, source, size)
    out[0].size += size
    return CODEC_OK


cdef int compress(int codec, int level, const uint8_t *source, size_t size, kw_buf **out,
                  const char **reason) noexcept nogil:
    cdef int state
    reason[0] = ""
    if codec < 0 or codec >= CODEC_COUNT:
        return CODEC_UNKNOWN
    state = kw_acquire(&_state[codec])
    if state == NOT_RESOLVED:
        return CODEC_UNRESOLVED
    if size > 0x7FFFFFFF:
        return CODEC_TOO_LARGE
    if state == PYTHON:
        return python_compress(codec, level, source, size, out, reason)
    if codec == CODEC_LZ4:
        return lz4_compress(level, source, size, out, reason)
    if codec == CODEC_ZSTD:
        return zstd_compress(level, source, size, out, reason)
    if codec == CODEC_SNAPPY:
        return snappy_compress(source, size, out)
    if codec == CODEC_GZIP:
        if state == SYSTEM_ZLIB:
            return zlib_compress(level, source, size, out, reason)
        return isal_compress(level, source, size, out, reason)
    return decompress(CODEC_NONE, source, size, out, size, 0, reason)


# --- finding the libraries ------------------------------------------------------------------------------------------

# codec -> (package, folder in it, stem of the extension module that exports the library's functions, system's library)
_LIBRARIES = {
    CODEC_GZIP: ("isal", "", "igzip_lib", "libz.so.1"),
    CODEC_LZ4: ("lz4", "frame", "_frame", "liblz4.so.1"),
    CODEC_ZSTD: ("zstandard", "", "_cffi", "libzstd.so.1"),
}


def _wheel_files(package, folder, stem):
    """Paths of the extension module, found without importing the package."""
    spec = importlib.util.find_spec(package)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            path = os.path.join(place, folder, stem + suffix)
            if os.path.exists(path):
                yield path


cdef bint bind(void *library, list wanted) except *:
    """Look up every (name, address of the function pointer); False when one is missing."""
    for name, _ in wanted:
        if dlsym(library, <bytes>name) is NULL:
            return False
    for name, place in wanted:
        (<void **><size_t>place)[0] = dlsym(library, <bytes>name)
    return True


cdef list functions_of(int codec, bint zlib):
    if codec == CODEC_LZ4:
        return [(b"LZ4F_isError", <size_t>&LZ4F_isError),
                (b"LZ4F_createDecompressionContext", <size_t>&LZ4F_createDecompressionContext),
                (b"LZ4F_freeDecompressionContext", <size_t>&LZ4F_freeDecompressionContext),
                (b"LZ4F_resetDecompressionContext", <size_t>&LZ4F_resetDecompressionContext),
                (b"LZ4F_decompress", <size_t>&LZ4F_decompress),
                (b"LZ4F_compressFrameBound", <size_t>&LZ4F_compressFrameBound),
                (b"LZ4F_compressFrame", <size_t>&LZ4F_compressFrame)]
    if codec == CODEC_ZSTD:
        return [(b"ZSTD_isError", <size_t>&ZSTD_isError),
                (b"ZSTD_getErrorCode", <size_t>&ZSTD_getErrorCode),
                (b"ZSTD_getFrameContentSize", <size_t>&ZSTD_getFrameContentSize),
                (b"ZSTD_createDCtx", <size_t>&ZSTD_createDCtx),
                (b"ZSTD_freeDCtx", <size_t>&ZSTD_freeDCtx),
                (b"ZSTD_decompressDCtx", <size_t>&ZSTD_decompressDCtx),
                (b"ZSTD_createCCtx", <size_t>&ZSTD_createCCtx),
                (b"ZSTD_freeCCtx", <size_t>&ZSTD_freeCCtx),
                (b"ZSTD_compressBound", <size_t>&ZSTD_compressBound),
                (b"ZSTD_compressCCtx", <size_t>&ZSTD_compressCCtx)]
    if zlib:
        return [(b"inflateInit2_", <size_t>&inflateInit2_), (b"inflate", <size_t>&inflate),
                (b"inflateReset", <size_t>&inflateReset), (b"inflateEnd", <size_t>&inflateEnd),
                (b"deflateInit2_", <size_t>&deflateInit2_), (b"deflate", <size_t>&deflate),
                (b"deflateEnd", <size_t>&deflateEnd), (b"deflateBound", <size_t>&deflateBound)]
    return [(b"isal_inflate_init", <size_t>&isal_inflate_init),
            (b"isal_inflate_stateless", <size_t>&isal_inflate_stateless),
            (b"isal_deflate_stateless_init", <size_t>&isal_deflate_stateless_init),
            (b"isal_deflate_stateless", <size_t>&isal_deflate_stateless),
            (b"crc32_gzip_refl", <size_t>&crc32_gzip_refl)]


_PROBE = b"kafwire " * 64 + bytes(range(256))


cdef bint works(int codec) except *:
    """A round trip: a library whose structures are laid out otherwise than assumed must not be used."""
    cdef kw_buf *packed = NULL
    cdef kw_buf *plain = NULL
    cdef const char *reason
    cdef bytes probe = _PROBE
    cdef const uint8_t *data = probe
    cdef size_t size = len(probe)
    cdef bint good = False
    if compress(codec, CODEC_LEVEL_DEFAULT, data, size, &packed, &reason) == CODEC_OK:
        if decompress(codec, packed.data, packed.size, &plain, size, 0, &reason) == CODEC_OK:
            good = plain.size == size and memcmp(plain.data, data, size) == 0
    kw_buf_unref(packed)
    kw_buf_unref(plain)
    return good


cdef void drop_contexts(int codec) noexcept:
    """Contexts of one library must not be given to another's functions."""
    cdef void *context
    for _ in range(SLOTS):
        if codec == CODEC_LZ4:
            context = take(_lz4_contexts)
            if context is not NULL:
                LZ4F_freeDecompressionContext(context)
        elif codec == CODEC_ZSTD:
            context = take(_zstd_readers)
            if context is not NULL:
                ZSTD_freeDCtx(context)
            context = take(_zstd_writers)
            if context is not NULL:
                ZSTD_freeCCtx(context)


cdef bint try_library(int codec, str path, bint zlib) except *:
    cdef bytes name = os.fsencode(path)
    cdef void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL)
    drop_contexts(codec)
    if library is NULL or not bind(library, functions_of(codec, zlib)):
        return False
    if codec == CODEC_ZSTD:
        (<void **>&ZSTD_decompressBound)[0] = dlsym(library, b"ZSTD_decompressBound")
    kw_release(&_state[codec], SYSTEM_ZLIB if zlib else NATIVE)
    if works(codec):
        return True
    kw_release(&_state[codec], NOT_RESOLVED)
    return False


def _resolve(int codec, sources=("wheel", "system", "python")):
    """Bind `codec` to the first of `sources` that works. Tests call it to force one; nothing else may run meanwhile."""
    package, folder, stem, system = _LIBRARIES[codec]
    name = NAMES[codec]
    if "wheel" in sources:
        for path in _wheel_files(package, folder, stem):
            if try_library(codec, path, False):
                _origin[name] = f"package {package}: {os.path.basename(path)}"
                return
    if "system" in sources and try_library(codec, system, codec == CODEC_GZIP):
        _origin[name] = f"system: {system}"
        return
    if "python" in sources and (codec == CODEC_GZIP or importlib.util.find_spec(package) is not None):
        kw_release(&_state[codec], PYTHON)
        _origin[name] = "Python: " + ("zlib" if codec == CODEC_GZIP else package)
        warnings.warn(f"kafwire found no C library for {name}: it calls Python instead, much slower and with the GIL; "
                      f"install the package {package!r} from a wheel, or the system's {system}", RuntimeWarning,
                      stacklevel=2)
        return
    raise ConfigError(f"no library for the codec {name}: install the package {package!r}, or the system's {system}")


cdef int resolve_codec(int codec) except -1:
    if codec < 0 or codec >= CODEC_COUNT:
        raise ProtocolError(f"unknown compression codec {codec}")
    if kw_acquire(&_state[codec]) == NOT_RESOLVED:
        _resolve(codec)
    return 0


# --- for Python -----------------------------------------------------------------------------------------------------

def origin(str name):
    """Where the codec `name` comes from; looks for it if that has not happened yet."""
    resolve_codec(codec_id(name))
    return _origin[name]


def codec_id(name):
    """Kafka's number of the codec `name`."""
    try:
        return IDS[name]
    except (KeyError, TypeError):
        raise ConfigError(f"unknown compression {name!r}: it is one of {', '.join(NAMES)}") from None


cdef bytes finish(int status, kw_buf *out, const char *reason, str name, str what, size_t limit):
    try:
        if status == CODEC_OK:
            return (<const char *>out.data)[:out.size] if out is not NULL else b""
        if status == CODEC_NO_MEMORY:
            raise MemoryError(f"no memory to {what} {name} data")
        if status == CODEC_TOO_LARGE:
            raise ProtocolError(f"{name} data {what}es to more than {limit} bytes")
        raise ProtocolError(f"cannot {what} {name} data: {reason.decode()}")
    finally:
        kw_buf_unref(out)


def compress_bytes(str name, const uint8_t[::1] data, level=None):
    """`data` compressed as Kafka's Java client frames it."""
    cdef int codec = codec_id(name), status
    cdef int c_level = CODEC_LEVEL_DEFAULT if level is None else level
    cdef const uint8_t *source = &data[0] if data.shape[0] else NULL
    cdef size_t size = data.shape[0]
    cdef kw_buf *out = NULL
    cdef const char *reason = ""
    resolve_codec(codec)
    with nogil:
        status = compress(codec, c_level, source, size, &out, &reason)
    return finish(status, out, reason, name, "compress", 0x7FFFFFFF)


def decompress_bytes(str name, const uint8_t[::1] data, size_t limit):
    """The content of `data`; ProtocolError if it is corrupt or longer than `limit`."""
    cdef int codec = codec_id(name), status
    cdef const uint8_t *source = &data[0] if data.shape[0] else <const uint8_t *>b""
    cdef size_t size = data.shape[0]
    cdef kw_buf *out = NULL
    cdef const char *reason = ""
    resolve_codec(codec)
    with nogil:
        status = decompress(codec, source, size, &out, limit, 0, &reason)
    return finish(status, out, reason, name, "decompress", limit)
