/* Reference-counted byte buffers from a pool.
 *
 * Large buffers return to the pool instead of the allocator: the first touch of fresh pages costs more than decoding
 * into them. Any thread may hold or release a reference; no function here needs the GIL. Every extension module links
 * its own copy of `buf.c`, which has no variables: a buffer knows its pool. `pool.c` makes pools; only `memory/_buffer`
 * links it. */
#ifndef KAFWIRE_BUF_H
#define KAFWIRE_BUF_H

#include <stdint.h>
#include <stddef.h>

typedef struct kw_pool kw_pool;

typedef struct kw_buf {
    uint32_t refs; /* atomic: accessed by kw_buf_ref and kw_buf_unref only */
    uint32_t size_class;
    size_t size; /* bytes in use; the owner sets it */
    size_t capacity;
    uint8_t *data; /* 64-byte aligned */
    kw_pool *pool;
    size_t charged; /* bytes of the pool's budget charged for it */
    struct kw_buf *next; /* link in the pool's free list, or in a list of the owner */
} kw_buf;

/* In `pool.c`, as is the next one: a pool that keeps at most `limit` idle bytes. NULL: no memory. It survives fork().
 * One per process in practice. */
kw_pool *kw_pool_new(size_t limit);
/* 1 in the process that made the first pool, and one more in each fork: a thread that took a lock under another number
 * does not exist in this process. */
int kw_process_generation(void);
void kw_pool_trim(kw_pool *pool, size_t keep);
/* Changes the claims of clients on buffers: the pool keeps as much idle, in addition to its minimum. */
void kw_pool_claim(kw_pool *pool, size_t more, size_t less);
size_t kw_pool_limit(kw_pool *pool);
size_t kw_pool_idle_bytes(kw_pool *pool);
size_t kw_pool_live_bytes(kw_pool *pool);

/* For tests: the next `count` allocations work, the one after them fails, later ones work again. Negative: none fails.
 * Returns the rest of the previous count: negative if the failure has happened. */
long kw_pool_fail_after(kw_pool *pool, long count);

/* A buffer above this capacity is a separate mapping: its untouched parts take no memory. */
enum { KW_BUF_LARGE = 16 << 20 };
/* A buffer with room for `capacity` bytes (perhaps more), one reference, size 0. NULL: no memory. */
kw_buf *kw_buf_new(kw_pool *pool, size_t capacity);
void kw_buf_ref(kw_buf *buf);
void kw_buf_unref(kw_buf *buf); /* NULL is allowed */
/* Makes room for `capacity` bytes; keeps the first `size` bytes. The caller must hold the only reference. 0, or -1 for
 * no memory (then *buf is unchanged). */
int kw_buf_reserve(kw_buf **buf, size_t capacity);
/* The content of data[from, to) is no longer needed: a large buffer releases the memory, the addresses stay. */
void kw_buf_discard(kw_buf *buf, size_t from, size_t to);

/* The budget: the limit of all scratch buffers of the process together. A buffer of up to KW_BUF_LARGE costs nothing,
 * so that ordinary work neither waits nor fails; a larger one is charged with its capacity until its last reference is
 * dropped. */
enum { KW_NO_MEMORY = -1, KW_OVER_BUDGET = -2 };
void kw_pool_set_budget(kw_pool *pool, size_t limit);
size_t kw_pool_budget(kw_pool *pool);
size_t kw_pool_charged(kw_pool *pool);
/* Like kw_buf_new (*buf NULL) or kw_buf_reserve, but charged. Returns 0, KW_NO_MEMORY or KW_OVER_BUDGET; never waits.
 * While other threads wait for the budget, it returns KW_OVER_BUDGET. */
int kw_scratch_reserve(kw_pool *pool, kw_buf **buf, size_t capacity);
/* A buffer of `capacity` bytes, or of the whole budget if that is less: waits until other threads have returned enough,
 * first come, first served. The caller must hold no charged buffer, or two threads could wait for each other forever.
 * NULL: no memory. */
kw_buf *kw_scratch_wait(kw_pool *pool, size_t capacity);

#endif
