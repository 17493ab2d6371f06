/* A block decodes to the bytes that a slow, obvious decoder returns, or both refuse it; encoded bytes decode to the
 * same.
 *
 * Input: one byte that chooses (odd: encode), then the block or the data. Memory is given exactly as large as promised. */
#include "kafwire/records/native/snappy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void broken(const char *what) {
    fprintf(stderr, "INVARIANT BROKEN: %s\n", what);
    abort();
}

static uint8_t *allocate(size_t size) {
    uint8_t *memory = malloc(size ? size : 1);
    if (!memory) abort();
    return memory;
}

/* The format description, word by word: one byte at a time. 0, or -1. */
static int slowly(const uint8_t *in, size_t size, uint8_t *out, size_t length) {
    size_t at = 0, made = 0;
    while (at < size && in[at] & 128) at++;
    at++;
    while (at < size) {
        unsigned tag = in[at++], kind = tag & 3, extra = kind == 3 ? 4 : kind;
        uint64_t count, number = 0;
        if (kind == 0) {
            count = tag >> 2;
            extra = count >= 60 ? (unsigned)count - 59 : 0;
        }
        if (size - at < extra) return -1;
        for (unsigned i = 0; i < extra; i++) number |= (uint64_t)in[at++] << (8 * i);
        if (kind == 0) {
            count = (extra ? number : count) + 1;
            for (; count; count--) {
                if (at == size || made == length) return -1;
                out[made++] = in[at++];
            }
            continue;
        }
        count = kind == 1 ? (tag >> 2 & 7) + 4 : (tag >> 2) + 1;
        if (kind == 1) number |= (uint64_t)(tag >> 5) << 8;
        if (number == 0 || number > made) return -1;
        for (; count; count--) {
            if (made == length) return -1;
            out[made] = out[made - number];
            made++;
        }
    }
    return made == length ? 0 : -1;
}

static void decode(const uint8_t *block, size_t size) {
    size_t length;
    if (!kw_snappy_length(block, size, &length)) return;
    if (length > (size / 3 + 1) * 64) broken("a length that the input cannot make");
    uint8_t *exact = allocate(size); /* a read beyond the block shows */
    if (size) memcpy(exact, block, size);
    uint8_t *fast = allocate(length + KW_SNAPPY_SLACK), *slow = allocate(length);
    int code = kw_snappy_decode(exact, size, fast, length);
    if (code != slowly(block, size, slow, length)) broken("only one of the two decoders takes the block");
    if (!code && memcmp(fast, slow, length)) broken("the two decoders differ");
    free(exact);
    free(fast);
    free(slow);
}

static void encode(const uint8_t *data, size_t size) {
    uint8_t *packed = allocate(kw_snappy_bound(size)), *plain = allocate(size + KW_SNAPPY_SLACK);
    size_t length, made = kw_snappy_encode(data, size, packed);
    if (made > kw_snappy_bound(size)) broken("more than the bound");
    if (!kw_snappy_length(packed, made, &length) || length != size) broken("another length");
    if (kw_snappy_decode(packed, made, plain, size)) broken("the decoder refuses what the encoder made");
    if (size && memcmp(plain, data, size)) broken("encoding and decoding changes the data");
    free(packed);
    free(plain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    if (data[0] & 1)
        encode(data + 1, size - 1);
    else
        decode(data + 1, size - 1);
    return 0;
}
