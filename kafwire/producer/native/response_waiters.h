/* Answers to produce requests on the shortest way: from the I/O thread to the thread that waits for one.
 *
 * Only a plain answer goes that way: one that is byte for byte as expected, but for the correlation id and three
 * numbers (base offset, log append time, log start offset). Whatever else a broker says, the engine finds as it came;
 * and it finds the plain ones too, later, when nobody waits for it. */
#ifndef KAFWIRE_RESPONSE_WAITERS_H
#define KAFWIRE_RESPONSE_WAITERS_H

#include "kafwire/memory/native/buf.h"

#include <stdint.h>

/* Those of one connection that are waited for. */
typedef struct kw_waiters kw_waiters;

enum { KW_IDLE, KW_AWAITED, KW_ANSWERED, KW_CALLED_OFF };

/* One answer that a thread waits for; its owner keeps it in place while it is awaited. */
typedef struct kw_answer {
    struct kw_answer *next;
    uint64_t token;
    int state;
    const uint8_t *plain; /* what is expected: `size` bytes */
    size_t size;
    size_t numbers_at; /* where the three numbers are */
    int64_t base_offset, log_append_ms;
    void (*wake)(void *waiter); /* called once for each wait, under a lock: it is short */
    void *waiter;
} kw_answer;

kw_waiters *kw_waiters_new(void);
void kw_waiters_free(kw_waiters *waiters);
/* Somebody begins to wait. */
void kw_waiters_await(kw_waiters *waiters, kw_answer *answer);
/* Nobody waits any more. 1: nobody did, as `wake` was called. */
int kw_waiters_leave(kw_waiters *waiters, kw_answer *answer);
/* Wake whoever waits, if somebody does: the engine has the answer, or there will be none. */
void kw_waiters_call_off(kw_waiters *waiters, kw_answer *answer);
/* Whether a frame is a plain answer; if so, its numbers are taken in. */
int kw_waiters_read(kw_answer *answer, const kw_buf *frame);
/* What loop.h calls a response filter. 1: somebody waits for this answer, and has it now. */
int kw_waiters_take(void *waiters, uint64_t token, kw_buf *frame);

#endif
