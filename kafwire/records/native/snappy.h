/* The raw Snappy block format (github.com/google/snappy, format_description.txt): decoder and encoder.
 *
 * The decoder believes nothing: any bytes give either exactly the promised output or an error. */
#ifndef KAFWIRE_SNAPPY_H
#define KAFWIRE_SNAPPY_H

#include <stddef.h>
#include <stdint.h>

enum { KW_SNAPPY_SLACK = 64 };

/* Read the length that the block at `source` promises. The bytes of the length itself (1 to 5), or 0: not a length, or
 * more than Snappy can possibly make of so few bytes. */
size_t kw_snappy_length(const uint8_t *source, size_t size, size_t *length);

/* Decode the block into exactly `length` bytes (from kw_snappy_length). KW_SNAPPY_SLACK bytes after them are scratch
 * and must be writable. 0, or -1: the block is corrupt (what was written then is undefined). */
int kw_snappy_decode(const uint8_t *source, size_t size, uint8_t *out, size_t length);

/* Encode into `out`, which has room for kw_snappy_bound(size) bytes. The bytes written. size must be < 2^32. */
size_t kw_snappy_bound(size_t size);
size_t kw_snappy_encode(const uint8_t *source, size_t size, uint8_t *out);

#endif
