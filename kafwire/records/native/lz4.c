/* decoder: its lines are counted by scripts/coverage.py */
#include "kafwire/records/native/lz4.h"

#include <string.h>

#include "kafwire/records/native/match.h"

enum {
    BLOCK = 1 << 16,
    TABLE_BITS = 14,
    MIN_MATCH = 4,
    LAST_LITERALS = 5, /* the last bytes of a block, which are never part of a match */
    /* No match begins closer to the end. The format requires 12 bytes; 32 allow copies of literals by pieces of 16. */
    MARGIN = 32,
    FIRST_STEPS = 16, /* positions searched before the step grows to two bytes, then three, ... */
    HEADER = 7,
    FRAMING = 4, /* a block's length */
    NOT_COMPRESSED = 0x80 /* in the length's last byte */
};

/* magic; version 1, independent blocks; blocks of at most 64 KiB; the header's checksum (the second byte of xxHash-32
 * of the two bytes before it) */
static const uint8_t FRAME[HEADER] = {0x04, 0x22, 0x4D, 0x18, 0x60, 0x40, 0x82};

/* Hash of the first five of eight loaded bytes: a match of five is nearly as common as one of four, and better. */
static inline uint32_t hash(uint64_t bytes) {
    return (uint32_t)((bytes << 24) * 889523592379u >> (64 - TABLE_BITS));
}

static inline uint32_t first_four(uint64_t bytes) { return (uint32_t)bytes; }

/* The part of a length that does not fit in its half of a token. */
static inline uint8_t *put_rest(uint8_t *to, size_t length) {
    for (; length >= 255; length -= 255) *to++ = 255;
    *to++ = (uint8_t)length;
    return to;
}

/* The last sequence: literals only. */
static uint8_t *put_last(uint8_t *to, const uint8_t *from, size_t count) {
    *to++ = (uint8_t)((count < 15 ? count : 15) << 4);
    if (count >= 15) to = put_rest(to, count - 15);
    memcpy(to, from, count);
    return to + count;
}

/* `count` literals, then a copy of `length` bytes from `distance` back. 32 bytes after these must be readable. */
static inline uint8_t *put_sequence(uint8_t *to, const uint8_t *from, size_t count, size_t distance, size_t length) {
    uint8_t *token = to++;
    uint8_t halves;
    if (count < 15) {
        halves = (uint8_t)(count << 4);
        kw_copy16(to, from);
    } else {
        halves = 15 << 4;
        to = put_rest(to, count - 15);
        kw_copy16(to, from);
        kw_copy16(to + 16, from + 16);
        if (count > 32) memcpy(to + 32, from + 32, count - 32);
    }
    to += count;
    to[0] = (uint8_t)distance;
    to[1] = (uint8_t)(distance >> 8);
    to += 2;
    length -= MIN_MATCH;
    if (length < 15) {
        halves |= (uint8_t)length;
    } else {
        halves |= 15;
        to = put_rest(to, length - 15);
    }
    *token = halves;
    return to;
}

/* One block: greedy matches. Two positions are processed at a time: the next one's hash is computed while this one's
 * candidate is loaded. An empty slot points to the start of the block, which is as good a candidate as any. */
static size_t encode_block(const uint8_t *start, size_t size, uint8_t *out) {
    uint16_t positions[1 << TABLE_BITS];
    const uint8_t *in = start, *pending = start, *end = start + size, *candidate;
    uint8_t *to = out;
    if (size <= MARGIN + 1) return (size_t)(put_last(to, start, size) - out);
    const uint8_t *limit = end - MARGIN;
    memset(positions, 0, sizeof positions);
    in++;
    for (;;) {
        uint32_t steps = FIRST_STEPS;
        uint64_t here = kw_le64(in);
        uint32_t slot = hash(here);
        for (;;) {
            const uint8_t *next = in + steps++ / FIRST_STEPS;
            if (next > limit) goto rest;
            uint64_t there = kw_le64(next);
            uint32_t next_slot = hash(there);
            candidate = start + positions[slot];
            positions[slot] = (uint16_t)(in - start);
            if (kw_le32(candidate) == first_four(here)) break;
            in = next + steps++ / FIRST_STEPS;
            if (in > limit) goto rest;
            here = kw_le64(in);
            slot = hash(here);
            candidate = start + positions[next_slot];
            positions[next_slot] = (uint16_t)(next - start);
            if (kw_le32(candidate) == first_four(there)) {
                in = next;
                break;
            }
        }
        while (in > pending && candidate > start && in[-1] == candidate[-1]) in--, candidate--;
        for (;;) {
            size_t length = MIN_MATCH + match_length(candidate + MIN_MATCH, in + MIN_MATCH, end - LAST_LITERALS);
            to = put_sequence(to, pending, (size_t)(in - pending), (size_t)(in - candidate), length);
            in += length;
            pending = in;
            if (in >= limit) goto rest;
            positions[hash(kw_le64(in - 2))] = (uint16_t)(in - 2 - start);
            here = kw_le64(in);
            slot = hash(here);
            candidate = start + positions[slot];
            positions[slot] = (uint16_t)(in - start);
            if (kw_le32(candidate) != first_four(here)) break;
        }
        in++;
    }
rest:
    return (size_t)(put_last(to, pending, (size_t)(end - pending)) - out);
}

size_t kw_lz4_bound(size_t size) {
    size_t blocks = size / BLOCK + 1;
    /* A block that does not compress is first written as literals, which takes more than its size. */
    return HEADER + size + blocks * FRAMING + BLOCK / 255 + MARGIN + 64;
}

size_t kw_lz4_encode(const uint8_t *source, size_t size, uint8_t *out) {
    uint8_t *to = out;
    memcpy(to, FRAME, HEADER);
    to += HEADER;
    for (size_t at = 0; at < size; at += BLOCK) {
        size_t plain = size - at < BLOCK ? size - at : BLOCK;
        size_t packed = encode_block(source + at, plain, to + FRAMING);
        if (packed < plain) {
            kw_put_le32(to, (uint32_t)packed);
        } else {
            packed = plain;
            kw_put_le32(to, (uint32_t)plain);
            to[3] |= NOT_COMPRESSED;
            memcpy(to + FRAMING, source + at, plain);
        }
        to += FRAMING + packed;
    }
    kw_put_le32(to, 0);
    return (size_t)(to + FRAMING - out);
}
