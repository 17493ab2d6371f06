# decoder: its lines are counted by scripts/coverage.py
# distutils: sources = kafwire/memory/native/buf.c kafwire/consumer/native/queue.c
"""Slices of fetched records (`_fetch_buffer`) decoded in the thread of whoever reads.

`FetchReader` makes batches of them, or is an Arrow stream: from end to end without the GIL.
"""
cimport cython
from cpython.exc cimport PyErr_CheckSignals, PyErr_Fetch, PyErr_Restore, PyErr_SetInterrupt
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.errno cimport EINVAL, EIO, ENOMEM
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from posix.time cimport CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID, clock_gettime, clockid_t, timespec
from posix.unistd cimport getpid

from kafwire._codec cimport (
    DECODE_CORRUPT, DECODE_CRC, DECODE_NEED_CODEC, DECODE_OK, DECODE_ORDER, DECODE_TOO_LARGE, DECODE_UNSUPPORTED,
    STOP_CHUNK_FULL, AbortedTransaction, BatchHeader, DecodeSpec, DecodeStatus, batch_header, decode_chunk,
    decode_error, spec_init,
)
from kafwire.consumer._fetch_buffer cimport (
    KW_QUEUE_ENDED, KW_QUEUE_FAILED, KW_QUEUE_PLACE_FAILED, KW_QUEUE_RECORDS, FetchBuffer, PartitionSlot,
    kw_place, kw_place_number, kw_place_owner, kw_queue, kw_queue_done, kw_queue_next, kw_queue_owed, kw_queue_pop,
    kw_queue_refuse, kw_queue_settle, kw_records,
)
from kafwire.consumer._read_ahead cimport (
    ReadAhead, ahead_adapt, ahead_begin, ahead_drop, ahead_end, ahead_init, ahead_stays, ahead_take,
)
from kafwire.records._arrow cimport (
    EXPORT_NO_MEMORY, ArrowArray, ArrowArrayStream, ArrowLayout, ArrowSchema, Layout, columns_export, export_error,
    layout_schema,
)
from kafwire.records._columns cimport COLUMN_OFFSET, Columns, columns_clear, columns_finish, columns_init
from kafwire.records._compress cimport resolve_codec
from kafwire.records._records cimport Batch, unexported
from kafwire.runtime._interfaces cimport Waiter, kw_notifier

import logging

from kafwire.errors import CorruptBatchError, KafkaError, ProtocolError

log = logging.getLogger("kafwire")


cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident() nogil
    object PyCapsule_New(void *pointer, const char *name, void (*destructor)(object))
    void *PyCapsule_GetPointer(object capsule, const char *name) except NULL


cdef enum:
    WAIT_MS = 100  # how long a read waits before it looks for signals
    LEAST_LOOK_MS = 10  # how long one looks for rows among slices that have none, even if it is not to wait
    LOG_OVERHEAD = 12  # bytes of a batch before what its length counts


# A reader's state, apart from the object that owns it, so that a stream can run on it without the GIL.
cdef struct ReaderState:
    PyObject *owner  # borrowed: the FetchReader
    kw_queue *queue
    ArrowLayout *schema
    kw_place *only  # the one partition that is read; NULL: all that nobody claimed
    kw_notifier notifier
    DecodeSpec spec
    bint skip_corrupt
    int silence_ms  # a stream ends after so long without records; -1: never
    bint ended
    # The slice in which the rows end that were decoded last, until they are handed out: its place is lent so long.
    kw_records held
    size_t held_used
    int64_t held_from, held_to  # the offsets between which they lie
    bint holds
    ReadAhead ahead
    int pid
    unsigned long thread  # that is in an Arrow stream's get_next or release now; 0: none
    unsigned long left_by  # the thread that has left get_next last, and when, by both clocks
    int64_t left_ns, left_cpu_ns
    int64_t waited_ns  # how long it then waited, for the GIL or otherwise, before it came back
    char message[512]


cdef enum:
    READ_FAILED = -1
    READ_END = 0
    READ_ROWS = 1
    READ_SILENCE = 2


cdef int64_t clock_ns(clockid_t clock) noexcept nogil:
    cdef timespec now
    clock_gettime(clock, &now)
    return <int64_t> now.tv_sec * 1000000000 + now.tv_nsec


cdef int64_t now_ms() noexcept nogil:
    return clock_ns(CLOCK_MONOTONIC) // 1000000


