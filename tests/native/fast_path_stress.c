/* Responses that the I/O thread queues (fast_path.c, by the response filter of loop.c), under an engine that seeks,
 * forgets, gives up, detaches and attaches, and readers that wait, read halves and notify. Usage: fast_path_stress SEED
 * ROUNDS
 *
 * Invariant: each place's offsets come once and in order from where it was last sought, from whichever thread queued
 * them; the engine is notified of every response, also of those that readers have to pass on; no filter runs after it
 * was taken off; at the end nothing is charged and no buffer is left. */
#include "check.h"

#include "kafwire/consumer/fetch/native/fast_path.h"
#include "kafwire/runtime/native/loop.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SOURCES = 2, EACH = 3, PLACES = SOURCES * EACH, TURNS = 60, SEEKS = 200, HEADER = 61, MOST = 40, CLAIMED = 1 };
enum { PARTITION = 4 + 8, MAX_FRAME = 4 << 20, WAIT_MS = 20000, COOKIE = 7, LEAST = 100 };

static kw_pool *pool;
static uint64_t fed, left_over, wakes, seeks, read_slices; /* for the last line: a stress that does nothing shows */
static const uint8_t TOPIC[16] = "the topic's id!";
static const kw_partition_layout LAYOUT = {30, 4, 0, 0, 4, 6, 14, 0}; /* of version 17, as `make_response` writes it */

static void count(uint64_t *counter) { __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED); }

static void put_u64(uint8_t *p, uint64_t value) {
    put_u32(p, (uint32_t)(value >> 32));
    put_u32(p + 4, (uint32_t)value);
}

static int64_t get_i64(const uint8_t *p) { return (int64_t)((uint64_t)get_u32(p) << 32 | get_u32(p + 4)); }

/* ---- the peer: responds to each request at once, with batches from the offsets that it names ---- */

typedef struct peer {
    int fd;
    dice d;
    pthread_t thread;
} peer;

static uint8_t *put_uvarint(uint8_t *p, uint32_t value) {
    for (; value > 127; value >>= 7) *p++ = (uint8_t)(value | 128);
    *p++ = (uint8_t)value;
    return p;
}

static uint8_t *put_batch(uint8_t *p, int64_t base, uint32_t records, uint32_t padding) {
    memset(p, 0, HEADER + padding);
    put_u64(p, (uint64_t)base);
    put_u32(p + 8, HEADER - 12 + padding);
    put_u32(p + 12, 3);
    p[16] = 2;
    put_u32(p + 23, records - 1);
    return p + HEADER + padding;
}

/* Version 17. Some partitions have an aborted transaction, and some responses a tagged field: those are the
 * engine's. */
static size_t make_response(dice *d, uint8_t *out, uint32_t id, const uint8_t *asked, uint32_t partitions) {
    static const uint8_t head[11] = {0};
    uint8_t *records = malloc(1 << 20), *p = out + 4;
    CHECK(records);
    put_u32(p, id);
    memcpy(p + 4, head, sizeof head);
    p = put_uvarint(p + 4 + sizeof head, 2);
    memcpy(p, TOPIC, 16);
    p = put_uvarint(p + 16, partitions + 1);
    for (uint32_t i = 0; i < partitions; i++) {
        uint8_t *end = records;
        int64_t offset = get_i64(asked + i * PARTITION + 4);
        for (uint64_t n = below(d, 4); n; n--) {
            uint32_t more = 1 + (uint32_t)below(d, 4);
            end = put_batch(end, offset, more, below(d, 60) ? (uint32_t)below(d, 40) : 70000);
            offset += more;
        }
        memcpy(p, asked + i * PARTITION, 4);
        memset(p + 4, 0, 26);
        put_u64(p + 6, (uint64_t)1 << 60);
        int aborted = below(d, 6) == 0;
        p = put_uvarint(p + 30, 1 + (uint32_t)aborted);
        memset(p, 0, 17);
        p += 17 * aborted;
        memset(p, 0xff, 4);
        p = put_uvarint(p + 4, (uint32_t)(end - records) + 1);
        memcpy(p, records, (size_t)(end - records));
        p += end - records;
        *p++ = 0;
    }
    *p++ = 0;
    int tagged = below(d, 10) == 0;
    *p++ = (uint8_t)tagged;
    if (tagged) {
        *p++ = 9;
        *p++ = 0;
    }
    free(records);
    put_u32(out, (uint32_t)(p - out - 4));
    return (size_t)(p - out);
}

