/* Big-endian numbers. */
#ifndef KAFWIRE_BENCH_BYTES_H
#define KAFWIRE_BENCH_BYTES_H

#include <stdint.h>

static inline uint32_t get_u32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
static inline int16_t get_i16(const uint8_t *p) { return (int16_t)(p[0] << 8 | p[1]); }
static inline int32_t get_i32(const uint8_t *p) { return (int32_t)get_u32(p); }
static inline int64_t get_i64(const uint8_t *p) { return (int64_t)((uint64_t)get_u32(p) << 32 | get_u32(p + 4)); }

static inline void put_i16(uint8_t *p, int16_t v) {
    p[0] = (uint8_t)((uint16_t)v >> 8);
    p[1] = (uint8_t)v;
}
static inline void put_i32(uint8_t *p, int32_t v) {
    put_i16(p, (int16_t)((uint32_t)v >> 16));
    put_i16(p + 2, (int16_t)v);
}
static inline void put_i64(uint8_t *p, int64_t v) {
    put_i32(p, (int32_t)((uint64_t)v >> 32));
    put_i32(p + 4, (int32_t)v);
}

#endif
