/* The header of a record batch, and of a slice of batches: parsed only here.
 *
 * Kafka's protocol guide, "Record Batch". Inline, so that each extension has its own copy, without shared state. */
#ifndef KAFWIRE_BATCH_H
#define KAFWIRE_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "kafwire/memory/native/bytes.h"

enum {
    KW_LOG_OVERHEAD = 12, /* base offset and length, which are not counted in the length */
    KW_MAGIC_AT = 16,
    /* of magic 2: */
    KW_CRC_AT = 17,
    KW_CRC_FROM = 21, /* the checksum covers the bytes from here on */
    KW_BATCH_HEADER = 61 /* bytes before the records */
};

typedef struct kw_batch_header {
    int64_t base_offset;
    int32_t length; /* of the bytes after it */
    int32_t leader_epoch;
    int8_t magic;
    uint32_t crc;
    int16_t attributes;
    int32_t last_offset_delta;
    int64_t base_timestamp, max_timestamp;
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t base_sequence;
    int32_t count;
} kw_batch_header;

/* 1: data begins with a whole batch (or message of magic 0 or 1), described in *out. 0: data ends before the batch
 * does. -1: not a batch; *reason has the cause. */
static inline int kw_batch_header_read(const uint8_t *data, size_t size, kw_batch_header *out, const char **reason) {
    if (size < KW_LOG_OVERHEAD) return 0;
    out->base_offset = kw_be64(data);
    out->length = kw_be32(data + 8);
    /* The smallest message. Checked early, as a negative length would look like a truncated batch. */
    if (out->length < 14) {
        *reason = "a batch length below the smallest batch";
        return -1;
    }
    if (size <= KW_MAGIC_AT) return 0;
    out->magic = (int8_t)data[KW_MAGIC_AT];
    if (out->magic < 0 || out->magic > 2) {
        *reason = "an unknown magic byte";
        return -1;
    }
    if (out->length < (out->magic == 2 ? KW_BATCH_HEADER - KW_LOG_OVERHEAD : out->magic == 1 ? 22 : 14)) {
        *reason = "a batch length below the smallest batch";
        return -1;
    }
    if (size - KW_LOG_OVERHEAD < (size_t)out->length) return 0;
    if (out->magic < 2) {
        out->crc = (uint32_t)kw_be32(data + 12);
        out->attributes = data[17] & (out->magic == 1 ? 15 : 7);
        out->leader_epoch = -1;
        out->last_offset_delta = 0;
        out->base_timestamp = out->max_timestamp = out->magic == 1 ? kw_be64(data + 18) : -1;
        out->producer_id = out->producer_epoch = out->base_sequence = -1;
        out->count = 1;
        return 1;
    }
    out->leader_epoch = kw_be32(data + 12);
    out->crc = (uint32_t)kw_be32(data + KW_CRC_AT);
    out->attributes = kw_be16(data + 21);
    out->last_offset_delta = kw_be32(data + 23);
    out->base_timestamp = kw_be64(data + 27);
    out->max_timestamp = kw_be64(data + 35);
    out->producer_id = kw_be64(data + 43);
    out->producer_epoch = kw_be16(data + 51);
    out->base_sequence = kw_be32(data + 53);
    out->count = kw_be32(data + 57);
    return 1;
}

/* The whole batches at the start of a slice of a response. */
typedef struct kw_batches {
    size_t size; /* their bytes, up to the first truncated or invalid one */
    int64_t first; /* the base offset of the first; -1: none is whole */
    int64_t first_end; /* the offset after the first */
    int64_t next; /* the offset after the last; -1 */
    int32_t leader_epoch; /* of the last; -1 */
    int8_t oldest_magic;
} kw_batches;

/* 0, or -1 with the reason. `start` is the requested offset, `high_watermark` that of the response, or negative.
 *
 * No checksum covers a base offset: a jump ahead would look like a gap, unnoticed. The high watermark limits that. A
 * broker notes it before it reads the log, so there may be batches above it, written in between; but they are the
 * youngest, which no compaction has touched: each begins where the one before it ends, and has as many records as
 * offsets. */
static inline int kw_batches_read(const uint8_t *data, size_t size, int64_t start, int64_t high_watermark,
                                  kw_batches *out, const char **reason) {
    kw_batch_header header;
    *out = (kw_batches){.first = -1, .first_end = -1, .next = -1, .leader_epoch = -1, .oldest_magic = 2};
    while (out->size < size) {
        int got = kw_batch_header_read(data + out->size, size - out->size, &header, reason);
        if (got <= 0) return got;
        if (header.base_offset < 0 || header.last_offset_delta < 0 ||
            header.base_offset > INT64_MAX - 1 - header.last_offset_delta) {
            *reason = "offsets below zero or above the maximum";
            return -1;
        }
        if (header.base_offset < out->next) {
            *reason = "base offsets do not rise";
            return -1;
        }
        if (high_watermark >= 0) {
            if (header.base_offset > high_watermark && header.base_offset > (start > out->next ? start : out->next)) {
                *reason = "a base offset above the high watermark that does not follow the batch before it: "
                          "bytes were changed in the log or on their way";
                return -1;
            }
            if (header.magic == 2 && header.base_offset + header.last_offset_delta >= high_watermark &&
                (int64_t)header.last_offset_delta + 1 != header.count) {
                *reason = "a batch above the high watermark that has not as many records as offsets: "
                          "bytes were changed in the log or on their way";
                return -1;
            }
        }
        out->next = header.base_offset + header.last_offset_delta + 1;
        if (out->first < 0) {
            out->first = header.base_offset;
            out->first_end = out->next;
        }
        out->leader_epoch = header.leader_epoch;
        if (header.magic < out->oldest_magic) out->oldest_magic = header.magic;
        out->size += KW_LOG_OVERHEAD + (size_t)header.length;
    }
    return 0;
}

#endif
