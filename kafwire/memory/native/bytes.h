/* The encoding of numbers and text as bytes, defined only here.
 *
 * Inline, so that each extension has its own copy, without shared state. Only functions with `end` or `left` check
 * bounds: callers of the others have checked them. */
#ifndef KAFWIRE_BYTES_H
#define KAFWIRE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define KW_BIG(bits, value) __builtin_bswap##bits(value)
#define KW_LITTLE(bits, value) (value)
#else
#define KW_BIG(bits, value) (value)
#define KW_LITTLE(bits, value) __builtin_bswap##bits(value)
#endif

/* --- copies of a fixed size: a load and a store. A constant size needs no check at run time, and clang inlines less
 * where it meets glibc's fortified memcpy ---------------------------------------------------------------------------- */

/* The places may overlap. */
static inline void kw_copy16(uint8_t *to, const uint8_t *from) { __builtin_memmove(to, from, 16); }
/* They may not. */
static inline void kw_copy32(uint8_t *to, const uint8_t *from) { __builtin_memcpy(to, from, 32); }

/* --- numbers of a fixed size: big-endian as in Kafka, little-endian as in compressed formats and hashes ----------- */

static inline int16_t kw_be16(const uint8_t *p) {
    uint16_t value;
    __builtin_memcpy(&value, p, sizeof value);
    return (int16_t)KW_BIG(16, value);
}

static inline int32_t kw_be32(const uint8_t *p) {
    uint32_t value;
    __builtin_memcpy(&value, p, sizeof value);
    return (int32_t)KW_BIG(32, value);
}

static inline int64_t kw_be64(const uint8_t *p) {
    uint64_t value;
    __builtin_memcpy(&value, p, sizeof value);
    return (int64_t)KW_BIG(64, value);
}

static inline void kw_put_be16(uint8_t *p, int16_t value) {
    uint16_t big = KW_BIG(16, (uint16_t)value);
    __builtin_memcpy(p, &big, sizeof big);
}

static inline void kw_put_be32(uint8_t *p, int32_t value) {
    uint32_t big = KW_BIG(32, (uint32_t)value);
    __builtin_memcpy(p, &big, sizeof big);
}

static inline void kw_put_be64(uint8_t *p, int64_t value) {
    uint64_t big = KW_BIG(64, (uint64_t)value);
    __builtin_memcpy(p, &big, sizeof big);
}

static inline uint32_t kw_le32(const uint8_t *p) {
    uint32_t value;
    __builtin_memcpy(&value, p, sizeof value);
    return KW_LITTLE(32, value);
}

static inline uint64_t kw_le64(const uint8_t *p) {
    uint64_t value;
    __builtin_memcpy(&value, p, sizeof value);
    return KW_LITTLE(64, value);
}

static inline void kw_put_le32(uint8_t *p, uint32_t value) {
    uint32_t little = KW_LITTLE(32, value);
    __builtin_memcpy(p, &little, sizeof little);
}

/* --- varints: seven bits per byte, lowest first. Readers return the byte after it, or NULL ------------------------ */

static inline uint64_t kw_zigzag(int64_t value) { return (uint64_t)value << 1 ^ (uint64_t)(value >> 63); }

static inline int64_t kw_unzigzag(uint64_t value) { return (int64_t)(value >> 1 ^ -(value & 1)); }

/* The byte at `last_shift` may be the last, with a value of at most `last_max`. */
static inline const uint8_t *kw_uvarint_within(const uint8_t *p, const uint8_t *end, int last_shift, uint8_t last_max,
                                               uint64_t *out) {
    uint64_t value = 0;
    for (int shift = 0; p < end; shift += 7) {
        uint8_t byte = *p++;
        if (shift == last_shift && byte > last_max) return NULL;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *out = value;
            return p;
        }
    }
    return NULL;
}

/* At most 32 bits and 5 bytes. Most are lengths below 128. */
static inline const uint8_t *kw_uvarint(const uint8_t *p, const uint8_t *end, uint32_t *out) {
    if (p < end && *p < 128) {
        *out = *p;
        return p + 1;
    }
    uint64_t value = 0;
    p = kw_uvarint_within(p, end, 28, 15, &value);
    *out = (uint32_t)value;
    return p;
}

