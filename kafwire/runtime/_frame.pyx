# decoder: its lines are counted by scripts/coverage.py
# distutils: sources = kafwire/memory/native/buf.c kafwire/runtime/native/frame.c
"""`Frames`: the frame and correlation core as a Python class, for transports that move the bytes themselves."""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from kafwire.memory._buffer cimport Buffer, kw_buf_new, kw_buf_ref, kw_buf_unref, process_pool


cdef extern from "<sys/uio.h>" nogil:
    cdef struct iovec:
        void *iov_base
        size_t iov_len

cdef extern from "kafwire/runtime/native/frame.h" nogil:
    kw_request *kw_request_new(
        uint64_t token, int32_t correlation_id, kw_buf **segments, int count, int flags, int *error)
    void kw_request_free(kw_request *request)
    void kw_frames_init(kw_frames *frames, kw_pool *pool, uint32_t max_frame)
    void kw_frames_clear(kw_frames *frames)
    void kw_frames_queue(kw_frames *frames, kw_request *request)
    void kw_frames_hold(kw_frames *frames, int holding)
    int kw_frames_to_send(kw_frames *frames, iovec *slices, int limit)
    void kw_frames_sent(kw_frames *frames, size_t size)
    int kw_frames_receive_space(kw_frames *frames, uint8_t **data, size_t *size)
    int kw_frames_received(kw_frames *frames, size_t size)
    int kw_frames_inside_frame(kw_frames *frames)
    void kw_frames_reason(kw_frames *frames, char *text, size_t size)

cdef extern from "<errno.h>" nogil:
    int ENOMEM

RESPONSE = KW_RESPONSE
SENT = KW_SENT


cdef kw_buf *new_segment(object segment) except NULL:
    cdef kw_buf *buf
    if isinstance(segment, Buffer):
        buf = (<Buffer> segment).buf
        kw_buf_ref(buf)
        return buf
    if not isinstance(segment, bytes):
        raise TypeError(f"a segment is bytes or a Buffer, not {type(segment).__name__}")
    buf = kw_buf_new(process_pool(), PyBytes_GET_SIZE(segment))
    if buf is NULL:
        raise MemoryError(f"no memory for a segment of {len(segment)} bytes")
    memcpy(buf.data, PyBytes_AS_STRING(segment), PyBytes_GET_SIZE(segment))
    buf.size = PyBytes_GET_SIZE(segment)
    return buf


