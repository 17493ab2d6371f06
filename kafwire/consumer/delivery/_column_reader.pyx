# decoder: its lines are counted by scripts/coverage.py
# distutils: sources = kafwire/memory/native/buf.c kafwire/consumer/fetch/native/queue.c
cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memcpy, memset
from posix.time cimport CLOCK_MONOTONIC
from posix.unistd cimport getpid

from kafwire._codec cimport (
    DECODE_CORRUPT, DECODE_CRC, DECODE_NEED_CODEC, DECODE_OK, DECODE_ORDER, DECODE_TOO_LARGE, DECODE_UNSUPPORTED,
    STOP_CHUNK_FULL, AbortedTransaction, DecodeStatus, decode_chunk, decode_error,
)
from kafwire.records._batch_header cimport LOG_OVERHEAD, BatchHeader, batch_header
from kafwire.consumer.fetch._fetch_buffer cimport (
    KW_DONE_STALE, KW_DONE_TELL, KW_QUEUE_ENDED, KW_QUEUE_FAILED, KW_QUEUE_PLACE_FAILED, KW_QUEUE_RECORDS,
    PartitionSlot, kw_place_number, kw_place_owner, kw_queue_done, kw_queue_next, kw_queue_owed, kw_queue_pop,
    kw_queue_refuse, kw_queue_settle, kw_queue_woken,
)
from kafwire.consumer.delivery._interrupts cimport carry, is_main, main_is_stuck
from kafwire.consumer.delivery._read_ahead cimport ahead_begin, ahead_stays, ahead_take
from kafwire.consumer.delivery._withheld cimport withheld_begin, withheld_keep, withheld_take
from kafwire.records._columns cimport columns_clear, columns_finish
from kafwire.records._compress cimport resolve_codec

from kafwire.errors import CorruptBatchError, KafkaError, ProtocolError
from kafwire.runtime.log import consumer_log as log


cdef enum:
    WAIT_MS = 100  # interval at which a waiting read checks for signals
    LEAST_LOOK_MS = 10  # how long a read searches slices without rows, even with a timeout of 0


# A thread may be decoding slices of the queue. The garbage collector must clear neither before the thread has ended.
@cython.no_gc_clear
cdef class ColumnReader:
    """A reader of a queue. A subclass fills `state`, ends the read-ahead thread, and defines `close`."""

    cdef void set_error(self, error) noexcept:
        cdef bytes text
        self.error = error if error is not None else KafkaError("the read failed")
        words = str(self.error) or f"{type(self.error).__name__}: a signal interrupted the read"
        text = words.encode("utf-8", "replace")[:511]
        memcpy(self.state.message, <const char *> text, len(text))
        self.state.message[len(text)] = 0


cdef int next_rows(ReaderState *state, Columns *out, PyObject **place, int timeout_ms) noexcept nogil:
    """Take rows that were decoded ahead, or decode the next ones and start to read ahead after them."""
    cdef int got = READ_ROWS
    if not next_ahead(state, True, out, place):
        got = next_columns(state, out, place, timeout_ms)
        if got == READ_ROWS:
            ahead_begin(&state.ahead, state.only, &state.held, state.held_used, state.held_to, &state.spec)
            columns_finish(out)
    pay(state)
    return got


cdef bint next_ahead(ReaderState *state, bint wait, Columns *out, PyObject **place) noexcept nogil:
    cdef kw_records slice
    cdef size_t used
    cdef int64_t offset
    if not state.ahead.has_thread or is_foreign(state):
        return False
    if not ahead_take(&state.ahead, state.only, wait, out, &slice, &used, &offset):
        return False
    place[0] = <PyObject *> kw_place_owner(slice.place)
    state.held_begin = 0
    hold(state, &slice, used, slice.start, offset)
    return True


cdef bint next_withheld(ReaderState *state, Columns *out, PyObject **place) noexcept nogil:
    cdef kw_records slice
    if not state.withheld.has_rows or is_foreign(state):
        return False
    if not withheld_take(&state.withheld, state.queue, state.only, out, &slice):
        return False
    place[0] = <PyObject *> kw_place_owner(slice.place)
    state.held_begin = 0
    hold(state, &slice, state.withheld.used, slice.start, state.withheld.next_offset)
    return True


cdef void withhold(ReaderState *state, Columns *out) noexcept nogil:
    if not state.most or out.length <= state.most or not state.holds:
        return
    withheld_keep(&state.withheld, out, state.most, &state.held, state.held_begin, state.held_used, state.held_to)
    state.held_used = state.held_begin
    state.held_to = out.next_offset


