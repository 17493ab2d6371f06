/* What the encoders of Snappy and LZ4 share: unaligned loads, and how far two places agree. */
#ifndef KAFWIRE_MATCH_H
#define KAFWIRE_MATCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t load32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

static inline uint64_t load64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

/* How many bytes at `a` and at `b`, which is the later one, are the same; no byte at or after `end` is looked at. */
static inline size_t match_length(const uint8_t *a, const uint8_t *b, const uint8_t *end) {
    const uint8_t *start = b;
    while (end - b >= 8) {
        uint64_t difference = load64(a) ^ load64(b);
        if (difference) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
            return (size_t)(b - start) + ((unsigned)__builtin_ctzll(difference) >> 3);
#else
            return (size_t)(b - start) + ((unsigned)__builtin_clzll(difference) >> 3);
#endif
        }
        a += 8;
        b += 8;
    }
    while (b < end && *a == *b) a++, b++;
    return (size_t)(b - start);
}

#endif
