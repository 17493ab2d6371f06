# distutils: sources = kafwire/memory/native/buf.c
cimport cython
from libc.errno cimport EOPNOTSUPP
from libc.stdint cimport int32_t, uint32_t, uint64_t

from kafwire.memory._buffer cimport Buffer, kw_buf

NOT_AUTHENTICATED = KW_NOT_AUTHENTICATED


cdef class Clock:
    """The system's clocks. A subclass that overrides both methods is another clock, for compiled code too."""

    def __cinit__(self):
        self.is_system = type(self) is Clock

    def monotonic(self):
        """Monotonic seconds, from an unspecified point on: the clock that decisions are made on."""
        cdef timespec now
        clock_gettime(CLOCK_MONOTONIC, &now)
        return now.tv_sec + now.tv_nsec / 1e9

    def time_ns(self):
        """Nanoseconds since the epoch."""
        cdef timespec now
        clock_gettime(CLOCK_REALTIME, &now)
        return now.tv_sec * 1000000000 + now.tv_nsec


cdef class Waiter:
    """How a thread of the user's waits: for a delivery, for room, for records. A subclass may run a world meanwhile.

    It is compiled, and runs no Python of its own: an interrupt finds a wait before its attempt or after it was over.
    """

    cpdef object wait(self, attempt, timeout_s):
        """Let `attempt(seconds)` block for at most `timeout_s` seconds (None: no limit), and return what it returns.

        An attempt answers what it got, or None where it got nothing in that time.
        """
        return attempt(timeout_s)


cdef void set_flag(kw_notifier *notifier) noexcept nogil:
    (<bint *> notifier.transport)[0] = True


cdef void tell_nobody(kw_notifier *notifier) noexcept nogil:
    pass


cdef class Notifier:
    """Word to the engine from any thread. By itself it is a flag, which who has no I/O thread looks at."""

    def __cinit__(self):
        self.notifier.notify = set_flag
        self.notifier.tell = tell_nobody
        self.notifier.transport = &self.is_set

    def notify(self):
        """Have the listener called on the engine."""
        self.notifier.notify(&self.notifier)

    def take(self):
        """Whether `notify` was called since this was asked last."""
        taken, self.is_set = self.is_set, False
        return taken


# The thread that receives works on what a filter holds: that stays until it is detached, whatever the collector clears.
@cython.no_gc_clear
cdef class ResponseFilter:
    """Sees the responses of one connection before the engine does, see `Connection.set_response_filter`.

    A subclass sets `function` and `context`, and calls `detach` before it frees what `context` points to.
    """

    cpdef detach(self):
        """See no more responses."""
        if self.transport is not None:
            self.release(self)
            self.transport = None

    def deliver(self, uint64_t token, Buffer frame not None):
        """Show it a response; whether somebody else is served by it."""
        return frame.buf is not NULL and self.function(self.context, token, frame.buf) != 0


cdef class StreamSource:
    """Makes what carries a connection's bytes where that is not the socket alone (`native/stream.h`).

    A subclass is TLS to one server; the native transport asks it for a stream for each connection.
    """

    cdef kw_stream *new_stream(self) except NULL:
        raise NotImplementedError


cdef class PendingRequest:
    """A request that is owed a response: whom to call with it, and since when.

    `callback(frame, error)` is called once. `timer` is what ends the wait, or None. `sent_ms` is monotonic.
    """

    def __cinit__(self, callback=None, timer=None, double sent_ms=0.0):
        self.callback = callback
        self.timer = timer
        self.sent_ms = sent_ms

    def answer(self, frame, error):
        """The response's frame, or the error that took its place; neither when none was expected."""
        self.callback(frame, error)


cdef class RequestTable:
    """The requests of one connection that are owed a response, by token, in the order of sending.

    `accepts_threads`: threads of the user's may add requests and send them, past the engine.
    """

    def __cinit__(self):
        self.entries = {}

    def __len__(self):
        return len(self.entries)

    def __contains__(self, token):
        return token in self.entries

    def put(self, token, PendingRequest request not None):
        """A request leaves now."""
        self.entries[token] = request

    def get(self, token):
        """A request, or None."""
        return self.entries.get(token)

    def pop(self, token):
        """Its response is here: the request, or None."""
        return self.entries.pop(token, None)

    def oldest(self):
        """The request that was sent first, or None. Threads change the table meanwhile."""
        cdef list requests = list(self.entries.values())
        return requests[0] if requests else None

    def close(self):
        """Take nothing more. What is owed, by token."""
        self.closed = True
        owed, self.entries = self.entries, {}
        return owed

    cdef bint add(self, token, PendingRequest request) noexcept:
        """`put`, unless it is closed, or memory is short; whether it was done."""
        if self.closed:
            return False
        try:
            self.entries[token] = request
        except MemoryError:
            return False
        return True

    cdef bint remove(self, token) noexcept:
        """Whether it stood there."""
        return self.entries.pop(token, None) is not None

    cdef int submit(self, uint32_t token, int32_t correlation_id, kw_buf **segments, int count) noexcept:
        """Send a request that was added; 0, or a negative errno, and nothing was sent."""
        return -EOPNOTSUPP
