# distutils: sources = kafwire/memory/native/buf.c
cimport cython
from libc.errno cimport EOPNOTSUPP
from libc.stdint cimport int32_t, uint32_t, uint64_t

from kafwire.memory._buffer cimport Buffer, kw_buf

NOT_AUTHENTICATED = KW_NOT_AUTHENTICATED


cdef class Clock:
    """The system's clocks. A subclass that overrides both methods replaces them, in compiled code too."""

    def __cinit__(self):
        self.is_system = type(self) is Clock

    def monotonic(self):
        """Monotonic seconds from an unspecified point: the clock for all decisions."""
        cdef timespec now
        clock_gettime(CLOCK_MONOTONIC, &now)
        return now.tv_sec + now.tv_nsec / 1e9

    def time_ns(self):
        """Nanoseconds since the epoch."""
        cdef timespec now
        clock_gettime(CLOCK_REALTIME, &now)
        return now.tv_sec * 1000000000 + now.tv_nsec


cdef class Waiter:
    """The wait of a user's thread: for a delivery, for room, for records. A subclass may run a simulation meanwhile.

    It is compiled, and runs no Python of its own: an interrupt comes before the attempt or after the wait.
    """

    cpdef object wait(self, attempt, timeout_s):
        """Run `attempt(seconds)`, which blocks for at most `timeout_s` seconds (None: no limit), and return its result.

        An attempt returns its result, or None if there was none in time.
        """
        return attempt(timeout_s)


cdef void set_flag(kw_notifier *notifier) noexcept nogil:
    (<bint *> notifier.transport)[0] = True


cdef void tell_none(kw_notifier *notifier) noexcept nogil:
    pass


cdef class Notifier:
    """Notifies the engine from any thread. The base class is a flag for engines without an I/O thread."""

    def __cinit__(self):
        self.notifier.notify = set_flag
        self.notifier.tell = tell_none
        self.notifier.transport = &self.is_set

    def notify(self):
        """Have the listener called on the engine."""
        self.notifier.notify(&self.notifier)

    def take(self):
        """True if `notify` was called since the last `take`."""
        taken, self.is_set = self.is_set, False
        return taken


# The receiving thread uses the filter's memory until it is detached: the garbage collector must not clear it before.
@cython.no_gc_clear
cdef class ResponseFilter:
    """Sees the responses of one connection before the engine does, see `Connection.set_response_filter`.

    A subclass sets `function` and `context`, and calls `detach` before it frees the memory of `context`.
    """

    cpdef detach(self):
        """Stop receiving responses."""
        if self.transport is not None:
            self.release(self)
            self.transport = None

    def deliver(self, uint64_t token, Buffer frame not None):
        """Show it a response; True if another thread takes the response."""
        return frame.buf is not NULL and self.function(self.context, token, frame.buf) != 0


cdef class StreamSource:
    """Makes the stream of a connection that is more than the socket (`native/stream.h`).

    A subclass is TLS to one server; the native transport asks it for a stream for each connection.
    """

    cdef kw_stream *new_stream(self) except NULL:
        raise NotImplementedError


cdef class PendingRequest:
    """A request without a response yet.

    `callback(frame, error)` is called once. `timer` ends the wait, or is None. `sent_ms` is monotonic.
    """

    def __cinit__(self, callback=None, timer=None, double sent_ms=0.0):
        self.callback = callback
        self.timer = timer
        self.sent_ms = sent_ms

    def complete(self, frame, error):
        """Deliver the response's frame, or the error instead of it; neither if no response was expected."""
        self.callback(frame, error)


cdef class RequestTable:
    """The requests of one connection without a response, by token, in the order of sending.

    `accepts_threads`: user threads may add requests and send them without the engine.
    """

    def __cinit__(self):
        self.entries = {}

    def __len__(self):
        return len(self.entries)

    def __contains__(self, token):
        return token in self.entries

    def put(self, token, PendingRequest request not None):
        """Add a request that is sent now."""
        self.entries[token] = request

    def get(self, token):
        """Return a request, or None."""
        return self.entries.get(token)

    def pop(self, token):
        """Remove and return the request whose response arrived, or None."""
        return self.entries.pop(token, None)

    def oldest(self):
        """Return the request that was sent first, or None. Threads may change the table meanwhile."""
        cdef list requests = list(self.entries.values())
        return requests[0] if requests else None

    def close(self):
        """Accept no more requests; return those without a response, by token."""
        self.closed = True
        owed, self.entries = self.entries, {}
        return owed

    cdef bint add(self, token, PendingRequest request) noexcept:
        """Add a request; False if the table is closed, or memory is short."""
        if self.closed:
            return False
        try:
            self.entries[token] = request
        except MemoryError:
            return False
        return True

    cdef bint remove(self, token) noexcept:
        """Remove a request; True if it was in the table."""
        return self.entries.pop(token, None) is not None

    cdef int submit(self, uint32_t token, int32_t correlation_id, kw_buf **segments, int count) noexcept:
        """Send a request that was added. Returns 0, or a negative errno if nothing was sent."""
        return -EOPNOTSUPP