static int move(int fd, uint8_t *data, size_t size, int out) {
    while (size) {
        ssize_t n = out ? send(fd, data, size, MSG_NOSIGNAL) : recv(fd, data, size, 0);
        if (n <= 0) return -1;
        data += n;
        size -= (size_t)n;
    }
    return 0;
}

static void *run_peer(void *argument) {
    peer *p = argument;
    uint8_t *response = malloc(MAX_FRAME), asked[8 + EACH * PARTITION];
    CHECK(response);
    while (!move(p->fd, asked, 8, 0)) {
        uint32_t size = get_u32(asked);
        CHECK(size >= 4 && size <= 4 + EACH * PARTITION);
        if (move(p->fd, asked + 8, size - 4, 0)) break;
        if (move(p->fd, response, make_response(&p->d, response, get_u32(asked + 4), asked + 8, (size - 4) / PARTITION), 1)) break;
    }
    free(response);
    close(p->fd);
    return NULL;
}

/* ---- readers ---- */

typedef struct shared {
    kw_loop *loop;
    kw_queue *queue;
    kw_place *places[PLACES];
    int64_t sought[PLACES][SEEKS + 1]; /* by generation; a place's reader sees it by way of the queue's lock */
} shared;

typedef struct reader {
    shared *all;
    kw_place *only;
    dice d;
    pthread_t thread;
    uint32_t generation[PLACES];
    int64_t next[PLACES];
} reader;

static void pay(reader *r) {
    if (kw_queue_owed(r->all->queue)) {
        count(&wakes);
        CHECK(!kw_loop_tell(r->all->loop));
    }
}

/* Reads a part of a slice; up to where. */
static size_t look(reader *r, kw_records *slice, int64_t *offset) {
    int32_t number = kw_place_number(slice->place);
    size_t at = 0;
    count(&read_slices);
    if (slice->generation != r->generation[number]) {
        CHECK(slice->generation > r->generation[number]);
        r->generation[number] = slice->generation;
        r->next[number] = r->all->sought[number][slice->generation];
    }
    *offset = r->next[number];
    do {
        const uint8_t *batch = slice->data + at;
        CHECK(slice->size - at >= HEADER && get_i64(batch) == *offset);
        *offset += get_u32(batch + 23) + 1;
        at += 12 + get_u32(batch + 8);
        CHECK(at <= slice->size);
    } while (at < slice->size && below(&r->d, 5));
    r->next[number] = *offset;
    return at;
}

static void *run_reader(void *argument) {
    reader *r = argument;
    kw_records slice;
    for (;;) {
        int got = kw_queue_pop(r->all->queue, r->only, &slice, below(&r->d, 4) ? 100 : 0);
        if (got == KW_QUEUE_ENDED) return NULL;
        CHECK(got == KW_QUEUE_RECORDS || got == KW_QUEUE_IDLE);
        if (got == KW_QUEUE_RECORDS) {
            CHECK(!r->only || slice.place == r->only);
            int64_t offset;
            size_t used = look(r, &slice, &offset);
            if (used == slice.size && kw_queue_next(r->all->queue, &slice, offset)) used = look(r, &slice, &offset);
            if (kw_queue_done(r->all->queue, &slice, used, offset, 0) & KW_DONE_TELL) CHECK(!kw_loop_post(r->all->loop, COOKIE));
        }
        pay(r);
    }
}

/* ---- the engine ---- */

typedef struct cursor {
    kw_place *place;
    uint32_t generation;
    int64_t position, sent; /* sent: the offset that the request in flight names, or -1 */
} cursor;

typedef struct source {
    shared *all;
    kw_fast_path *fast_path;
    uint32_t connection;
    uint64_t token;
    int first; /* of its places */
    int in_flight, attached;
    cursor cursors[EACH];
    dice d;
} source;

static void attach(source *s) {
    CHECK(!kw_loop_set_response_filter(s->all->loop, s->connection, kw_fast_path_take, s->fast_path));
    s->attached = 1;
}

static void absorb(source *s, const kw_taken *taken) {
    cursor *c = &s->cursors[taken->number - s->first];
    if (c->sent < 0 || taken->generation != c->generation || taken->start != c->position) return;
    c->position = taken->next_offset;
    c->sent = -1;
    count(&fed);
}

static void seek(source *s, cursor *c) {
    int32_t number = kw_place_number(c->place);
    if (c->generation == SEEKS) return;
    count(&seeks);
    /* before the queue knows of the generation: readers look it up then */
    s->all->sought[number][c->generation + 1] = c->position = (int64_t)below(&s->d, 1000000);
    c->generation = kw_place_reset(s->all->queue, c->place, c->position);
}

