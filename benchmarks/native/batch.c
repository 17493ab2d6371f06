#include "batch.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"

/* ---- CRC-32C: three lanes, because the instruction takes three cycles and can start one per cycle ---- */

#define LANE 4096

static uint32_t shift_table[4][256]; /* the CRC register after LANE more zero bytes, by byte of the register */

#if defined(__x86_64__)
#include <nmmintrin.h>
#define CRC_TARGET __attribute__((target("sse4.2")))
#define crc_u64(crc, word) ((uint32_t)_mm_crc32_u64((crc), (word)))
#define crc_u8(crc, byte) _mm_crc32_u8((crc), (byte))
#elif defined(__aarch64__)
#include <arm_acle.h>
#define CRC_TARGET __attribute__((target("+crc")))
#define crc_u64(crc, word) __crc32cd((crc), (word))
#define crc_u8(crc, byte) __crc32cb((crc), (byte))
#else
#error "the benchmark's floor needs x86-64 or AArch64"
#endif

CRC_TARGET static uint32_t crc_run(uint32_t crc, const uint8_t *data, size_t size) {
    for (; size >= 8; data += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        crc = crc_u64(crc, word);
    }
    for (; size; data++, size--) crc = crc_u8(crc, *data);
    return crc;
}

static void crc_prepare(void) {
    static const uint8_t zeros[LANE];
    for (int byte = 0; byte < 4; byte++)
        for (uint32_t value = 0; value < 256; value++)
            shift_table[byte][value] = crc_run(value << (8 * byte), zeros, LANE);
}

static uint32_t crc_shift(uint32_t crc) {
    return shift_table[0][crc & 255] ^ shift_table[1][crc >> 8 & 255] ^ shift_table[2][crc >> 16 & 255] ^
           shift_table[3][crc >> 24];
}

CRC_TARGET uint32_t crc32c(const uint8_t *data, size_t size) {
    uint32_t crc = ~0u;
    if (!shift_table[0][1]) crc_prepare();
    for (; size >= 3 * LANE; data += 3 * LANE, size -= 3 * LANE) {
        uint32_t second = 0, third = 0;
        for (size_t i = 0; i < LANE; i += 8) {
            uint64_t a, b, c;
            memcpy(&a, data + i, 8);
            memcpy(&b, data + LANE + i, 8);
            memcpy(&c, data + 2 * LANE + i, 8);
            crc = crc_u64(crc, a);
            second = crc_u64(second, b);
            third = crc_u64(third, c);
        }
        crc = crc_shift(crc_shift(crc) ^ second) ^ third;
    }
    return ~crc_run(crc, data, size);
}

/* ---- headers ---- */

int batch_peek(const uint8_t *data, size_t size, batch_info *info) {
    if (size < BATCH_HEADER) return 0;
    int32_t length = get_i32(data + 8);
    if (length < BATCH_HEADER - BATCH_PREFIX) bench_fail("a batch of %d bytes", (int)length);
    info->size = (size_t)length + BATCH_PREFIX;
    if (info->size > size) return 0;
    if (data[16] != 2) bench_fail("magic %d", data[16]);
    info->base_offset = get_i64(data);
    info->next_offset = info->base_offset + get_i32(data + 23) + 1;
    info->records = get_i32(data + 57);
    info->codec = get_i16(data + 21) & 7;
    return 1;
}

/* ---- decoding ---- */

void decoder_init(decoder *self, const lz4f_api *lz4) {
    memset(self, 0, sizeof *self);
    self->lz4 = lz4;
    if (lz4 && lz4->is_error(lz4->create(&self->context, 100))) bench_fail("lz4: no decompression context");
}

void decoder_clear(decoder *self) { self->out.rows = 0; }

static void *grow(void *memory, size_t size) {
    memory = realloc(memory, size);
    if (!memory) bench_fail("no memory for %zu bytes", size);
    return memory;
}

