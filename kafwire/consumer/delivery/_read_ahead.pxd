"""Read-ahead: a thread decodes the next chunks while a reader waits for the GIL."""
from libc.stdint cimport int64_t

from kafwire._codec cimport DecodeSpec
from kafwire.consumer.fetch._fetch_buffer cimport kw_place, kw_queue, kw_records
from kafwire.records._columns cimport Columns


cdef extern from "pthread.h" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    ctypedef unsigned long pthread_t


cdef enum:
    MOST_AHEAD = 8  # chunks


# A decoded chunk, and its slice as the queue will return it. A reference to the frame keeps the slice's memory from
# being used again.
cdef struct ChunkAhead:
    Columns columns
    kw_records slice
    size_t used
    size_t bytes  # of the columns
    int64_t next_offset


# The decoded slices stay in the queue until delivery. A chunk is valid only if the queue then still has its slice.
cdef struct ReadAhead:
    pthread_mutex_t lock
    pthread_cond_t changed
    pthread_t thread
    bint has_thread
    bint is_over
    kw_queue *queue
    DecodeSpec spec
    ChunkAhead chunks[MOST_AHEAD]
    int first, count
    size_t bytes  # of their columns
    bint is_active  # the thread has something to decode
    unsigned int drops  # count of drops: a chunk that was begun before the last one is discarded
    bint is_alone  # one partition is read
    kw_records slice  # the next slice to decode; without a frame: look for the one behind `offset`
    int64_t offset
    int patience  # reads for which the GIL is still assumed to be contended


cdef void ahead_init(ReadAhead *ahead, kw_queue *queue) noexcept nogil
# End the thread, and drop all chunks.
cdef void ahead_end(ReadAhead *ahead) noexcept nogil
# Let the thread decode behind a slice of which `used` bytes are read, up to `offset`: its rest, and the slices queued
# behind it.
cdef void ahead_begin(ReadAhead *ahead, kw_place *only, const kw_records *slice, size_t used, int64_t offset,
                      const DecodeSpec *spec) noexcept nogil
# Take the next chunk if the queue's next slice begins with it: pop the slice, and fill `out`. With `wait`, wait for a
# chunk that is being decoded.
cdef bint ahead_take(ReadAhead *ahead, kw_place *only, bint wait, Columns *out, kw_records *slice, size_t *used,
                     int64_t *next_offset) noexcept nogil
# True if the next chunk is of this place too.
cdef bint ahead_stays(ReadAhead *ahead, const kw_place *place) noexcept nogil
# The count of decoded chunks.
cdef int ahead_count(ReadAhead *ahead) noexcept nogil
# Drop all chunks.
cdef void ahead_drop(ReadAhead *ahead) noexcept nogil
# Switch read-ahead on or off, from the time that a reader waited for the GIL.
cdef void ahead_adapt(ReadAhead *ahead, int64_t waited_ns) noexcept nogil
