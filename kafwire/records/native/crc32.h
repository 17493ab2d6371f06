/* CRC-32 (gzip's, reflected polynomial 0xEDB88320): the checksum of messages of magic 0 and 1, and a partitioner's hash. */
#ifndef KAFWIRE_CRC32_H
#define KAFWIRE_CRC32_H

#include <stddef.h>
#include <stdint.h>

#include "kafwire/memory/native/bytes.h"
#include "kafwire/records/native/crc_table.h"

static const uint32_t kw_crc32_table[4][256] = {
    KW_CRC_TABLE(0xEDB88320, 0x76DC4190, 0x3B6E20C8, 0x1DB71064, 0x0EDB8832, 0x076DC419, 0xEE0E612C, 0x77073096),
    KW_CRC_TABLE(0x3B83984B, 0xF0794F05, 0x958424A2, 0x4AC21251, 0xC8D98A08, 0x646CC504, 0x32366282, 0x191B3141),
    KW_CRC_TABLE(0xE1351B80, 0x709A8DC0, 0x384D46E0, 0x1C26A370, 0x0E1351B8, 0x0709A8DC, 0x0384D46E, 0x01C26A37),
    KW_CRC_TABLE(0xED59B63B, 0x9B14583D, 0xA032AF3E, 0x5019579F, 0xC5B428EF, 0x8F629757, 0xAA09C88B, 0xB8BC6765),
};

/* Slice-by-4: four independent table look-ups for four bytes. */
static inline uint32_t kw_crc32(const uint8_t *p, size_t size) {
    uint32_t crc = 0xFFFFFFFFu;
    for (; size >= 4; p += 4, size -= 4) {
        crc ^= kw_le32(p);
        crc = kw_crc32_table[3][crc & 255] ^ kw_crc32_table[2][crc >> 8 & 255] ^ kw_crc32_table[1][crc >> 16 & 255] ^
              kw_crc32_table[0][crc >> 24];
    }
    while (size--) crc = crc >> 8 ^ kw_crc32_table[0][(crc ^ *p++) & 255];
    return ~crc;
}

#endif
