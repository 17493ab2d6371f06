/* decoder: its lines are counted by scripts/coverage.py
 *
 * The pools of the process, and their state after a fork. This file has variables: only one extension may link it, or
 * each would have its own pools. */
#include "kafwire/memory/native/pool.h"

#include <stdlib.h>

/* After fork() in one thread while another holds a pool's lock, the child could never take the lock. */
static kw_pool *all_pools;
static void lock_all(void) {
    for (kw_pool *p = all_pools; p; p = p->next) pthread_mutex_lock(&p->lock);
}
static void unlock_all(void) {
    for (kw_pool *p = all_pools; p; p = p->next) pthread_mutex_unlock(&p->lock);
}
/* The threads that hold or await the budget do not exist in the child. */
static int generation = 1;
static void forget_threads(void) {
    generation++;
    for (kw_pool *p = all_pools; p; p = p->next) {
        p->charged = 0;
        p->served = p->last_ticket;
        pthread_cond_init(&p->freed, NULL);
    }
    unlock_all();
}

int kw_process_generation(void) {
    return generation;
}

kw_pool *kw_pool_new(size_t limit) {
    kw_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return NULL;
    pool->limit = pool->least = limit;
    pool->budget = SIZE_MAX;
    pool->fail_after = -1;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->freed, NULL);
    if (!all_pools) pthread_atfork(lock_all, unlock_all, forget_threads);
    pool->next = all_pools;
    all_pools = pool;
    return pool;
}
