# decoder: its lines are counted by scripts/coverage.py
# distutils: sources = kafwire/memory/native/buf.c kafwire/consumer/fetch/native/queue.c
from libc.string cimport memset

from kafwire._codec cimport DECODE_OK, DecodeStatus, decode_chunk
from kafwire.consumer.fetch._fetch_buffer cimport (
    PartitionSlot, kw_place, kw_place_look, kw_place_owner, kw_queue_look, kw_queue_pop_same,
)
from kafwire.memory._buffer cimport kw_buf_ref, kw_buf_unref
from kafwire.records._columns cimport columns_bytes, columns_clear, columns_finish, columns_init


cdef extern from "kafwire/memory/native/thread.h" nogil:
    int kw_thread_start(pthread_t *thread, void *(*run)(void *) noexcept nogil, void *argument, const char *name)
    int pthread_join(pthread_t thread, void **result)
    int pthread_mutex_init(pthread_mutex_t *lock, const void *attributes)
    int pthread_mutex_destroy(pthread_mutex_t *lock)
    int pthread_mutex_lock(pthread_mutex_t *lock)
    int pthread_mutex_unlock(pthread_mutex_t *lock)
    int pthread_cond_init(pthread_cond_t *changed, const void *attributes)
    int pthread_cond_destroy(pthread_cond_t *changed)
    int pthread_cond_wait(pthread_cond_t *changed, pthread_mutex_t *lock)
    int pthread_cond_broadcast(pthread_cond_t *changed)


cdef enum:
    MOST_BYTES = 16 << 20  # no chunk is begun while the decoded ones have this many bytes
    BUSY_NS = 4000000  # CPython switches threads after 5 ms, so a wait of about that means another busy thread
    PATIENCE = 8


cdef void ahead_init(ReadAhead *ahead, kw_queue *queue) noexcept nogil:
    ahead.queue = queue
    pthread_mutex_init(&ahead.lock, NULL)
    pthread_cond_init(&ahead.changed, NULL)


cdef void ahead_end(ReadAhead *ahead) noexcept nogil:
    ahead_drop(ahead)
    if ahead.has_thread:
        pthread_mutex_lock(&ahead.lock)
        ahead.is_over = True
        pthread_cond_broadcast(&ahead.changed)
        pthread_mutex_unlock(&ahead.lock)
        pthread_join(ahead.thread, NULL)
        ahead.has_thread = False
    pthread_cond_destroy(&ahead.changed)
    pthread_mutex_destroy(&ahead.lock)


cdef void ahead_adapt(ReadAhead *ahead, int64_t waited_ns) noexcept nogil:
    if waited_ns >= BUSY_NS:
        ahead.patience = PATIENCE
    elif ahead.patience:
        ahead.patience -= 1


cdef void ahead_begin(ReadAhead *ahead, kw_place *only, const kw_records *slice, size_t used, int64_t offset,
                      const DecodeSpec *spec) noexcept nogil:
    # (decoding marks aborted transactions that have ended, so a dropped chunk could not be decoded a second time)
    if not ahead.patience or slice.aborted_count:
        return
    pthread_mutex_lock(&ahead.lock)
    if not ahead.is_active and not ahead.count:
        ahead.spec = spec[0]
        ahead.spec.aborted = NULL
        ahead.spec.aborted_count = 0
        ahead.is_alone = only is not NULL
        ahead.offset = offset
        ahead.slice = slice[0]
        if used < slice.size:
            kw_buf_ref(slice.frame)
            _advance(&ahead.slice, used, offset)
        else:
            ahead.slice.frame = NULL
        if not ahead.has_thread:
            ahead.has_thread = kw_thread_start(&ahead.thread, _decode_all, ahead, "kafwire-decode") == 0
        if ahead.has_thread:
            ahead.is_active = True
            pthread_cond_broadcast(&ahead.changed)
        else:
            _leave_slice(ahead)
    pthread_mutex_unlock(&ahead.lock)


cdef bint ahead_take(ReadAhead *ahead, kw_place *only, bint wait, Columns *out, kw_records *slice, size_t *used,
                     int64_t *next_offset) noexcept nogil:
    cdef ChunkAhead *chunk
    cdef bint taken = False
    pthread_mutex_lock(&ahead.lock)
    while wait and ahead.is_active and not ahead.count:
        pthread_cond_wait(&ahead.changed, &ahead.lock)
    if ahead.count:
        chunk = &ahead.chunks[ahead.first]
        taken = kw_queue_pop_same(ahead.queue, only, &chunk.slice, slice)
        if taken:
            out[0] = chunk.columns
            used[0] = chunk.used
            next_offset[0] = chunk.next_offset
            _forget_first(ahead)
        else:
            _drop(ahead)
    pthread_mutex_unlock(&ahead.lock)
    return taken


cdef bint ahead_stays(ReadAhead *ahead, const kw_place *place) noexcept nogil:
    cdef bint stays
    if not ahead.has_thread:
        return False
    pthread_mutex_lock(&ahead.lock)
    stays = ahead.count > 0 and ahead.chunks[ahead.first].slice.place == place
    pthread_mutex_unlock(&ahead.lock)
    return stays


