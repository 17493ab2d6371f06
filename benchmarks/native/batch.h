/* Record batches (magic 2) to columns and back: the plainest C that does the whole job, with nothing clever in it but a
 * CRC that uses the processor's instruction. It is the floor that kafwire's decoder is compared with. */
#ifndef KAFWIRE_BENCH_BATCH_H
#define KAFWIRE_BENCH_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "bench.h"
#include "lz4f.h"

#define BATCH_HEADER 61
#define BATCH_PREFIX 12 /* base offset and length */

enum { CODEC_NONE = 0, CODEC_LZ4 = 3 };

typedef struct {
    int64_t base_offset;
    int64_t next_offset;
    int32_t records;
    int codec;
    size_t size; /* on the wire, prefix included */
} batch_info;

/* 1: a whole batch is at data; 0: only part of one. Ends the process on another magic. */
int batch_peek(const uint8_t *data, size_t size, batch_info *info);

/* Arrow's layout. `key_valid` and `value_valid` are bitmaps. */
typedef struct {
    int64_t rows;
    int64_t row_capacity;
    int64_t *offset;
    int64_t *timestamp;
    uint8_t *key_valid, *value_valid;
    int32_t *key_start, *value_start; /* rows + 1 */
    uint8_t *key, *value;
    size_t byte_capacity;
} columns;

typedef struct {
    const lz4f_api *lz4;
    lz4f_dctx *context;
    uint8_t *scratch;
    size_t scratch_capacity;
    columns out;
} decoder;

void decoder_init(decoder *self, const lz4f_api *lz4);
void decoder_clear(decoder *self); /* rows = 0; the memory stays */
void decoder_batch(decoder *self, const uint8_t *batch, const batch_info *info); /* appends; CRC first */

typedef struct {
    uint8_t *data;
    size_t size;
    int64_t records;
} made_batch;

/* The next batch of values from `first` on (wrapping around), with at most `limit` uncompressed bytes. */
made_batch batch_make(const bench_payload *payload, int64_t first, int64_t most, size_t limit, const lz4f_api *lz4,
                      int64_t timestamp_ms);

uint32_t crc32c(const uint8_t *data, size_t size);

#endif
