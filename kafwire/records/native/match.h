/* Shared by the encoders of Snappy and LZ4: the length of a match. */
#ifndef KAFWIRE_MATCH_H
#define KAFWIRE_MATCH_H

#include <stddef.h>
#include <stdint.h>

#include "kafwire/memory/native/bytes.h"

/* The number of equal bytes at `a` and at `b`, the later place; no byte at or after `end` is read. */
static inline size_t match_length(const uint8_t *a, const uint8_t *b, const uint8_t *end) {
    const uint8_t *start = b;
    while (end - b >= 8) {
        uint64_t difference = kw_le64(a) ^ kw_le64(b);
        if (difference) return (size_t)(b - start) + ((unsigned)__builtin_ctzll(difference) >> 3);
        a += 8;
        b += 8;
    }
    while (b < end && *a == *b) a++, b++;
    return (size_t)(b - start);
}

#endif
