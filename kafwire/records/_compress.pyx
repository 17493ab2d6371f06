# decoder: its lines are counted by scripts/coverage.py
# distutils: sources = kafwire/memory/native/buf.c kafwire/records/native/snappy.c kafwire/records/native/lz4.c
"""Compression without the GIL; `records/_compress.pxd` is the contract.

Libraries are opened by `dlopen` and `dlsym` (`_libraries`): first the shared object in the wheel of the package that
kafwire depends on, then the system's library, and last the package's Python call, which takes the GIL; a warning
reports that.
"""
import importlib.machinery
import importlib.util
import os
import warnings

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

from kafwire.memory._buffer cimport (
    PyThread_get_thread_ident, kw_acquire, kw_be32, kw_buf, kw_buf_new, kw_buf_unref, kw_pool_budget, kw_put_be32,
    kw_release, kw_scratch_wait, move_out, process_pool,
)
from kafwire.records._codec_status cimport (
    CODEC_CORRUPT, CODEC_COUNT, CODEC_GZIP, CODEC_LEVEL_DEFAULT, CODEC_LZ4, CODEC_NO_MEMORY, CODEC_OK,
    CODEC_OVER_BUDGET, CODEC_SNAPPY, CODEC_TOO_LARGE, CODEC_UNKNOWN, CODEC_UNRESOLVED, CODEC_ZSTD, SLACK,
    begin_scratch, make_room, make_scratch,
)
from kafwire.records._libraries cimport (
    LZ4_ROOM, ZSTD_LEVEL, isal_compress, isal_decompress, lz4_compress, lz4_decompress, open_library, zlib_compress,
    zlib_decompress, zstd_compress, zstd_decompress,
)

from kafwire.errors import ConfigError, ProtocolError


cdef extern from "Python.h":
    int PyThreadState_SetAsyncExc(unsigned long thread, object kind)


cdef extern from "kafwire/records/native/snappy.h" nogil:
    size_t kw_snappy_length(const uint8_t *source, size_t size, size_t *length)
    int kw_snappy_decode(const uint8_t *source, size_t size, uint8_t *out, size_t length)
    size_t kw_snappy_bound(size_t size)
    size_t kw_snappy_encode(const uint8_t *source, size_t size, uint8_t *out)


cdef extern from "kafwire/records/native/lz4.h" nogil:
    size_t kw_lz4_bound(size_t size)
    size_t kw_lz4_encode(const uint8_t *source, size_t size, uint8_t *out)


NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
IDS = {name: number for number, name in enumerate(NAMES)}

# The implementation of each codec: stored after its functions are bound (release), read before a call (acquire).
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
    XERIAL_HEADER = 16  # magic, version, lowest compatible version: two int32, unchecked
    XERIAL_BLOCK = 32768  # block size of Java's stream


cdef int snappy_block(const uint8_t *source, size_t size, kw_buf **out, size_t limit,
                      const char **reason) noexcept nogil:
    cdef size_t length
    cdef int status
    if kw_snappy_length(source, size, &length) == 0:
        reason[0] = "snappy: the block's length is not plausible"
        return CODEC_CORRUPT
    if length > limit - min(limit, out[0].size if out[0] is not NULL else 0):
        return CODEC_TOO_LARGE
    # enough input backs the length, so this allocation is proportional to the bytes received
    status = make_scratch(out, length)
    if status != CODEC_OK:
        return status
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
        reason[0] = "snappy: the xerial header is truncated"
        return CODEC_CORRUPT
    status = begin_scratch(out, min(hint, limit))
    if status != CODEC_OK:
        return status
    while at < size:
        if size - at < 4:
            reason[0] = "snappy: a xerial block's length is truncated"
            return CODEC_CORRUPT
        block = <uint32_t>kw_be32(source + at)
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
    kw_put_be32(to + 8, 1)
    kw_put_be32(to + 12, 1)
    to += XERIAL_HEADER
    while at < size:
        block = min(size - at, <size_t>XERIAL_BLOCK)
        kw_put_be32(to, <int32_t>kw_snappy_encode(source + at, block, to + 4))
        to += 4 + kw_be32(to)
        at += block
    out[0].size = to - out[0].data
    return CODEC_OK


