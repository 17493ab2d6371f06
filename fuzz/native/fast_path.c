/* The fast path queues the slices that a slow reader of the protocol finds in the same bytes, or no slice.
 *
 * Input: one byte (64: the fast path expects a session), one with the expected offsets, then the frame. The queue holds
 * the slices until the check has compared them. Buffers have their exact size (`exact_buf.c`), so the sanitizer reports
 * a read beyond the frame, and a frame that is released too early. */
#include "kafwire/consumer/fetch/native/fast_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 4, SESSION = 7, TOKEN = 9 };

static void broken(const char *what) {
    fprintf(stderr, "INVARIANT BROKEN: %s\n", what);
    abort();
}

/* ---- the slow reader: byte by byte ---- */

typedef struct slow {
    const uint8_t *data;
    size_t at, size;
    int bad;
} slow;

static uint8_t octet(slow *s) {
    if (s->at < s->size) return s->data[s->at++];
    s->bad = 1;
    return 0;
}

static int64_t integer(slow *s, int size) {
    uint64_t value = 0;
    for (int i = 0; i < size; i++) value = value * 256 + octet(s);
    if (size < 8 && value >> (8 * size - 1)) value -= (uint64_t)1 << (8 * size);
    return (int64_t)value;
}

static uint64_t varint(slow *s) {
    uint64_t value = 0, weight = 1;
    for (int i = 0; i < 5; i++, weight *= 128) {
        uint8_t byte = octet(s);
        value += weight * (byte % 128);
        if (byte < 128) {
            if (value > UINT32_MAX) s->bad = 1;
            return value;
        }
    }
    s->bad = 1;
    return 0;
}

static void pass(slow *s, uint64_t size) {
    if (size > s->size - s->at)
        s->bad = 1;
    else
        s->at += size;
}

typedef struct finding {
    int partition, times;
    int64_t error, watermark, preferred;
    uint64_t aborted;
    size_t position, size;
} finding;

/* Fills `found` by partition, of the topic whose id is zero; 0: no response, or one that needs the engine. */
static int read_response(slow *s, int32_t session, finding *found) {
    integer(s, 4);
    if (varint(s)) return 0;
    integer(s, 4);
    if (integer(s, 2)) return 0;
    int32_t named = (int32_t)integer(s, 4);
    if (session && named && named != session) return 0;
    uint64_t topics = varint(s);
    if (!topics) return 0;
    while (--topics && !s->bad) {
        int64_t high = integer(s, 8), low = integer(s, 8);
        uint64_t partitions = varint(s);
        if (!partitions) return 0;
        while (--partitions && !s->bad) {
            finding one = {.partition = (int)integer(s, 4), .error = integer(s, 2), .watermark = integer(s, 8)};
            pass(s, 16);
            one.aborted = varint(s);
            for (uint64_t i = 1; i < one.aborted && !s->bad; i++) {
                pass(s, 16);
                if (varint(s)) return 0;
            }
            one.preferred = integer(s, 4);
            uint64_t size = varint(s);
            one.position = s->at;
            one.size = size ? size - 1 : 0;
            pass(s, one.size);
            if (varint(s)) return 0;
            int known = !high && !low && one.partition >= 0 && one.partition < PLACES;
            if (!known && one.size) return 0;
            if (!known) continue;
            if (found[one.partition].times) return 0;
            one.times = 1;
            found[one.partition] = one;
        }
        if (varint(s)) return 0;
    }
    if (varint(s)) return 0;
    return !s->bad && s->at == s->size;
}

