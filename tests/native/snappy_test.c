/* Snappy under the sanitizers: encoded bytes decode to themselves, and no bytes whatever make the decoder touch memory
 * that is not its own. Buffers have exactly the size the contract asks for, so that one byte too many is seen. */
#include "kafwire/records/native/crc32c.h"
#include "kafwire/records/native/snappy.h"
#include "check.h"

#include <string.h>

static void fill(uint8_t *data, size_t size, dice *state) {
    size_t at = 0;
    while (at < size) {
        size_t run = 1 + below(state, 70), back = at ? 1 + below(state, at < 3000 ? at : 3000) : 0;
        for (size_t i = 0; i < run && at < size; i++, at++)
            data[at] = back && (run & 1) ? data[at - back] : (uint8_t)below(state, run % 5 ? 4 : 256);
    }
}

/* Decode from a copy with nothing readable behind it into room for exactly `length` and the slack. */
static int decode(const uint8_t *source, size_t size, uint8_t **out, size_t *length) {
    uint8_t *exact = malloc(size ? size : 1);
    memcpy(exact, source, size);
    int result = -1;
    *out = NULL;
    if (kw_snappy_length(exact, size, length)) {
        CHECK(*length <= 64 * (size / 3 + 1));
        *out = malloc(*length + KW_SNAPPY_SLACK);
        result = kw_snappy_decode(exact, size, *out, *length);
    }
    free(exact);
    return result;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    dice state = strtoull(argv[1], NULL, 10);
    long rounds = strtol(argv[2], NULL, 10), accepted = 0;
    for (long round = 0; round < rounds; round++) {
        size_t size = below(&state, round % 50 ? 2000 : 200000), length;
        uint8_t *plain = malloc(size + 1), *packed = malloc(kw_snappy_bound(size)), *out;
        fill(plain, size, &state);
        size_t used = kw_snappy_encode(plain, size, packed);
        CHECK(used <= kw_snappy_bound(size));
        CHECK(decode(packed, used, &out, &length) == 0);
        CHECK(length == size && memcmp(out, plain, size) == 0);
        free(out);
        for (int attack = 0; attack < 40; attack++) {
            size_t cut = below(&state, 3) ? used : below(&state, used + 1);
            uint8_t *bad = malloc(used + 8);
            memcpy(bad, packed, used);
            for (uint64_t n = below(&state, 6); n > 0 && used; n--)
                bad[below(&state, used < 40 || below(&state, 2) ? used : 40)] = (uint8_t)roll(&state);
            accepted += decode(bad, cut, &out, &length) == 0;
            free(out);
            free(bad);
        }
        for (int i = 0; i < kw_crc32c_count(); i++) {
            uint8_t *exact = malloc(size ? size : 1);
            memcpy(exact, plain, size);
            CHECK(kw_crc32c_with(i, 7, exact, size) == kw_crc32c_with(kw_crc32c_count() - 1, 7, plain, size));
            free(exact);
        }
        free(plain);
        free(packed);
    }
    printf("ok: %ld damaged blocks still decoded\n", accepted);
    return 0;
}
