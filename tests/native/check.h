/* What the C test programs share: a check that names its place, and reproducible randomness. */
#ifndef KAFWIRE_TESTS_CHECK_H
#define KAFWIRE_TESTS_CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition);                              \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

typedef uint64_t dice;

static inline uint64_t roll(dice *state) { /* splitmix64 */
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static inline uint64_t below(dice *state, uint64_t limit) { return roll(state) % limit; }

/* How threads meet is not ours to say: whether another round is due, of `rounds` and of at most ten times as many until
 * each of `counts` has come to `least`. */
static inline int goes_on(long round, long rounds, const uint64_t *counts, size_t n, uint64_t least) {
    if (round < rounds) return 1;
    for (size_t i = 0; i < n; i++)
        if (counts[i] < least) return round < 10 * rounds;
    return 0;
}

static inline void put_u32(uint8_t *p, uint32_t value) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(value >> (24 - 8 * i));
}

static inline uint32_t get_u32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The byte at `index` of the body that belongs to `key`: the body of another key does not look right. */
static inline uint8_t pattern(uint32_t key, uint32_t index) { return (uint8_t)(key * 31 + index * 7 + (index >> 8)); }

static inline void fill_pattern(uint8_t *p, uint32_t key, uint32_t from, uint32_t size) {
    for (uint32_t i = 0; i < size; i++) p[i] = pattern(key, from + i);
}

static inline int is_pattern(const uint8_t *p, uint32_t key, uint32_t from, uint32_t size) {
    for (uint32_t i = 0; i < size; i++)
        if (p[i] != pattern(key, from + i)) return 0;
    return 1;
}

#endif
