/* Code that foreign callers run with or without the GIL gives it away while it waits. */
#ifndef KAFWIRE_CONSUMER_GIL_H
#define KAFWIRE_CONSUMER_GIL_H

#include <Python.h>

/* Give the GIL away if this thread has it. NULL: the thread has none. */
static inline PyThreadState *kw_gil_give(void) {
#if PY_VERSION_HEX >= 0x030D0000
    PyThreadState *mine = PyThreadState_GetUnchecked();
#elif PY_VERSION_HEX >= 0x030C0000
    PyThreadState *mine = _PyThreadState_UncheckedGet();
#else
    /* Before 3.12 this is the state of the thread that has the GIL, which may be another one. */
    PyThreadState *mine = _PyThreadState_UncheckedGet();
    if (mine != PyGILState_GetThisThreadState())
        mine = NULL;
#endif
    return mine ? PyEval_SaveThread() : NULL;
}

/* Take the GIL back where `kw_gil_give` gave it away. */
static inline void kw_gil_take(PyThreadState *mine) {
    if (mine)
        PyEval_RestoreThread(mine);
}

#endif