/* At most 64 bits and 10 bytes. */
static inline const uint8_t *kw_uvarlong(const uint8_t *p, const uint8_t *end, uint64_t *out) {
    return kw_uvarint_within(p, end, 63, 1, out);
}

/* A varint of more bytes than its reader takes at once. clang inlines a reader only while this stays out of it; gcc does
 * so either way, and is faster with it. */
#ifdef __clang__
__attribute__((noinline))
#else
inline
#endif
static const uint8_t *kw_uvarint_long(const uint8_t *p, const uint8_t *end, int last_shift, uint8_t last_max,
                                      uint64_t *out) {
    return kw_uvarint_within(p, end, last_shift, last_max, out);
}

/* Zigzag, at most 32 bits and 5 bytes. Most varints in a record have one or two bytes. */
static inline const uint8_t *kw_varint(const uint8_t *p, const uint8_t *end, int32_t *out) {
    uint64_t value;
    if (p + 2 <= end) {
        uint32_t low = p[0];
        if (low < 128) {
            *out = (int32_t)(low >> 1 ^ -(low & 1));
            return p + 1;
        }
        if (p[1] < 128) {
            low = (low & 127) | (uint32_t)p[1] << 7;
            *out = (int32_t)(low >> 1 ^ -(low & 1));
            return p + 2;
        }
    } else if (p < end && *p < 128) {
        *out = *p >> 1 ^ -(*p & 1);
        return p + 1;
    }
    p = kw_uvarint_long(p, end, 28, 15, &value);
    if (p) *out = (int32_t)kw_unzigzag(value);
    return p;
}

/* Zigzag, at most 64 bits and 10 bytes. */
static inline const uint8_t *kw_varlong(const uint8_t *p, const uint8_t *end, int64_t *out) {
    uint64_t value;
    if (p + 2 <= end) {
        value = p[0];
        if (value < 128) {
            *out = kw_unzigzag(value);
            return p + 1;
        }
        if (p[1] < 128) {
            *out = kw_unzigzag((value & 127) | (uint64_t)p[1] << 7);
            return p + 2;
        }
    }
    p = kw_uvarint_long(p, end, 63, 1, &value);
    if (p) *out = kw_unzigzag(value);
    return p;
}

/* A byte for each 7 significant bits. */
static inline size_t kw_uvarint_size(uint64_t value) { return (size_t)(70 - __builtin_clzll(value | 1)) / 7; }

static inline uint8_t *kw_put_uvarint(uint8_t *p, uint64_t value) {
    for (; value >= 128; value >>= 7) *p++ = (uint8_t)(value | 128);
    *p++ = (uint8_t)value;
    return p;
}

/* --- UTF-8 (RFC 3629: no surrogates, no longer form than needed) -------------------------------------------------- */

/* How many of the bytes at p begin a character, complete or as far as available; 0: none. *size: its length. */
static inline size_t kw_utf8_begun(const uint8_t *p, size_t left, size_t *size) {
    uint8_t low = 0x80, high = 0xBF;
    size_t i = 1;
    *size = 1;
    if (p[0] < 0x80) return 1;
    if (p[0] < 0xC2 || p[0] > 0xF4) return 0;
    *size = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (p[0] == 0xE0) low = 0xA0;
    if (p[0] == 0xED) high = 0x9F;
    if (p[0] == 0xF0) low = 0x90;
    if (p[0] == 0xF4) high = 0x8F;
    for (; i < *size && i < left && low <= p[i] && p[i] <= high; i++) {
        low = 0x80;
        high = 0xBF;
    }
    return i;
}

/* The length of the character at p; 0: none begins here. */
static inline size_t kw_utf8_character(const uint8_t *p, size_t left) {
    size_t size, begun = kw_utf8_begun(p, left, &size);
    return begun == size ? size : 0;
}

/* Where no character begins: how many bytes one U+FFFD replaces, as in Python's "replace". */
static inline size_t kw_utf8_replaced(const uint8_t *p, size_t left) {
    size_t size, begun = kw_utf8_begun(p, left, &size);
    return begun ? begun : 1;
}

static inline int kw_is_utf8(const uint8_t *p, size_t size) {
    size_t i = 0;
    while (i < size) {
        size_t bytes = p[i] < 0x80 ? 1 : kw_utf8_character(p + i, size - i);
        if (!bytes) return 0;
        i += bytes;
    }
    return 1;
}

#endif