static void ask(source *s) {
    kw_buf *request = kw_buf_new(pool, 4 + EACH * PARTITION);
    int error;
    CHECK(request);
    request->size = 4;
    s->token++;
    put_u32(request->data, (uint32_t)s->token);
    for (int i = 0; i < EACH; i++) {
        cursor *c = &s->cursors[i];
        size_t bytes;
        c->sent = -1;
        if (kw_place_queued(s->all->queue, c->place, &bytes, 0) >= MOST) {
            kw_taken taken;
            if (kw_fast_path_forget(s->fast_path, TOPIC, i, s->first + i, &taken)) absorb(s, &taken);
            continue;
        }
        CHECK(!kw_fast_path_expect(s->fast_path, TOPIC, i, c->place, c->generation, c->sent = c->position));
        put_u32(request->data + request->size, (uint32_t)i);
        put_u64(request->data + request->size + 4, (uint64_t)c->position);
        request->size += PARTITION;
    }
    kw_fast_path_arm(s->fast_path, s->token, 0, &LAYOUT);
    if (!s->attached) attach(s);
    error = kw_loop_submit(s->all->loop, s->connection, s->token, (int32_t)s->token, &request, 1, 1);
    CHECK(!error);
    kw_buf_unref(request);
    s->in_flight = 1;
}

/* While the request is in flight, or has a response that the engine has not seen. */
static void disturb(source *s) {
    cursor *c = &s->cursors[below(&s->d, EACH)];
    kw_taken taken;
    int32_t n;
    switch (below(&s->d, 10)) {
    case 0:
    case 1:
        seek(s, c);
        break;
    case 2:
        if (kw_fast_path_forget(s->fast_path, TOPIC, (int32_t)(c - s->cursors), kw_place_number(c->place), &taken)) absorb(s, &taken);
        c->sent = -1;
        break;
    case 3: { /* given up: what it brought counts, what it would bring does not */
        kw_taken *all = kw_fast_path_taken(s->fast_path, s->token, &n);
        for (int32_t i = 0; i < n; i++) absorb(s, &all[i]);
        free(all);
        for (int i = 0; i < EACH; i++) s->cursors[i].sent = -1;
        break;
    }
    case 4: /* another fast path; what this one has taken must be known before */
        CHECK(!kw_loop_set_response_filter(s->all->loop, s->connection, NULL, NULL));
        {
            kw_taken *all = kw_fast_path_taken(s->fast_path, s->token, &n);
            for (int32_t i = 0; i < n; i++) absorb(s, &all[i]);
            free(all);
        }
        kw_fast_path_free(s->fast_path);
        CHECK((s->fast_path = kw_fast_path_new(s->all->queue)));
        s->attached = 0;
        break;
    default:
        kw_queue_bytes(s->all->queue, 1);
        kw_queue_compact(s->all->queue);
    }
}

/* The rest of a response, as make_response wrote it. */
static void apply_response(source *s, kw_buf *frame) {
    int32_t n;
    int pushed = 0;
    kw_taken *taken = kw_fast_path_taken(s->fast_path, s->token, &n);
    for (int32_t i = 0; i < n; i++) absorb(s, &taken[i]);
    free(taken);
    const uint8_t *p = frame->data + 4 + 11 + 1 + 16;
    for (int partitions = *p++ - 1; partitions; partitions--) {
        cursor *c = &s->cursors[get_u32(p)];
        p += 30;
        p += 17 * (*p - 1) + 1 + 4;
        size_t size = 0;
        for (int shift = 0;; shift += 7) {
            size |= (size_t)(*p & 127) << shift;
            if (*p++ < 128) break;
        }
        size--;
        if (size && c->sent >= 0 && c->sent == c->position) {
            kw_records slice = {.frame = frame,
                                .data = p,
                                .size = size,
                                .place = c->place,
                                .generation = c->generation,
                                .start = c->position,
                                .end = INT64_MAX};
            kw_buf_ref(frame);
            CHECK(!kw_queue_push(s->all->queue, &slice));
            pushed = 1;
            count(&left_over);
            for (size_t at = 0; at < size; at += 12 + get_u32(p + at + 8)) c->position += get_u32(p + at + 23) + 1;
        }
        c->sent = -1;
        p += size + 1;
    }
    if (pushed) kw_queue_seal(s->all->queue);
    s->in_flight = 0;
}

