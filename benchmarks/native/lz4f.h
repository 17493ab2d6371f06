/* The part of the LZ4 frame API that the floor needs, declared from its public documentation: the machine may have the
 * library without its headers. Resolved with dlopen, so that an uncompressed run needs no lz4 at all. */
#ifndef KAFWIRE_BENCH_LZ4F_H
#define KAFWIRE_BENCH_LZ4F_H

#include <stddef.h>

typedef struct {
    struct {
        int block_size_id;
        int block_mode; /* 1: independent blocks, as Kafka's producers write them */
        int content_checksum;
        int frame_type;
        unsigned long long content_size;
        unsigned dictionary;
        int block_checksum;
    } frame;
    int level;
    unsigned auto_flush;
    unsigned favor_decompression;
    unsigned reserved[3];
} lz4f_preferences;

typedef struct lz4f_dctx lz4f_dctx;

typedef struct {
    size_t (*frame_bound)(size_t size, const lz4f_preferences *);
    size_t (*compress_frame)(void *out, size_t capacity, const void *in, size_t size, const lz4f_preferences *);
    unsigned (*is_error)(size_t code);
    size_t (*create)(lz4f_dctx **, unsigned version);
    size_t (*decompress)(lz4f_dctx *, void *out, size_t *out_size, const void *in, size_t *in_size, const void *options);
    void (*reset)(lz4f_dctx *);
    const char *path;
} lz4f_api;

/* The library at `path`, or the system's liblz4 when path is empty. Ends the process when there is none. */
const lz4f_api *lz4f_open(const char *path);

#endif
