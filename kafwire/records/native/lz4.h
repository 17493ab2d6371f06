/* An encoder of LZ4 frames in the form of Kafka's clients: independent blocks of 64 KiB, no checksums except the
 * header's (github.com/lz4/lz4, lz4_Frame_format.md and lz4_Block_format.md). */
#ifndef KAFWIRE_LZ4_H
#define KAFWIRE_LZ4_H

#include <stddef.h>
#include <stdint.h>

/* Encode into `out`, which has room for kw_lz4_bound(size) bytes: the frame, and scratch space after it. Returns the
 * size of the frame. size must be < 2^32. */
size_t kw_lz4_bound(size_t size);
size_t kw_lz4_encode(const uint8_t *source, size_t size, uint8_t *out);

#endif
