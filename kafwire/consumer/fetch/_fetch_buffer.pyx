# distutils: sources = kafwire/memory/native/buf.c kafwire/consumer/fetch/native/queue.c kafwire/consumer/fetch/native/fast_path.c
"""The buffer of fetched slices. A reader (`_fetch_reader`) decodes them in its own thread.

`FetchBuffer` has a place for each partition; `FetchFastPath` lets the I/O thread queue slices there.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from kafwire._codec cimport AbortedTransaction, aborted_sort
from kafwire.consumer.fetch._fetch cimport PartitionLayout, partition_layout
from kafwire.memory._buffer cimport Buffer, kw_buf, kw_buf_ref, kw_buf_unref, kw_pool_claim, process_pool
from kafwire.records._arrow cimport Layout
from kafwire.runtime._interfaces cimport Notifier, ResponseFilter

from kafwire.protocol.api.fetch import FetchRequest


cdef extern from "kafwire/consumer/fetch/native/fast_path.h" nogil:
    ctypedef struct kw_fast_path:
        pass
    ctypedef struct kw_taken:
        int32_t number
        uint32_t generation
        int64_t start
        int64_t next_offset
        int32_t leader_epoch
        size_t size
    kw_fast_path *kw_fast_path_new(kw_queue *queue)
    void kw_fast_path_free(kw_fast_path *fast_path)
    int kw_fast_path_expect(kw_fast_path *fast_path, const uint8_t *topic_id, int32_t partition, kw_place *place,
                            uint32_t generation, int64_t offset)
    int kw_fast_path_forget(
        kw_fast_path *fast_path, const uint8_t *topic_id, int32_t partition, int32_t number, kw_taken *out
    )
    void kw_fast_path_clear(kw_fast_path *fast_path)
    void kw_fast_path_arm(kw_fast_path *fast_path, uint64_t token, int32_t session, const PartitionLayout *layout)
    int kw_fast_path_take(void *fast_path, uint64_t token, kw_buf *frame)
    kw_taken *kw_fast_path_taken(kw_fast_path *fast_path, uint64_t token, int32_t *count)


@cython.final
@cython.no_gc_clear
cdef class PartitionSlot:
    """The Python object of a partition in a queue."""


# A read-ahead thread uses the layout of a place's slot until its reader is freed. The garbage collector clears lists
# of a cycle, but no tuples: slots in a tuple live as long as the buffer.
@cython.final
@cython.no_gc_clear
cdef class FetchBuffer:
    """Slices between the engine and the readers. `notifier` is notified when bytes free up.

    Partitions are numbered in the order in which they were added.
    """

    def __cinit__(self, Notifier notifier not None):
        self.notifier = notifier
        self.places = []
        self.kept = ()
        self.queue = kw_queue_new()
        if self.queue is NULL:
            raise MemoryError

    def __dealloc__(self):
        kw_queue_free(self.queue)
        kw_pool_claim(process_pool(), 0, self.claimed)

    def keep_idle(self, size_t size):
        """Make the pool keep up to `size` idle bytes for this buffer's frames until the buffer is freed; 0: none."""
        with nogil:
            kw_pool_claim(process_pool(), size, self.claimed)
        self.claimed = size

    def add(self, topic, partition, Layout layout not None):
        """Add a place for a partition; return its number."""
        cdef PartitionSlot place = PartitionSlot.__new__(PartitionSlot)
        place.topic = topic
        place.partition = partition
        place.layout = layout
        place.arrow = &layout.layout
        place.where = "a broker"
        place.place = kw_queue_add(self.queue, <void *> place)
        if place.place is NULL:
            raise MemoryError
        self.places.append(place)
        self.kept = (place, self.kept)
        return kw_place_number(place.place)

    cdef kw_place *at(self, int32_t number) except NULL:
        cdef kw_place *place = kw_queue_place(self.queue, number)
        if place is NULL:
            raise IndexError(f"no partition has the number {number}")
        return place

    def place(self, int32_t number):
        """Return the slot of a partition."""
        return self.places[number]

    def push(self, Buffer frame, size_t position, size_t size, int32_t number, int64_t start, int64_t end,
             list aborted, uint32_t generation=0, where=None):
        """Queue frame[position:position + size] for a partition. The reader delivers its records in [start, end).

        The slice is dropped if the partition was reset since it had that `generation`. `where` is the broker, as
        errors name it. Push the slices of a frame one after the other, then call `seal`.
        """
        cdef kw_records slice
        cdef AbortedTransaction *entries = NULL
        cdef int32_t i
        if frame.buf is NULL or position > frame.buf.size or size > frame.buf.size - position:
            raise ValueError("the slice lies outside its frame")
        memset(&slice, 0, sizeof(slice))
        slice.place = self.at(number)
        if where is not None:
            (<PartitionSlot> kw_place_owner(slice.place)).where = where
        if aborted:
            entries = <AbortedTransaction *> calloc(len(aborted), sizeof(AbortedTransaction))
            if entries is NULL:
                raise MemoryError
            for i, (producer_id, first_offset) in enumerate(aborted):
                entries[i].producer_id = producer_id
                entries[i].first_offset = first_offset
            aborted_sort(entries, len(aborted))
        slice.frame = frame.buf
        slice.data = frame.buf.data + position
        slice.size = size
        slice.generation = generation
        slice.start = start
        slice.end = end
        slice.aborted = entries
        slice.aborted_count = len(aborted)
        kw_buf_ref(frame.buf)
        if kw_queue_push(self.queue, &slice):
            kw_buf_unref(frame.buf)
            free(entries)
            raise MemoryError

    def seal(self):
        """End the slices of the last pushed frame: its bytes are free once these slices are read."""
        kw_queue_seal(self.queue)

    def queued_bytes(self, *, bint starved=False):
        """Return the capacity of the frames that are queued or being decoded.

        With `starved`, the end of the next slice notifies the notifier.
        """
        return kw_queue_bytes(self.queue, starved)

    def compact(self):
        """Copy slices out of frames that are mostly read, so that these frames can be freed."""
        with nogil:
            kw_queue_compact(self.queue)

    def reset(self, int32_t number, int64_t position):
        """Drop a partition's queued slices and those of requests in flight; return its new generation."""
        cdef kw_place *place = self.at(number)
        (<PartitionSlot> kw_place_owner(place)).error = None
        return kw_place_reset(self.queue, place, position)

    def cut(self, int32_t number, int64_t offset):
        """Drop a partition's queued records from `offset` on; once the rest is read, the position is `offset`."""
        cdef kw_place *place = self.at(number)
        (<PartitionSlot> kw_place_owner(place)).error = None
        kw_place_cut(self.queue, place, offset)

    def position(self, int32_t number):
        """Return the offset of the next record that a partition's reader delivers."""
        return kw_place_position(self.queue, self.at(number))

    def log_end(self, int32_t number, bint committed_only=False):
        """Return the high watermark (or last stable offset) of the last response that the I/O thread queued, or -1."""
        return kw_place_end(self.queue, self.at(number), committed_only)

    def settle(self):
        """Count the delivered records of unclaimed partitions as processed."""
        kw_queue_settle(self.queue, NULL)

    def processed(self, int32_t number):
        """Return the offset after the last record that counts as processed."""
        return kw_place_processed(self.queue, self.at(number))

    def process(self, int32_t number, int64_t offset, int64_t generation=-1):
        """Count records below `offset` as processed, unless the partition was reset since `generation` (-1: always)."""
        kw_place_process(self.queue, self.at(number), offset, generation)

    def in_hand(self, int32_t number):
        """Return True if a reader may have records of a partition that do not count as processed yet."""
        return bool(kw_place_in_hand(self.queue, self.at(number)))

    def wake(self):
        """Make the reader of unclaimed partitions call its `on_wake`: now, if it waits, or in its next read."""
        kw_queue_wake(self.queue)

    def woken(self):
        """Return True if `wake` was called since the last call of this method."""
        return bool(kw_queue_woken(self.queue))

    def queued(self, int32_t number, *, bint watch=False):
        """Return a partition's (slices, bytes): slices that are queued or being read, and the queued bytes.

        With `watch`, the end of its next slice notifies the notifier, and `noticed` returns the partition.
        """
        cdef size_t size = 0
        slices = kw_place_queued(self.queue, self.at(number), &size, watch)
        return slices, size

    def noticed(self):
        """Return the numbers of watched partitions of which a slice was read since; each is returned once."""
        cdef kw_place *place
        numbers = []
        while True:
            place = kw_queue_noticed(self.queue)
            if place is NULL:
                return numbers
            numbers.append(kw_place_number(place))

    def pause(self, int32_t number, bint paused=True):
        """Pause a partition for its readers, or resume it; its queued slices stay."""
        kw_place_pause(self.queue, self.at(number), paused)

    def claim(self, int32_t number, bint claimed=True):
        """Give a partition to a reader of its own, or back to the reader of all unclaimed partitions."""
        kw_place_claim(self.queue, self.at(number), claimed)

    def fail_place(self, int32_t number, uint32_t generation, error):
        """Make the partition's reader raise `error` after the queued slices, until the partition is reset."""
        cdef kw_place *place = self.at(number)
        (<PartitionSlot> kw_place_owner(place)).error = error
        kw_place_fail(self.queue, place, generation)

    def ready(self, int32_t number=-1):
        """Return the size of the next slice of a reader (of one partition, or of all unclaimed ones).

        0: the reader would meet the end or an error. None: it would wait.
        """
        cdef size_t size = 0
        if not kw_queue_ready(self.queue, NULL if number < 0 else self.at(number), &size):
            return None
        return size

    def end(self):
        """End the queue: readers end after the queued slices."""
        kw_queue_end(self.queue)

    def fail(self, error):
        """Make the reader raise `error` after the queued slices. Later errors are ignored."""
        if self.error is None:
            self.error = error
            kw_queue_fail(self.queue)

    def close(self):
        """Drop all slices; readers end."""
        kw_queue_close(self.queue)


