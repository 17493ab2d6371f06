#include "kafwire/producer/buffer/native/response_waiters.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kafwire/memory/native/bytes.h"

enum { CORRELATION_ID = 4, NUMBERS = 3 * 8 };

struct kw_waiters {
    pthread_mutex_t lock;
    kw_awaited_response *first;  /* one per thread that waits for a record of another partition */
};

kw_waiters *kw_waiters_new(void) {
    kw_waiters *waiters = calloc(1, sizeof *waiters);
    if (waiters) pthread_mutex_init(&waiters->lock, NULL);
    return waiters;
}

void kw_waiters_free(kw_waiters *waiters) {
    if (!waiters) return;
    pthread_mutex_destroy(&waiters->lock);
    free(waiters);
}

/* The lock is held. */
static void take_out(kw_waiters *waiters, kw_awaited_response *awaited) {
    kw_awaited_response **link = &waiters->first;
    while (*link != awaited) link = &(*link)->next;
    *link = awaited->next;
}

static void end(kw_waiters *waiters, kw_awaited_response *awaited, int state) {
    take_out(waiters, awaited);
    awaited->state = state;
    awaited->wake(awaited->waiter);
}

void kw_waiters_await(kw_waiters *waiters, kw_awaited_response *awaited) {
    pthread_mutex_lock(&waiters->lock);
    awaited->state = KW_AWAITED;
    awaited->next = waiters->first;
    waiters->first = awaited;
    pthread_mutex_unlock(&waiters->lock);
}

int kw_waiters_leave(kw_waiters *waiters, kw_awaited_response *awaited) {
    pthread_mutex_lock(&waiters->lock);
    int woken = awaited->state != KW_AWAITED;
    if (!woken) {
        take_out(waiters, awaited);
        awaited->state = KW_IDLE;
    }
    pthread_mutex_unlock(&waiters->lock);
    return woken;
}

void kw_waiters_call_off(kw_waiters *waiters, kw_awaited_response *awaited) {
    pthread_mutex_lock(&waiters->lock);
    if (awaited->state == KW_AWAITED) end(waiters, awaited, KW_CALLED_OFF);
    pthread_mutex_unlock(&waiters->lock);
}

int kw_waiters_read(kw_awaited_response *awaited, const kw_buf *frame) {
    size_t behind = awaited->numbers_at + NUMBERS;
    if (frame->size != awaited->size) return 0;
    if (memcmp(frame->data + CORRELATION_ID, awaited->plain + CORRELATION_ID, awaited->numbers_at - CORRELATION_ID)) return 0;
    if (memcmp(frame->data + behind, awaited->plain + behind, awaited->size - behind)) return 0;
    int64_t base_offset = kw_be64(frame->data + awaited->numbers_at);
    if (base_offset < 0) return 0;
    awaited->base_offset = base_offset;
    awaited->log_append_ms = kw_be64(frame->data + awaited->numbers_at + 8);
    return 1;
}

int kw_waiters_take(void *context, uint64_t token, kw_buf *frame) {
    kw_waiters *waiters = context;
    pthread_mutex_lock(&waiters->lock);
    kw_awaited_response *awaited = waiters->first;
    while (awaited && awaited->token != token) awaited = awaited->next;
    int taken = awaited && frame && kw_waiters_read(awaited, frame);
    if (taken) end(waiters, awaited, KW_RECEIVED);
    pthread_mutex_unlock(&waiters->lock);
    return taken;
}
