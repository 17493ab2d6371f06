/* The frame core against a model: random requests, a peer that responds to them, bytes cut anywhere in both directions,
 * and an end at any point. Usage: frame_test SEED ROUNDS
 *
 * Invariant: the peer parses the queued requests; every response reaches its request, in order; requests without a
 * response complete with their last byte; whatever happens, no buffer is left when the frames are cleared. */
#include "check.h"

#include "kafwire/runtime/native/frame.h"

#include <errno.h>
#include <string.h>

static kw_pool *pool;

typedef struct bytes {
    uint8_t *data;
    size_t size, room, read;
} bytes;

static void put(bytes *b, const void *data, size_t size) {
    if (b->size + size > b->room) {
        b->room = (b->size + size) * 2;
        b->data = realloc(b->data, b->room);
        CHECK(b->data);
    }
    memcpy(b->data + b->size, data, size);
    b->size += size;
}

static kw_buf *segment(uint32_t key, uint32_t from, uint32_t size) {
    kw_buf *buf = kw_buf_new(pool, size);
    CHECK(buf);
    fill_pattern(buf->data, key, from, size);
    buf->size = size;
    return buf;
}

/* A request of `size` pattern bytes in random segments, empty ones among them; the buffers are only the request's. */
static kw_request *request_of(dice *d, uint32_t key, uint32_t size, int expect) {
    kw_buf *segments[64];
    int count = 0, error = 1;
    for (uint32_t from = 0; from < size || !count;) {
        uint32_t part = count == 63 ? size - from : (uint32_t)below(d, size - from + 1);
        segments[count++] = segment(key, from, part);
        from += part;
        if (count == 64) break;
    }
    kw_request *request = kw_request_new(key, (int32_t)key, segments, count, expect, &error);
    CHECK(request && !error);
    for (int i = 0; i < count; i++) kw_buf_unref(segments[i]);
    return request;
}

typedef struct model {
    uint32_t request_size, response_size;
    int expect;
} model;

enum { REQUESTS = 40 };

static uint32_t some_size(dice *d) {
    switch (below(d, 8)) {
    case 0: return 4 + (uint32_t)below(d, 200000);
    case 1: return (16 << 10) - 2 + (uint32_t)below(d, 4); /* around the limit of the stash */
    case 2: return 4;
    default: return 4 + (uint32_t)below(d, 300);
    }
}

static void random_round(dice *d) {
    kw_frames frames;
    model requests[REQUESTS];
    bytes wire_out = {.data = malloc(64), .room = 64}, wire_in = {.data = malloc(64), .room = 64};
    uint32_t queued = 0, parsed = 0, sent_completions = 0, next_response = 0, next_sent = 0;
    uint64_t ends_at = below(d, 4) ? UINT64_MAX : below(d, 2000); /* a quarter of the rounds ends somewhere */
    CHECK(wire_out.data && wire_in.data);
    kw_frames_init(&frames, pool, 1 << 20);
    for (uint64_t step = 0; step < ends_at; step++) {
        uint64_t what = below(d, 4);
        if (what == 0 && queued < REQUESTS) {
            model *m = &requests[queued];
            *m = (model){some_size(d), some_size(d), below(d, 5) != 0};
            kw_frames_queue(&frames, request_of(d, queued, m->request_size, m->expect));
            queued++;
        } else if (what == 1) {
            struct iovec slices[5];
            int limit = 1 + (int)below(d, 5), n = kw_frames_to_send(&frames, slices, limit);
            CHECK(n <= limit && (n > 0) == (frames.pending_bytes > 0));
            size_t offered = 0;
            for (int i = 0; i < n; i++) {
                CHECK(slices[i].iov_len > 0);
                offered += slices[i].iov_len;
            }
            size_t taken = offered ? (size_t)below(d, offered + 1) : 0, left = taken;
            for (int i = 0; i < n && left; i++) {
                size_t part = slices[i].iov_len < left ? slices[i].iov_len : left;
                put(&wire_out, slices[i].iov_base, part);
                left -= part;
            }
            kw_frames_sent(&frames, taken);
        } else if (what == 2) { /* the peer reads, checks and responds to one request */
            size_t here = wire_out.size - wire_out.read;
            uint8_t *start = wire_out.data + wire_out.read;
            if (here < 4 || here - 4 < get_u32(start)) continue;
            model *m = &requests[parsed];
            CHECK(get_u32(start) == m->request_size);
            CHECK(is_pattern(start + 4, parsed, 0, m->request_size));
            wire_out.read += 4 + m->request_size;
            if (m->expect) {
                uint8_t head[8];
                uint8_t *body = malloc(m->response_size);
                CHECK(body);
                put_u32(head, m->response_size);
                put_u32(head + 4, parsed);
                fill_pattern(body, parsed ^ 0x5555, 4, m->response_size - 4);
                put(&wire_in, head, 8);
                put(&wire_in, body, m->response_size - 4);
                free(body);
            }
            parsed++;
        } else { /* receive */
            size_t here = wire_in.size - wire_in.read, room, taken;
            uint8_t *space;
            CHECK(!kw_frames_receive_space(&frames, &space, &room) && room > 0);
            taken = here < room ? here : room;
            if (below(d, 2) && taken) taken = 1 + (size_t)below(d, taken);
            if (!taken) continue;
            memcpy(space, wire_in.data + wire_in.read, taken);
            wire_in.read += taken;
            CHECK(!kw_frames_received(&frames, taken));
        }
        kw_completion *each = frames.done.first, *next;
        frames.done.first = frames.done.last = NULL;
        for (; each; each = next) {
            next = each->next;
            if (each->kind == KW_RESPONSE) {
                while (!requests[next_response].expect) next_response++;
                CHECK(each->token == next_response);
                uint32_t size = requests[next_response].response_size;
                CHECK(each->frame->size == size && get_u32(each->frame->data) == next_response);
                CHECK(is_pattern(each->frame->data + 4, next_response ^ 0x5555, 4, size - 4));
                next_response++;
            } else {
                CHECK(each->kind == KW_SENT && !each->frame);
                while (requests[next_sent].expect) next_sent++;
                CHECK(each->token == next_sent);
                next_sent++;
                sent_completions++;
            }
            kw_request_free((kw_request *)each);
        }
        if (queued == REQUESTS && !frames.oldest) {
            uint32_t without = 0;
            for (int i = 0; i < REQUESTS; i++) without += !requests[i].expect;
            CHECK(sent_completions == without && !frames.pending_bytes && !kw_frames_inside_frame(&frames));
            CHECK(frames.frames_out == REQUESTS && frames.frames_in == REQUESTS - without);
            CHECK(!frames.newest && !frames.sending && !frames.last_owed);
            break;
        }
    }
    kw_frames_clear(&frames);
    free(wire_out.data);
    free(wire_in.data);
    CHECK(kw_pool_live_bytes(pool) == 0);
}

