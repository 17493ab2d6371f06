/* Atomics as macros, because Cython cannot spell them. */
#ifndef KAFWIRE_ATOMIC_H
#define KAFWIRE_ATOMIC_H

#define kw_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define kw_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define kw_swap(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)
/* Returns the previous value: if it is `old`, `new` is stored; otherwise the value stays. */
#define kw_exchange_if(p, old, new) __sync_val_compare_and_swap((p), (old), (new))
#define kw_put_if_null(p, v) __sync_bool_compare_and_swap((p), (void *)0, (v))

#endif
