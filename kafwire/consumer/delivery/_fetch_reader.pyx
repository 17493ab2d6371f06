# decoder: its lines are counted by scripts/coverage.py
"""The reader of fetched slices (`_fetch_buffer`), which decodes them in its own thread.

`FetchReader` returns batches, or is an Arrow stream that decodes and exports without the GIL.
"""
cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t
from posix.time cimport CLOCK_MONOTONIC
from posix.unistd cimport getpid

from kafwire._codec cimport spec_init
from kafwire.consumer.delivery._arrow_stream cimport stream_capsule
from kafwire.consumer.delivery._column_reader cimport (
    READ_FAILED, READ_ROWS, ColumnReader, clock_ns, hand_out, is_foreign, next_ahead, next_rows, next_withheld,
    now_ms, refuse, settle, withhold,
)
from kafwire.consumer.fetch._fetch_buffer cimport FetchBuffer, PartitionSlot
from kafwire.consumer.delivery._read_ahead cimport ahead_adapt, ahead_count, ahead_drop, ahead_end, ahead_init
from kafwire.consumer.delivery._withheld cimport withheld_drop, withheld_end
from kafwire.records._arrow cimport Layout
from kafwire.records._columns cimport COLUMN_OFFSET, Columns, columns_clear, columns_init
from kafwire.records._records cimport Batch
from kafwire.runtime._interfaces cimport Waiter

from kafwire.errors import KafkaError


