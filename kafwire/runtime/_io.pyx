# distutils: sources = kafwire/memory/native/buf.c kafwire/runtime/native/frame.c kafwire/runtime/native/loop.c
"""The native I/O thread as a Python class. `native/loop.c` does all work; this file only converts.

The short calls (`submit`, `drain`, `post`, ...) keep the GIL: they take microseconds, and their locks are never held
while bytes move, whereas releasing the GIL beside a computing thread costs about 5 ms to get it back. C callers without
the GIL use the interfaces of `_interfaces`, which the classes at the end of this file implement.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from libc.errno cimport ECHILD, EINVAL, ENOMEM, EPIPE, ESHUTDOWN
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from kafwire.memory._buffer cimport Buffer, kw_buf, kw_buf_unref, kw_pool, process_pool
from kafwire.runtime._frame cimport (
    KW_CLOSED, KW_CONNECTED, KW_EXPECT_RESPONSE, KW_MAX_SLICES, KW_PAST_HOLD, KW_POSTED, KW_RESPONSE, KW_SENT,
    kw_completion, new_segment,
)
from kafwire.runtime._interfaces cimport (
    Notifier, RequestTable, ResponseFilter, StreamSource, kw_notifier, kw_response_filter, kw_stream,
)

import os


cdef extern from "<arpa/inet.h>" nogil:
    int inet_pton(int family, const char *text, void *address)
    uint16_t htons(uint16_t value)
    uint32_t htonl(uint32_t value)

cdef extern from "<netinet/in.h>" nogil:
    int AF_INET
    int AF_INET6
    ctypedef unsigned int socklen_t
    cdef struct in_addr:
        pass
    cdef struct in6_addr:
        pass
    cdef struct c_sockaddr "sockaddr":
        pass
    cdef struct sockaddr_in:
        int sin_family
        uint16_t sin_port
        in_addr sin_addr
    cdef struct sockaddr_in6:
        int sin6_family
        uint16_t sin6_port
        uint32_t sin6_flowinfo
        in6_addr sin6_addr
        uint32_t sin6_scope_id

cdef extern from "kafwire/runtime/native/loop.h" nogil:
    ctypedef struct kw_closing:
        int error
        char *reason
    ctypedef struct kw_loop_statistics:
        uint64_t bytes_in
        uint64_t bytes_out
        uint64_t frames_in
        uint64_t frames_out
        uint64_t receive_calls
        uint64_t send_calls
        uint64_t polls
        uint64_t notifications
        uint64_t connections_opened
        uint64_t connections_open
    kw_loop *loop_new "kw_loop_new"(kw_pool *pool, int *error)
    void loop_stop "kw_loop_stop"(kw_loop *loop)
    void loop_free "kw_loop_free"(kw_loop *loop)
    int loop_fileno "kw_loop_fileno"(kw_loop *loop)
    int64_t loop_connect "kw_loop_connect"(
        kw_loop *loop, const c_sockaddr *address, socklen_t size, kw_stream *stream, uint32_t max_frame,
        int send_buffer, int receive_buffer)
    int loop_hold "kw_loop_hold"(kw_loop *loop, uint32_t connection, int holding)
    int loop_submit "kw_loop_submit"(
        kw_loop *loop, uint32_t connection, uint64_t token, int32_t correlation_id,
        kw_buf **segments, int count, int flags)
    int loop_set_max_frame "kw_loop_set_max_frame"(kw_loop *loop, uint32_t connection, uint32_t max_frame)
    int loop_close_connection "kw_loop_close_connection"(kw_loop *loop, uint32_t connection)
    int loop_post "kw_loop_post"(kw_loop *loop, uint64_t cookie)
    int loop_set_response_filter "kw_loop_set_response_filter"(
        kw_loop *loop, uint32_t connection, kw_response_filter filter, void *context
    )
    int loop_tell "kw_loop_tell"(kw_loop *loop)
    kw_completion *loop_drain "kw_loop_drain"(kw_loop *loop, int *error)
    void kw_completion_free(kw_completion *completion)
    int loop_statistics "kw_loop_get_statistics"(kw_loop *loop, kw_loop_statistics *statistics)


CONNECTED = KW_CONNECTED
RESPONSE = KW_RESPONSE
SENT = KW_SENT
CLOSED = KW_CLOSED
POSTED = KW_POSTED


cdef int raise_for(int64_t result, str what) except -1:
    if result == -ECHILD:
        raise RuntimeError(
            f"{what}: this I/O thread belongs to the parent process; after a fork, make a new one")
    if result == -ESHUTDOWN:
        raise RuntimeError(f"{what}: the I/O thread was stopped")
    if result == -ENOMEM:
        raise MemoryError(f"{what}: no memory")
    if result == -EINVAL:
        raise ValueError(f"{what}: a request must have 1 byte to 2 GiB - 1, in at most {KW_MAX_SLICES} segments")
    raise OSError(-result, f"{what}: {'the connection is closed' if result == -EPIPE else os.strerror(-result)}")


cdef socklen_t fill_address(object address, int family, sockaddr_in *v4, sockaddr_in6 *v6) except 0:
    cdef bytes host = address[0].partition("%")[0].encode("ascii")
    cdef uint16_t port = address[1]
    cdef int valid
    if family == AF_INET:
        memset(v4, 0, sizeof(sockaddr_in))
        v4.sin_family = AF_INET
        v4.sin_port = htons(port)
        valid = inet_pton(AF_INET, PyBytes_AS_STRING(host), &v4.sin_addr)
    elif family == AF_INET6:
        memset(v6, 0, sizeof(sockaddr_in6))
        v6.sin6_family = AF_INET6
        v6.sin6_port = htons(port)
        valid = inet_pton(AF_INET6, PyBytes_AS_STRING(host), &v6.sin6_addr)
        if len(address) > 2:
            v6.sin6_flowinfo = htonl(address[2])
            v6.sin6_scope_id = address[3]
    else:
        raise ValueError(f"connect: address family {family} is neither AF_INET nor AF_INET6")
    if valid != 1:
        raise ValueError(f"connect: {address[0]!r} is not a numeric address of that family; resolve names first")
    return sizeof(sockaddr_in) if family == AF_INET else sizeof(sockaddr_in6)


@cython.final
@cython.auto_pickle(False)
cdef class Loop:
    """A native thread that owns plain TCP sockets: it sends requests, receives frames and matches them to requests.

    Any thread may call any method. The thread starts here and ends in `stop()`; it never takes the GIL. In a forked
    child every method raises RuntimeError, except `stop()`, which does nothing; the parent's thread and sockets are
    left alone. After `stop()`, `fileno()`, `drain()` and `statistics()` still work, `close_connection()` does nothing,
    and everything else raises RuntimeError.
    """

    def __cinit__(self):
        cdef int error = 0
        self.loop = loop_new(process_pool(), &error)
        if self.loop is NULL:
            raise OSError(-error, f"the I/O thread cannot start: {os.strerror(-error)}")

    def __dealloc__(self):
        # Joins a thread that never takes the GIL, so no deadlock is possible.
        loop_free(self.loop)

    def fileno(self):
        """Return the descriptor that is readable exactly while `drain()` has something to return.

        Open while this lives.
        """
        cdef int result = loop_fileno(self.loop)
        if result < 0:
            raise_for(result, "fileno")
        return result

    def connect(
        self, tuple sockaddr, int family, *, uint32_t max_frame, StreamSource stream=None, int send_buffer=0,
        int receive_buffer=0,
    ):
        """Start to connect to a numeric (host, port[, flowinfo, scope_id]); return the connection's number at once.

        CONNECTED or CLOSED follows. `stream` makes the stream, such as TLS; None: the plain socket. `max_frame` in
        bytes: a larger response poisons the connection. Buffer sizes in bytes (SO_SNDBUF, SO_RCVBUF); 0 keeps the
        system's. Raises ValueError for an address that is not numeric.
        """
        cdef sockaddr_in v4
        cdef sockaddr_in6 v6
        cdef socklen_t size = fill_address(sockaddr, family, &v4, &v6)
        cdef kw_stream *carrier = NULL if stream is None else stream.new_stream()
        cdef int64_t result = loop_connect(
            self.loop, <c_sockaddr *> &v4 if family == AF_INET else <c_sockaddr *> &v6, size, carrier, max_frame,
            send_buffer, receive_buffer)
        if result < 0:
            raise_for(result, "connect")
        return result

    def submit(
        self, uint32_t connection, uint64_t token, int32_t correlation_id, segments, bint expect_response,
        bint past_hold=False,
    ):
        """Queue one request; its 4-byte size prefix is added here. May be called before CONNECTED.

        A Buffer is sent without a copy and stays referenced until its last byte is out; `bytes` are copied. The
        response completes as RESPONSE with `token`; without `expect_response` the request completes as SENT. With
        `past_hold`, no `hold` delays it. Raises BrokenPipeError when the connection is closed (its CLOSED completion is
        pending, or was drained), ValueError for a request of no bytes or over 2 GiB.
        """
        cdef kw_buf *few[16]
        cdef kw_buf **all_segments = few
        cdef Py_ssize_t count = len(segments)
        cdef Py_ssize_t filled = 0
        cdef Py_ssize_t i
        cdef int flags = (KW_EXPECT_RESPONSE if expect_response else 0) | (KW_PAST_HOLD if past_hold else 0)
        cdef int result = -EINVAL
        if count > 16:
            if count > KW_MAX_SLICES:
                raise_for(-EINVAL, "submit")
            all_segments = <kw_buf **> calloc(count, sizeof(kw_buf *))
            if all_segments is NULL:
                raise MemoryError("submit: no memory")
        try:
            for segment in segments:
                if filled == count:
                    raise ValueError("submit: the sequence of segments grew while it was read")
                all_segments[filled] = new_segment(segment)
                filled += 1
            result = loop_submit(
                self.loop, connection, token, correlation_id, all_segments, <int> filled, flags)
        finally:
            for i in range(filled):
                kw_buf_unref(all_segments[i])
            if all_segments is not few:
                free(all_segments)
        if result < 0:
            raise_for(result, "submit")

    def hold(self, uint32_t connection, bint holding):
        """Hold requests submitted from now on until this is called with False.

        Does nothing for a closed connection.
        """
        cdef int result = loop_hold(self.loop, connection, holding)
        if result < 0 and result != -EPIPE:
            raise_for(result, "hold")

    def set_max_frame(self, uint32_t connection, uint32_t max_frame):
        """Change the limit, in bytes, from the next frame on. Does nothing for a closed connection."""
        cdef int result = loop_set_max_frame(self.loop, connection, max_frame)
        if result < 0 and result != -EPIPE:
            raise_for(result, "set_max_frame")

    def close_connection(self, uint32_t connection):
        """Close; a CLOSED completion follows, unless it is closed already. Drops queued and pending requests."""
        cdef int result = loop_close_connection(self.loop, connection)
        if result < 0:
            raise_for(result, "close_connection")

    def drain(self):
        """Return all events since the last call, in order, as (kind, connection, token, payload) tuples.

        CONNECTED: payload None. RESPONSE: a Buffer from the correlation id on. SENT (requests without a response):
        None, the last byte reached the kernel. CLOSED: (errno, reason), the connection's last; it stands for all its
        incomplete requests. errno is 0 for closed by this side, EPIPE for closed by the peer, EMSGSIZE for a frame
        above the limit, EPROTO for malformed bytes, EPROTONOSUPPORT for a peer that speaks no TLS, NOT_AUTHENTICATED if
        TLS was refused by one side, else that of the failed call. POSTED: token is the cookie, connection 0.
        """
        cdef int error = 0
        cdef kw_completion *each = loop_drain(self.loop, &error)
        cdef kw_completion *next_one
        cdef list result
        if error:
            raise_for(error, "drain")
        try:
            result = []
            while each is not NULL:
                payload = None
                if each.kind == KW_RESPONSE:
                    payload = Buffer.steal(each.frame)
                    each.frame = NULL
                elif each.kind == KW_CLOSED:
                    payload = ((<kw_closing *> each).error, (<kw_closing *> each).reason.decode("utf-8", "replace"))
                result.append((each.kind, each.connection, each.token, payload))
                next_one = each.next
                kw_completion_free(each)
                each = next_one
            return result
        finally:
            while each is not NULL:
                next_one = each.next
                kw_completion_free(each)
                each = next_one

    def post(self, uint64_t cookie):
        """Wake the waiter for `fileno()` with a POSTED completion; equal pending cookies merge."""
        cdef int result = loop_post(self.loop, cookie)
        if result < 0:
            raise_for(result, "post")

    def notifier(self, uint64_t cookie):
        """Return a `Notifier` that posts `cookie`."""
        return NativeNotifier(self, cookie)

    def requests(self, uint32_t connection):
        """Return the `RequestTable` of a connection, with which any thread may send on it."""
        return NativeRequestTable(self, connection)

    def set_response_filter(self, uint32_t connection, ResponseFilter response_filter not None):
        """Show a connection's responses to the filter, in the I/O thread; does nothing for a closed connection."""
        response_filter.detach()
        if loop_set_response_filter(self.loop, connection, response_filter.function, response_filter.context) == 0:
            response_filter.transport = self
            response_filter.connection = connection
            response_filter.release = _release

    def statistics(self):
        """Return counters since the start, as a dict: bytes, frames, system calls, wake-ups and connections."""
        cdef kw_loop_statistics now
        cdef int result = loop_statistics(self.loop, &now)
        if result < 0:
            raise_for(result, "statistics")
        return {
            "bytes_in": now.bytes_in,
            "bytes_out": now.bytes_out,
            "frames_in": now.frames_in,
            "frames_out": now.frames_out,
            "receive_calls": now.receive_calls,
            "send_calls": now.send_calls,
            "polls": now.polls,
            "notifications": now.notifications,
            "connections_opened": now.connections_opened,
            "connections_open": now.connections_open,
        }

    def stop(self):
        """Close every connection, end the thread and wait for it. Idempotent; in a forked child it does nothing."""
        with nogil:
            loop_stop(self.loop)


