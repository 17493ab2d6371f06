"""The queue of fetched slices (in C), and the Python objects of its partitions. `_fetch_reader` reads from it."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kafwire.memory._buffer cimport kw_buf
from kafwire.records._arrow cimport ArrowLayout, Layout
from kafwire.runtime._interfaces cimport Notifier


cdef extern from "kafwire/consumer/fetch/native/queue.h" nogil:
    ctypedef struct kw_queue:
        pass
    ctypedef struct kw_place:
        pass
    ctypedef struct kw_records:
        kw_buf *frame
        const uint8_t *data
        size_t size
        kw_place *place
        uint32_t generation
        int64_t start
        int64_t end
        void *aborted
        int32_t aborted_count
    enum:
        KW_QUEUE_FAILED
        KW_QUEUE_ENDED
        KW_QUEUE_RECORDS
        KW_QUEUE_IDLE
        KW_QUEUE_PLACE_FAILED
        KW_DONE_TELL
        KW_DONE_STALE
    kw_queue *kw_queue_new()
    void kw_queue_free(kw_queue *queue)
    kw_place *kw_queue_add(kw_queue *queue, void *owner)
    kw_place *kw_queue_place(kw_queue *queue, int32_t number)
    void *kw_place_owner(const kw_place *place)
    int32_t kw_place_number(const kw_place *place)
    int kw_queue_push(kw_queue *queue, const kw_records *slice)
    void kw_queue_seal(kw_queue *queue)
    int kw_queue_pop(kw_queue *queue, kw_place *place, kw_records *out, int wait_ms)
    int kw_queue_next(kw_queue *queue, kw_records *slice, int64_t offset)
    int kw_place_look(kw_queue *queue, kw_place *place, uint32_t generation, int64_t offset, kw_records *out)
    int kw_queue_look(kw_queue *queue, kw_place *const *seen, int count, kw_records *out)
    int kw_queue_pop_same(kw_queue *queue, kw_place *place, const kw_records *same, kw_records *out)
    int kw_queue_done(kw_queue *queue, kw_records *slice, size_t used, int64_t position, bint again)
    uint32_t kw_queue_refuse(kw_queue *queue, kw_records *slice, int64_t position)
    size_t kw_queue_bytes(kw_queue *queue, int starved)
    void kw_queue_compact(kw_queue *queue)
    uint32_t kw_place_reset(kw_queue *queue, kw_place *place, int64_t position)
    void kw_place_cut(kw_queue *queue, kw_place *place, int64_t offset)
    int64_t kw_place_position(kw_queue *queue, kw_place *place)
    int64_t kw_place_end(kw_queue *queue, kw_place *place, int committed_only)
    void kw_queue_settle(kw_queue *queue, kw_place *only)
    int64_t kw_place_processed(kw_queue *queue, kw_place *place)
    void kw_place_process(kw_queue *queue, kw_place *place, int64_t offset, int64_t generation)
    bint kw_place_in_hand(kw_queue *queue, kw_place *place)
    void kw_queue_wake(kw_queue *queue)
    bint kw_queue_woken(kw_queue *queue)
    int32_t kw_place_queued(kw_queue *queue, kw_place *place, size_t *bytes, int watch)
    kw_place *kw_queue_noticed(kw_queue *queue)
    void kw_place_pause(kw_queue *queue, kw_place *place, int paused)
    void kw_place_claim(kw_queue *queue, kw_place *place, int claimed)
    void kw_place_fail(kw_queue *queue, kw_place *place, uint32_t generation)
    int kw_queue_ready(kw_queue *queue, kw_place *place, size_t *size)
    void kw_queue_end(kw_queue *queue)
    void kw_queue_fail(kw_queue *queue)
    void kw_queue_close(kw_queue *queue)
    int kw_queue_owed(kw_queue *queue)


cdef class PartitionSlot:
    cdef readonly object topic
    cdef readonly object partition
    cdef readonly Layout layout
    cdef readonly object error  # why the partition failed
    cdef readonly object where  # the broker that sent its last records
    cdef readonly int64_t skipped  # corrupt batches that were skipped
    cdef ArrowLayout *arrow
    cdef kw_place *place


cdef class FetchBuffer:
    cdef kw_queue *queue
    cdef Notifier notifier
    cdef list places
    cdef tuple kept  # the places again, as a linked list: (the last place, the tuple of those before it)
    cdef public object error
    cdef size_t claimed  # bytes that the pool keeps for this buffer

    cdef kw_place *at(self, int32_t number) except NULL
