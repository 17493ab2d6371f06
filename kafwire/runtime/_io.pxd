"""The native I/O thread: frames out, frames in, no GIL. `native/loop.h` is the contract.

Other extensions use it through the interfaces of `_interfaces.pxd`, so that only one of them links loop.c.
"""
from libc.stdint cimport uint32_t

from kafwire.runtime._interfaces cimport Notifier, RequestTable


cdef extern from "kafwire/runtime/native/loop.h" nogil:
    ctypedef struct kw_loop:
        pass


cdef class Loop:
    cdef kw_loop *loop


cdef class NativeNotifier(Notifier):
    cdef Loop loop


cdef class NativeRequestTable(RequestTable):
    cdef Loop loop
    cdef uint32_t connection