cdef int next_columns(ReaderState *state, Columns *out, PyObject **place, int timeout_ms) noexcept nogil:
    """Fill `out` with the next rows, all of one partition, and hold them. READ_FAILED: the owner's `error` is set."""
    cdef kw_records slice
    cdef DecodeStatus status
    cdef BatchHeader header
    cdef const char *reason = NULL
    cdef size_t at
    cdef int64_t begin, offset, looked = now_ms(), until = looked + timeout_ms
    cdef int got
    if is_foreign(state):
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
            if not out.length and not begin_chunk(state, &slice, at):
                give_back(state, &slice, at, offset)
                return READ_FAILED
            memset(&status, 0, sizeof(status))
            got = decode_chunk(slice.data + at, slice.size - at, &state.spec, out, &status)
            at += status.consumed
            if status.batches:
                offset = status.next_offset
            if got == DECODE_NEED_CODEC:  # rows decoded before the batch that needs the codec stay in `out`
                if _resolve(state, status.codec):
                    continue
                if out.length:
                    return hold(state, &slice, at, begin, offset)
                give_back(state, &slice, at, offset)
                return READ_FAILED
            if got != DECODE_OK:
                if out.length:  # first deliver the rows before the bad batch; the next call meets the batch again
                    return hold(state, &slice, at, begin, offset)
                if state.skip_corrupt and (got == DECODE_CORRUPT or got == DECODE_CRC or got == DECODE_UNSUPPORTED
                                           or got == DECODE_ORDER) \
                        and batch_header(slice.data + at, slice.size - at, &header, &reason) > 0:
                    _skipped(state, place[0], &status, slice.data - slice.frame.data + at)
                    columns_clear(out)  # the columns may hold parts of the bad batch
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
                if not out.length:  # only control batches or aborted records: no chunk to deliver
                    columns_clear(out)
                    prepare(state, &slice)
                    continue
                return hold(state, &slice, at, begin, offset)
            # the chunk continues in the next slice, if that is queued
            if out.length and out.raw_bytes < state.spec.chunk_bytes and (not state.most or out.length < state.most):
                got = kw_queue_next(state.queue, &slice, offset)
                if got:
                    if got > 1:
                        state.notifier.notify(&state.notifier)
                    prepare(state, &slice)
                    at = 0
                    if begin_chunk(state, &slice, at):
                        continue
                    hold(state, &slice, at, begin, offset)  # deliver the rows; the next read raises the error
                    return READ_ROWS
            if out.length:
                return hold(state, &slice, slice.size, begin, offset)
            give_back(state, &slice, slice.size, offset)
            break
        columns_clear(out)
        pay(state)  # no rows, so the loop continues: notify the engine now
        # Many slices without a wanted row may follow each other without any wait: check time and signals here too.
        if timeout_ms >= 0 and now_ms() >= max(until, looked + LEAST_LOOK_MS):
            return READ_SILENCE
        if now_ms() - looked >= WAIT_MS:
            looked = now_ms()
            if is_interrupted(state):
                return READ_FAILED


cdef bint begin_chunk(ReaderState *state, const kw_records *slice, size_t at) noexcept nogil:
    """Begin the rows of a chunk at byte `at` of this slice. False: no memory; the owner's `error` is set."""
    state.held_begin = at
    if not state.most or withheld_begin(&state.withheld, slice):
        return True
    _no_memory(state)
    return False


cdef int wait_for_slice(ReaderState *state, kw_records *slice, int timeout_ms, int64_t until) noexcept nogil:
    """Pop the next slice into `slice`: READ_ROWS; or another READ_*. `until` is the time at which `timeout_ms` end."""
    cdef int64_t left = WAIT_MS
    cdef int got
    while True:
        if timeout_ms >= 0:
            left = min(<int64_t> WAIT_MS, until - now_ms()) if timeout_ms > 0 else 0
        if state.wakes and kw_queue_woken(state.queue) and not _woken(state):
            return READ_FAILED
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
        if is_interrupted(state):
            return READ_FAILED
        if timeout_ms >= 0 and left <= WAIT_MS and now_ms() >= until:
            return READ_SILENCE


cdef int64_t now_ms() noexcept nogil:
    return clock_ns(CLOCK_MONOTONIC) // 1000000


cdef void pay(ReaderState *state) noexcept nogil:
    """Notify the engine of a response if the I/O thread left that to the waiting reader (see native/fast_path.h)."""
    if kw_queue_owed(state.queue):
        state.notifier.tell(&state.notifier)


cdef void prepare(ReaderState *state, const kw_records *slice) noexcept nogil:
    state.spec.start = slice.start
    state.spec.end = slice.end
    state.spec.aborted = <AbortedTransaction *> slice.aborted
    state.spec.aborted_count = slice.aborted_count


