/* SIGINTs are counted in front of the handler that the process has, so that a thread other than the main one sees them.
 * CPython reports signals to the main thread alone, which may wait inside a library for this very thread. */
#ifndef KAFWIRE_CONSUMER_INTERRUPTS_H
#define KAFWIRE_CONSUMER_INTERRUPTS_H

/* Count from now on: from any thread, without the GIL. A default or ignored SIGINT stays as it is. */
void kw_interrupts_watch(void);

/* Give SIGINT back to the handler that stood there before, unless another one was installed meanwhile. */
void kw_interrupts_unwatch(void);

/* SIGINTs counted so far in this process. */
int kw_interrupts_count(void);

#endif