# --- lz4: kafwire's own part ----------------------------------------------------------------------------------------

cdef int lz4_encode(const uint8_t *source, size_t size, kw_buf **out) noexcept nogil:
    """Compress at the default level; the library's default takes a fifth more time for slightly better compression."""
    if make_room(out, kw_lz4_bound(size)) != CODEC_OK:
        return CODEC_NO_MEMORY
    out[0].size += kw_lz4_encode(source, size, out[0].data + out[0].size)
    return CODEC_OK


# --- the slow path: the package's Python call ----------------------------------------------------------------------

def _python_pieces(codec, data):
    """Yield the content of all frames or members in `data`, a few MiB at a time; raise the package's errors."""
    at, begun = 0, False
    while at < len(data) or not begun:
        begun = True
        if codec == CODEC_GZIP:
            import zlib
            reader = zlib.decompressobj(wbits=31)
            rest = data[at:]
            while not reader.eof:
                yield reader.decompress(rest, _PIECE)
                if not (rest := reader.unconsumed_tail) and not reader.eof:
                    if not (piece := reader.decompress(b"", _PIECE)):
                        raise EOFError("cut off")
                    yield piece
            at = len(data) - len(reader.unused_data)
        elif codec == CODEC_LZ4:
            import lz4.frame
            reader = lz4.frame.LZ4FrameDecompressor()
            rest = data[at:]
            while not reader.eof:
                piece = reader.decompress(rest, _PIECE)
                if not piece and reader.needs_input and not rest:
                    raise EOFError("cut off")
                yield piece
                rest = b""
            at = len(data) - len(reader.unused_data or b"")
        else:
            import zstandard
            reader = zstandard.ZstdDecompressor().decompressobj()
            while not reader.eof:  # it takes no limit: a few bytes at a time
                if at == len(data):
                    raise EOFError("cut off")
                yield reader.decompress(data[at:at + 128])
                at = min(at + 128, len(data))
            at -= len(reader.unused_data)


_PIECE = 1 << 20


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


cdef int append_bytes(kw_buf **out, bytes data, bint scratch) except *:
    cdef int status = make_scratch(out, len(data)) if scratch else make_room(out, len(data))
    if status == CODEC_OK:
        memcpy(out[0].data + out[0].size, <const char *>data, len(data))
        out[0].size += len(data)
    return status


cdef int python_decompress(int codec, const uint8_t *source, size_t size, kw_buf **out, size_t limit,
                           const char **reason) noexcept with gil:
    cdef size_t produced = 0
    cdef int status
    interrupt = None
    while True:
        try:
            if out[0] is not NULL:
                out[0].size = 0
            produced = 0
            for piece in _python_pieces(codec, (<const char *>source)[:size]):
                produced += len(piece)
                if produced > limit:
                    status = CODEC_TOO_LARGE
                    break
                status = append_bytes(out, piece, True)
                if status != CODEC_OK:
                    break
            else:
                status = append_bytes(out, b"", True)
        except MemoryError:
            status = CODEC_NO_MEMORY
        except Exception:
            reason[0] = "the compressed data is corrupt"
            status = CODEC_CORRUPT
        except BaseException as error:
            interrupt = type(error)
            continue
        if interrupt is not None:
            raise_later(interrupt)
        return status


cdef int python_compress(int codec, int level, const uint8_t *source, size_t size, kw_buf **out,
                         const char **reason) noexcept with gil:
    cdef int status
    interrupt = None
    while True:
        try:
            status = append_bytes(out, _python_deflate(codec, (<const char *>source)[:size],
                                                       None if level == CODEC_LEVEL_DEFAULT else level), False)
        except MemoryError:
            status = CODEC_NO_MEMORY
        except Exception:
            reason[0] = "compression failed"
            status = CODEC_CORRUPT
        except BaseException as error:
            interrupt = type(error)
            continue
        if interrupt is not None:
            raise_later(interrupt)
        return status


