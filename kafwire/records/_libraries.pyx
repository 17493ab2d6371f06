# decoder: its lines are counted by scripts/coverage.py
# distutils: sources = kafwire/memory/native/buf.c
"""gzip, lz4 and zstd by the C functions of libraries that are opened at run time; `_libraries.pxd` is the contract.

Contexts that are expensive to make are kept in a few lock-free slots, which any thread (or a forked child) may use.
"""
import os

from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from kafwire.memory._buffer cimport (
    kw_buf, kw_buf_new, kw_buf_unref, kw_le32, kw_put_if_null, kw_swap, process_pool,
)
from kafwire.records._codec_status cimport (
    CODEC_CORRUPT, CODEC_LEVEL_DEFAULT, CODEC_LZ4, CODEC_NO_MEMORY, CODEC_OK, CODEC_TOO_LARGE, CODEC_ZSTD,
    begin_scratch, first_guess, make_room, make_scratch, room,
)


cdef extern from "dlfcn.h" nogil:
    void *dlopen(const char *path, int flags)
    void *dlsym(void *handle, const char *name)
    enum:
        RTLD_NOW
        RTLD_LOCAL


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
    """Keep a context; False: all slots are full, and the caller frees it."""
    for i in range(SLOTS):
        if kw_put_if_null(&slots[i], context):
            return True
    return False


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
cdef size_t (*LZ4F_decompress)(void *context, void *to, size_t *to_size, const void *source, size_t *size,
                               const void *options) noexcept nogil
cdef size_t (*LZ4F_compressFrameBound)(size_t size, const LZ4FPreferences *preferences) noexcept nogil
cdef size_t (*LZ4F_compressFrame)(void *to, size_t to_size, const void *source, size_t size,
                                  const LZ4FPreferences *preferences) noexcept nogil


cdef int lz4_frames(void *context, const uint8_t *head, size_t head_size, const uint8_t *source, size_t size,
                    kw_buf **out, size_t limit, const char **reason) noexcept nogil:
    cdef size_t at = 0, consumed, produced, left = 1, space, done = 0
    cdef int status
    while at < size or left != 0:
        # With room for a whole block, lz4 decodes in place; otherwise it decodes into a second buffer and copies.
        space = min(room(out[0]), limit - done + LZ4_ROOM)
        if space < LZ4_ROOM:
            status = make_scratch(out, min(max(done, <size_t>LZ4_ROOM), limit - done + LZ4_ROOM))
            if status != CODEC_OK:
                return status
            space = min(room(out[0]), limit - done + LZ4_ROOM)
        produced = space
        consumed = (head_size if at < head_size else size) - at
        left = LZ4F_decompress(context, out[0].data + out[0].size, &produced,
                               (head if at < head_size else source) + at, &consumed, NULL)
        if LZ4F_isError(left):
            reason[0] = "lz4: the frame is corrupt"
            return CODEC_CORRUPT
        at += consumed
        out[0].size += produced
        done += produced
        if done > limit:
            return CODEC_TOO_LARGE
        if at == size and left != 0 and consumed == 0 and produced == 0:
            reason[0] = "lz4: the frame is truncated"
            return CODEC_CORRUPT
    return CODEC_OK


cdef int lz4_decompress(const uint8_t *head, size_t head_size, const uint8_t *source, size_t size, kw_buf **out,
                        size_t limit, size_t hint, const char **reason) noexcept nogil:
    cdef void *context = take(_lz4_contexts)
    cdef int status
    if context is NULL and LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)):
        return CODEC_NO_MEMORY
    status = begin_scratch(out, max(first_guess(size, 0, hint, limit), <size_t>LZ4_ROOM))
    if status == CODEC_OK:
        status = lz4_frames(context, head, head_size, source, size, out, limit, reason)
    # In some releases, a reset keeps the rest of a rejected frame: such a context is not used again.
    if status != CODEC_OK or not give(_lz4_contexts, context):
        LZ4F_freeDecompressionContext(context)
    return status


cdef int lz4_compress(int level, const uint8_t *source, size_t size, kw_buf **out,
                      const char **reason) noexcept nogil:
    cdef LZ4FPreferences preferences
    cdef size_t written
    memset(&preferences, 0, sizeof(preferences))
    preferences.block_size = LZ4F_MAX_64KB
    preferences.block_mode = LZ4F_INDEPENDENT
    preferences.level = level
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
    """Decode into one flat buffer, which needs no separate window buffer.

    If it was too small, restart with twice the room, so that all attempts together cost at most twice the last.
    """
    cdef uint64_t claim = ZSTD_getFrameContentSize(source, size)
    cdef size_t space, produced
    cdef int status
    if claim >= <uint64_t>-2:  # unknown, or not a frame
        claim = 0
        if ZSTD_decompressBound is not NULL:  # upper bound of the content of the available blocks
            claim = ZSTD_decompressBound(source, size)
            claim = 0 if ZSTD_isError(claim) else min(claim, limit)
    elif claim > limit:
        return CODEC_TOO_LARGE
    status = begin_scratch(out, first_guess(size, claim, hint, limit))
    if status != CODEC_OK:
        return status
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
        status = make_scratch(out, min(2 * space + 65536, limit))
        if status != CODEC_OK:
            return status


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
# ISA-L's structures are large and their later fields move between versions. Only the leading fields, unchanged since
# 2.20, are used here, and the stateless calls, whose results are complete; the gzip wrapper is parsed here.

