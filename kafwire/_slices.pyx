"""Slices of fetched records on their way to a reader, who decodes them in a thread of its own.

`SliceQueue` carries them. `SliceReader` makes batches of them, or is an Arrow stream: from end to end without
the GIL.
"""
cimport cython
from cpython.exc cimport PyErr_CheckSignals, PyErr_Fetch, PyErr_Restore, PyErr_SetInterrupt
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.errno cimport EINVAL, EIO, ENOMEM
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset, strncpy
from posix.unistd cimport getpid

from kafwire._arrow cimport (
    EXPORT_NO_MEMORY,
    ArrowArray,
    ArrowArrayStream,
    ArrowLayout,
    ArrowSchema,
    Layout,
    columns_export,
    layout_schema,
)
from kafwire._buffer cimport Buffer, kw_buf, kw_buf_ref
from kafwire._codec cimport (
    DECODE_NEED_CODEC,
    DECODE_OK,
    DECODE_TOO_LARGE,
    STOP_CHUNK_FULL,
    AbortedTransaction,
    Columns,
    DecodeSpec,
    DecodeStatus,
    aborted_sort,
    columns_clear,
    columns_finish,
    columns_init,
    decode_chunk,
    decode_error,
    spec_init,
)
from kafwire._compress cimport resolve_codec
from kafwire._io cimport Loop, kw_loop, kw_loop_post
from kafwire._records cimport Batch

from kafwire.errors import KafkaError, ProtocolError


cdef extern from "native/queue.h" nogil:
    ctypedef struct kw_queue:
        pass
    ctypedef struct kw_records:
        kw_buf *frame
        const uint8_t *data
        size_t size
        int32_t cursor
        int64_t start
        int64_t end
        void *aborted
        int32_t aborted_count
    enum:
        KW_QUEUE_FAILED
        KW_QUEUE_ENDED
        KW_QUEUE_RECORDS
        KW_QUEUE_IDLE
    kw_queue *kw_queue_new()
    void kw_queue_free(kw_queue *queue)
    int kw_queue_push(kw_queue *queue, const kw_records *slice)
    int kw_queue_pop(kw_queue *queue, kw_records *out, int wait_ms)
    int kw_queue_credit(kw_queue *queue, size_t size)
    size_t kw_queue_bytes(kw_queue *queue, int starved)
    void kw_queue_end(kw_queue *queue)
    void kw_queue_fail(kw_queue *queue)
    void kw_queue_close(kw_queue *queue)
    void kw_records_clear(kw_records *slice)


cdef extern from "Python.h":
    object PyCapsule_New(void *pointer, const char *name, void (*destructor)(object))
    void *PyCapsule_GetPointer(object capsule, const char *name) except NULL


cdef enum:
    WAIT_MS = 100  # how long a read waits before it looks for signals


@cython.final
cdef class SliceQueue:
    """Slices on their way from the engine to a reader; `cookie` is posted to the loop when bytes free up."""

    cdef kw_queue *queue
    cdef Loop native
    cdef uint64_t cookie
    cdef public object error

    def __cinit__(self, Loop native, uint64_t cookie):
        self.native = native
        self.cookie = cookie
        self.queue = kw_queue_new()
        if self.queue is NULL:
            raise MemoryError

    def __dealloc__(self):
        kw_queue_free(self.queue)

    def push(self, Buffer frame, size_t position, size_t size, int32_t cursor, int64_t start, int64_t end,
             list aborted):
        """Queue frame[position:position + size] for `cursor`; its records in [start, end) are wanted."""
        cdef kw_records slice
        cdef AbortedTransaction *entries = NULL
        cdef int32_t i
        if frame.buf is NULL or position > frame.buf.size or size > frame.buf.size - position:
            raise ValueError("the slice lies outside its frame")
        if aborted:
            entries = <AbortedTransaction *> calloc(len(aborted), sizeof(AbortedTransaction))
            if entries is NULL:
                raise MemoryError
            for i, (producer_id, first_offset) in enumerate(aborted):
                entries[i].producer_id = producer_id
                entries[i].first_offset = first_offset
            aborted_sort(entries, len(aborted))
        memset(&slice, 0, sizeof(slice))
        slice.frame = frame.buf
        slice.data = frame.buf.data + position
        slice.size = size
        slice.cursor = cursor
        slice.start = start
        slice.end = end
        slice.aborted = entries
        slice.aborted_count = len(aborted)
        kw_buf_ref(frame.buf)
        if kw_queue_push(self.queue, &slice):
            kw_records_clear(&slice)
            raise MemoryError

    def queued_bytes(self, *, bint starved=False):
        """Bytes queued or being decoded; with `starved`, the cookie is posted when the next of them are done."""
        return kw_queue_bytes(self.queue, starved)

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