# An interrupt during Python (de)compression must neither look like an outcome nor be lost: the work is repeated.
cdef void raise_later(object kind) noexcept:
    """Raise an exception in this thread's Python code, once it runs again."""
    PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), kind)


# --- compress and decompress ----------------------------------------------------------------------------------------

cdef int python_lz4(const uint8_t *head, size_t head_size, const uint8_t *source, size_t size, kw_buf **out,
                    size_t limit, const char **reason) noexcept nogil:
    cdef kw_buf *whole = kw_buf_new(process_pool(), size)
    cdef int status
    if whole is NULL:
        return CODEC_NO_MEMORY
    memcpy(whole.data, source, size)
    memcpy(whole.data, head, head_size)
    status = python_decompress(CODEC_LZ4, whole.data, size, out, limit, reason)
    kw_buf_unref(whole)
    return status


# The arguments of a decompression, kept for a second attempt.
cdef struct Task:
    int codec
    int state
    const uint8_t *head  # lz4: replaces the first bytes of the source
    size_t head_size
    const uint8_t *source
    size_t size
    size_t limit
    size_t hint


cdef int attempt(const Task *task, kw_buf **out, const char **reason) noexcept nogil:
    cdef int status
    if out[0] is not NULL:
        out[0].size = 0
    if task.state == PYTHON:
        if task.head_size != 0:
            return python_lz4(task.head, task.head_size, task.source, task.size, out, task.limit, reason)
        return python_decompress(task.codec, task.source, task.size, out, task.limit, reason)
    if task.codec == CODEC_LZ4:
        return lz4_decompress(task.head, task.head_size, task.source, task.size, out, task.limit, task.hint, reason)
    if task.codec == CODEC_ZSTD:
        return zstd_decompress(task.source, task.size, out, task.limit, task.hint, reason)
    if task.codec == CODEC_SNAPPY:
        return snappy_decompress(task.source, task.size, out, task.limit, task.hint, reason)
    if task.codec == CODEC_GZIP:
        if task.state == SYSTEM_ZLIB:
            return zlib_decompress(task.source, task.size, out, task.limit, task.hint, reason)
        return isal_decompress(task.source, task.size, out, task.limit, task.hint, reason)
    if task.size > task.limit:
        return CODEC_TOO_LARGE
    status = make_scratch(out, task.size)
    if status == CODEC_OK:
        memcpy(out[0].data, task.source, task.size)
        out[0].size = task.size
    return status


cdef int perform(Task *task, kw_buf **out, const char **reason) noexcept nogil:
    cdef int status
    reason[0] = ""
    if task.codec < 0 or task.codec >= CODEC_COUNT:
        return CODEC_UNKNOWN
    task.state = kw_acquire(&_state[task.codec])
    if task.state == NOT_RESOLVED:
        return CODEC_UNRESOLVED
    if task.size > 0x7FFFFFFF:
        return CODEC_TOO_LARGE
    status = attempt(task, out, reason)
    if status != CODEC_OVER_BUDGET:
        return status
    kw_buf_unref(out[0])
    out[0] = kw_scratch_wait(process_pool(), task.limit + 2 * LZ4_ROOM + SLACK)
    if out[0] is NULL:
        return CODEC_NO_MEMORY
    return attempt(task, out, reason)


cdef int decompress(int codec, const uint8_t *source, size_t size, kw_buf **out, size_t limit, size_t hint,
                    const char **reason) noexcept nogil:
    cdef Task task
    memset(&task, 0, sizeof(task))
    task.codec = codec
    task.source = source
    task.size = size
    task.limit = min(limit, <size_t>1 << 40)
    task.hint = hint
    return perform(&task, out, reason)


cdef int decompress_lz4(const uint8_t *head, size_t head_size, const uint8_t *source, size_t size, kw_buf **out,
                        size_t limit, const char **reason) noexcept nogil:
    cdef Task task
    memset(&task, 0, sizeof(task))
    task.codec = CODEC_LZ4
    task.head = head
    task.head_size = head_size
    task.source = source
    task.size = size
    task.limit = min(limit, <size_t>1 << 40)
    return perform(&task, out, reason)