static void reserve(columns *out, int64_t rows, size_t bytes) {
    if (rows > out->row_capacity) {
        size_t room = (size_t)rows * 2;
        out->offset = grow(out->offset, room * 8);
        out->timestamp = grow(out->timestamp, room * 8);
        out->key_start = grow(out->key_start, (room + 1) * 4);
        out->value_start = grow(out->value_start, (room + 1) * 4);
        out->key_valid = grow(out->key_valid, room / 8 + 1);
        out->value_valid = grow(out->value_valid, room / 8 + 1);
        out->row_capacity = (int64_t)room;
    }
    if (bytes > out->byte_capacity) {
        out->byte_capacity = bytes * 2;
        out->key = grow(out->key, out->byte_capacity);
        out->value = grow(out->value, out->byte_capacity);
    }
}

static size_t decompress(decoder *self, const uint8_t *data, size_t size) {
    size_t produced = 0, consumed = 0, hint = 1;
    self->lz4->reset(self->context);
    while (hint && consumed < size) {
        if (self->scratch_capacity - produced < (64 << 10)) {
            self->scratch_capacity = self->scratch_capacity ? self->scratch_capacity * 2 : 2 << 20;
            self->scratch = grow(self->scratch, self->scratch_capacity);
        }
        size_t room = self->scratch_capacity - produced, rest = size - consumed;
        hint = self->lz4->decompress(self->context, self->scratch + produced, &room, data + consumed, &rest, NULL);
        if (self->lz4->is_error(hint)) bench_fail("lz4: a damaged frame");
        produced += room;
        consumed += rest;
    }
    if (hint) bench_fail("lz4: a truncated frame");
    return produced;
}

static inline const uint8_t *varint(const uint8_t *at, const uint8_t *end, int64_t *value) {
    uint64_t raw = 0;
    for (int shift = 0; at < end && shift < 70; shift += 7) {
        uint8_t byte = *at++;
        raw |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *value = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
            return at;
        }
    }
    bench_fail("a varint runs past its end");
}

static inline const uint8_t *field(const uint8_t *at, const uint8_t *end, int64_t row, uint8_t *valid, int32_t *start,
                                   uint8_t *bytes) {
    int64_t length;
    at = varint(at, end, &length);
    uint8_t bit = (uint8_t)(1u << (row & 7));
    if (length < 0) {
        valid[row >> 3] &= (uint8_t)~bit;
        start[row + 1] = start[row];
        return at;
    }
    if (length > end - at) bench_fail("a field runs past its record");
    valid[row >> 3] |= bit;
    memcpy(bytes + start[row], at, (size_t)length);
    start[row + 1] = start[row] + (int32_t)length;
    return at + length;
}

void decoder_batch(decoder *self, const uint8_t *batch, const batch_info *info) {
    columns *out = &self->out;
    const uint8_t *at = batch + BATCH_HEADER;
    size_t size = info->size - BATCH_HEADER;
    int64_t first_timestamp = get_i64(batch + 27);
    if (crc32c(batch + 21, info->size - 21) != get_u32(batch + 17))
        bench_fail("wrong CRC at offset %lld", (long long)info->base_offset);
    if (info->codec == CODEC_LZ4) {
        if (!self->lz4) bench_fail("lz4 is needed");
        size = decompress(self, at, size);
        at = self->scratch;
    } else if (info->codec != CODEC_NONE) {
        bench_fail("codec %d", info->codec);
    }
    const uint8_t *end = at + size;
    size_t used = out->rows ? (size_t)out->value_start[out->rows] + (size_t)out->key_start[out->rows] : 0;
    reserve(out, out->rows + info->records, used + size);
    if (!out->rows) out->key_start[0] = out->value_start[0] = 0;
    for (int32_t i = 0; i < info->records; i++) {
        int64_t length, timestamp_delta, offset_delta, row = out->rows;
        at = varint(at, end, &length);
        if (length < 1 || length > end - at) bench_fail("a record runs past its batch");
        const uint8_t *record_end = at + length;
        at = varint(at + 1, record_end, &timestamp_delta); /* +1: attributes, unused */
        at = varint(at, record_end, &offset_delta);
        out->offset[row] = info->base_offset + offset_delta;
        out->timestamp[row] = first_timestamp + timestamp_delta;
        at = field(at, record_end, row, out->key_valid, out->key_start, out->key);
        at = field(at, record_end, row, out->value_valid, out->value_start, out->value);
        at = record_end; /* headers are not asked for */
        out->rows = row + 1;
    }
    if (at != end) bench_fail("bytes are left after the last record");
}

