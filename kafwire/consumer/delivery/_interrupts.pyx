# distutils: sources = kafwire/consumer/delivery/native/interrupts.c
"""Signals during reads of Arrow streams; `_interrupts.pxd` is the contract.

A stream's consumer can raise only its own kinds of errors. So the main thread raises the exception of a signal handler
once the consumer has returned to Python code. A library's own thread gets no signals: its read ends when Ctrl-C came
and the main thread waits in C, probably for this thread. The read of a Python thread does not end: the program that
started the thread decides.
"""
from cpython.exc cimport PyErr_SetInterrupt
from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from kafwire.memory._buffer cimport PyThread_get_thread_ident

import signal

from kafwire.runtime.patched import main_ident


cdef extern from "Python.h":
    ctypedef struct PyThreadState
    PyThreadState *PyGILState_GetThisThreadState() nogil
    int Py_AddPendingCall(int (*function)(void *) except -1, void *argument)

cdef extern from "kafwire/consumer/delivery/native/interrupts.h" nogil:
    void kw_interrupts_enter()
    void kw_interrupts_leave()
    void kw_interrupts_watch()
    int kw_interrupts_count()


cdef enum:
    STUCK_MS = 1000  # time in which the main thread must run Python code again after Ctrl-C

cdef object _carried = None
cdef bint _is_carried = False
cdef int _handled = 0  # count of SIGINTs when the main thread last ran `_main_runs`


cdef void watch_begin(InterruptWatch *watch) noexcept:
    watch.main_thread = main_ident()
    watch.seen = kw_interrupts_count()
    watch.noticed_ms = 0


cdef void watch_thread(InterruptWatch *watch) noexcept nogil:
    # Before the first wait: without the counter, a SIGINT goes unnoticed while the main thread waits in C.
    if not watch.is_watching and not is_main(watch) and PyGILState_GetThisThreadState() is NULL:
        watch.is_watching = True
        watch.seen = kw_interrupts_count()
        kw_interrupts_enter()


cdef void watch_end(InterruptWatch *watch) noexcept:
    if watch.is_watching:
        watch.is_watching = False
        kw_interrupts_leave()


cdef bint is_main(const InterruptWatch *watch) noexcept nogil:
    return PyThread_get_thread_ident() == watch.main_thread


cdef bint main_is_stuck(InterruptWatch *watch) noexcept nogil:
    cdef timespec now
    cdef int64_t now_ms
    if PyGILState_GetThisThreadState() is not NULL:
        return False
    kw_interrupts_watch()  # a handler that was installed meanwhile replaced the counter
    if kw_interrupts_count() == watch.seen:
        return False
    clock_gettime(CLOCK_MONOTONIC, &now)
    now_ms = <int64_t> now.tv_sec * 1000 + now.tv_nsec // 1000000
    if watch.noticed_ms == 0:
        watch.noticed_ms = now_ms
        _ask_main(watch)
    elif _handled == kw_interrupts_count():
        watch.seen = _handled
        watch.noticed_ms = 0
    return watch.noticed_ms != 0 and now_ms - watch.noticed_ms >= STUCK_MS


cdef void _ask_main(InterruptWatch *watch) noexcept with gil:
    """Test if the main thread runs Python code. A program with its own SIGINT handler is exempt: it decides itself."""
    try:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler and Py_AddPendingCall(_main_runs, NULL) == 0:
            return
    except Exception:
        pass
    watch.seen = kw_interrupts_count()
    watch.noticed_ms = 0


cdef int _main_runs(void *_) except -1:
    global _handled
    _handled = kw_interrupts_count()
    return 0


cdef void carry(object error) noexcept:
    global _carried, _is_carried
    _carried = error
    _is_carried = True
    if Py_AddPendingCall(_raise_carried, NULL):
        _carried = None
        _is_carried = False
        PyErr_SetInterrupt()


cdef bint is_carried() noexcept nogil:
    return _is_carried


cdef int _raise_carried(void *_) except -1:
    global _carried, _is_carried
    error = _carried
    _carried = None
    _is_carried = False
    if error is not None:
        raise error
    return 0
