# distutils: sources = kafwire/memory/native/buf.c kafwire/consumer/native/queue.c kafwire/consumer/native/fast_path.c
"""Slices of fetched records on their way to a reader (`_fetch_reader`), who decodes them in a thread of its own.

`FetchBuffer` carries them, a place for each partition; `FetchFastPath` has the I/O thread put them there.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from kafwire._codec cimport AbortedTransaction, aborted_sort
from kafwire.memory._buffer cimport Buffer, kw_buf, kw_buf_ref, kw_buf_unref, kw_pool_claim, process_pool
from kafwire.records._arrow cimport Layout
from kafwire.runtime._interfaces cimport Notifier, ResponseFilter


cdef extern from "kafwire/consumer/native/fast_path.h" nogil:
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
    void kw_fast_path_arm(kw_fast_path *fast_path, uint64_t token, int version, int32_t session)
    int kw_fast_path_take(void *fast_path, uint64_t token, kw_buf *frame)
    kw_taken *kw_fast_path_taken(kw_fast_path *fast_path, uint64_t token, int32_t *count)


@cython.final
@cython.no_gc_clear
cdef class PartitionSlot:
    """What Python knows of a partition in a queue."""


# A thread that reads ahead decodes by the layout of a place's slot until its reader goes. The collector that clears a
# cycle around them clears lists too, and no tuples: slots that a tuple holds stay as long as the buffer.
@cython.final
@cython.no_gc_clear
cdef class FetchBuffer:
    """Slices on their way from the engine to readers; `notifier` is notified when bytes free up.

    Partitions have numbers, in the order in which they were added.
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
        """Have the pool keep as many idle bytes as this buffer may hold of frames, until it is gone; 0: no more."""
        with nogil:
            kw_pool_claim(process_pool(), size, self.claimed)
        self.claimed = size

    def add(self, topic, partition, Layout layout not None):
        """A place for a partition; its number."""
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
        """What is known of a partition."""
        return self.places[number]

    def push(self, Buffer frame, size_t position, size_t size, int32_t number, int64_t start, int64_t end,
             list aborted, uint32_t generation=0, where=None):
        """Queue frame[position:position + size] for a partition; its records in [start, end) are wanted.

        Dropped if the partition was reset since it had that `generation`. `where` is the broker, as errors name it.
        The slices of a frame are pushed one after the other, then `seal` is called.
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
        """The frame pushed last has no more slices: when those are read, its bytes are free."""
        kw_queue_seal(self.queue)

    def queued_bytes(self, *, bint starved=False):
        """Return the capacity of the frames that are queued or being decoded.

        With `starved`, the next slice that is done wakes the notifier.
        """
        return kw_queue_bytes(self.queue, starved)

    def compact(self):
        """Copy slices that keep a frame of which most is gone."""
        with nogil:
            kw_queue_compact(self.queue)

    def reset(self, int32_t number, int64_t position):
        """Drop what is queued of a partition, and what was asked for and is on its way; its new generation."""
        cdef kw_place *place = self.at(number)
        (<PartitionSlot> kw_place_owner(place)).error = None
        return kw_place_reset(self.queue, place, position)

    def cut(self, int32_t number, int64_t offset):
        """Drop what is queued of a partition from `offset` on: reading goes on there when the rest is read."""
        cdef kw_place *place = self.at(number)
        (<PartitionSlot> kw_place_owner(place)).error = None
        kw_place_cut(self.queue, place, offset)

    def position(self, int32_t number):
        """The offset that a partition's reader comes to next."""
        return kw_place_position(self.queue, self.at(number))

    def log_end(self, int32_t number, bint committed_only=False):
        """Where the log ends (of committed records), as an answer said that the I/O thread queued; -1 without one."""
        return kw_place_end(self.queue, self.at(number), committed_only)

    def settle(self):
        """What was read of partitions that nobody claimed counts as processed."""
        kw_queue_settle(self.queue, NULL)

    def processed(self, int32_t number):
        """The offset after the last that counts as processed."""
        return kw_place_processed(self.queue, self.at(number))

    def process(self, int32_t number, int64_t offset, int64_t generation=-1):
        """Let everything below `offset` count as processed, unless the partition was reset since that generation."""
        kw_place_process(self.queue, self.at(number), offset, generation)

    def in_hand(self, int32_t number):
        """Whether a reader may have records of a partition that do not count as processed yet."""
        return bool(kw_place_in_hand(self.queue, self.at(number)))

    def wake(self):
        """Let who reads what nobody claimed call its `on_wake`, now or when it reads next."""
        kw_queue_wake(self.queue)

    def woken(self):
        """Whether it was woken since this was asked last."""
        return bool(kw_queue_woken(self.queue))

    def queued(self, int32_t number, *, bint watch=False):
        """(slices, bytes) that wait for a partition's reader, or that it reads; with `watch`, the notifier is
        notified when it has read the next, and `noticed` names it."""
        cdef size_t size = 0
        slices = kw_place_queued(self.queue, self.at(number), &size, watch)
        return slices, size

    def noticed(self):
        """The numbers of watched partitions that were read since."""
        cdef kw_place *place
        numbers = []
        while True:
            place = kw_queue_noticed(self.queue)
            if place is NULL:
                return numbers
            numbers.append(kw_place_number(place))

    def pause(self, int32_t number, bint paused=True):
        """Let readers pass a partition over; what is queued of it stays."""
        kw_place_pause(self.queue, self.at(number), paused)

    def claim(self, int32_t number, bint claimed=True):
        """Leave a partition to a reader of its own, or to that of all others again."""
        kw_place_claim(self.queue, self.at(number), claimed)

    def fail_place(self, int32_t number, uint32_t generation, error):
        """Once what is queued of a partition is read, its reader raises `error`, until the partition is reset."""
        cdef kw_place *place = self.at(number)
        (<PartitionSlot> kw_place_owner(place)).error = error
        kw_place_fail(self.queue, place, generation)

    def ready(self, int32_t number=-1):
        """The size of the slice that a reader (of one partition, or of all) would come to, 0 for an end or error; None
        when it would wait."""
        cdef size_t size = 0
        if not kw_queue_ready(self.queue, NULL if number < 0 else self.at(number), &size):
            return None
        return size

    def end(self):
        """Nothing more will come."""
        kw_queue_end(self.queue)

    def fail(self, error):
        """The reader is to raise `error` once it has read what is queued."""
        if self.error is None:
            self.error = error
            kw_queue_fail(self.queue)

    def close(self):
        """Drop everything; the reader sees the end."""
        kw_queue_close(self.queue)