/* Feeds `size` bytes in pieces of `piece`; how many were taken before the connection was poisoned. */
static size_t feed(kw_frames *frames, const uint8_t *data, size_t size, size_t piece) {
    size_t fed = 0;
    while (fed < size) {
        uint8_t *space;
        size_t room;
        if (kw_frames_receive_space(frames, &space, &room)) break;
        size_t part = size - fed < piece ? size - fed : piece;
        part = part < room ? part : room;
        memcpy(space, data + fed, part);
        fed += part;
        if (kw_frames_received(frames, part)) break;
    }
    return fed;
}

static void send_all(kw_frames *frames) {
    struct iovec slices[4];
    for (int n; (n = kw_frames_to_send(frames, slices, 4)) > 0;)
        for (int i = 0; i < n; i++) kw_frames_sent(frames, slices[i].iov_len);
}

static void poisoned(const char *expected, int why, const uint8_t *data, size_t size, uint32_t max_frame, int owed) {
    for (size_t piece = 1; piece <= size; piece++) {
        dice d = 1;
        char reason[160];
        kw_frames frames;
        uint8_t *space;
        size_t room;
        struct iovec slice;
        kw_frames_init(&frames, pool, max_frame);
        for (int i = 0; i < owed; i++) kw_frames_queue(&frames, request_of(&d, 7 + (uint32_t)i, 20, 1));
        if (owed) send_all(&frames);
        kw_frames_queue(&frames, request_of(&d, 99, 20, 1));
        kw_frames_sent(&frames, 3); /* partly out */
        feed(&frames, data, size, piece);
        CHECK(frames.poison == why);
        kw_frames_reason(&frames, reason, sizeof reason);
        if (strcmp(reason, expected)) fprintf(stderr, "reason: %s\n", reason);
        CHECK(!strcmp(reason, expected));
        CHECK(kw_frames_receive_space(&frames, &space, &room) == -1);
        CHECK(kw_frames_received(&frames, 1) == -1 && kw_frames_to_send(&frames, &slice, 1) == 0);
        kw_frames_clear(&frames);
        CHECK(kw_pool_live_bytes(pool) == 0);
    }
}

