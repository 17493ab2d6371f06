/* decoder: its lines are counted by scripts/coverage.py */
#include "kafwire/records/native/snappy.h"

#include <string.h>

#include "kafwire/records/native/match.h"

enum { LITERAL = 0, COPY_11 = 1, COPY_16 = 2, COPY_32 = 3 };
/* The densest element is a 3-byte copy of 64 bytes. */
enum { MOST_OUT_PER_THREE_BYTES = 64 };

static uint32_t little(const uint8_t *p, unsigned bytes) {
    uint32_t v = 0;
    for (unsigned i = 0; i < bytes; i++) v |= (uint32_t)p[i] << (8 * i);
    return v;
}

size_t kw_snappy_length(const uint8_t *source, size_t size, size_t *length) {
    uint32_t value;
    const uint8_t *behind = kw_uvarint(source, source + size, &value);
    if (!behind || value > (size / 3 + 1) * (uint64_t)MOST_OUT_PER_THREE_BYTES) return 0;
    *length = value;
    return (size_t)(behind - source);
}

int kw_snappy_decode(const uint8_t *source, size_t size, uint8_t *out, size_t length) {
    size_t promised, header = kw_snappy_length(source, size, &promised);
    if (!header || promised != length) return -1;
    const uint8_t *in = source + header, *in_end = source + size;
    uint8_t *to = out, *out_end = out + length;
    while (in < in_end) {
        uint32_t tag = *in++, count, distance;
        switch (tag & 3) {
        case LITERAL:
            count = tag >> 2;
            if (count >= 60) {
                unsigned bytes = count - 59;
                if ((size_t)(in_end - in) < bytes) return -1;
                count = little(in, bytes);
                in += bytes;
            }
            /* count is the length - 1, so a length of 2^32 cannot wrap here */
            if ((size_t)(in_end - in) <= count || (size_t)(out_end - to) <= count) return -1;
            count++;
            if (count <= 16 && in_end - in >= 16) {
                kw_copy16(to, in); /* up to 15 bytes too many: into output still to come, or the slack */
            } else {
                memcpy(to, in, count);
            }
            in += count;
            to += count;
            continue;
        case COPY_11:
            if (in_end - in < 1) return -1;
            count = (tag >> 2 & 7) + 4;
            distance = (tag >> 5) << 8 | *in;
            in += 1;
            break;
        case COPY_16:
            if (in_end - in < 2) return -1;
            count = (tag >> 2) + 1;
            distance = little(in, 2);
            in += 2;
            break;
        default:
            if (in_end - in < 4) return -1;
            count = (tag >> 2) + 1;
            distance = little(in, 4);
            in += 4;
        }
        if (distance == 0 || distance > (size_t)(to - out) || count > (size_t)(out_end - to)) return -1;
        uint8_t *next = to + count;
        const uint8_t *from = to - distance;
        /* A copy may overlap itself: it repeats a pattern of `distance` bytes. Each short step is correct for its first
         * `distance` bytes and doubles them, until 16-byte steps no longer overlap. */
        while (distance < 16 && to < next) {
            kw_copy16(to, from);
            to += distance;
            distance *= 2;
        }
        for (; to < next; to += 16, from += 16) kw_copy16(to, from);
        to = next;
    }
    return to == out_end ? 0 : -1;
}

size_t kw_snappy_bound(size_t size) { return 32 + size + size / 6; }

enum { BLOCK = 1 << 16, TABLE_BITS = 14 };

static uint32_t hash(uint32_t word) { return word * 0x1E35A7BDu >> (32 - TABLE_BITS); }

static uint8_t *put_literal(uint8_t *to, const uint8_t *from, size_t count) {
    size_t n = count - 1;
    if (n < 60) {
        *to++ = (uint8_t)(n << 2 | LITERAL);
    } else {
        unsigned bytes = n < 1 << 8 ? 1 : 2; /* a block has at most 2^16 bytes */
        *to++ = (uint8_t)((59 + bytes) << 2 | LITERAL);
        for (unsigned i = 0; i < bytes; i++) *to++ = (uint8_t)(n >> (8 * i));
    }
    memcpy(to, from, count);
    return to + count;
}

static uint8_t *put_copy(uint8_t *to, size_t distance, size_t count) {
    while (count > 0) {
        if (count < 12 && count >= 4 && distance < 2048) {
            *to++ = (uint8_t)((distance >> 8) << 5 | (count - 4) << 2 | COPY_11);
            *to++ = (uint8_t)distance;
            return to;
        }
        /* leave at least 4 bytes for the last piece, so that it may use the short form */
        size_t piece = count <= 64 ? count : count < 68 ? 60 : 64;
        *to++ = (uint8_t)((piece - 1) << 2 | COPY_16);
        *to++ = (uint8_t)distance;
        *to++ = (uint8_t)(distance >> 8);
        count -= piece;
    }
    return to;
}

/* Returns the next place with the same four bytes as `candidate`, an earlier place that their hash finds. Without one,
 * returns `limit` or a place after it. Steps grow until a match, so that incompressible data is passed quickly.
 *
 * This loop is a separate function because clang would make the next place depend on the outcome of the comparison if
 * the loop lay, with its two exits, inside another. The processor could not run ahead: that is six times slower. */
static inline const uint8_t *next_match(const uint8_t *start, const uint8_t *in, const uint8_t *limit,
                                        uint16_t *positions, const uint8_t **candidate) {
    for (uint32_t skip = 32; in < limit; in += skip++ >> 5) {
        uint32_t here = kw_le32(in);
        uint16_t *slot = &positions[hash(here)];
        *candidate = start + *slot;
        *slot = (uint16_t)(in - start);
        if (kw_le32(*candidate) == here) break;
    }
    return in;
}

/* One block: greedy matches. */
static uint8_t *encode_block(const uint8_t *start, size_t size, uint8_t *to, uint16_t *positions) {
    const uint8_t *in = start, *pending = start, *end = start + size;
    if (size >= 16) {
        const uint8_t *limit = end - 15;
        memset(positions, 0, sizeof *positions << TABLE_BITS);
        in++;
        const uint8_t *candidate;
        while ((in = next_match(start, in, limit, positions, &candidate)) < limit) {
            if (in > pending) to = put_literal(to, pending, (size_t)(in - pending));
            size_t count = 4 + match_length(candidate + 4, in + 4, end);
            to = put_copy(to, (size_t)(in - candidate), count);
            in += count;
            pending = in;
            if (in < limit) positions[hash(kw_le32(in - 1))] = (uint16_t)(in - 1 - start);
        }
    }
    if (pending < end) to = put_literal(to, pending, (size_t)(end - pending));
    return to;
}

size_t kw_snappy_encode(const uint8_t *source, size_t size, uint8_t *out) {
    uint16_t positions[1 << TABLE_BITS];
    uint8_t *to = kw_put_uvarint(out, size);
    for (size_t at = 0; at < size; at += BLOCK)
        to = encode_block(source + at, size - at < BLOCK ? size - at : BLOCK, to, positions);
    return (size_t)(to - out);
}