/* Returns the size of the sound, whole batches, and the offset after them in `next`; 0: none, or the engine decides. */
static size_t read_batches(const uint8_t *data, size_t size, int64_t offset, int64_t watermark, int64_t *next,
                           int32_t *epoch) {
    slow s = {.data = data, .size = size};
    size_t whole = 0;
    int64_t after = -1;
    while (s.at + 12 <= size) {
        int64_t base = integer(&s, 8), length = integer(&s, 4);
        if (length < 14) return 0;
        if (s.at + 4 >= size) break;
        int32_t leader = (int32_t)integer(&s, 4);
        int magic = (int8_t)octet(&s);
        if (magic < 0 || magic > 2 || length < (magic == 2 ? 49 : magic == 1 ? 22 : 14)) return 0;
        if ((uint64_t)length > size - whole - 12) break;
        if (magic != 2) return 0;
        pass(&s, 6);
        int64_t delta = integer(&s, 4);
        pass(&s, 30);
        int64_t records = integer(&s, 4);
        if (base < 0 || delta < 0 || base > INT64_MAX - 1 - delta || base < after) return 0;
        int64_t expected = after > offset ? after : offset;
        if (watermark >= 0 && base > watermark && base > expected) return 0;
        if (watermark >= 0 && base + delta >= watermark && records != delta + 1) return 0;
        if (!whole && base + delta < offset) return 0;
        after = base + delta + 1;
        *epoch = leader;
        whole += 12 + (size_t)length;
        s.at = whole;
    }
    *next = after;
    return whole;
}

static void check(kw_pool *pool, const uint8_t *data, size_t size, int32_t session, unsigned wants) {
    static const uint8_t topic[16];
    /* Versions 13 to 18, as `read_response` reads them. */
    static const kw_partition_layout layout = {30, 4, 0, 0, 4, 6, 14, 0};
    kw_queue *queue = kw_queue_new();
    kw_fast_path *fast_path = kw_fast_path_new(queue);
    kw_place *places[PLACES];
    kw_buf *frame = kw_buf_new(pool, size);
    finding found[PLACES];
    int32_t count;
    if (!queue || !fast_path || !frame) abort();
    if (size) memcpy(frame->data, data, size);
    frame->size = size;
    for (int i = 0; i < PLACES; i++) {
        places[i] = kw_queue_add(queue, NULL);
        if (!places[i] || kw_fast_path_expect(fast_path, topic, i, places[i], 0, (int64_t)(wants * (unsigned)i))) abort();
    }
    kw_fast_path_arm(fast_path, TOKEN, session, &layout);
    if (kw_fast_path_take(fast_path, TOKEN, frame)) broken("no reader waits, and a reader is to be notified");
    kw_taken *taken = kw_fast_path_taken(fast_path, TOKEN, &count);
    memset(found, 0, sizeof found);
    slow s = {.data = data, .size = size};
    if (!read_response(&s, session, found)) memset(found, 0, sizeof found);
    int32_t expected = 0;
    for (int i = 0; i < PLACES; i++) {
        int64_t start = (int64_t)(wants * (unsigned)i), next = -1;
        int32_t epoch = -1;
        size_t whole = 0;
        if (found[i].size && !found[i].error && found[i].aborted < 2 && found[i].preferred < 0)
            whole = read_batches(data + found[i].position, found[i].size, start, found[i].watermark, &next, &epoch);
        kw_records slice;
        int got = kw_queue_pop(queue, places[i], &slice, 0);
        if (!whole && got != KW_QUEUE_IDLE) broken("something was queued");
        if (!whole) continue;
        expected++;
        if (got != KW_QUEUE_RECORDS) broken("sound records were not queued");
        if (slice.frame != frame || slice.size != whole || slice.start != start || slice.generation || slice.aborted ||
            slice.data != frame->data + found[i].position)
            broken("something else was queued");
        int reports = 0;
        for (int32_t j = 0; j < count; j++)
            reports += taken[j].number == i && taken[j].next_offset == next && taken[j].leader_epoch == epoch &&
                       taken[j].size == whole && taken[j].start == start;
        if (reports != 1) broken("queued slices are reported otherwise");
        kw_queue_done(queue, &slice, whole, next, 0);
        if (kw_queue_pop(queue, places[i], &slice, 0) != KW_QUEUE_IDLE) broken("something was queued twice");
    }
    if (count != expected) broken("more slices are reported than were queued");
    if (kw_queue_bytes(queue, 0)) broken("a frame that was read is still charged");
    free(taken);
    kw_fast_path_free(fast_path);
    kw_queue_free(queue);
    kw_buf_unref(frame);
    if (kw_pool_live_bytes(pool)) broken("a buffer is left");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static kw_pool *pool;
    if (!pool) pool = kw_pool_new(0);
    if (size < 2) return 0;
    check(pool, data + 2, size - 2, data[0] & 64 ? SESSION : 0, data[1]);
    return 0;
}