# A reader's state, apart from the object that owns it, so that a stream can run on it without the GIL.
cdef struct ReaderState:
    PyObject *owner  # borrowed: the SliceReader
    kw_queue *queue
    kw_loop *loop
    uint64_t cookie
    ArrowLayout **layouts  # one a cursor, borrowed
    DecodeSpec spec
    kw_records slice  # being decoded; frame NULL: none
    size_t position  # in it
    bint ended
    int pid
    char message[512]


cdef int next_columns(ReaderState *state, Columns *out, int32_t *cursor) noexcept nogil:
    """Fill `out` with the next rows. 1: rows; 0: the end; -1: failed, and the owner's error says why."""
    cdef DecodeStatus status
    cdef int got
    while True:
        if state.slice.frame is NULL:
            got = kw_queue_pop(state.queue, &state.slice, WAIT_MS)
            if got == KW_QUEUE_IDLE:
                if _interrupted(state):
                    return -1
                continue
            if got == KW_QUEUE_ENDED:
                state.ended = True
                return 0
            if got == KW_QUEUE_FAILED:
                _queue_failed(state)
                return -1
            state.position = 0
            state.spec.start = state.slice.start
            state.spec.end = state.slice.end
            state.spec.aborted = <AbortedTransaction *> state.slice.aborted
            state.spec.aborted_count = state.slice.aborted_count
            state.spec.row_bytes = state.layouts[state.slice.cursor].row_bytes
        memset(&status, 0, sizeof(status))
        got = decode_chunk(
            state.slice.data + state.position, state.slice.size - state.position, &state.spec, out, &status
        )
        cursor[0] = state.slice.cursor
        state.position += status.consumed
        if got == DECODE_NEED_CODEC:  # what was decoded before the batch that needs it stays in `out`
            if not _resolve(state, status.codec):
                return -1
            continue
        if got != DECODE_OK:
            if out.length:  # first the rows before the bad batch; the next call meets it again
                return 1
            _decode_failed(state, &status)
            return -1
        if status.stop != STOP_CHUNK_FULL or state.position >= state.slice.size:
            _finish_slice(state)
        if out.length:
            return 1
        columns_clear(out)


cdef void _finish_slice(ReaderState *state) noexcept nogil:
    cdef size_t size = state.slice.size
    kw_records_clear(&state.slice)
    if kw_queue_credit(state.queue, size):
        kw_loop_post(state.loop, state.cookie)


cdef bint _resolve(ReaderState *state, int codec) noexcept with gil:
    try:
        resolve_codec(codec)
    except Exception as error:
        (<SliceReader> state.owner).set_error(error)
        return False
    return True


cdef bint _interrupted(ReaderState *state) noexcept with gil:
    """Run signal handlers; one that raises ends the read, and Ctrl-C reaches the main thread again afterwards."""
    if getpid() != state.pid:  # the engine that would bring more did not come along
        (<SliceReader> state.owner).set_error(
            KafkaError("this scan was made before a fork: make a new one in the child")
        )
        return True
    try:
        PyErr_CheckSignals()
    except BaseException as error:
        (<SliceReader> state.owner).set_error(error)
        if isinstance(error, KeyboardInterrupt) and (<SliceReader> state.owner).as_stream:
            PyErr_SetInterrupt()
        return True
    return False


cdef void _queue_failed(ReaderState *state) noexcept with gil:
    (<SliceReader> state.owner).set_error((<SliceReader> state.owner).queue.error)


cdef void _decode_failed(ReaderState *state, DecodeStatus *status) noexcept with gil:
    cdef SliceReader owner = <SliceReader> state.owner
    topic, partition = owner.names[state.slice.cursor]
    try:
        decode_error(status, state.position)
    except ProtocolError as error:
        advice = "raise it to read on" if status.kind == DECODE_TOO_LARGE else (
            "the log is damaged, or bytes were changed on their way"
        )
        owner.set_error(ProtocolError(
            f"{topic}-{partition}, batch at offset {status.base_offset}: {error.message}; {advice}",
            api="FetchResponse", offset=error.offset,
        ))
    except Exception as error:
        owner.set_error(error)