# The I/O thread works on what it holds: that stays until it is detached, whatever the collector clears first.
@cython.final
@cython.no_gc_clear
cdef class FetchFastPath(ResponseFilter):
    """The shortest way of a source's answers: from the I/O thread into the queue, before the engine looks at them.

    `native/fast_path.h` says what is taken that way, and what is left to the engine.
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
        """The next answer may have records of this partition, from `offset` on, asked for in that generation."""
        cdef kw_place *place = self.queue.at(number)
        if len(topic_id) != 16:
            raise ValueError("a topic id has 16 bytes")
        (<PartitionSlot> kw_place_owner(place)).where = where
        if kw_fast_path_expect(
            self.fast_path, <const uint8_t *> <const char *> topic_id, partition, place, generation, offset
        ):
            raise MemoryError

    def forget(self, bytes topic_id, int32_t partition, int32_t number):
        """No longer: it is asked for elsewhere. What was queued of an answer that the engine has not seen, as `taken`
        has it (but no more), or None."""
        cdef kw_taken taken
        if len(topic_id) != 16:
            raise ValueError("a topic id has 16 bytes")
        if not kw_fast_path_forget(
            self.fast_path, <const uint8_t *> <const char *> topic_id, partition, number, &taken
        ):
            return None
        return taken.generation, taken.start, taken.next_offset, taken.leader_epoch, taken.size

    def clear(self):
        """Nothing is expected any more."""
        kw_fast_path_clear(self.fast_path)

    def arm(self, uint64_t token, int version, int32_t session=0):
        """The request `token` leaves now, in that version and fetch session: what it brings may be taken.

        Session 0: a full request, which may be answered by any.
        """
        kw_fast_path_arm(self.fast_path, token, version, session)

    def taken(self, uint64_t token):
        """What was queued of the answer to `token`: {number: (generation, start, next offset, leader epoch, bytes)}.

        From then on nothing is.
        """
        cdef int32_t count = 0
        cdef kw_taken *taken = kw_fast_path_taken(self.fast_path, token, &count)
        try:
            return {taken[i].number: (taken[i].generation, taken[i].start, taken[i].next_offset, taken[i].leader_epoch,
                                      taken[i].size) for i in range(count)}
        finally:
            free(taken)
