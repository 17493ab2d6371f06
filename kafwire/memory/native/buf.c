/* decoder: its lines are counted by scripts/coverage.py */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mremap */
#endif
#include "kafwire/memory/native/pool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MIN_SHIFT = 8, CLASSES = KW_POOL_CLASSES, HEADER = 64 };
_Static_assert(sizeof(kw_buf) <= HEADER, "the header sits in one cache line before the data");

/* Buffers above KW_BUF_LARGE are separate mappings, as malloc would make them too: they grow without a copy beside the
 * old one, and release parts of their memory. Above POOLED_MOST their capacity is as requested, not a power of two. */
#define POOLED_MOST ((size_t)64 << 20)
#define STEP ((size_t)1 << 20)

static unsigned class_of(size_t capacity) {
    unsigned k = 0;
    while (((size_t)1 << (k + MIN_SHIFT)) < capacity && k < CLASSES - 1) k++;
    return k;
}

/* Returns the size class of a buffer for `capacity` bytes, and its real room; CLASSES: never pooled. */
static unsigned room_for(size_t capacity, size_t *room) {
    if (capacity > POOLED_MOST) {
        *room = (capacity + STEP - 1) / STEP * STEP;
        return CLASSES;
    }
    unsigned k = class_of(capacity);
    *room = (size_t)1 << (k + MIN_SHIFT);
    return k;
}

