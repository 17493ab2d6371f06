#include "buf.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_SHIFT = 8, CLASSES = 56, HEADER = 64 };
_Static_assert(sizeof(kw_buf) <= HEADER, "the header sits in one cache line before the data");

struct kw_pool {
    pthread_mutex_t lock;
    kw_buf *idle[CLASSES];
    size_t limit, idle_bytes, live_bytes;
    kw_pool *next;
};

/* fork() in one thread while another holds a pool's lock would leave the child with a lock nobody opens. */
static kw_pool *all_pools;
static void lock_all(void) {
    for (kw_pool *p = all_pools; p; p = p->next) pthread_mutex_lock(&p->lock);
}
static void unlock_all(void) {
    for (kw_pool *p = all_pools; p; p = p->next) pthread_mutex_unlock(&p->lock);
}

kw_pool *kw_pool_new(size_t limit) {
    kw_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return NULL;
    pool->limit = limit;
    pthread_mutex_init(&pool->lock, NULL);
    if (!all_pools) pthread_atfork(lock_all, unlock_all, unlock_all);
    pool->next = all_pools;
    all_pools = pool;
    return pool;
}

static unsigned class_of(size_t capacity) {
    unsigned k = 0;
    while (((size_t)1 << (k + MIN_SHIFT)) < capacity && k < CLASSES - 1) k++;
    return k;
}

kw_buf *kw_buf_new(kw_pool *pool, size_t capacity) {
    if (capacity > ((size_t)1 << 40)) return NULL;
    unsigned k = class_of(capacity);
    size_t room = (size_t)1 << (k + MIN_SHIFT);
    pthread_mutex_lock(&pool->lock);
    kw_buf *buf = pool->idle[k];
    if (buf) {
        pool->idle[k] = buf->next;
        pool->idle_bytes -= room;
    }
    pool->live_bytes += room;
    pthread_mutex_unlock(&pool->lock);
    if (!buf) {
        void *memory;
        if (posix_memalign(&memory, HEADER, HEADER + room)) {
            pthread_mutex_lock(&pool->lock);
            pool->live_bytes -= room;
            pthread_mutex_unlock(&pool->lock);
            return NULL;
        }
        buf = memory;
        buf->size_class = k;
        buf->capacity = room;
        buf->data = (uint8_t *)memory + HEADER;
        buf->pool = pool;
    }
    __atomic_store_n(&buf->refs, 1, __ATOMIC_RELAXED);
    buf->size = 0;
    buf->next = NULL;
    return buf;
}

void kw_buf_ref(kw_buf *buf) { __atomic_fetch_add(&buf->refs, 1, __ATOMIC_RELAXED); }

void kw_buf_unref(kw_buf *buf) {
    if (!buf || __atomic_fetch_sub(&buf->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
    kw_pool *pool = buf->pool;
    int keep;
    pthread_mutex_lock(&pool->lock);
    pool->live_bytes -= buf->capacity;
    keep = pool->idle_bytes + buf->capacity <= pool->limit;
    if (keep) {
        pool->idle_bytes += buf->capacity;
        buf->next = pool->idle[buf->size_class];
        pool->idle[buf->size_class] = buf;
    }
    pthread_mutex_unlock(&pool->lock);
    if (!keep) free(buf);
}

int kw_buf_reserve(kw_buf **buf, size_t capacity) {
    kw_buf *old = *buf;
    if (old->capacity >= capacity) return 0;
    size_t wanted = old->capacity * 2 > capacity ? old->capacity * 2 : capacity;
    kw_buf *grown = kw_buf_new(old->pool, wanted);
    if (!grown) return -1;
    memcpy(grown->data, old->data, old->size);
    grown->size = old->size;
    kw_buf_unref(old);
    *buf = grown;
    return 0;
}

void kw_pool_trim(kw_pool *pool, size_t keep) {
    kw_buf *dropped = NULL;
    pthread_mutex_lock(&pool->lock);
    for (int k = CLASSES - 1; k >= 0; k--) {
        while (pool->idle_bytes > keep && pool->idle[k]) {
            kw_buf *buf = pool->idle[k];
            pool->idle[k] = buf->next;
            pool->idle_bytes -= buf->capacity;
            buf->next = dropped;
            dropped = buf;
        }
    }
    pthread_mutex_unlock(&pool->lock);
    while (dropped) {
        kw_buf *next = dropped->next;
        free(dropped);
        dropped = next;
    }
}

static size_t read_locked(kw_pool *pool, const size_t *field) {
    pthread_mutex_lock(&pool->lock);
    size_t value = *field;
    pthread_mutex_unlock(&pool->lock);
    return value;
}
size_t kw_pool_idle_bytes(kw_pool *pool) { return read_locked(pool, &pool->idle_bytes); }
size_t kw_pool_live_bytes(kw_pool *pool) { return read_locked(pool, &pool->live_bytes); }