@cython.final
@cython.auto_pickle(False)
cdef class Frames:
    """The framing of one connection: requests in, bytes out; bytes in, responses out. One thread at a time.

    Bytes that break the protocol poison it: `feed` then raises ProtocolError always, `take` returns nothing more, and
    `completions()` still returns the earlier responses. A new `max_frame` (bytes) applies from the next frame on; a
    lower one may also apply to a frame received in part.
    """

    def __cinit__(self, uint32_t max_frame):
        kw_frames_init(&self.frames, process_pool(), max_frame)

    def __init__(self, max_frame):
        pass

    def __dealloc__(self):
        kw_frames_clear(&self.frames)

    @property
    def max_frame(self):
        return self.frames.max_frame

    @max_frame.setter
    def max_frame(self, uint32_t value):
        self.frames.max_frame = value

    @property
    def pending_bytes(self):
        """Bytes that `take` has not returned yet."""
        return self.frames.pending_bytes

    @property
    def inside_frame(self):
        """True if the bytes so far end inside a frame: an end of the stream here truncates it."""
        return kw_frames_inside_frame(&self.frames) != 0

    @property
    def is_oversized(self):
        """True if the frame that poisoned the connection is longer than `max_frame`."""
        return self.frames.poison == KW_POISON_OVERSIZE

    @property
    def poison(self):
        """Why the connection is poisoned, or None."""
        cdef char text[160]
        if not self.frames.poison:
            return None
        kw_frames_reason(&self.frames, text, sizeof(text))
        return (<bytes> text).decode()

    def queue(
        self, uint64_t token, int32_t correlation_id, segments, bint expect_response=True, bint past_hold=False,
    ):
        """Queue one request; the size prefix is added. Its response completes as RESPONSE with `token`.

        Without `expect_response` it completes as SENT when `take` has returned its last byte. With `past_hold`, no
        `hold` delays it. ValueError: a request of no bytes, or over 2 GiB.
        """
        cdef Py_ssize_t count = len(segments)
        cdef Py_ssize_t filled = 0
        cdef Py_ssize_t i
        cdef int error = 0
        cdef kw_request *request = NULL
        cdef int flags = (KW_EXPECT_RESPONSE if expect_response else 0) | (KW_PAST_HOLD if past_hold else 0)
        cdef kw_buf **bufs = <kw_buf **> calloc(count + 1, sizeof(kw_buf *))
        if bufs is NULL:
            raise MemoryError("no memory for a request")
        try:
            for segment in segments:
                if filled == count:
                    raise ValueError("the sequence of segments grew while it was read")
                bufs[filled] = new_segment(segment)
                filled += 1
            if filled <= KW_MAX_SLICES:
                request = kw_request_new(token, correlation_id, bufs, <int> filled, flags, &error)
        finally:
            for i in range(filled):
                kw_buf_unref(bufs[i])
            free(bufs)
        if request is NULL:
            if error == -ENOMEM:
                raise MemoryError("no memory for a request")
            raise ValueError(f"a request must have 1 byte to 2 GiB - 1, in at most {KW_MAX_SLICES} segments")
        kw_frames_queue(&self.frames, request)

    def hold(self, bint holding):
        """Hold requests queued from now on until this is called with False."""
        kw_frames_hold(&self.frames, holding)

    def take(self, size_t limit=65536):
        """Return up to `limit` bytes to send next; they count as sent."""
        cdef iovec slices[64]
        cdef size_t size = self.frames.pending_bytes if self.frames.pending_bytes < limit else limit
        cdef size_t filled = 0
        cdef size_t step
        cdef int count, i
        if self.frames.poison:
            return b""
        cdef bytes result = PyBytes_FromStringAndSize(NULL, size)
        while filled < size:
            count = kw_frames_to_send(&self.frames, slices, 64)
            step = 0
            for i in range(count):
                if slices[i].iov_len > size - filled - step:
                    slices[i].iov_len = size - filled - step
                memcpy(PyBytes_AS_STRING(result) + filled + step, slices[i].iov_base, slices[i].iov_len)
                step += slices[i].iov_len
            kw_frames_sent(&self.frames, step)
            filled += step
        return result

    def feed(self, data):
        """Process received bytes, split in any way. Raises ProtocolError when they poison the connection."""
        cdef Py_buffer view
        cdef const uint8_t *start
        cdef uint8_t *space
        cdef size_t left, room
        cdef int failed = 0
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        start = <const uint8_t *> view.buf
        left = view.len
        with nogil:
            while left and not failed:
                failed = kw_frames_receive_space(&self.frames, &space, &room)
                if not failed:
                    room = room if room < left else left
                    memcpy(space, start, room)
                    failed = kw_frames_received(&self.frames, room)
                    start += room
                    left -= room
        PyBuffer_Release(&view)
        if self.frames.poison:
            from kafwire.errors import ProtocolError

            raise ProtocolError(self.poison)

    def completions(self):
        """Return completions since the last call, in order: (RESPONSE, token, Buffer) or (SENT, token, None).

        The Buffer is the frame after its size prefix, so from the correlation id on.
        """
        cdef kw_completion *each = self.frames.done.first
        cdef list result = []
        while each is not NULL:
            payload = None
            if each.frame is not NULL:
                payload = Buffer.steal(each.frame)
                each.frame = NULL
            result.append((each.kind, each.token, payload))
            self.frames.done.first = each.next
            kw_request_free(<kw_request *> each)
            each = self.frames.done.first
        self.frames.done.last = NULL
        return result

    def outstanding(self):
        """Return the tokens of all incomplete requests, oldest first: they fail when the connection ends."""
        cdef kw_completion *each = <kw_completion *> self.frames.oldest
        cdef list result = []
        while each is not NULL:
            result.append(each.token)
            each = each.next
        return result
