/* Reference-counted byte buffers from a pool.
 *
 * Large buffers go back to the pool instead of to the allocator: first touch of fresh pages costs more than decoding
 * into them. Any thread may hold or release a reference; no function here needs the GIL. Every extension module links
 * its own copy of `buf.c`, which has no variables: a buffer knows the pool it came from. Pools are made by `pool.c`,
 * which is linked by `memory/_buffer` alone. */
#ifndef KAFWIRE_BUF_H
#define KAFWIRE_BUF_H

#include <stdint.h>
#include <stddef.h>

typedef struct kw_pool kw_pool;

typedef struct kw_buf {
    uint32_t refs; /* atomic: touched by kw_buf_ref and kw_buf_unref only */
    uint32_t size_class;
    size_t size; /* bytes in use; the owner sets it */
    size_t capacity;
    uint8_t *data; /* 64-byte aligned */
    kw_pool *pool;
    size_t charged; /* bytes of the pool's budget that it holds */
    struct kw_buf *next; /* link in the pool's free list, or in a list of the owner's */
} kw_buf;

/* By `pool.c`, as the next: a pool that keeps at most `limit` idle bytes. NULL: no memory. It survives fork(). One per
 * process in practice. */
kw_pool *kw_pool_new(size_t limit);
/* 1 in the process that made the first pool, and one more in each fork: whoever took a lock under another number did
 * not come along. */
int kw_process_generation(void);
void kw_pool_trim(kw_pool *pool, size_t keep);
/* What a client may hold changes: the pool keeps as much of it idle, beside what it keeps in any case. */
void kw_pool_claim(kw_pool *pool, size_t more, size_t less);
size_t kw_pool_limit(kw_pool *pool);
size_t kw_pool_idle_bytes(kw_pool *pool);
size_t kw_pool_live_bytes(kw_pool *pool);

/* For tests: the next `count` allocations work, the one after them fails, those behind it work again. Negative: none
 * fails. Answers what was left of the count before: negative if the failure has happened. */
long kw_pool_fail_after(kw_pool *pool, long count);

/* A buffer above this capacity is a mapping of its own: what was not touched of it takes no memory. */
enum { KW_BUF_LARGE = 16 << 20 };
/* A buffer with room for `capacity` bytes (maybe more), one reference, size 0. NULL: no memory. */
kw_buf *kw_buf_new(kw_pool *pool, size_t capacity);
void kw_buf_ref(kw_buf *buf);
void kw_buf_unref(kw_buf *buf); /* NULL is allowed */
/* Make room for `capacity` bytes; keeps the first `size` bytes. The caller must hold the only reference.
 * 0, or -1 for no memory (then *buf is as it was). */
int kw_buf_reserve(kw_buf **buf, size_t capacity);
/* The content of data[from, to) is not needed any more: the memory of a large buffer goes back, its addresses stay. */
void kw_buf_discard(kw_buf *buf, size_t from, size_t to);

/* The budget: what all scratch buffers of the process may hold together. A buffer of up to KW_BUF_LARGE costs nothing, so
 * that ordinary work neither waits nor fails; a larger one is charged with its capacity until its last reference is
 * dropped. */
enum { KW_NO_MEMORY = -1, KW_OVER_BUDGET = -2 };
void kw_pool_set_budget(kw_pool *pool, size_t limit);
size_t kw_pool_budget(kw_pool *pool);
size_t kw_pool_charged(kw_pool *pool);
/* As kw_buf_new and kw_buf_reserve (*buf NULL: the former), charged. 0, or why not; never waits. While others wait for
 * the budget, it is theirs. */
int kw_scratch_reserve(kw_pool *pool, kw_buf **buf, size_t capacity);
/* A buffer of `capacity` bytes, or of what the whole budget can pay for if that is less: waits until others have given
 * back enough; first come, first served. The caller may hold no charged buffer, or two who wait for one another never
 * end. NULL: no memory. */
kw_buf *kw_scratch_wait(kw_pool *pool, size_t capacity);

#endif
