/* However bytes are cut, the frame core completes the same responses and is poisoned alike; and it frees all it made.
 *
 * Input: one byte of options, one of filler, four that seed the cuts, then what a broker sends. */
#include "kafwire/runtime/native/frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTIONS = 6, OWED = 5 };
/* what costs much is a matter of few inputs: buffers that are freed, fillers */
enum { FREEING = 248, FILLING = 250, BYTE_BY_BYTE = 160 };

/* Only the core's own branches are worth a place in the corpus, and counting costs. */
#pragma clang attribute push(__attribute__((no_sanitize("coverage"))), apply_to = function)

typedef struct {
    uint8_t text[1 << 18]; /* what happened, as bytes to compare */
    size_t size;
} outcome;

static kw_pool *keeping, *freeing;
static int huge; /* frames of 40 MiB: only where the input asks for it by that word, as they take milliseconds */

static void broken(const char *what) {
    fprintf(stderr, "INVARIANT BROKEN: %s\n", what);
    abort();
}

static void put(outcome *out, const void *data, size_t size) {
    if (size > sizeof out->text - out->size) broken("more comes out than has gone in");
    if (size) memcpy(out->text + out->size, data, size);
    out->size += size;
}

static void put_number(outcome *out, int64_t value) { put(out, &value, sizeof value); }

static uint32_t next(uint32_t *chance) {
    *chance = *chance * 1664525u + 1013904223u;
    return *chance >> 8;
}

/* Give the core `size` bytes as a socket would: never more than it has room for. -1: poisoned. */
static int receive(kw_frames *frames, const uint8_t *data, size_t size) {
    while (size) {
        uint8_t *space;
        size_t room;
        if (kw_frames_receive_space(frames, &space, &room)) return -1;
        if (!room) broken("no room to receive into");
        size_t taken = room < size ? room : size;
        memcpy(space, data, taken);
        if (kw_frames_received(frames, taken)) return -1;
        data += taken;
        size -= taken;
    }
    return 0;
}

/* Five requests: the options decide which of them have left, and which expect a response. */
static void ask(kw_frames *frames, kw_pool *pool, unsigned options) {
    kw_buf *segment = kw_buf_new(pool, 7);
    memcpy(segment->data, "request", 7);
    segment->size = 7;
    kw_buf *segments[] = {segment, segment};
    for (int i = 1; i <= OWED; i++) {
        int error, expects = !(options & 8 && i == 2);
        kw_request *request = kw_request_new(i, i, segments, 1 + i % 2, expects, &error);
        if (!request) broken("a request was refused");
        kw_frames_queue(frames, request);
    }
    kw_buf_unref(segment);
    size_t out = options & 16 ? frames->pending_bytes / 2 : frames->pending_bytes;
    struct iovec slices[4];
    while (out) {
        int count = kw_frames_to_send(frames, slices, 4);
        size_t offered = 0;
        for (int i = 0; i < count; i++) offered += slices[i].iov_len;
        if (!offered) broken("bytes are pending, and none are offered");
        if (offered > out) offered = out;
        kw_frames_sent(frames, offered);
        out -= offered;
    }
}

enum { WHOLE, BYTES, PIECES };

static void run(const uint8_t *data, size_t size, unsigned options, int way, uint32_t chance, outcome *out) {
    static const uint32_t limits[] = {64, 300, 20000, 70000};
    kw_pool *pool = options >= FREEING ? freeing : keeping;
    size_t live = kw_pool_live_bytes(pool);
    kw_frames frames;
    kw_frames_init(&frames, pool, huge ? 40 << 20 : limits[options & 3]);
    ask(&frames, pool, options);
    for (size_t at = 0; at < size;) {
        size_t piece = size - at;
        /* beyond the first bytes, byte by byte costs more than it can find */
        if (way == BYTES) piece = at < BYTE_BY_BYTE ? 1 : 61;
        if (way == PIECES) piece = 1 + next(&chance) % (at < BYTE_BY_BYTE ? 23 : 20011);
        if (piece > size - at) piece = size - at;
        if (receive(&frames, data + at, piece)) break;
        at += piece;
    }
    if (frames.frame && frames.frame->size >= frames.frame_size) broken("a whole frame that is not completed");
    for (const kw_completion *done = frames.done.first; done; done = done->next) {
        put_number(out, done->kind);
        put_number(out, (int64_t)done->token);
        if ((done->kind == KW_RESPONSE) != (done->frame != NULL)) broken("a response without a frame, or the reverse");
        if (done->frame) {
            put_number(out, (int64_t)done->frame->size);
            put(out, done->frame->data, done->frame->size);
        }
    }
    char reason[160];
    kw_frames_reason(&frames, reason, sizeof reason);
    put(out, reason, strlen(reason));
    put_number(out, frames.poison);
    put_number(out, frames.poison ? 0 : kw_frames_inside_frame(&frames));
    put_number(out, (int64_t)frames.frames_in);
    kw_frames_clear(&frames);
    if (kw_pool_live_bytes(pool) != live) broken("a buffer is still live");
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    keeping = kw_pool_new(1 << 20);
    freeing = kw_pool_new(0); /* so that a use after the last reference is a use after free */
    return keeping && freeing ? 0 : 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    /* zeros after the input: large frames out of small inputs */
    static const size_t fillers[] = {0, 100, 17000, 70000};
    if (size < OPTIONS) return 0;
    uint32_t chance;
    memcpy(&chance, data + 2, 4);
    huge = !memcmp(data + 2, "HUGE", 4);
    size_t filler = data[1] < FILLING ? 0 : fillers[data[1] & 3], total = size - OPTIONS + filler;
    static uint8_t stream[1 << 17];
    static outcome whole, other;
    if (total > sizeof stream) return 0;
    memcpy(stream, data + OPTIONS, size - OPTIONS);
    memset(stream + size - OPTIONS, 0, filler);
    whole.size = 0;
    run(stream, total, data[0], WHOLE, chance, &whole);
    for (int way = BYTES; way <= PIECES; way++) {
        other.size = 0;
        run(stream, total, data[0], way, chance, &other);
        if (other.size != whole.size || memcmp(other.text, whole.text, whole.size))
            broken("the outcome depends on how bytes are cut");
    }
    return 0;
}

#pragma clang attribute pop
