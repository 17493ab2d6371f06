"""Compression without the GIL; `_compress.pxd` is the contract.

Libraries are reached by `dlopen` and `dlsym` (`_libraries`): first the shared object inside the wheel of the package
kafwire depends on, then the system's library, and last the package's Python call, which takes the GIL and says so in
a warning.
"""
import importlib.machinery
import importlib.util
import os
import warnings

from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp, memcpy

from kafwire._buffer cimport kw_buf, kw_buf_unref
from kafwire._libraries cimport (isal_compress, isal_decompress, lz4_compress, lz4_decompress, open_library,
                                 zlib_compress, zlib_decompress, zstd_compress, zstd_decompress)

from kafwire.errors import ConfigError, ProtocolError


cdef extern from "native/atomic.h" nogil:
    int kw_acquire(int *p)
    void kw_release(int *p, int value)


cdef extern from "native/snappy.h" nogil:
    size_t kw_snappy_length(const uint8_t *source, size_t size, size_t *length)
    int kw_snappy_decode(const uint8_t *source, size_t size, uint8_t *out, size_t length)
    size_t kw_snappy_bound(size_t size)
    size_t kw_snappy_encode(const uint8_t *source, size_t size, uint8_t *out)


NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
IDS = {name: number for number, name in enumerate(NAMES)}

# Where a codec's functions come from: stored after they are bound (release), read before they are called (acquire).
cdef enum:
    NOT_RESOLVED = 0
    NATIVE = 1  # kafwire's own, or the library's C functions
    SYSTEM_ZLIB = 2  # gzip only: the stream API of zlib instead of ISA-L's
    PYTHON = 3

cdef int _state[CODEC_COUNT]
_state[:] = [NATIVE, NOT_RESOLVED, NATIVE, NOT_RESOLVED, NOT_RESOLVED]
_origin = {"none": "not compressed", "snappy": "kafwire"}


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
    return zstandard.ZstdCompressor(level=3 if level is None else level).compress(data)


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


cdef bint try_library(int codec, str path, bint zlib) except *:
    if not open_library(codec, path, zlib):
        return False
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