# From this version of Fetch on, `native/fast_path.c` reads responses.
cdef int BY_TOPIC_ID = FetchRequest.BY_TOPIC_ID


# The I/O thread uses the queue and the fast path: the garbage collector must clear neither before `detach`.
@cython.final
@cython.no_gc_clear
cdef class FetchFastPath(ResponseFilter):
    """A filter of Fetch responses: the I/O thread queues their records before the engine reads the response.

    `native/fast_path.h` says which records it queues, and which are left to the engine.
    """

    cdef FetchBuffer queue
    cdef kw_fast_path *fast_path

    def __cinit__(self, FetchBuffer queue not None):
        self.queue = queue
        self.fast_path = kw_fast_path_new(queue.queue)
        if self.fast_path is NULL:
            raise MemoryError
        self.function = kw_fast_path_take
        self.context = self.fast_path

    def __dealloc__(self):
        self.detach()
        kw_fast_path_free(self.fast_path)

    def expect(self, bytes topic_id, int32_t partition, int32_t number, uint32_t generation, int64_t offset, where):
        """Expect records of this partition in the next response: from `offset` on, requested in that generation."""
        cdef kw_place *place = self.queue.at(number)
        if len(topic_id) != 16:
            raise ValueError("a topic id has 16 bytes")
        (<PartitionSlot> kw_place_owner(place)).where = where
        if kw_fast_path_expect(
            self.fast_path, <const uint8_t *> <const char *> topic_id, partition, place, generation, offset
        ):
            raise MemoryError

    def forget(self, bytes topic_id, int32_t partition, int32_t number):
        """Stop expecting a partition: another broker's request has it.

        Return the entry of records that were queued from a response the engine has not seen, or None. `taken` no
        longer has this entry.
        """
        cdef kw_taken taken
        if len(topic_id) != 16:
            raise ValueError("a topic id has 16 bytes")
        if not kw_fast_path_forget(
            self.fast_path, <const uint8_t *> <const char *> topic_id, partition, number, &taken
        ):
            return None
        return taken.generation, taken.start, taken.next_offset, taken.leader_epoch, taken.size

    def clear(self):
        """Stop expecting all partitions."""
        kw_fast_path_clear(self.fast_path)

    def arm(self, uint64_t token, int version, int32_t session=0):
        """Allow the fast path to queue records of the response to the request `token`, which is sent now.

        `session` is its fetch session; 0: a full request, whose response may name any session. In a version that names
        topics by their names, the fast path queues nothing.
        """
        cdef const PartitionLayout *layout = partition_layout(version) if version >= BY_TOPIC_ID else NULL
        kw_fast_path_arm(self.fast_path, token if layout is not NULL else 0, session, layout)

    def taken(self, uint64_t token):
        """Return the records queued from the response to `token`, and disarm the fast path for that request.

        The dict is {partition's number: (generation, start, next offset, leader epoch, bytes)}.
        """
        cdef int32_t count = 0
        cdef kw_taken *taken = kw_fast_path_taken(self.fast_path, token, &count)
        try:
            return {taken[i].number: (taken[i].generation, taken[i].start, taken[i].next_offset, taken[i].leader_epoch,
                                      taken[i].size) for i in range(count)}
        finally:
            free(taken)