@cython.final
@cython.no_gc_clear
cdef class NativeNotifier(Notifier):
    """A notifier that posts its number to a loop."""

    def __cinit__(self, Loop loop not None, uint64_t number):
        self.loop = loop
        self.notifier.notify = _notify
        self.notifier.tell = _tell
        self.notifier.transport = loop.loop
        self.notifier.number = number


cdef void _notify(kw_notifier *notifier) noexcept nogil:
    loop_post(<kw_loop *> notifier.transport, notifier.number)


cdef void _tell(kw_notifier *notifier) noexcept nogil:
    loop_tell(<kw_loop *> notifier.transport)


cdef void _release(ResponseFilter attached) noexcept:
    loop_set_response_filter((<Loop> attached.transport).loop, attached.connection, NULL, NULL)


@cython.final
cdef class NativeRequestTable(RequestTable):
    """The request table of a loop's connection: any thread may send on it."""

    def __cinit__(self, Loop loop not None, uint32_t connection):
        self.loop = loop
        self.connection = connection
        self.accepts_threads = True

    cdef int submit(self, uint32_t token, int32_t correlation_id, kw_buf **segments, int count) noexcept:
        return loop_submit(
            self.loop.loop, self.connection, token, correlation_id, segments, count, KW_EXPECT_RESPONSE)
