/* The raw Snappy block format (github.com/google/snappy, format_description.txt): decoder and encoder.
 *
 * The decoder trusts nothing: any input gives either exactly the promised output or an error. */
#ifndef KAFWIRE_SNAPPY_H
#define KAFWIRE_SNAPPY_H

#include <stddef.h>
#include <stdint.h>

enum { KW_SNAPPY_SLACK = 64 };

/* Reads the length that the block at `source` promises. Returns the bytes of the length itself (1 to 5), or 0: invalid,
 * or more than Snappy can make from so few bytes. */
size_t kw_snappy_length(const uint8_t *source, size_t size, size_t *length);

/* Decodes the block to exactly `length` bytes (from kw_snappy_length). KW_SNAPPY_SLACK bytes after them are scratch and
 * must be writable. 0, or -1: the block is corrupt (the output is then undefined). */
int kw_snappy_decode(const uint8_t *source, size_t size, uint8_t *out, size_t length);

/* Encodes into `out`, which has room for kw_snappy_bound(size) bytes. Returns the bytes written. size is < 2^32. */
size_t kw_snappy_bound(size_t size);
size_t kw_snappy_encode(const uint8_t *source, size_t size, uint8_t *out);

#endif
