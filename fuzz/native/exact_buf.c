/* buf.h without the pool: each buffer is an allocation of exactly the bytes asked for, freed with its last reference.
 *
 * So AddressSanitizer sees a byte too many and every use after the last reference, both of which a pool with rounded
 * sizes would hide. Growth is exact while small; above that it doubles, as in buf.c, or growing would be quadratic. */
#include "kafwire/memory/native/buf.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64, DOUBLING_FROM = 4096 };

struct kw_pool {
    size_t live_bytes, budget;
};

static kw_pool only;

/* No target forks. */
int kw_process_generation(void) { return 1; }

kw_pool *kw_pool_new(size_t limit) {
    (void)limit;
    return &only;
}

kw_buf *kw_buf_new(kw_pool *pool, size_t capacity) {
    if (capacity > ((size_t)1 << 40)) return NULL;
    kw_buf *buf = calloc(1, sizeof *buf);
    void *memory;
    if (!buf) return NULL;
    if (posix_memalign(&memory, ALIGNMENT, capacity ? capacity : 1)) {
        free(buf);
        return NULL;
    }
    buf->refs = 1;
    buf->capacity = capacity;
    buf->data = memory;
    buf->pool = pool;
    pool->live_bytes += capacity + 1;
    return buf;
}

void kw_buf_ref(kw_buf *buf) { buf->refs++; }

void kw_buf_unref(kw_buf *buf) {
    if (!buf || --buf->refs) return;
    buf->pool->live_bytes -= buf->capacity + 1;
    free(buf->data);
    free(buf);
}

int kw_buf_reserve(kw_buf **buf, size_t capacity) {
    kw_buf *old = *buf;
    if (old->capacity >= capacity) return 0;
    size_t twice = old->capacity * 2;
    kw_buf *grown = kw_buf_new(old->pool, capacity > DOUBLING_FROM && twice > capacity ? twice : capacity);
    if (!grown) return -1;
    if (old->size) memcpy(grown->data, old->data, old->size);
    grown->size = old->size;
    kw_buf_unref(old);
    *buf = grown;
    return 0;
}

/* Bytes that are used after they were discarded show as nonsense. */
void kw_buf_discard(kw_buf *buf, size_t from, size_t to) {
    if (from < to) memset(buf->data + from, 0xA5, to - from);
}

/* The budget charges buffers above 16 MiB only, and no target lets one grow so large. */
void kw_pool_set_budget(kw_pool *pool, size_t limit) { pool->budget = limit; }
size_t kw_pool_budget(kw_pool *pool) { return pool->budget; }
size_t kw_pool_charged(kw_pool *pool) {
    (void)pool;
    return 0;
}
int kw_scratch_reserve(kw_pool *pool, kw_buf **buf, size_t capacity) {
    if (*buf) return kw_buf_reserve(buf, capacity) ? KW_NO_MEMORY : 0;
    *buf = kw_buf_new(pool, capacity);
    return *buf ? 0 : KW_NO_MEMORY;
}
kw_buf *kw_scratch_wait(kw_pool *pool, size_t capacity) { return kw_buf_new(pool, capacity); }

void kw_pool_trim(kw_pool *pool, size_t keep) {
    (void)pool;
    (void)keep;
}
void kw_pool_claim(kw_pool *pool, size_t more, size_t less) {
    (void)pool;
    (void)more;
    (void)less;
}
size_t kw_pool_limit(kw_pool *pool) {
    (void)pool;
    return 0;
}
size_t kw_pool_idle_bytes(kw_pool *pool) {
    (void)pool;
    return 0;
}
size_t kw_pool_live_bytes(kw_pool *pool) { return pool->live_bytes; }
long kw_pool_fail_after(kw_pool *pool, long count) {
    (void)pool;
    (void)count;
    return -1;
}