/* ---- encoding ---- */

static uint8_t *put_varint(uint8_t *at, int64_t value) {
    uint64_t raw = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    for (; raw >= 128; raw >>= 7) *at++ = (uint8_t)(raw | 128);
    *at++ = (uint8_t)raw;
    return at;
}

static size_t varint_size(int64_t value) {
    uint8_t scratch[10];
    return (size_t)(put_varint(scratch, value) - scratch);
}

made_batch batch_make(const bench_payload *payload, int64_t first, int64_t most, size_t limit, const lz4f_api *lz4,
                      int64_t timestamp_ms) {
    uint8_t *raw = bench_alloc(limit + payload->value_bytes + payload->key_bytes + 64), *at = raw + BATCH_HEADER;
    int64_t count = 0;
    while (count < most) {
        const uint8_t *value = payload->data + (size_t)((first + count) % payload->count) * payload->value_bytes;
        int64_t key_length = payload->key_bytes ? (int64_t)payload->key_bytes : -1;
        /* attributes, timestamp delta, offset delta, key, value, no headers */
        int64_t body = (int64_t)(1 + 1 + varint_size(count) + varint_size(key_length) + payload->key_bytes +
                                 varint_size((int64_t)payload->value_bytes) + payload->value_bytes + 1);
        if (count && (size_t)(at - raw) + varint_size(body) + (size_t)body > limit) break;
        at = put_varint(at, body);
        *at++ = 0;
        at = put_varint(at, 0);
        at = put_varint(at, count);
        at = put_varint(at, key_length);
        memcpy(at, value + BENCH_KEY_AT, payload->key_bytes);
        at += payload->key_bytes;
        at = put_varint(at, (int64_t)payload->value_bytes);
        memcpy(at, value, payload->value_bytes);
        at += payload->value_bytes;
        *at++ = 0;
        count++;
    }
    size_t size = (size_t)(at - raw);
    if (lz4) {
        lz4f_preferences preferences;
        memset(&preferences, 0, sizeof preferences);
        preferences.frame.block_mode = 1;
        size_t room = lz4->frame_bound(size - BATCH_HEADER, &preferences);
        uint8_t *packed = bench_alloc(BATCH_HEADER + room);
        size_t done = lz4->compress_frame(packed + BATCH_HEADER, room, raw + BATCH_HEADER, size - BATCH_HEADER,
                                          &preferences);
        if (lz4->is_error(done)) bench_fail("lz4: cannot compress");
        free(raw);
        raw = packed;
        size = BATCH_HEADER + done;
    }
    put_i64(raw, 0);
    put_i32(raw + 8, (int32_t)(size - BATCH_PREFIX));
    put_i32(raw + 12, -1); /* leader epoch */
    raw[16] = 2;
    put_i16(raw + 21, lz4 ? CODEC_LZ4 : CODEC_NONE);
    put_i32(raw + 23, (int32_t)(count - 1));
    put_i64(raw + 27, timestamp_ms);
    put_i64(raw + 35, timestamp_ms);
    put_i64(raw + 43, -1); /* no producer id, epoch, sequence */
    put_i16(raw + 51, -1);
    put_i32(raw + 53, -1);
    put_i32(raw + 57, (int32_t)count);
    put_i32(raw + 17, (int32_t)crc32c(raw + 21, size - 21));
    return (made_batch){raw, size, count};
}
