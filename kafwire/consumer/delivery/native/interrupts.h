/* A counter of SIGINTs, in front of the process's handler, so that a thread other than the main one sees them. CPython
 * reports signals to the main thread alone, which may be waiting inside a library for this very thread. */
#ifndef KAFWIRE_CONSUMER_INTERRUPTS_H
#define KAFWIRE_CONSUMER_INTERRUPTS_H

/* Count SIGINTs for a stream from now on. Call from any thread, without the GIL. The counter is not installed in front
 * of a default or ignored SIGINT. */
void kw_interrupts_enter(void);

/* End the count for a stream. The last stream restores the earlier SIGINT handler, unless another handler was installed
 * meanwhile. */
void kw_interrupts_leave(void);

/* Install the counter again, in front of a handler that was installed meanwhile. */
void kw_interrupts_watch(void);

/* The count of SIGINTs so far in this process. */
int kw_interrupts_count(void);

#endif