cdef int wait_for_slice(ReaderState *state, kw_records *slice, int timeout_ms, int64_t until) noexcept nogil:
    """READ_ROWS: `slice` is there; or another READ_*. `until` is when the `timeout_ms` are over."""
    cdef int64_t left = WAIT_MS
    cdef int got
    while True:
        if timeout_ms >= 0:
            left = min(<int64_t> WAIT_MS, until - now_ms()) if timeout_ms > 0 else 0
        got = kw_queue_pop(state.queue, state.only, slice, <int> max(<int64_t> 0, left))
        if got == KW_QUEUE_RECORDS:
            return READ_ROWS
        if got == KW_QUEUE_ENDED:
            state.ended = True
            return READ_END
        if got == KW_QUEUE_FAILED:
            _queue_failed(state)
            return READ_FAILED
        if got == KW_QUEUE_PLACE_FAILED:
            _place_failed(state, slice.place)
            return READ_FAILED
        pay(state)
        if _interrupted(state):
            return READ_FAILED
        if timeout_ms >= 0 and left <= WAIT_MS and now_ms() >= until:
            return READ_SILENCE


cdef void pay(ReaderState *state) noexcept nogil:
    """Tell the engine what the I/O thread left to whoever waited for it (see kafwire/consumer/native/fast_path.h)."""
    if kw_queue_owed(state.queue):
        state.notifier.tell(&state.notifier)


cdef void give_back(ReaderState *state, kw_records *slice, size_t used, int64_t offset) noexcept nogil:
    if kw_queue_done(state.queue, slice, used, offset, ahead_stays(&state.ahead, slice.place)):
        state.notifier.notify(&state.notifier)


cdef int hold(ReaderState *state, kw_records *slice, size_t used, int64_t begin, int64_t offset) noexcept nogil:
    """There are rows: READ_ROWS. Whoever takes them says what became of them, by `hand_out` or `refuse`."""
    state.held = slice[0]
    state.held_used = used
    state.held_from = begin
    state.held_to = offset
    state.holds = True
    return READ_ROWS


cdef void hand_out(ReaderState *state) noexcept nogil:
    """The rows are in the user's hand: reading goes on behind them."""
    if state.holds:
        state.holds = False
        give_back(state, &state.held, state.held_used, state.held_to)


cdef void refuse(ReaderState *state, object error) noexcept:
    """Nobody gets the rows: they are to come again. Where nobody fetches them anew, the whole read fails."""
    cdef FetchReader owner = <FetchReader> state.owner
    cdef int32_t number
    cdef uint32_t generation
    if not state.holds:
        return
    state.holds = False
    number = kw_place_number(state.held.place)
    generation = kw_queue_refuse(state.queue, &state.held, state.held_from)
    state.notifier.notify(&state.notifier)
    if owner.on_refuse is None:
        owner.queue.fail(error)
    elif generation:
        owner.on_refuse(number, generation, state.held_from)


cdef void prepare(ReaderState *state, const kw_records *slice) noexcept nogil:
    state.spec.start = slice.start
    state.spec.end = slice.end
    state.spec.aborted = <AbortedTransaction *> slice.aborted
    state.spec.aborted_count = slice.aborted_count


