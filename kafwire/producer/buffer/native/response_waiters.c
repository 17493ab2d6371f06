#include "kafwire/producer/buffer/native/response_waiters.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kafwire/memory/native/bytes.h"

enum { CORRELATION_ID = 4, NUMBERS = 3 * 8 };

struct kw_waiters {
    pthread_mutex_t lock;
    kw_answer *first;  /* one per thread that waits for a record of another partition */
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
static void take_out(kw_waiters *waiters, kw_answer *answer) {
    kw_answer **link = &waiters->first;
    while (*link != answer) link = &(*link)->next;
    *link = answer->next;
}

static void end(kw_waiters *waiters, kw_answer *answer, int state) {
    take_out(waiters, answer);
    answer->state = state;
    answer->wake(answer->waiter);
}

void kw_waiters_await(kw_waiters *waiters, kw_answer *answer) {
    pthread_mutex_lock(&waiters->lock);
    answer->state = KW_AWAITED;
    answer->next = waiters->first;
    waiters->first = answer;
    pthread_mutex_unlock(&waiters->lock);
}

int kw_waiters_leave(kw_waiters *waiters, kw_answer *answer) {
    pthread_mutex_lock(&waiters->lock);
    int woken = answer->state != KW_AWAITED;
    if (!woken) {
        take_out(waiters, answer);
        answer->state = KW_IDLE;
    }
    pthread_mutex_unlock(&waiters->lock);
    return woken;
}

void kw_waiters_call_off(kw_waiters *waiters, kw_answer *answer) {
    pthread_mutex_lock(&waiters->lock);
    if (answer->state == KW_AWAITED) end(waiters, answer, KW_CALLED_OFF);
    pthread_mutex_unlock(&waiters->lock);
}

int kw_waiters_read(kw_answer *answer, const kw_buf *frame) {
    size_t behind = answer->numbers_at + NUMBERS;
    if (frame->size != answer->size) return 0;
    if (memcmp(frame->data + CORRELATION_ID, answer->plain + CORRELATION_ID, answer->numbers_at - CORRELATION_ID)) return 0;
    if (memcmp(frame->data + behind, answer->plain + behind, answer->size - behind)) return 0;
    int64_t base_offset = kw_be64(frame->data + answer->numbers_at);
    if (base_offset < 0) return 0;
    answer->base_offset = base_offset;
    answer->log_append_ms = kw_be64(frame->data + answer->numbers_at + 8);
    return 1;
}

int kw_waiters_take(void *context, uint64_t token, kw_buf *frame) {
    kw_waiters *waiters = context;
    pthread_mutex_lock(&waiters->lock);
    kw_answer *answer = waiters->first;
    while (answer && answer->token != token) answer = answer->next;
    int taken = answer && frame && kw_waiters_read(answer, frame);
    if (taken) end(waiters, answer, KW_ANSWERED);
    pthread_mutex_unlock(&waiters->lock);
    return taken;
}