static void *map(size_t room) {
    void *memory = mmap(NULL, HEADER + room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void destroy(kw_buf *buf) {
    if (buf->capacity > KW_BUF_LARGE) {
        munmap(buf, HEADER + buf->capacity);
    } else {
        free(buf);
    }
}

static void count_live(kw_pool *pool, size_t more, size_t less) {
    pthread_mutex_lock(&pool->lock);
    pool->live_bytes += more;
    pool->live_bytes -= less;
    pthread_mutex_unlock(&pool->lock);
}

kw_buf *kw_buf_new(kw_pool *pool, size_t capacity) {
    if (capacity > ((size_t)1 << 40)) return NULL;
    size_t room;
    unsigned k = room_for(capacity, &room);
    pthread_mutex_lock(&pool->lock);
    if (pool->fail_after >= 0 && pool->fail_after-- == 0) {
        pthread_mutex_unlock(&pool->lock);
        return NULL;
    }
    kw_buf *buf = k < CLASSES ? pool->idle[k] : NULL;
    if (buf) {
        pool->idle[k] = buf->next;
        pool->idle_bytes -= room;
    }
    pool->live_bytes += room;
    pthread_mutex_unlock(&pool->lock);
    if (!buf) {
        void *memory;
        if (room > KW_BUF_LARGE) {
            kw_pool_trim(pool, 0); /* a caller that needs this much must not fail because of idle buffers */
            memory = map(room);
        } else if (posix_memalign(&memory, HEADER, HEADER + room)) {
            memory = NULL;
        }
        if (!memory) {
            count_live(pool, 0, room);
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
    buf->charged = 0;
    buf->next = NULL;
    return buf;
}

long kw_pool_fail_after(kw_pool *pool, long count) {
    pthread_mutex_lock(&pool->lock);
    long left = pool->fail_after;
    pool->fail_after = count;
    pthread_mutex_unlock(&pool->lock);
    return left;
}

void kw_buf_ref(kw_buf *buf) { __atomic_fetch_add(&buf->refs, 1, __ATOMIC_RELAXED); }

static void credit_locked(kw_pool *pool, size_t bytes) {
    if (!bytes) return;
    /* a forked child dropped the charges it inherited */
    pool->charged -= bytes < pool->charged ? bytes : pool->charged;
    pthread_cond_broadcast(&pool->freed);
}

void kw_buf_unref(kw_buf *buf) {
    if (!buf || __atomic_fetch_sub(&buf->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
    kw_pool *pool = buf->pool;
    int keep;
    pthread_mutex_lock(&pool->lock);
    credit_locked(pool, buf->charged);
    pool->live_bytes -= buf->capacity;
    keep = buf->size_class < CLASSES && pool->idle_bytes + buf->capacity <= pool->limit;
    if (keep) {
        pool->idle_bytes += buf->capacity;
        buf->next = pool->idle[buf->size_class];
        pool->idle[buf->size_class] = buf;
    }
    pthread_mutex_unlock(&pool->lock);
    if (!keep) destroy(buf);
}

/* The capacity when a buffer grows: twice the old one while copies are cheap, a quarter more later. */
static size_t grown(const kw_buf *old, size_t capacity) {
    size_t wanted = old->capacity + (old->capacity < POOLED_MOST ? old->capacity : old->capacity / 4);
    return wanted > capacity ? wanted : capacity;
}

#ifdef __linux__
static int remap(kw_buf **buf, size_t capacity) {
    kw_buf *old = *buf;
    size_t before = old->capacity, room;
    unsigned k = room_for(capacity, &room);
    if (capacity > ((size_t)1 << 40)) return -1;
    kw_buf *moved = mremap(old, HEADER + before, HEADER + room, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) return -1;
    moved->size_class = k;
    moved->capacity = room;
    moved->data = (uint8_t *)moved + HEADER;
    count_live(moved->pool, room, before);
    *buf = moved;
    return 0;
}
#endif

int kw_buf_reserve(kw_buf **buf, size_t capacity) {
    kw_buf *old = *buf;
    if (old->capacity >= capacity) return 0;
    size_t wanted = grown(old, capacity);
#ifdef __linux__
    if (old->capacity > KW_BUF_LARGE) return remap(buf, wanted);
#endif
    kw_buf *larger = kw_buf_new(old->pool, wanted);
    if (!larger) return -1;
    memcpy(larger->data, old->data, old->size);
    larger->size = old->size;
    larger->charged = old->charged;
    old->charged = 0;
    kw_buf_unref(old);
    *buf = larger;
    return 0;
}

void kw_buf_discard(kw_buf *buf, size_t from, size_t to) {
    if (buf->capacity <= KW_BUF_LARGE) return;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = ((uintptr_t)buf->data + from + page - 1) / page * page, end = ((uintptr_t)buf->data + to) / page * page;
    if (end > start) madvise((void *)start, end - start, MADV_DONTNEED);
}

/* --- the budget -------------------------------------------------------------------------------------------------- */

void kw_pool_set_budget(kw_pool *pool, size_t limit) {
    pthread_mutex_lock(&pool->lock);
    pool->budget = limit;
    pthread_cond_broadcast(&pool->freed);
    pthread_mutex_unlock(&pool->lock);
}

/* The charge for a buffer of this capacity. */
static size_t price(size_t capacity) {
    size_t room;
    room_for(capacity, &room);
    return room > KW_BUF_LARGE ? room : 0;
}

static int fits(const kw_pool *pool, size_t bytes) {
    return bytes <= pool->budget && pool->charged <= pool->budget - bytes;
}

int kw_scratch_reserve(kw_pool *pool, kw_buf **buf, size_t capacity) {
    kw_buf *old = *buf;
    if (old && old->capacity >= capacity) return 0;
    size_t more = price(old ? grown(old, capacity) : capacity);
    if (more) {
        if (old) more -= old->charged;
        pthread_mutex_lock(&pool->lock);
        int ok = pool->served == pool->last_ticket && fits(pool, more);
        if (ok) pool->charged += more;
        pthread_mutex_unlock(&pool->lock);
        if (!ok) return KW_OVER_BUDGET;
    }
    if (old ? kw_buf_reserve(buf, capacity) : !(*buf = kw_buf_new(pool, capacity))) {
        pthread_mutex_lock(&pool->lock);
        credit_locked(pool, more);
        pthread_mutex_unlock(&pool->lock);
        return KW_NO_MEMORY;
    }
    (*buf)->charged += more;
    return 0;
}

/* The largest capacity, up to the wanted one, that fits the whole budget. */
static size_t affordable(const kw_pool *pool, size_t wanted) {
    while (price(wanted) > pool->budget) {
        wanted = wanted > POOLED_MOST && pool->budget > POOLED_MOST ? pool->budget / STEP * STEP
               : wanted > POOLED_MOST                               ? POOLED_MOST
                                                                    : wanted / 2;
    }
    return wanted;
}

kw_buf *kw_scratch_wait(kw_pool *pool, size_t capacity) {
    size_t most, cost;
    pthread_mutex_lock(&pool->lock);
    uint64_t ticket = pool->last_ticket++;
    while (most = affordable(pool, capacity), cost = price(most), pool->served != ticket || !fits(pool, cost))
        pthread_cond_wait(&pool->freed, &pool->lock);
    pool->served++;
    pool->charged += cost;
    pthread_cond_broadcast(&pool->freed);
    pthread_mutex_unlock(&pool->lock);
    kw_buf *buf = kw_buf_new(pool, most);
    if (buf) {
        buf->charged = cost;
        return buf;
    }
    pthread_mutex_lock(&pool->lock);
    credit_locked(pool, cost);
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* --- the pool ---------------------------------------------------------------------------------------------------- */

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
        destroy(dropped);
        dropped = next;
    }
}

/* A client that fetches holds buffers of as many bytes, returns them and takes them again: a pool that keeps fewer
 * unmaps buffers and has their pages zeroed again. Clients that end withdraw their claim, and the pool shrinks. */
void kw_pool_claim(kw_pool *pool, size_t more, size_t less) {
    pthread_mutex_lock(&pool->lock);
    pool->claimed += more;
    pool->claimed -= less;
    size_t room = KW_POOL_IDLE_MOST > pool->least ? KW_POOL_IDLE_MOST - pool->least : 0;
    pool->limit = pool->least + (pool->claimed < room ? pool->claimed : room);
    size_t limit = pool->limit;
    pthread_mutex_unlock(&pool->lock);
    if (less) kw_pool_trim(pool, limit);
}

static size_t read_locked(kw_pool *pool, const size_t *field) {
    pthread_mutex_lock(&pool->lock);
    size_t value = *field;
    pthread_mutex_unlock(&pool->lock);
    return value;
}
size_t kw_pool_idle_bytes(kw_pool *pool) { return read_locked(pool, &pool->idle_bytes); }
size_t kw_pool_live_bytes(kw_pool *pool) { return read_locked(pool, &pool->live_bytes); }
size_t kw_pool_limit(kw_pool *pool) { return read_locked(pool, &pool->limit); }
size_t kw_pool_budget(kw_pool *pool) { return read_locked(pool, &pool->budget); }
size_t kw_pool_charged(kw_pool *pool) { return read_locked(pool, &pool->charged); }