cdef int hold(ReaderState *state, kw_records *slice, size_t used, int64_t begin, int64_t offset) noexcept nogil:
    """Hold decoded rows until `hand_out` or `refuse`; return READ_ROWS."""
    state.held = slice[0]
    state.held_used = used
    state.held_from = begin
    state.held_to = offset
    state.holds = True
    return READ_ROWS


cdef bint hand_out(ReaderState *state) noexcept nogil:
    if not state.holds:
        return True
    state.holds = False
    return give_back(state, &state.held, state.held_used, state.held_to)


cdef bint give_back(ReaderState *state, kw_records *slice, size_t used, int64_t offset) noexcept nogil:
    """Return the slice to the queue. False: a reset of the partition since the pop made the slice stale."""
    cdef bint again = state.withheld.has_rows or ahead_stays(&state.ahead, slice.place)
    cdef int done = kw_queue_done(state.queue, slice, used, offset, again)
    if done & KW_DONE_TELL:
        state.notifier.notify(&state.notifier)
    return not done & KW_DONE_STALE


cdef void refuse(ReaderState *state, object error) noexcept:
    cdef ColumnReader owner = <ColumnReader> state.owner
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


cdef void settle(ReaderState *state) noexcept nogil:
    if not is_foreign(state):
        kw_queue_settle(state.queue, state.only)


cdef ArrowLayout *layout_of(PyObject *place) noexcept nogil:
    # (the queue keeps the slot alive, so the reference count stays as it is)
    return (<PartitionSlot> place).arrow


cdef bint is_foreign(ReaderState *state) noexcept nogil:
    return getpid() != state.pid


cdef void _no_memory(ReaderState *state) noexcept with gil:
    (<ColumnReader> state.owner).set_error(MemoryError("no memory for the rows of a fetched batch"))


cdef bint _resolve(ReaderState *state, int codec) noexcept with gil:
    try:
        resolve_codec(codec)
    except Exception as error:
        (<ColumnReader> state.owner).set_error(error)
        return False
    return True


cdef void _refuse_foreign(ReaderState *state) noexcept with gil:
    (<ColumnReader> state.owner).set_error(
        KafkaError(f"this {(<ColumnReader> state.owner).what} was made before a fork: make a new one in the child")
    )


cdef bint is_interrupted(ReaderState *state) noexcept nogil:
    if is_foreign(state):
        _refuse_foreign(state)
        return True
    if state.thread == 0 or is_main(&state.watch):
        return _handler_raised(state)
    if not main_is_stuck(&state.watch):
        return False
    state.stuck = True
    _main_stuck(state)
    return True


cdef bint _handler_raised(ReaderState *state) noexcept with gil:
    try:
        PyErr_CheckSignals()
    except BaseException as error:
        _interrupt(state, error)
        return True
    return False


cdef void _interrupt(ReaderState *state, object error) noexcept:
    """Set `error`. An Arrow stream cannot raise it: the main thread does once the stream's consumer has returned."""
    (<ColumnReader> state.owner).set_error(error)
    if state.thread != 0:
        state.interrupted = True
        carry(error)


cdef void _main_stuck(ReaderState *state) noexcept with gil:
    (<ColumnReader> state.owner).set_error(KeyboardInterrupt())


cdef bint _woken(ReaderState *state) noexcept with gil:
    try:
        (<ColumnReader> state.owner).on_wake()
    except Exception as error:
        (<ColumnReader> state.owner).set_error(error)
        return False
    except BaseException as error:
        _interrupt(state, error)
        return False
    return True


cdef void _queue_failed(ReaderState *state) noexcept with gil:
    (<ColumnReader> state.owner).set_error((<ColumnReader> state.owner).queue.error)


cdef void _place_failed(ReaderState *state, kw_place *place) noexcept with gil:
    (<ColumnReader> state.owner).set_error((<PartitionSlot> kw_place_owner(place)).error)


cdef void _skipped(ReaderState *state, PyObject *place, const DecodeStatus *status, size_t at) noexcept with gil:
    cdef PartitionSlot where = <PartitionSlot> place
    where.skipped += 1
    try:
        decode_error(status, at)
    except Exception as error:
        log.warning(
            "kafwire: %s-%s, from %s: a batch is skipped: %s", where.topic, where.partition, where.where, error,
            topic=where.topic, partition=where.partition, error=error,
        )


cdef void _decode_failed(ReaderState *state, PyObject *place, const DecodeStatus *status, size_t at,
                         int64_t next_offset) noexcept with gil:
    cdef ColumnReader owner = <ColumnReader> state.owner
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