cdef int next_columns(ReaderState *state, Columns *out, PyObject **place, int timeout_ms) noexcept nogil:
    """Fill `out` with the next rows, all of one partition, and hold them. Failed: the owner's error says why."""
    cdef kw_records slice
    cdef DecodeStatus status
    cdef BatchHeader header
    cdef const char *reason = NULL
    cdef size_t at
    cdef int64_t begin, offset, looked = now_ms(), until = looked + timeout_ms
    cdef int got
    if _is_foreign(state):
        _refuse_foreign(state)
        return READ_FAILED
    while True:
        got = wait_for_slice(state, &slice, timeout_ms, until)
        if got != READ_ROWS:
            return got
        place[0] = <PyObject *> kw_place_owner(slice.place)
        prepare(state, &slice)
        state.spec.row_bytes = layout_of(place[0]).row_bytes
        at = 0
        begin = offset = slice.start
        while True:
            memset(&status, 0, sizeof(status))
            got = decode_chunk(slice.data + at, slice.size - at, &state.spec, out, &status)
            at += status.consumed
            if status.batches:
                offset = status.next_offset
            if got == DECODE_NEED_CODEC:  # what was decoded before the batch that needs it stays in `out`
                if _resolve(state, status.codec):
                    continue
                if out.length:
                    return hold(state, &slice, at, begin, offset)
                give_back(state, &slice, at, offset)
                return READ_FAILED
            if got != DECODE_OK:
                if out.length:  # first the rows before the bad batch; the next call meets it again
                    return hold(state, &slice, at, begin, offset)
                if state.skip_corrupt and (got == DECODE_CORRUPT or got == DECODE_CRC or got == DECODE_UNSUPPORTED
                                           or got == DECODE_ORDER) \
                        and batch_header(slice.data + at, slice.size - at, &header, &reason) > 0:
                    _skipped(state, place[0], &status, slice.data - slice.frame.data + at)
                    columns_clear(out)  # it may have begun on the bad batch
                    at += LOG_OVERHEAD + <size_t> header.length
                    offset = max(offset, header.base_offset + header.last_offset_delta + 1)
                    if at < slice.size:
                        continue
                    give_back(state, &slice, slice.size, offset)
                    break
                if batch_header(slice.data + at, slice.size - at, &header, &reason) <= 0:
                    header.base_offset = header.last_offset_delta = -1
                _decode_failed(state, place[0], &status, slice.data - slice.frame.data + at,
                               header.base_offset + header.last_offset_delta + 1)
                give_back(state, &slice, at, offset)
                return READ_FAILED
            if status.stop == STOP_CHUNK_FULL and at < slice.size:
                if not out.length:  # markers, or what was aborted: a chunk without rows is nobody's
                    columns_clear(out)
                    prepare(state, &slice)
                    continue
                return hold(state, &slice, at, begin, offset)
            # the chunk goes on in the next answer, if that is here
            if out.length and out.raw_bytes < state.spec.chunk_bytes:
                got = kw_queue_next(state.queue, &slice, offset)
                if got:
                    if got > 1:
                        state.notifier.notify(&state.notifier)
                    prepare(state, &slice)
                    at = 0
                    continue
            if out.length:
                return hold(state, &slice, slice.size, begin, offset)
            give_back(state, &slice, slice.size, offset)
            break
        columns_clear(out)
        pay(state)  # no rows, so this goes on: the engine is not to wait for the end of it
        # Slices without a row for us may go on for long, and are always there: time and signals are looked at here too.
        if timeout_ms >= 0 and now_ms() >= max(until, looked + LEAST_LOOK_MS):
            return READ_SILENCE
        if now_ms() - looked >= WAIT_MS:
            looked = now_ms()
            if _interrupted(state):
                return READ_FAILED


cdef bint next_ahead(ReaderState *state, bint wait, Columns *out, PyObject **place) noexcept nogil:
    """Fill `out` with rows that were decoded ahead, and hold them, if they are what comes next."""
    cdef kw_records slice
    cdef size_t used
    cdef int64_t offset
    if not state.ahead.has_thread or _is_foreign(state):
        return False
    if not ahead_take(&state.ahead, state.only, wait, out, &slice, &used, &offset):
        return False
    place[0] = <PyObject *> kw_place_owner(slice.place)
    hold(state, &slice, used, slice.start, offset)
    return True


cdef int next_rows(ReaderState *state, Columns *out, PyObject **place, int timeout_ms) noexcept nogil:
    """As `next_columns`, all but the GIL; what follows may be decoded while that is waited for."""
    cdef int got = READ_ROWS
    if not next_ahead(state, True, out, place):
        got = next_columns(state, out, place, timeout_ms)
        if got == READ_ROWS:
            ahead_begin(&state.ahead, state.only, &state.held, state.held_used, state.held_to, &state.spec)
            columns_finish(out)
    pay(state)
    return got


cdef ArrowLayout *layout_of(PyObject *place) noexcept nogil:
    # (inside an object that the queue keeps alive: no count changes)
    return (<PartitionSlot> place).arrow


cdef bint _resolve(ReaderState *state, int codec) noexcept with gil:
    try:
        resolve_codec(codec)
    except Exception as error:
        (<FetchReader> state.owner).set_error(error)
        return False
    return True


cdef bint _is_foreign(ReaderState *state) noexcept nogil:
    """Whether this is a forked child: the engine that would bring more is not here, nor who may hold the lock."""
    return getpid() != state.pid


cdef void _refuse_foreign(ReaderState *state) noexcept with gil:
    (<FetchReader> state.owner).set_error(
        KafkaError(f"this {(<FetchReader> state.owner).what} was made before a fork: make a new one in the child")
    )