@cython.final
@cython.no_gc_clear
cdef class FetchReader(ColumnReader):
    """A decoder of a queue's slices to columns: an iterator of Batch, or an Arrow stream. One thread reads at a time.

    `schema` is the layout of a stream. `only` is the number of the one partition to read; without it, the reader reads
    all unclaimed partitions. With `timestamps`, it delivers only records of [from, to), in ms. `on_close` is called
    once, with the GIL, when the reader closes. `on_refuse` is called with a partition's number, its new generation and
    an offset when rows from this offset on could not be delivered: it must queue them again. `on_wake` is called in
    the reader's thread when the queue was woken; the read raises the exceptions of this callback. A reader that `owns`
    the queue closes it at the end. `what` is the name of the reader in errors. Its batches use `deserializer`.
    `waiter` blocks for `read`; a stream blocks its thread in any case. A batch has at most `most` rows (0: no limit),
    unless `read` gets another limit.
    """

    cdef Waiter waiter
    cdef Layout schema
    cdef object on_close
    cdef bint owns
    cdef object deserializer
    cdef int64_t most

    def __cinit__(self, FetchBuffer queue not None, Layout schema not None, *, size_t chunk_bytes,
                  size_t max_decompressed, bint verify_crc, object on_close=None, object on_refuse=None,
                  object on_wake=None,
                  int32_t only=-1, bint owns=True, bint skip_corrupt=False, int silence_ms=-1, str what="scan",
                  timestamps=None, object deserializer=None, Waiter waiter=None, int64_t most=0):
        self.deserializer = deserializer
        self.queue = queue
        self.waiter = Waiter() if waiter is None else waiter
        self.schema = schema
        self.state.schema = &schema.layout
        self.on_close = on_close
        self.on_refuse = on_refuse
        self.on_wake = on_wake
        self.state.wakes = on_wake is not None
        self.owns = owns
        self.state.endless = not owns
        self.what = what
        self.state.owner = <PyObject *> self
        self.state.pid = getpid()
        self.state.queue = queue.queue
        ahead_init(&self.state.ahead, queue.queue)
        self.state.only = NULL if only < 0 else queue.at(only)
        self.state.notifier = queue.notifier.notifier
        self.state.skip_corrupt = skip_corrupt
        self.state.silence_ms = silence_ms
        spec_init(&self.state.spec)
        self.state.spec.columns = schema.layout.columns
        self.state.spec.chunk_bytes = chunk_bytes
        self.state.spec.max_decompressed = max_decompressed
        self.state.spec.verify_crc = verify_crc
        self.state.spec.skip_control = True
        self.state.spec.check_order = True
        self.most = most
        self.limit(most)
        if timestamps is not None:
            self.state.spec.by_timestamp = True
            self.state.spec.from_ms, self.state.spec.to_ms = timestamps

    def __dealloc__(self):
        if getpid() == self.state.pid:
            with nogil:
                ahead_end(&self.state.ahead)
                withheld_end(&self.state.withheld)

    def __iter__(self):
        return self

    def __next__(self):
        """Wait for the next chunk and return it as a Batch. The end and an error close the reader."""
        cdef Batch batch
        if self.state.ended and not self.busy:
            raise StopIteration
        try:
            batch = self.read(-1)
        except BaseException:
            if not self.busy:
                self.close()
            raise
        if batch is None:
            self.close()
            raise StopIteration
        return batch

    cpdef Batch read(self, int timeout_ms, int64_t most=-1):
        """Return the next chunk, or a part with at most `most` rows (-1: the reader's own limit; 0: no limit).

        None: `timeout_ms` (-1: no limit) passed without records, or the reader has ended.
        """
        if not self.busy:
            self.limit(self.most if most < 0 else most)
        found = self.waiter.wait(self.read_within, None if timeout_ms < 0 else timeout_ms / 1000.0)
        return None if found is False else found

    def read_within(self, seconds):
        """Wait for the next chunk, at most `seconds` (None: no limit). None: no records came; False: the end."""
        cdef int timeout_ms = -1 if seconds is None else <int> round(seconds * 1000)
        cdef Columns columns
        cdef PyObject *place = NULL
        cdef PartitionSlot where
        cdef int64_t waited_ns
        cdef Batch batch
        cdef int64_t until = now_ms() + timeout_ms
        cdef int got
        if self.busy:
            raise self.taken()
        if self.state.ended:
            return False
        self.busy = True
        columns_init(&columns)
        try:
            while True:
                got = READ_ROWS
                if not next_withheld(&self.state, &columns, &place) \
                        and not next_ahead(&self.state, False, &columns, &place):
                    with nogil:
                        got = next_rows(&self.state, &columns, &place, timeout_ms)
                        waited_ns = -clock_ns(CLOCK_MONOTONIC)
                    ahead_adapt(&self.state.ahead, waited_ns + clock_ns(CLOCK_MONOTONIC))
                if got == READ_FAILED:
                    raise self.error.with_traceback(None)  # without the frames of earlier raises
                if got != READ_ROWS:
                    return False if self.state.ended else None
                withhold(&self.state, &columns)
                where = <PartitionSlot> place
                batch = Batch.take(&columns, where.layout, where.topic, where.partition, &self.state.spec)
                if self.handed_out(batch):
                    return batch
                if timeout_ms > 0:
                    timeout_ms = <int> max(<int64_t> 0, until - now_ms())
        except BaseException as error:
            refuse(&self.state, error)
            raise
        finally:
            self.busy = False
            columns_clear(&columns)

    cdef bint handed_out(self, Batch batch) except -1:
        """Deliver `batch`. False: a revocation or a seek reset the partition while the batch was decoded."""
        if self.on_refuse is not None:
            PyErr_CheckSignals()  # now: after delivery, the exception of a signal handler would lose the batch
        batch.use(self.deserializer)
        return hand_out(&self.state)

    @property
    def ended(self):
        """True if no more records will come."""
        return self.state.ended

    @property
    def ahead(self):
        """The number of chunks that were decoded ahead."""
        return 0 if is_foreign(&self.state) else ahead_count(&self.state.ahead)

    @property
    def is_withholding(self):
        """True if decoded rows above a limit wait for the next read."""
        return bool(self.state.withheld.has_rows)

    cdef void limit(self, int64_t most) noexcept:
        self.state.most = most
        if most and not self.state.spec.columns & COLUMN_OFFSET:  # the end of a part is its last record's offset
            self.drop_ahead()
            self.state.spec.columns |= COLUMN_OFFSET

    cdef void drop_ahead(self) noexcept:
        if not is_foreign(&self.state):
            ahead_drop(&self.state.ahead)
            withheld_drop(&self.state.withheld)

    def need_offsets(self):
        """Decode offsets too, from the next batch on: delivery of single records needs each record's offset."""
        if not self.state.spec.columns & COLUMN_OFFSET:
            self.drop_ahead()
        self.state.spec.columns |= COLUMN_OFFSET

    def settle(self):
        """Count delivered rows as processed."""
        settle(&self.state)

    def close(self):
        """Close the reader; a second close does nothing."""
        self.state.ended = True
        self.drop_ahead()
        if self.owns and not is_foreign(&self.state):
            self.queue.close()
        on_close = self.on_close
        if on_close is not None:
            on_close()
        self.on_close = None  # after the call: if an interrupt ends the call, a second close repeats it

    cdef object taken(self):
        return KafkaError(f"a {self.what} has one reader at a time, and becomes a stream only once: wait for the "
                          "other reader to end, or make a new one")

    def schema_capsule(self):
        """Return an `arrow_schema` capsule of the stream's schema."""
        return self.schema.schema_capsule()

    def stream_capsule(self):
        """Return an `arrow_array_stream` capsule. It has the reader to itself."""
        if self.busy or self.state.ended:
            raise self.taken()
        return stream_capsule(self)
