/* CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), the checksum of magic 2 record batches.
 *
 * The fastest implementation for the processor is chosen when the library is loaded: AVX-512 with VPCLMULQDQ, or SSE4.2
 * with PCLMULQDQ, on x86-64, the CRC instructions on ARMv8, tables elsewhere. */
#ifndef KAFWIRE_CRC32C_H
#define KAFWIRE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of `size` bytes; `crc` is 0, or the CRC of the bytes before these. */
uint32_t kw_crc32c(uint32_t crc, const uint8_t *data, size_t size);

/* The implementations, for tests: number i of kw_crc32c_count(), fastest first; the last one is the table. */
int kw_crc32c_count(void);
const char *kw_crc32c_name(int i);
uint32_t kw_crc32c_with(int i, uint32_t crc, const uint8_t *data, size_t size);

#endif
