#include "queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct kw_queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    kw_records *first, **last;
    size_t bytes;
    int starved, ended, failed, closed;
};

kw_queue *kw_queue_new(void) {
    kw_queue *queue = calloc(1, sizeof *queue);
    if (!queue) return NULL;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
#ifndef __APPLE__
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
    pthread_cond_init(&queue->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&queue->lock, NULL);
    queue->last = &queue->first;
    return queue;
}

void kw_records_clear(kw_records *slice) {
    kw_buf_unref(slice->frame);
    free(slice->aborted);
    slice->frame = NULL;
    slice->aborted = NULL;
}

static void drop_all(kw_records *slice) {
    while (slice) {
        kw_records *next = slice->next;
        kw_records_clear(slice);
        free(slice);
        slice = next;
    }
}

void kw_queue_free(kw_queue *queue) {
    if (!queue) return;
    drop_all(queue->first);
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

int kw_queue_push(kw_queue *queue, const kw_records *slice) {
    kw_records *copy = malloc(sizeof *copy);
    if (!copy) return -1;
    *copy = *slice;
    copy->next = NULL;
    pthread_mutex_lock(&queue->lock);
    int closed = queue->closed;
    if (!closed) {
        *queue->last = copy;
        queue->last = &copy->next;
        queue->bytes += copy->size;
        pthread_cond_signal(&queue->changed);
    }
    pthread_mutex_unlock(&queue->lock);
    if (closed) drop_all(copy);
    return 0;
}

static void wait_until(kw_queue *queue, int wait_ms) {
    struct timespec until;
#ifdef __APPLE__
    clock_gettime(CLOCK_REALTIME, &until);
#else
    clock_gettime(CLOCK_MONOTONIC, &until);
#endif
    until.tv_sec += wait_ms / 1000;
    until.tv_nsec += (wait_ms % 1000) * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    while (!queue->first && !queue->ended && !queue->failed && !queue->closed)
        if (pthread_cond_timedwait(&queue->changed, &queue->lock, &until)) break;
}

int kw_queue_pop(kw_queue *queue, kw_records *out, int wait_ms) {
    int answer;
    pthread_mutex_lock(&queue->lock);
    if (wait_ms > 0) wait_until(queue, wait_ms);
    kw_records *slice = queue->first;
    if (slice) {
        queue->first = slice->next;
        if (!queue->first) queue->last = &queue->first;
        *out = *slice;
        out->next = NULL;
        answer = KW_QUEUE_RECORDS;
    } else if (queue->failed && !queue->closed) {
        answer = KW_QUEUE_FAILED;
    } else {
        answer = queue->ended || queue->closed ? KW_QUEUE_ENDED : KW_QUEUE_IDLE;
    }
    pthread_mutex_unlock(&queue->lock);
    free(slice);
    return answer;
}

int kw_queue_credit(kw_queue *queue, size_t size) {
    pthread_mutex_lock(&queue->lock);
    queue->bytes -= size;
    int tell = queue->starved;
    queue->starved = 0;
    pthread_mutex_unlock(&queue->lock);
    return tell;
}

size_t kw_queue_bytes(kw_queue *queue, int starved) {
    pthread_mutex_lock(&queue->lock);
    if (starved) queue->starved = 1;
    size_t bytes = queue->bytes;
    pthread_mutex_unlock(&queue->lock);
    return bytes;
}

static void set_flag(kw_queue *queue, int *flag) {
    pthread_mutex_lock(&queue->lock);
    *flag = 1;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}
void kw_queue_end(kw_queue *queue) { set_flag(queue, &queue->ended); }
void kw_queue_fail(kw_queue *queue) { set_flag(queue, &queue->failed); }

void kw_queue_close(kw_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    kw_records *slices = queue->first;
    queue->first = NULL;
    queue->last = &queue->first;
    queue->closed = 1;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    drop_all(slices);
}
