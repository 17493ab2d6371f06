/* Answers to produce requests on the shortest way: from the I/O thread to the thread that waits for one.
 *
 * Only a plain answer goes that way: one that is byte for byte as expected, but for the correlation id and three numbers
 * (base offset, log append time, log start offset). Whatever else a broker says, the engine finds as it came; and it finds
 * the plain ones too, later, when nobody waits for it. */
#ifndef KAFWIRE_EXPRESS_H
#define KAFWIRE_EXPRESS_H

#include "kafwire/memory/native/buf.h"

#include <stdint.h>

/* Those of one connection that are waited for. */
typedef struct kw_express kw_express;

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

kw_express *kw_express_new(void);
void kw_express_free(kw_express *express);
/* Somebody begins to wait. */
void kw_express_await(kw_express *express, kw_answer *answer);
/* Nobody waits any more. 1: nobody did, as `wake` was called. */
int kw_express_leave(kw_express *express, kw_answer *answer);
/* Wake whoever waits, if somebody does: the engine has the answer, or there will be none. */
void kw_express_call_off(kw_express *express, kw_answer *answer);
/* Whether a frame is a plain answer; if so, its numbers are taken in. */
int kw_express_read(kw_answer *answer, const kw_buf *frame);
/* What loop.h calls a tap. 1: somebody waits for this answer, and has it now. */
int kw_express_take(void *express, uint64_t token, kw_buf *frame);

#endif
