"""Chunks that a thread decodes before they are asked for, while a reader waits for the GIL."""
from libc.stdint cimport int64_t

from kafwire._codec cimport DecodeSpec
from kafwire.consumer._fetch_buffer cimport kw_place, kw_queue, kw_records
from kafwire.records._columns cimport Columns


cdef extern from "pthread.h" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    ctypedef unsigned long pthread_t


cdef enum:
    MOST_AHEAD = 8  # chunks


# A chunk, and the slice as the queue gives it when its turn has come. Its frame is referred to, so that nothing else
# can lie where the slice lies.
cdef struct ChunkAhead:
    Columns columns
    kw_records slice
    size_t used
    size_t bytes  # of the columns
    int64_t next_offset


# The queue does not know of it: what is decoded here stays there until it is handed out, and counts only if the queue
# still has the same then.
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
    unsigned int drops  # what was begun before the last of them is nobody's
    bint is_alone  # one partition is read
    kw_records slice  # what is decoded next; without a frame: whatever comes behind `offset`
    int64_t offset
    int patience  # for how many more turns the GIL is expected to be contended


cdef void ahead_init(ReadAhead *ahead, kw_queue *queue) noexcept nogil
# End the thread, and drop all chunks.
cdef void ahead_end(ReadAhead *ahead) noexcept nogil
# Have the thread decode what follows a slice of which `used` bytes are read, up to `offset`: the rest of it, and what
# is queued behind it.
cdef void ahead_begin(ReadAhead *ahead, kw_place *only, const kw_records *slice, size_t used, int64_t offset,
                      const DecodeSpec *spec) noexcept nogil
# Take the next chunk, if the queue's next slice begins with it: that is popped, and `out` filled. With `wait`, for a
# chunk that the thread is at.
cdef bint ahead_take(ReadAhead *ahead, kw_place *only, bint wait, Columns *out, kw_records *slice, size_t *used,
                     int64_t *next_offset) noexcept nogil
# Whether the next chunk is of this place too.
cdef bint ahead_stays(ReadAhead *ahead, const kw_place *place) noexcept nogil
# How many chunks are decoded.
cdef int ahead_count(ReadAhead *ahead) noexcept nogil
# Drop all chunks.
cdef void ahead_drop(ReadAhead *ahead) noexcept nogil
# A reader has waited so long for the GIL.
cdef void ahead_adapt(ReadAhead *ahead, int64_t waited_ns) noexcept nogil