cdef bint _interrupted(ReaderState *state) noexcept with gil:
    """Run signal handlers; one that raises ends the read, and Ctrl-C reaches the main thread again afterwards."""
    if _is_foreign(state):
        _refuse_foreign(state)
        return True
    try:
        PyErr_CheckSignals()
    except BaseException as error:
        (<FetchReader> state.owner).set_error(error)
        if isinstance(error, KeyboardInterrupt) and (<FetchReader> state.owner).as_stream:
            PyErr_SetInterrupt()
        return True
    return False


cdef void _queue_failed(ReaderState *state) noexcept with gil:
    (<FetchReader> state.owner).set_error((<FetchReader> state.owner).queue.error)


cdef void _place_failed(ReaderState *state, kw_place *place) noexcept with gil:
    (<FetchReader> state.owner).set_error((<PartitionSlot> kw_place_owner(place)).error)


cdef void _skipped(ReaderState *state, PyObject *place, const DecodeStatus *status, size_t at) noexcept with gil:
    cdef PartitionSlot where = <PartitionSlot> place
    where.skipped += 1
    try:
        decode_error(status, at)
    except Exception as error:
        log.warning("%s-%s, from %s: a batch is passed over: %s", where.topic, where.partition, where.where, error)


cdef void _decode_failed(ReaderState *state, PyObject *place, const DecodeStatus *status, size_t at,
                         int64_t next_offset) noexcept with gil:
    cdef FetchReader owner = <FetchReader> state.owner
    cdef PartitionSlot where = <PartitionSlot> place
    try:
        decode_error(status, at)
    except ProtocolError as error:
        advice = "raise it to read on" if status.kind == DECODE_TOO_LARGE else (
            "the log is damaged, or bytes were changed on their way"
        )
        if next_offset > status.base_offset:
            advice += f"; the next batch begins at offset {next_offset}"
        else:
            next_offset = -1
        owner.set_error(CorruptBatchError(
            f"{where.topic}-{where.partition}, batch at offset {status.base_offset}, from {where.where}: "
            f"{error.message}; {advice}",
            topic=where.topic, partition=where.partition, base_offset=status.base_offset,
            next_offset=next_offset, offset=error.offset,
        ))
    except Exception as error:
        owner.set_error(error)


