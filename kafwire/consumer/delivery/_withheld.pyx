# distutils: sources = kafwire/memory/native/buf.c kafwire/consumer/fetch/native/queue.c
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from kafwire.consumer.fetch._fetch_buffer cimport kw_queue_pop_same
from kafwire.memory._buffer cimport kw_buf_ref, kw_buf_unref
from kafwire.records._columns cimport columns_clear, columns_init, columns_split


cdef bint withheld_begin(Withheld *withheld, const kw_records *slice) noexcept nogil:
    cdef size_t size = slice.aborted_count * sizeof(AbortedTransaction)
    cdef void *before
    cdef void *behind
    if slice.aborted_count > withheld.room:
        before = realloc(withheld.before, size)
        if before is not NULL:
            withheld.before = <AbortedTransaction *> before
        behind = realloc(withheld.behind, size)
        if behind is not NULL:
            withheld.behind = <AbortedTransaction *> behind
        if before is NULL or behind is NULL:
            return False
        withheld.room = slice.aborted_count
    if slice.aborted_count:
        memcpy(withheld.before, slice.aborted, size)
    return True


cdef void withheld_keep(Withheld *withheld, Columns *columns, int64_t rows, kw_records *slice, size_t begin,
                        size_t used, int64_t next_offset) noexcept nogil:
    cdef size_t size = slice.aborted_count * sizeof(AbortedTransaction)
    columns_split(columns, rows, &withheld.columns)
    if size:
        memcpy(withheld.behind, slice.aborted, size)
        memcpy(slice.aborted, withheld.before, size)
    withheld.slice = slice[0]
    withheld.slice.data += begin
    withheld.slice.size -= begin
    withheld.slice.start = columns.next_offset
    kw_buf_ref(slice.frame)
    withheld.used = used - begin
    withheld.next_offset = next_offset
    withheld.has_rows = True


cdef bint withheld_take(Withheld *withheld, kw_queue *queue, kw_place *only, Columns *out, kw_records *slice)\
        noexcept nogil:
    if not kw_queue_pop_same(queue, only, &withheld.slice, slice):
        withheld_drop(withheld)
        return False
    if slice.aborted_count:
        memcpy(slice.aborted, withheld.behind, slice.aborted_count * sizeof(AbortedTransaction))
    out[0] = withheld.columns
    columns_init(&withheld.columns)
    withheld_drop(withheld)
    return True


cdef void withheld_drop(Withheld *withheld) noexcept nogil:
    if not withheld.has_rows:
        return
    columns_clear(&withheld.columns)
    kw_buf_unref(withheld.slice.frame)
    memset(&withheld.slice, 0, sizeof(kw_records))
    withheld.has_rows = False


cdef void withheld_end(Withheld *withheld) noexcept nogil:
    withheld_drop(withheld)
    free(withheld.before)
    free(withheld.behind)
    withheld.before = withheld.behind = NULL
    withheld.room = 0