static void drain(shared *all, source *sources) {
    int error;
    kw_completion *each = kw_loop_drain(all->loop, &error), *next;
    CHECK(!error);
    for (; each; each = next) {
        next = each->next;
        CHECK(each->kind != KW_CLOSED);
        for (int i = 0; each->kind == KW_RESPONSE && i < SOURCES; i++)
            if (sources[i].connection == each->connection) {
                CHECK(sources[i].token == each->token && sources[i].in_flight);
                apply_response(&sources[i], each->frame);
            }
        kw_completion_free(each);
    }
}

static void one_round(dice *d) {
    static shared all;
    static reader readers[2];
    source sources[SOURCES];
    peer peers[SOURCES];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    int error, listening = socket(AF_INET, SOCK_STREAM, 0);
    memset(&all, 0, sizeof all);
    memset(readers, 0, sizeof readers);
    CHECK(!bind(listening, (struct sockaddr *)&address, sizeof address) && !listen(listening, SOURCES));
    CHECK(!getsockname(listening, (struct sockaddr *)&address, &size));
    CHECK((all.loop = kw_loop_new(pool, &error)) && (all.queue = kw_queue_new()));
    for (int i = 0; i < PLACES; i++) CHECK((all.places[i] = kw_queue_add(all.queue, NULL)));
    kw_place_claim(all.queue, all.places[CLAIMED], 1);
    for (int i = 0; i < SOURCES; i++) {
        source *s = &sources[i];
        *s = (source){.all = &all, .first = i * EACH, .d = roll(d)};
        for (int j = 0; j < EACH; j++) s->cursors[j] = (cursor){.place = all.places[s->first + j], .sent = -1};
        CHECK((s->fast_path = kw_fast_path_new(all.queue)));
        s->connection = (uint32_t)kw_loop_connect(all.loop, (struct sockaddr *)&address, sizeof address, NULL, MAX_FRAME, 0, 0);
        peers[i] = (peer){.fd = accept(listening, NULL, NULL), .d = roll(d)};
        CHECK(peers[i].fd >= 0 && !pthread_create(&peers[i].thread, NULL, run_peer, &peers[i]));
    }
    close(listening);
    for (int i = 0; i < 2; i++) {
        readers[i].all = &all;
        readers[i].only = i ? all.places[CLAIMED] : NULL;
        readers[i].d = roll(d);
        CHECK(!pthread_create(&readers[i].thread, NULL, run_reader, &readers[i]));
    }
    /* In step: both send a request, both get a response. So a lost notice is not hidden by a later one. */
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < SOURCES; i++) ask(&sources[i]);
        if (below(d, 2)) disturb(&sources[below(d, SOURCES)]);
        while (sources[0].in_flight || sources[1].in_flight) {
            struct pollfd readable = {.fd = kw_loop_fileno(all.loop), .events = POLLIN};
            CHECK(poll(&readable, 1, WAIT_MS) == 1); /* else a response is there, and its notice was lost */
            if (below(d, 3) == 0) disturb(&sources[below(d, SOURCES)]);
            drain(&all, sources);
        }
    }
    for (int i = 0; i < SOURCES; i++) CHECK(!kw_loop_set_response_filter(all.loop, sources[i].connection, NULL, NULL));
    for (int i = 0; i < SOURCES; i++) kw_fast_path_free(sources[i].fast_path);
    kw_queue_end(all.queue);
    for (int i = 0; i < 2; i++) pthread_join(readers[i].thread, NULL);
    for (int i = 0; i < SOURCES; i++)
        for (int j = 0; j < EACH; j++) {
            cursor *c = &sources[i].cursors[j];
            CHECK(kw_place_position(all.queue, c->place) == c->position);
        }
    CHECK(kw_queue_bytes(all.queue, 0) == 0);
    kw_loop_free(all.loop);
    kw_queue_free(all.queue);
    for (int i = 0; i < SOURCES; i++) pthread_join(peers[i].thread, NULL);
    CHECK(kw_pool_live_bytes(pool) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    dice d = strtoull(argv[1], NULL, 10);
    alarm(300); /* a hang is a failure with a core, not a wait */
    pool = kw_pool_new(64 << 20);
    CHECK(pool);
    long rounds = strtol(argv[2], NULL, 10);
    for (long i = 0;; i++) {
        uint64_t counts[] = {fed, left_over, wakes, seeks, read_slices};
        if (!goes_on(i, rounds, counts, 5, LEAST)) break;
        one_round(&d);
    }
    kw_pool_trim(pool, 0);
    printf("ok: %llu fed, %llu left, %llu notified, %llu seeks, %llu read\n", (unsigned long long)fed,
           (unsigned long long)left_over, (unsigned long long)wakes, (unsigned long long)seeks,
           (unsigned long long)read_slices);
    return 0;
}