# A thread may be decoding what the queue has: both stay until it has ended, whatever the collector clears first.
@cython.final
@cython.no_gc_clear
cdef class FetchReader:
    """Decodes a queue's slices to columns: an iterator of Batch, or an Arrow stream. One reader at a time.

    `schema` is the layout that a stream shows. `only` is the number of the one partition to read; without it those are
    read that nobody claimed. With `timestamps` only records of [from, to), in ms, are given. `on_close` is called once,
    with the GIL, when nothing more will be read. `on_refuse` is called with a partition's number, its new generation
    and an offset when rows from there on could be handed out to nobody: they are to be queued again. A reader that
    `owns` the queue closes it at the end. `what` is how errors name it. `deserializer` is what its batches use.
    `waiter` is how `read` waits; a stream waits in its thread in any case.
    """

    cdef FetchBuffer queue
    cdef Waiter waiter
    cdef Layout schema
    cdef object on_close
    cdef object on_refuse
    cdef bint busy
    cdef bint as_stream
    cdef bint owns
    cdef readonly str what
    cdef object deserializer
    cdef readonly object error
    cdef ReaderState state

    def __cinit__(self, FetchBuffer queue not None, Layout schema not None, *, size_t chunk_bytes,
                  size_t max_decompressed, bint verify_crc, object on_close=None, object on_refuse=None,
                  int32_t only=-1, bint owns=True, bint skip_corrupt=False, int silence_ms=-1, str what="scan",
                  timestamps=None, object deserializer=None, Waiter waiter=None):
        self.deserializer = deserializer
        self.queue = queue
        self.waiter = Waiter() if waiter is None else waiter
        self.schema = schema
        self.state.schema = &schema.layout
        self.on_close = on_close
        self.on_refuse = on_refuse
        self.owns = owns
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
        if timestamps is not None:
            self.state.spec.by_timestamp = True
            self.state.spec.from_ms, self.state.spec.to_ms = timestamps

    def __dealloc__(self):
        if getpid() == self.state.pid:
            with nogil:
                ahead_end(&self.state.ahead)

    def __iter__(self):
        return self

    def __next__(self):
        """The next chunk as a Batch; waits for it, and closes the reader at the end and on an error."""
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

    cpdef Batch read(self, int timeout_ms):
        """The next chunk; None when there is none within `timeout_ms` (-1: no limit), or nothing more will come."""
        found = self.waiter.wait(self.read_within, None if timeout_ms < 0 else timeout_ms / 1000.0)
        return None if found is False else found

    def read_within(self, seconds):
        """Block for the next chunk, at most `seconds` (None: no limit); None without one, False: no more will come."""
        cdef int timeout_ms = -1 if seconds is None else <int> round(seconds * 1000)
        cdef Columns columns
        cdef PyObject *place = NULL
        cdef PartitionSlot where
        cdef int64_t waited_ns
        cdef int got = READ_ROWS
        if self.busy:
            raise self.taken()
        if self.state.ended:
            return False
        self.busy = True
        columns_init(&columns)
        try:
            if not next_ahead(&self.state, False, &columns, &place):
                with nogil:
                    got = next_rows(&self.state, &columns, &place, timeout_ms)
                    waited_ns = -clock_ns(CLOCK_MONOTONIC)
                ahead_adapt(&self.state.ahead, waited_ns + clock_ns(CLOCK_MONOTONIC))
            if got == READ_ROWS:
                where = <PartitionSlot> place
                return self.handed_out(Batch.take(&columns, where.layout, where.topic, where.partition,
                                                  &self.state.spec))
            if got == READ_FAILED:
                raise self.error.with_traceback(None)  # of those who met it before
            return False if self.state.ended else None
        except BaseException as error:
            refuse(&self.state, error)
            raise
        finally:
            self.busy = False
            columns_clear(&columns)

    cdef Batch handed_out(self, Batch batch):
        if self.on_refuse is not None:
            PyErr_CheckSignals()  # or a signal that came meanwhile would be raised when nobody has the batch any more
        batch.use(self.deserializer)
        hand_out(&self.state)
        return batch

    @property
    def ended(self):
        """Whether nothing more will come."""
        return self.state.ended

    @property
    def ahead(self):
        """Chunks that are decoded before they are asked for."""
        return self.state.ahead.count

    cdef void drop_ahead(self) noexcept:
        if not _is_foreign(&self.state):
            ahead_drop(&self.state.ahead)

    def need_offsets(self):
        """Decode offsets too, from the next batch on, whichever columns are wanted: who hands out single records has to
        know where he is."""
        if not self.state.spec.columns & COLUMN_OFFSET:
            self.drop_ahead()
        self.state.spec.columns |= COLUMN_OFFSET

    def settle(self):
        """What was read counts as processed."""
        if not _is_foreign(&self.state):
            kw_queue_settle(self.state.queue, self.state.only)

    def close(self):
        """Read no more; a second close does nothing."""
        self.state.ended = True
        self.drop_ahead()
        if self.owns and not _is_foreign(&self.state):
            self.queue.close()
        on_close = self.on_close
        if on_close is not None:
            on_close()
        self.on_close = None  # after the call: an interrupt may end it, and closing again then completes it

    cdef object taken(self):
        return KafkaError(f"a {self.what} is read by one reader at a time, and is a stream but once: wait for the "
                          "other reader to end, or make a new one")

    cdef void set_error(self, error) noexcept:
        cdef bytes text
        self.error = error if error is not None else KafkaError("the read failed")
        text = str(self.error).encode("utf-8", "replace")[:511]
        memcpy(self.state.message, <const char *> text, len(text))
        self.state.message[len(text)] = 0

    def schema_capsule(self):
        """An `arrow_schema` capsule of the stream's schema."""
        return self.schema.schema_capsule()

    def stream_capsule(self):
        """An `arrow_array_stream` capsule, which takes the reader for itself."""
        cdef ArrowArrayStream *stream
        if self.busy or self.state.ended:
            raise self.taken()
        stream = <ArrowArrayStream *> calloc(1, sizeof(ArrowArrayStream))
        if stream is NULL:
            raise MemoryError
        stream.get_schema = _stream_schema
        stream.get_next = _stream_next
        stream.get_last_error = _stream_error
        stream.release = _stream_release
        stream.private_data = &self.state
        self.busy = True
        self.as_stream = True
        _streams[id(self)] = self
        Py_INCREF(self)
        return PyCapsule_New(stream, b"arrow_array_stream", _drop_stream)


