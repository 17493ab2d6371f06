/* The definition of a pool, for `pool.c`, which makes pools, and `buf.c`, which takes buffers from them. */
#ifndef KAFWIRE_POOL_H
#define KAFWIRE_POOL_H

#include <pthread.h>

#include "kafwire/memory/native/buf.h"

enum { KW_POOL_CLASSES = 56 }; /* of size */
#define KW_POOL_IDLE_MOST ((size_t)256 << 20)

struct kw_pool {
    pthread_mutex_t lock;
    kw_buf *idle[KW_POOL_CLASSES];
    size_t limit, idle_bytes, live_bytes;
    size_t least, claimed; /* `limit` is their sum, up to KW_POOL_IDLE_MOST */
    size_t budget, charged;
    long fail_after;
    uint64_t last_ticket, served; /* tickets of the threads that wait for the budget, in order */
    pthread_cond_t freed;
    kw_pool *next;
};

#endif
