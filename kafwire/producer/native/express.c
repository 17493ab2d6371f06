#include "kafwire/producer/native/express.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { CORRELATION_ID = 4, NUMBERS = 3 * 8 };

struct kw_express {
    pthread_mutex_t lock;
    kw_answer *first; /* as many as threads wait for records of different partitions */
};

kw_express *kw_express_new(void) {
    kw_express *express = calloc(1, sizeof *express);
    if (express) pthread_mutex_init(&express->lock, NULL);
    return express;
}

void kw_express_free(kw_express *express) {
    if (!express) return;
    pthread_mutex_destroy(&express->lock);
    free(express);
}

/* The lock is held. */
static void take_out(kw_express *express, kw_answer *answer) {
    kw_answer **link = &express->first;
    while (*link != answer) link = &(*link)->next;
    *link = answer->next;
}

static void end(kw_express *express, kw_answer *answer, int state) {
    take_out(express, answer);
    answer->state = state;
    answer->wake(answer->waiter);
}

void kw_express_await(kw_express *express, kw_answer *answer) {
    pthread_mutex_lock(&express->lock);
    answer->state = KW_AWAITED;
    answer->next = express->first;
    express->first = answer;
    pthread_mutex_unlock(&express->lock);
}

int kw_express_leave(kw_express *express, kw_answer *answer) {
    pthread_mutex_lock(&express->lock);
    int woken = answer->state != KW_AWAITED;
    if (!woken) {
        take_out(express, answer);
        answer->state = KW_IDLE;
    }
    pthread_mutex_unlock(&express->lock);
    return woken;
}

void kw_express_call_off(kw_express *express, kw_answer *answer) {
    pthread_mutex_lock(&express->lock);
    if (answer->state == KW_AWAITED) end(express, answer, KW_CALLED_OFF);
    pthread_mutex_unlock(&express->lock);
}

static int64_t number_at(const uint8_t *data) {
    uint64_t value;
    memcpy(&value, data, sizeof value);
    return (int64_t)__builtin_bswap64(value);
}

int kw_express_read(kw_answer *answer, const kw_buf *frame) {
    size_t behind = answer->numbers_at + NUMBERS;
    if (frame->size != answer->size) return 0;
    if (memcmp(frame->data + CORRELATION_ID, answer->plain + CORRELATION_ID, answer->numbers_at - CORRELATION_ID)) return 0;
    if (memcmp(frame->data + behind, answer->plain + behind, answer->size - behind)) return 0;
    int64_t base_offset = number_at(frame->data + answer->numbers_at);
    if (base_offset < 0) return 0;
    answer->base_offset = base_offset;
    answer->log_append_ms = number_at(frame->data + answer->numbers_at + 8);
    return 1;
}

int kw_express_take(void *context, uint64_t token, kw_buf *frame) {
    kw_express *express = context;
    pthread_mutex_lock(&express->lock);
    kw_answer *answer = express->first;
    while (answer && answer->token != token) answer = answer->next;
    int taken = answer && frame && kw_express_read(answer, frame);
    if (taken) end(express, answer, KW_ANSWERED);
    pthread_mutex_unlock(&express->lock);
    return taken;
}