@cython.final
cdef class SliceReader:
    """Decodes a queue's slices to columns: an iterator of Batch, or an Arrow stream. One reader at a time.

    `layouts` and `names` (topic, partition) have one entry a cursor. `on_close` is called once, with the GIL, when
    nothing more will be read.
    """

    cdef SliceQueue queue
    cdef list layouts
    cdef list names
    cdef object on_close
    cdef bint busy
    cdef bint as_stream
    cdef readonly object error
    cdef ReaderState state

    def __cinit__(self, SliceQueue queue, list layouts, list names, *, size_t chunk_bytes, size_t max_decompressed,
                  bint verify_crc, object on_close):
        cdef Layout layout
        if not layouts:
            raise ValueError("a reader needs one layout at least")
        self.queue = queue
        self.layouts = layouts
        self.names = names
        self.on_close = on_close
        self.state.owner = <PyObject *> self
        self.state.pid = getpid()
        self.state.queue = queue.queue
        self.state.loop = queue.native.loop
        self.state.cookie = queue.cookie
        self.state.layouts = <ArrowLayout **> malloc(len(layouts) * sizeof(ArrowLayout *))
        if self.state.layouts is NULL:
            raise MemoryError
        for i, layout in enumerate(layouts):
            self.state.layouts[i] = &layout.layout
        spec_init(&self.state.spec)
        self.state.spec.columns = self.state.layouts[0].columns
        self.state.spec.chunk_bytes = chunk_bytes
        self.state.spec.max_decompressed = max_decompressed
        self.state.spec.verify_crc = verify_crc
        self.state.spec.skip_control = True
        self.state.spec.check_order = True

    def __dealloc__(self):
        kw_records_clear(&self.state.slice)
        free(self.state.layouts)

    def __iter__(self):
        return self

    def __next__(self):
        """The next chunk as a Batch."""
        cdef Columns columns
        cdef int32_t cursor = 0
        cdef int got
        if self.busy:
            raise KafkaError("a scan is read once, by one reader at a time: make a new one to read again")
        if self.state.ended:
            raise StopIteration
        self.busy = True
        columns_init(&columns)
        try:
            with nogil:
                got = next_columns(&self.state, &columns, &cursor)
                if got > 0:
                    columns_finish(&columns)
            if got > 0:
                topic, partition = self.names[cursor]
                return Batch.take(&columns, <Layout> self.layouts[cursor], topic, partition, &self.state.spec)
            self.close()
            if got < 0:
                raise self.error
            raise StopIteration
        finally:
            self.busy = False
            columns_clear(&columns)

    def close(self):
        """Read no more; a second close does nothing."""
        self.state.ended = True
        self.queue.close()
        on_close = self.on_close
        if on_close is not None:
            on_close()
        self.on_close = None  # after the call: an interrupt may end it, and closing again then completes it

    cdef void set_error(self, error) noexcept:
        cdef bytes text
        self.error = error if error is not None else KafkaError("the read failed")
        text = str(self.error).encode("utf-8", "replace")[:511]
        memcpy(self.state.message, <const char *> text, len(text))
        self.state.message[len(text)] = 0

    def schema_capsule(self):
        """An `arrow_schema` capsule of the stream's schema."""
        return (<Layout> self.layouts[0]).schema_capsule()

    def stream_capsule(self):
        """An `arrow_array_stream` capsule, which takes the reader for itself."""
        cdef ArrowArrayStream *stream
        if self.busy or self.state.ended:
            raise KafkaError("a scan is read once, by one reader at a time: make a new one to read again")
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
        Py_INCREF(self)
        return PyCapsule_New(stream, b"arrow_array_stream", _drop_stream)


cdef int _stream_schema(ArrowArrayStream *stream, ArrowSchema *out) noexcept nogil:
    return ENOMEM if layout_schema((<ReaderState *> stream.private_data).layouts[0], out) else 0


cdef int _stream_next(ArrowArrayStream *stream, ArrowArray *out) noexcept nogil:
    """The data plane's last step: waits, decodes and exports, and needs the GIL only when something went wrong."""
    cdef ReaderState *state = <ReaderState *> stream.private_data
    cdef Columns columns
    cdef int32_t cursor = 0
    cdef int got
    memset(out, 0, sizeof(ArrowArray))
    if state.ended:
        return 0
    columns_init(&columns)
    got = next_columns(state, &columns, &cursor)
    if got > 0:
        columns_finish(&columns)
        got = columns_export(&columns, state.layouts[cursor], out)
        if got == 0:
            return 0
        strncpy(state.message, "the rows do not fit into the columns asked for", sizeof(state.message) - 1)
        return ENOMEM if got == EXPORT_NO_MEMORY else EINVAL
    columns_clear(&columns)
    return EIO if got < 0 else 0


cdef const char *_stream_error(ArrowArrayStream *stream) noexcept nogil:
    return (<ReaderState *> stream.private_data).message


cdef void _stream_release(ArrowArrayStream *stream) noexcept with gil:
    """May be called while an exception is on its way: the reader's error, which the consumer is just raising."""
    cdef SliceReader reader = <SliceReader> (<ReaderState *> stream.private_data).owner
    cdef PyObject *kind = NULL
    cdef PyObject *error = NULL
    cdef PyObject *trace = NULL
    stream.release = NULL
    PyErr_Fetch(&kind, &error, &trace)
    try:
        reader.close()
    except KeyboardInterrupt:  # the one that ended the read, told again: it is for the main thread
        reader.close()
        PyErr_SetInterrupt()
    except Exception:
        pass  # only at the interpreter's end, when there is nothing left to close
    Py_DECREF(reader)
    PyErr_Restore(kind, error, trace)


cdef void _drop_stream(object capsule) noexcept:
    """A capsule that nobody took: release what is in it."""
    cdef ArrowArrayStream *stream = <ArrowArrayStream *> PyCapsule_GetPointer(capsule, b"arrow_array_stream")
    if stream.release is not NULL:
        stream.release(stream)
    free(stream)
