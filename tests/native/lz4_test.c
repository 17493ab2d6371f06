/* LZ4 under the sanitizers: every frame follows the format to the letter and decodes to what was encoded. Buffers have exactly the
 * size the contract asks for, so that one byte too many is seen. */
#include "kafwire/records/native/lz4.h"
#include "check.h"

#include <string.h>

enum { BLOCK = 65536 };

static const uint8_t HEADER[] = {0x04, 0x22, 0x4D, 0x18, 0x60, 0x40, 0x82};

/* Of few letters or of many, with repeats from near and from as far as a block reaches, or nothing but noise. */
static void fill(uint8_t *data, size_t size, dice *state) {
    size_t kind = below(state, 5), at = 0;
    while (at < size) {
        size_t run = 1 + below(state, kind == 1 ? 3000 : 70), back = at ? 1 + below(state, at < 65600 ? at : 65600) : 0;
        if (kind == 0) back = 0;
        for (size_t i = 0; i < run && at < size; i++, at++)
            data[at] = back && (run & 1) ? data[at - back] : (uint8_t)below(state, kind > 2 && run % 5 ? 4 : 256);
    }
}

static size_t more(const uint8_t **in, const uint8_t *end) {
    size_t length = 0, byte;
    do {
        CHECK(*in < end);
        byte = *(*in)++;
        length += byte;
    } while (byte == 255);
    return length;
}

/* One block, with the rules for its end: lz4_Block_format.md, "End of block restrictions". */
static void decode_block(const uint8_t *in, size_t size, uint8_t *out, size_t length) {
    const uint8_t *in_end = in + size;
    size_t at = 0, last_match = 0, matches = 0;
    for (;;) {
        CHECK(in < in_end);
        uint8_t token = *in++;
        size_t literals = token >> 4;
        if (literals == 15) literals += more(&in, in_end);
        CHECK((size_t)(in_end - in) >= literals && length - at >= literals);
        memcpy(out + at, in, literals);
        in += literals;
        at += literals;
        if (in == in_end) {
            CHECK(at == length && (token & 15) == 0);
            CHECK(!matches || (literals >= 5 && length - last_match >= 12));
            return;
        }
        CHECK(in_end - in >= 2);
        size_t distance = in[0] | (size_t)in[1] << 8, count = (token & 15) + 4;
        in += 2;
        if (count == 19) count += more(&in, in_end);
        CHECK(distance > 0 && distance <= at && length - at >= count);
        last_match = at;
        matches++;
        for (size_t i = 0; i < count; i++, at++) out[at] = out[at - distance];
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    dice state = strtoull(argv[1], NULL, 10);
    long rounds = strtol(argv[2], NULL, 10), stored = 0, packed_blocks = 0;
    for (long round = 0; round < rounds; round++) {
        size_t size = below(&state, round % 20 ? round % 3 ? 2000 : 60 : 200000);
        if (round % 100 == 7) size = BLOCK - 20 + below(&state, 40);
        uint8_t *plain = malloc(size ? size : 1), *packed = malloc(kw_lz4_bound(size)), *out = malloc(size ? size : 1);
        fill(plain, size, &state);
        size_t used = kw_lz4_encode(plain, size, packed);
        CHECK(used <= kw_lz4_bound(size));
        CHECK(used <= size + sizeof HEADER + 4 + 4 * ((size + BLOCK - 1) / BLOCK));
        CHECK(memcmp(packed, HEADER, sizeof HEADER) == 0);
        size_t in = sizeof HEADER, at = 0;
        for (;;) {
            CHECK(used - in >= 4);
            uint32_t word = 0;
            for (int i = 0; i < 4; i++) word |= (uint32_t)packed[in + i] << (8 * i);
            in += 4;
            if (word == 0) break;
            size_t block = word & 0x7FFFFFFF, expected = size - at < BLOCK ? size - at : BLOCK;
            CHECK(block <= used - in && expected > 0);
            uint8_t *exact = malloc(block);
            memcpy(exact, packed + in, block);
            if (word >> 31) {
                CHECK(block == expected);
                memcpy(out + at, exact, block);
                stored++;
            } else {
                CHECK(block < expected);
                decode_block(exact, block, out + at, expected);
                packed_blocks++;
            }
            free(exact);
            in += block;
            at += expected;
        }
        CHECK(in == used && at == size && memcmp(out, plain, size) == 0);
        free(plain);
        free(packed);
        free(out);
    }
    CHECK(rounds < 100 || (stored > 0 && packed_blocks > 0));
    printf("ok: %ld blocks stored, %ld compressed\n", stored, packed_blocks);
    return 0;
}
