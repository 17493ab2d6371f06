/* SIGINTs are counted in front of the handler that the process has, so that a thread other than the main one sees them.
 * CPython reports signals to the main thread alone, which may wait inside a library for this very thread. */
#ifndef KAFWIRE_CONSUMER_INTERRUPTS_H
#define KAFWIRE_CONSUMER_INTERRUPTS_H

/* A stream has SIGINT counted from now on: from any thread, without the GIL. A default or ignored SIGINT stays. */
void kw_interrupts_enter(void);

/* It does no more. The last one gives SIGINT back to the handler that stood there before, unless another one was
 * installed meanwhile. */
void kw_interrupts_leave(void);

/* Count again where a handler was installed meanwhile. */
void kw_interrupts_watch(void);

/* SIGINTs counted so far in this process. */
int kw_interrupts_count(void);

#endif
