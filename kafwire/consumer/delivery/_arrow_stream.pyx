# decoder: its lines are counted by scripts/coverage.py
from cpython.exc cimport PyErr_Fetch, PyErr_Restore
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.errno cimport EINVAL, EIO, ENOMEM
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset
from posix.time cimport CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID

from kafwire.consumer.delivery._column_reader cimport (
    READ_FAILED, READ_ROWS, ColumnReader, ReaderState, clock_ns, hand_out, is_interrupted, layout_of, next_rows,
    next_withheld, now_ms, refuse, settle, withhold,
)
from kafwire.consumer.fetch._fetch_buffer cimport PartitionSlot
from kafwire.consumer.delivery._interrupts cimport carry, is_carried, watch_begin, watch_end, watch_thread
from kafwire.consumer.delivery._read_ahead cimport ahead_adapt
from kafwire.memory._buffer cimport PyThread_get_thread_ident
from kafwire.records._arrow cimport (
    EXPORT_NO_MEMORY, ArrowArray, ArrowArrayStream, ArrowSchema, columns_export, export_error, layout_schema,
)
from kafwire.records._columns cimport Columns, columns_clear, columns_init
from kafwire.records._records cimport unexported

from kafwire.runtime.stream_threads import stream_thread_sources


cdef extern from "Python.h":
    ctypedef struct PyThreadState

cdef extern from "kafwire/consumer/delivery/native/gil.h" nogil:
    PyThreadState *kw_gil_give()
    void kw_gil_take(PyThreadState *mine)


cdef enum:
    LOOK_MS = 500  # interval at which a stream that delivers records checks for signals


# Readers by id, from the creation of the capsule to its release. Weak references would not do: their callbacks are
# Python code, and swallow the interrupt that a release passes on.
cdef dict _streams = {}


cdef object stream_capsule(ColumnReader reader):
    cdef ArrowArrayStream *stream
    stream = <ArrowArrayStream *> calloc(1, sizeof(ArrowArrayStream))
    if stream is NULL:
        raise MemoryError
    stream.get_schema = _stream_schema
    stream.get_next = _stream_next
    stream.get_last_error = _stream_error
    stream.release = _stream_release
    stream.private_data = &reader.state
    reader.busy = True
    reader.state.looked_ms = now_ms()
    watch_begin(&reader.state.watch)
    _streams[id(reader)] = reader
    Py_INCREF(reader)
    return PyCapsule_New(stream, b"arrow_array_stream", _drop_stream)


def stream_threads():
    """Return the identifiers of the threads that now wait, decode or close inside an Arrow stream."""
    cdef ColumnReader reader
    threads = [reader.state.thread for reader in list(_streams.values())]
    return [thread for thread in threads if thread]


stream_thread_sources.append(stream_threads)


cdef int _stream_schema(ArrowArrayStream *stream, ArrowSchema *out) noexcept nogil:
    return ENOMEM if layout_schema((<ReaderState *> stream.private_data).schema, out) else 0


cdef int _stream_next(ArrowArrayStream *stream, ArrowArray *out) noexcept nogil:
    cdef ReaderState *state = <ReaderState *> stream.private_data
    cdef PyThreadState *mine = kw_gil_give()
    cdef int code
    state.thread = PyThread_get_thread_ident()
    watch_thread(&state.watch)
    _come_back(state)
    code = _next_array(state, out)
    _leave(state)
    state.thread = 0
    kw_gil_take(mine)
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
    """Wait, decode and export. Only errors need the GIL."""
    cdef Columns columns
    cdef PyObject *place = NULL
    cdef int got
    memset(out, 0, sizeof(ArrowArray))
    if state.ended:
        return 0
    if state.stuck or state.interrupted and is_carried():
        return _end_interrupted(state)
    state.interrupted = False
    settle(state)
    columns_init(&columns)
    ahead_adapt(&state.ahead, state.waited_ns)
    got = _next_part(state, &columns, &place)
    while got == READ_ROWS:
        got = columns_export(&columns, layout_of(place), out)
        if got:
            state.ended = True
            _not_exported(state, place, got)
            return ENOMEM if got == EXPORT_NO_MEMORY else EINVAL
        if hand_out(state):
            if now_ms() - state.looked_ms >= LOOK_MS:
                state.looked_ms = now_ms()
                is_interrupted(state)
            return 0
        out.release(out)
        memset(out, 0, sizeof(ArrowArray))
        columns_init(&columns)
        got = _next_part(state, &columns, &place)
    columns_clear(&columns)
    if got == READ_FAILED and state.stuck:
        return _end_interrupted(state)
    if got == READ_FAILED and state.interrupted:
        # An empty array without an error: once the stream's consumer returns to Python code, the main thread raises
        # the signal handler's exception.
        return ENOMEM if columns_export(&columns, state.schema, out) else 0
    return EIO if got == READ_FAILED else 0


cdef int _next_part(ReaderState *state, Columns *columns, PyObject **place) noexcept nogil:
    """Read rows up to the reader's limit."""
    cdef int got = READ_ROWS
    if not next_withheld(state, columns, place):
        got = next_rows(state, columns, place, state.silence_ms)
    if got == READ_ROWS:
        withhold(state, columns)
    return got


cdef int _end_interrupted(ReaderState *state) noexcept nogil:
    """End a stream whose consumer loops outside Python. An endless stream ends; a bounded one would lack rows: fail."""
    state.ended = True
    return 0 if state.endless else EIO


cdef void _not_exported(ReaderState *state, PyObject *place, int code) noexcept with gil:
    """End the stream before rows that do not fit into Arrow's columns."""
    cdef ColumnReader owner = <ColumnReader> state.owner
    cdef PartitionSlot where = <PartitionSlot> place
    try:
        try:
            export_error(code)
        except Exception as problem:
            error = type(problem)(unexported(where.topic, where.partition, state.held_from, state.held_to, problem))
    except Exception as problem:
        error = problem
    owner.set_error(error)
    refuse(state, error)


cdef const char *_stream_error(ArrowArrayStream *stream) noexcept nogil:
    return (<ReaderState *> stream.private_data).message


cdef void _stream_release(ArrowArrayStream *stream) noexcept with gil:
    """Close the reader. A pending exception (the reader's error, raised by the stream's consumer) is kept."""
    cdef ColumnReader reader = <ColumnReader> (<ReaderState *> stream.private_data).owner
    cdef PyObject *kind = NULL
    cdef PyObject *error = NULL
    cdef PyObject *trace = NULL
    cdef bint waited = is_carried()
    stream.release = NULL
    reader.state.thread = PyThread_get_thread_ident()
    watch_end(&reader.state.watch)
    PyErr_Fetch(&kind, &error, &trace)
    try:
        reader.close()
    except BaseException as problem:  # raised by a signal handler: the main thread raises it afterwards
        if waited and not is_carried() or not isinstance(problem, Exception):
            reader.close()
            carry(problem)
        # else: only at interpreter shutdown, when nothing is left to close
    reader.state.thread = 0
    _streams.pop(id(reader), None)
    Py_DECREF(reader)
    PyErr_Restore(kind, error, trace)


cdef void _drop_stream(object capsule) noexcept:
    """Release the stream of a capsule that was not consumed."""
    cdef ArrowArrayStream *stream = <ArrowArrayStream *> PyCapsule_GetPointer(capsule, b"arrow_array_stream")
    if stream.release is not NULL:
        stream.release(stream)
    free(stream)
