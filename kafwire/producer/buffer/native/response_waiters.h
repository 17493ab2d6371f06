/* The shortest path of produce responses: from the I/O thread to the thread that waits for one.
 *
 * Only a plain response takes it: byte for byte as expected, except the correlation id and three numbers (base offset,
 * log append time, log start offset). The engine receives every other response unchanged, and later the plain ones that
 * no thread waits for. */
#ifndef KAFWIRE_RESPONSE_WAITERS_H
#define KAFWIRE_RESPONSE_WAITERS_H

#include "kafwire/memory/native/buf.h"

#include <stdint.h>

/* The awaited responses of one connection. */
typedef struct kw_waiters kw_waiters;

enum { KW_IDLE, KW_AWAITED, KW_RECEIVED, KW_CALLED_OFF };

/* One response that a thread waits for; its owner must not move it while it is awaited. */
typedef struct kw_awaited_response {
    struct kw_awaited_response *next;
    uint64_t token;
    int state;
    const uint8_t *plain;  /* the expected response: `size` bytes */
    size_t size;
    size_t numbers_at;  /* offset of the three numbers */
    int64_t base_offset, log_append_ms;
    void (*wake)(void *waiter);  /* called once for each wait, under a lock: must be short */
    void *waiter;
} kw_awaited_response;

kw_waiters *kw_waiters_new(void);
void kw_waiters_free(kw_waiters *waiters);
/* Begin to wait. */
void kw_waiters_await(kw_waiters *waiters, kw_awaited_response *awaited);
/* Stop waiting. Returns 1 if `wake` was already called. */
int kw_waiters_leave(kw_waiters *waiters, kw_awaited_response *awaited);
/* Wake the waiting thread, if there is one: the engine has the response, or there will be none. */
void kw_waiters_call_off(kw_waiters *waiters, kw_awaited_response *awaited);
/* Return 1 if a frame is a plain response, after copying its numbers. */
int kw_waiters_read(kw_awaited_response *awaited, const kw_buf *frame);
/* A response filter of loop.h. Returns 1 if a thread waits for this response, and now has it. */
int kw_waiters_take(void *waiters, uint64_t token, kw_buf *frame);

#endif
