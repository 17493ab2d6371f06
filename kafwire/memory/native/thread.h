/* Native threads: they block all signals, which are for the interpreter's threads, and have a name for ps and top. */
#ifndef KAFWIRE_THREAD_H
#define KAFWIRE_THREAD_H

#include <pthread.h>
#include <signal.h>

enum { KW_THREAD_STACK = 1 << 20 };

/* 0, or an error number. `name` has at most 15 bytes. */
static inline int kw_thread_start(pthread_t *thread, void *(*run)(void *), void *argument, const char *name) {
    sigset_t all, before;
    pthread_attr_t attributes;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, KW_THREAD_STACK);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, &attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
#ifdef __linux__
    /* (declared by _GNU_SOURCE only, which not every source that includes this sets) */
    extern int pthread_setname_np(pthread_t, const char *);
    if (!error) pthread_setname_np(*thread, name);
#else
    (void)name;
#endif
    return error;
}

#endif