cdef enum:
    ISAL_END_INPUT = 1
    ISAL_OUT_OVERFLOW = 2
    ISAL_STATE_BYTES = 262144  # far above sizeof(struct inflate_state) and sizeof(struct isal_zstream), about 90 KiB
    ISAL_LEVEL_BYTES = 1048576  # level_buf: more than the highest level needs
    ISAL_GZIP = 1

    GZIP_FHCRC = 2
    GZIP_FEXTRA = 4
    GZIP_FNAME = 8
    GZIP_FCOMMENT = 16
    GZIP_RESERVED = 224
    GZIP_TRAILER = 8
    DEFLATE_RATIO = 1032  # the highest expansion of a deflate stream


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


cdef size_t gzip_header(const uint8_t *source, size_t size) noexcept nogil:
    """Return the size of the member header, 0 for an invalid one."""
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
    # The last four bytes are the length if this is the only member: a hint, as reliable as the bytes after it.
    space = min(first_guess(size, kw_le32(source + size - 4), hint, limit), size * DEFLATE_RATIO)
    status = begin_scratch(out, space)
    if status != CODEC_OK:
        return status
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
            reason[0] = "gzip: truncated" if status == ISAL_END_INPUT else "gzip: the deflate stream is corrupt"
            return CODEC_CORRUPT
        if space >= limit:
            return CODEC_TOO_LARGE
        status = make_scratch(out, min(2 * space + 65536, limit))
        if status != CODEC_OK:
            return status
    end = source + size - state.avail_in
    if state.avail_in < GZIP_TRAILER:
        reason[0] = "gzip: the trailer is truncated"
        return CODEC_CORRUPT
    produced = space - state.avail_out
    if kw_le32(end) != crc32_gzip_refl(0, out[0].data + out[0].size, produced) or kw_le32(end + 4) != produced:
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
    # ISA-L has levels 0 to 3 for zlib's 1 to 9; its 2 is near zlib's 6 in network throughput, not in size
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


# --- gzip by zlib (zlib.h), if ISA-L is not available ---------------------------------------------------------------

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
    cdef size_t space, done = 0
    cdef int status
    while True:
        if room(out[0]) == 0:
            status = make_scratch(out, min(done + 65536, limit - done + 1))
            if status != CODEC_OK:
                return status
        space = min(min(room(out[0]), limit - done + 1), <size_t>0x7FFFFFFF)
        stream.next_out = out[0].data + out[0].size
        stream.avail_out = <unsigned>space
        status = inflate(stream, 0)
        out[0].size += space - stream.avail_out
        done += space - stream.avail_out
        if done > limit:
            return CODEC_TOO_LARGE
        if status == Z_STREAM_END:
            if stream.avail_in == 0:
                return CODEC_OK
            inflateReset(stream)
        elif status == Z_BUF_ERROR or (status == Z_OK and stream.avail_in == 0 and stream.avail_out != 0):
            reason[0] = "gzip: truncated"
            return CODEC_CORRUPT
        elif status != Z_OK:
            reason[0] = "gzip: the stream is corrupt"
            return CODEC_CORRUPT


cdef int zlib_decompress(const uint8_t *source, size_t size, kw_buf **out, size_t limit, size_t hint,
                         const char **reason) noexcept nogil:
    cdef ZStream stream
    cdef int status
    status = begin_scratch(out, first_guess(size, 0, hint, limit) + 1)
    if status != CODEC_OK:
        return status
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


# --- binding --------------------------------------------------------------------------------------------------------

cdef bint bind(void *library, list wanted) except *:
    """Look up all functions of `wanted`, pairs of (name, address of the pointer); False if one is missing."""
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


cdef void drop_contexts(int codec) noexcept:
    """Free the contexts of one library, so that another's functions never get them."""
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


cdef bint open_library(int codec, str path, bint zlib) except *:
    cdef bytes name = os.fsencode(path)
    cdef void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL)
    drop_contexts(codec)
    if library is NULL or not bind(library, functions_of(codec, zlib)):
        return False
    if codec == CODEC_ZSTD:
        (<void **>&ZSTD_decompressBound)[0] = dlsym(library, b"ZSTD_decompressBound")
    return True
