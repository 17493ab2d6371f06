/* Release the GIL during waits in functions that foreign callers call with or without it. */
#ifndef KAFWIRE_CONSUMER_GIL_H
#define KAFWIRE_CONSUMER_GIL_H

#include <Python.h>

/* Release the GIL if this thread has it. NULL: the thread does not have it. */
static inline PyThreadState *kw_gil_give(void) {
#if PY_VERSION_HEX >= 0x030D0000
    PyThreadState *mine = PyThreadState_GetUnchecked();
#elif PY_VERSION_HEX >= 0x030C0000
    PyThreadState *mine = _PyThreadState_UncheckedGet();
#else
    /* Before 3.12 this is the state of the thread that has the GIL, possibly another thread. */
    PyThreadState *mine = _PyThreadState_UncheckedGet();
    if (mine != PyGILState_GetThisThreadState())
        mine = NULL;
#endif
    return mine ? PyEval_SaveThread() : NULL;
}

/* Take the GIL again if `kw_gil_give` released it. */
static inline void kw_gil_take(PyThreadState *mine) {
    if (mine)
        PyEval_RestoreThread(mine);
}

#endif
