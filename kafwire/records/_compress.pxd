"""Kafka's compression codecs as C functions that need no GIL.

Snappy is kafwire's own. gzip, lz4 and zstd are C functions of libraries found at run time: `resolve_codec` finds them
once, with the GIL; until then the functions below return `CODEC_UNRESOLVED`, and the caller resolves and retries.
"""
from libc.stdint cimport uint8_t

from kafwire.memory._buffer cimport kw_buf


# Fill *out with the decompressed `source`. *out may be replaced by another buffer (NULL: made here); it grows with the
# actual output, never by the size that the data claims. `hint`: expected output size, 0 for unknown.
#
# Buffers above 16 MiB are charged to the process's budget. If others have used that up, the output so far is dropped,
# and this call waits until all of `limit` is available at once, then starts again: so no caller holds a part while it
# waits for the rest, and a valid batch never fails because of other threads. The caller may hold no other charged
# buffer.
cdef int decompress(int codec, const uint8_t *source, size_t size, kw_buf **out, size_t limit, size_t hint,
                    const char **reason) noexcept nogil
# The same for an lz4 frame whose first `head_size` bytes come from `head`.
cdef int decompress_lz4(const uint8_t *head, size_t head_size, const uint8_t *source, size_t size, kw_buf **out,
                        size_t limit, const char **reason) noexcept nogil
# Append the compressed `source` to *out, in the framing of Kafka's Java client.
cdef int compress(int codec, int level, const uint8_t *source, size_t size, kw_buf **out,
                  const char **reason) noexcept nogil
# True if `compress` calls Python for this codec, as no library was found: it takes the GIL and may run any code.
cdef bint runs_python(int codec) noexcept nogil
# Find the library of `codec`. Needs the GIL. Raises ProtocolError for an unknown id. Cheap when already done.
cdef int resolve_codec(int codec) except -1