cdef int ahead_count(ReadAhead *ahead) noexcept nogil:
    cdef int count
    pthread_mutex_lock(&ahead.lock)
    count = ahead.count
    pthread_mutex_unlock(&ahead.lock)
    return count


cdef void ahead_drop(ReadAhead *ahead) noexcept nogil:
    pthread_mutex_lock(&ahead.lock)
    _drop(ahead)
    pthread_mutex_unlock(&ahead.lock)


# ---- under the lock

cdef void _drop(ReadAhead *ahead) noexcept nogil:
    while ahead.count:
        columns_clear(&ahead.chunks[ahead.first].columns)
        _forget_first(ahead)
    _leave_slice(ahead)
    ahead.drops += 1


cdef void _forget_first(ReadAhead *ahead) noexcept nogil:
    cdef ChunkAhead *chunk = &ahead.chunks[ahead.first]
    ahead.bytes -= chunk.bytes
    kw_buf_unref(chunk.slice.frame)
    memset(chunk, 0, sizeof(ChunkAhead))
    ahead.first = (ahead.first + 1) % MOST_AHEAD
    ahead.count -= 1
    pthread_cond_broadcast(&ahead.changed)


cdef void _leave_slice(ReadAhead *ahead) noexcept nogil:
    """Drop the slice to decode: the thread becomes idle."""
    kw_buf_unref(ahead.slice.frame)
    ahead.slice.frame = NULL
    ahead.is_active = False
    pthread_cond_broadcast(&ahead.changed)


cdef void _advance(kw_records *slice, size_t used, int64_t offset) noexcept nogil:
    slice.data += used
    slice.size -= used
    slice.start = max(slice.start, offset)


# ---- the thread

cdef void *_decode_all(void *argument) noexcept nogil:
    cdef ReadAhead *ahead = <ReadAhead *> argument
    pthread_mutex_lock(&ahead.lock)
    while not ahead.is_over:
        if not ahead.is_active or ahead.count == MOST_AHEAD or ahead.bytes >= MOST_BYTES:
            pthread_cond_wait(&ahead.changed, &ahead.lock)
        elif ahead.slice.frame is NULL and not _find_slice(ahead):
            _leave_slice(ahead)
        else:
            _decode_next(ahead)
    pthread_mutex_unlock(&ahead.lock)
    return NULL


cdef bint _find_slice(ReadAhead *ahead) noexcept nogil:
    """Find the slice that the queue returns next: of the same place, unless another place waits for its turn."""
    cdef kw_place *seen[MOST_AHEAD + 1]
    cdef kw_records found
    cdef int i
    if not kw_place_look(ahead.queue, ahead.slice.place, ahead.slice.generation, ahead.offset, &found):
        if ahead.is_alone:
            return False
        seen[0] = ahead.slice.place
        for i in range(ahead.count):
            seen[1 + i] = ahead.chunks[(ahead.first + i) % MOST_AHEAD].slice.place
        if not kw_queue_look(ahead.queue, seen, 1 + ahead.count, &found):
            return False
    ahead.slice = found
    ahead.offset = found.start
    return not found.aborted_count


cdef void _decode_next(ReadAhead *ahead) noexcept nogil:
    """Decode one chunk, without the lock. Errors and chunks without rows are left to the reader."""
    cdef kw_records slice = ahead.slice
    cdef DecodeSpec spec = ahead.spec
    cdef unsigned int drops = ahead.drops
    cdef DecodeStatus status
    cdef ChunkAhead *chunk
    cdef Columns columns
    cdef int got
    kw_buf_ref(slice.frame)
    pthread_mutex_unlock(&ahead.lock)
    columns_init(&columns)
    memset(&status, 0, sizeof(status))
    spec.start = slice.start
    spec.end = slice.end
    spec.row_bytes = (<PartitionSlot> kw_place_owner(slice.place)).arrow.row_bytes
    got = decode_chunk(slice.data, slice.size, &spec, &columns, &status)
    columns_finish(&columns)
    pthread_mutex_lock(&ahead.lock)
    if ahead.drops != drops or got != DECODE_OK or not columns.length:
        columns_clear(&columns)
        kw_buf_unref(slice.frame)
        if ahead.drops == drops:
            _leave_slice(ahead)
        return
    chunk = &ahead.chunks[(ahead.first + ahead.count) % MOST_AHEAD]
    chunk.columns = columns
    chunk.slice = slice
    chunk.used = status.consumed
    chunk.next_offset = ahead.offset = status.next_offset
    chunk.bytes = columns_bytes(&columns)
    ahead.bytes += chunk.bytes
    ahead.count += 1
    _advance(&ahead.slice, status.consumed, status.next_offset)
    if not ahead.slice.size:
        kw_buf_unref(ahead.slice.frame)
        ahead.slice.frame = NULL
    pthread_cond_broadcast(&ahead.changed)