# FetchReaders by id, from the capsule until its release. No weak references: their callbacks are Python code, and would
# swallow the interrupt that a release passes on.
cdef dict _streams = {}


def stream_threads():
    """The identifiers of the threads that are inside an Arrow stream now: they wait, decode, or close it."""
    cdef FetchReader reader
    threads = [reader.state.thread for reader in list(_streams.values())]
    return [thread for thread in threads if thread]


cdef int _stream_schema(ArrowArrayStream *stream, ArrowSchema *out) noexcept nogil:
    return ENOMEM if layout_schema((<ReaderState *> stream.private_data).schema, out) else 0


cdef int _stream_next(ArrowArrayStream *stream, ArrowArray *out) noexcept nogil:
    cdef ReaderState *state = <ReaderState *> stream.private_data
    cdef int code
    state.thread = PyThread_get_thread_ident()
    _come_back(state)
    code = _next_array(state, out)
    _leave(state)
    state.thread = 0
    return code


cdef void _come_back(ReaderState *state) noexcept nogil:
    cdef int64_t away, busy
    if state.left_by != state.thread:
        return
    away = clock_ns(CLOCK_MONOTONIC) - state.left_ns
    busy = clock_ns(CLOCK_THREAD_CPUTIME_ID) - state.left_cpu_ns
    state.waited_ns = away - busy


cdef void _leave(ReaderState *state) noexcept nogil:
    state.left_by = state.thread
    state.left_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID)
    state.left_ns = clock_ns(CLOCK_MONOTONIC)


cdef int _next_array(ReaderState *state, ArrowArray *out) noexcept nogil:
    """The data plane's last step: waits, decodes and exports, and needs the GIL only when something went wrong."""
    cdef Columns columns
    cdef PyObject *place = NULL
    cdef int got
    memset(out, 0, sizeof(ArrowArray))
    if state.ended:
        return 0
    if not _is_foreign(state):
        kw_queue_settle(state.queue, state.only)
    columns_init(&columns)
    ahead_adapt(&state.ahead, state.waited_ns)
    got = next_rows(state, &columns, &place, state.silence_ms)
    if got == READ_ROWS:
        got = columns_export(&columns, layout_of(place), out)
        if got == 0:
            hand_out(state)
            return 0
        state.ended = True
        _not_exported(state, place, got)
        return ENOMEM if got == EXPORT_NO_MEMORY else EINVAL
    columns_clear(&columns)
    return EIO if got == READ_FAILED else 0


cdef void _not_exported(ReaderState *state, PyObject *place, int answer) noexcept with gil:
    """The rows in hand do not fit into Arrow's columns: the stream ends before them."""
    cdef FetchReader owner = <FetchReader> state.owner
    cdef PartitionSlot where = <PartitionSlot> place
    try:
        try:
            export_error(answer)
        except Exception as problem:
            error = type(problem)(unexported(where.topic, where.partition, state.held_from, state.held_to, problem))
    except Exception as problem:
        error = problem
    owner.set_error(error)
    refuse(state, error)


cdef const char *_stream_error(ArrowArrayStream *stream) noexcept nogil:
    return (<ReaderState *> stream.private_data).message


cdef void _stream_release(ArrowArrayStream *stream) noexcept with gil:
    """May be called while an exception is on its way: the reader's error, which the consumer is just raising."""
    cdef FetchReader reader = <FetchReader> (<ReaderState *> stream.private_data).owner
    cdef PyObject *kind = NULL
    cdef PyObject *error = NULL
    cdef PyObject *trace = NULL
    stream.release = NULL
    reader.state.thread = PyThread_get_thread_ident()
    PyErr_Fetch(&kind, &error, &trace)
    try:
        reader.close()
    except KeyboardInterrupt:  # the one that ended the read, told again: it is for the main thread
        reader.close()
        PyErr_SetInterrupt()
    except Exception:
        pass  # only at the interpreter's end, when there is nothing left to close
    reader.state.thread = 0
    _streams.pop(id(reader), None)
    Py_DECREF(reader)
    PyErr_Restore(kind, error, trace)


cdef void _drop_stream(object capsule) noexcept:
    """A capsule that nobody took: release what is in it."""
    cdef ArrowArrayStream *stream = <ArrowArrayStream *> PyCapsule_GetPointer(capsule, b"arrow_array_stream")
    if stream.release is not NULL:
        stream.release(stream)
    free(stream)