cdef bint runs_python(int codec) noexcept nogil:
    return kw_acquire(&_state[codec]) == PYTHON


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
    if codec == CODEC_LZ4 and level == CODEC_LEVEL_DEFAULT:
        return lz4_encode(source, size, out)
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
    if make_room(out, size) != CODEC_OK:
        return CODEC_NO_MEMORY
    memcpy(out[0].data + out[0].size, source, size)
    out[0].size += size
    return CODEC_OK


# --- finding the libraries ------------------------------------------------------------------------------------------

# codec -> (package, its folder, stem of the extension module that exports the library's functions, system library)
_LIBRARIES = {
    CODEC_GZIP: ("isal", "", "igzip_lib", "libz.so.1"),
    CODEC_LZ4: ("lz4", "frame", "_frame", "liblz4.so.1"),
    CODEC_ZSTD: ("zstandard", "", "_cffi", "libzstd.so.1"),
}


def _wheel_files(package, folder, stem):
    """Return paths of the extension module, found without importing the package."""
    spec = importlib.util.find_spec(package)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            path = os.path.join(place, folder, stem + suffix)
            if os.path.exists(path):
                yield path


_PROBE = b"kafwire " * 64 + bytes(range(256))


cdef bint works(int codec) except *:
    """Check a round trip: a library with another structure layout than assumed must not be used."""
    cdef kw_buf *packed = NULL
    cdef kw_buf *plain = NULL
    cdef const char *reason
    cdef bytes probe = _PROBE
    cdef const uint8_t *data = probe
    cdef size_t size = len(probe)
    cdef bint good = False
    cdef int level = 0 if codec == CODEC_LZ4 else CODEC_LEVEL_DEFAULT  # lz4's default is not the library's
    if compress(codec, level, data, size, &packed, &reason) == CODEC_OK:
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
    """Bind `codec` to the first of `sources` that works. Tests call it to force one; the codec must not be in use."""
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
    """Return the implementation of the codec `name`; look for it if needed."""
    resolve_codec(codec_id(name))
    return _origin[name]


def codec_id(name):
    """Return Kafka's number of the codec `name`."""
    try:
        return IDS[name]
    except (KeyError, TypeError):
        raise ConfigError(f"unknown compression {name!r}: it must be one of {', '.join(NAMES)}") from None


cdef bytes take_bytes(kw_buf *out):
    """Return the content as bytes, releasing the buffer in steps, so that a large one never exists twice."""
    cdef bytes data = PyBytes_FromStringAndSize(NULL, out.size)
    move_out(<uint8_t *>PyBytes_AS_STRING(data), out.data, out.size, out)
    return data


cdef bytes finish(int status, kw_buf *out, const char *reason, str name, str what, size_t limit):
    try:
        if status == CODEC_OK:
            return take_bytes(out) if out is not NULL else b""
        if status == CODEC_NO_MEMORY:
            raise MemoryError(f"no memory to {what} {name} data")
        if status == CODEC_TOO_LARGE:
            raise ProtocolError(f"{name} data {what}es to more than {limit} bytes")
        if status == CODEC_OVER_BUDGET:
            raise ProtocolError(f"{name} data {what}es to more than this process's budget for decompression, "
                                f"{kw_pool_budget(process_pool())} bytes: see compression.set_budget")
        raise ProtocolError(f"cannot {what} {name} data: {reason.decode()}")
    finally:
        kw_buf_unref(out)


def compress_bytes(str name, const uint8_t[::1] data, level=None):
    """Return `data` compressed, in the framing of Kafka's Java client."""
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
    """Return the decompressed `data`; raise ProtocolError if it is corrupt or longer than `limit`."""
    cdef int codec = codec_id(name), status
    cdef const uint8_t *source = &data[0] if data.shape[0] else <const uint8_t *>b""
    cdef size_t size = data.shape[0]
    cdef kw_buf *out = NULL
    cdef const char *reason = ""
    resolve_codec(codec)
    with nogil:
        status = decompress(codec, source, size, &out, limit, 0, &reason)
    return finish(status, out, reason, name, "decompress", limit)