static void poisons(void) {
    uint8_t b[8];
#define BYTES(size, correlation) (put_u32(b, (uint32_t)(size)), put_u32(b + 4, (uint32_t)(correlation)), b)
    poisoned("bad frame: size prefix -1, but a response has at least 4 bytes", KW_POISON_SIZE, BYTES(-1, 7), 8, 100, 1);
    poisoned("bad frame: size prefix -2147483648, but a response has at least 4 bytes", KW_POISON_SIZE,
             BYTES(INT32_MIN, 7), 8, 100, 1);
    poisoned("bad frame: size prefix 3, but a response has at least 4 bytes", KW_POISON_SIZE, BYTES(3, 7), 8, 100, 1);
    poisoned("bad frame: size prefix 0, but a response has at least 4 bytes", KW_POISON_SIZE, BYTES(0, 7), 8, 100, 1);
    poisoned("bad frame: size prefix 101 exceeds the limit of 100 bytes", KW_POISON_OVERSIZE, BYTES(101, 7), 8, 100, 1);
    poisoned("bad response: correlation id 8, but the oldest pending request has 7", KW_POISON_CORRELATION,
             BYTES(4, 8), 8, 100, 2);
    poisoned("bad response: correlation id 1, but no request is pending", KW_POISON_UNSOLICITED, BYTES(4, 1), 8, 100, 0);
    poisoned("bad response: correlation id 99 is that of a request not fully sent", KW_POISON_UNSENT,
             BYTES(4, 99), 8, 100, 0);
}

/* A prefix alone commits nothing; afterwards the allocated memory stays within the promise at the top of frame.c. */
static void growth(uint32_t size) {
    dice d = 1;
    kw_frames frames;
    uint8_t head[8], *space;
    size_t room, received = 8;
    kw_frames_init(&frames, pool, size);
    kw_frames_queue(&frames, request_of(&d, 1, 20, 1));
    send_all(&frames);
    put_u32(head, size);
    put_u32(head + 4, 1);
    CHECK(feed(&frames, head, 7, 7) == 7);
    CHECK(kw_pool_live_bytes(pool) <= 64 << 10); /* the stash */
    CHECK(feed(&frames, head + 7, 1, 1) == 1);
    while (!frames.done.first) {
        CHECK(!kw_frames_receive_space(&frames, &space, &room));
        size_t justified = received * 4 < (size_t)32 << 20 ? (size_t)32 << 20 : received * 4;
        CHECK(kw_pool_live_bytes(pool) <= justified + (64 << 10));
        if (room > 5000000) room = 5000000;
        memset(space, (int)(received % 251), room);
        CHECK(!kw_frames_received(&frames, room));
        received += room;
    }
    CHECK(received == size + 4u);
    kw_request *request = (kw_request *)frames.done.first;
    kw_buf *frame = request->done.frame;
    frames.done.first = frames.done.last = NULL;
    CHECK(frame->size == size && frame->data[size - 1] != 0);
    kw_request_free(request);
    kw_frames_clear(&frames);
    CHECK(kw_pool_live_bytes(pool) == 0);
    kw_pool_trim(pool, 0);
}

static void bad_requests(void) {
    int error = 0;
    kw_buf *empty = kw_buf_new(pool, 1), *huge = kw_buf_new(pool, 1), *pair[2] = {huge, huge};
    CHECK(!kw_request_new(1, 1, &empty, 1, 1, &error) && error == -EINVAL);
    CHECK(!kw_request_new(1, 1, &empty, 0, 1, &error) && error == -EINVAL);
    CHECK(!kw_request_new(1, 1, &empty, KW_MAX_SLICES + 1, 1, &error) && error == -EINVAL);
    huge->size = (size_t)INT32_MAX; /* never read */
    CHECK(!kw_request_new(1, 1, pair, 2, 1, &error) && error == -EINVAL);
    huge->size = (size_t)INT32_MAX + 1;
    CHECK(!kw_request_new(1, 1, &huge, 1, 1, &error) && error == -EINVAL);
    kw_buf_unref(empty);
    kw_buf_unref(huge);
    CHECK(kw_pool_live_bytes(pool) == 0);
}

/* The request holds its buffers until its last byte is out, and not longer. */
static void ownership(void) {
    kw_frames frames;
    int error;
    kw_buf *buf = segment(5, 0, 100);
    kw_frames_init(&frames, pool, 100);
    kw_frames_queue(&frames, kw_request_new(5, 5, &buf, 1, 1, &error));
    kw_buf_unref(buf);
    for (int i = 0; i < 104; i++) {
        CHECK(kw_pool_live_bytes(pool) > 0);
        kw_frames_sent(&frames, 1);
    }
    CHECK(kw_pool_live_bytes(pool) == 0 && frames.oldest && !frames.sending);
    kw_frames_clear(&frames);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    dice d = strtoull(argv[1], NULL, 10);
    pool = kw_pool_new(64 << 20);
    CHECK(pool);
    ownership();
    bad_requests();
    poisons();
    growth(100 << 20);
    growth((32 << 20) + 1);
    growth(32 << 20);
    growth(17 << 20);
    for (long i = strtol(argv[2], NULL, 10); i > 0; i--) random_round(&d);
    kw_pool_trim(pool, 0);
    puts("ok");
    return 0;
}
