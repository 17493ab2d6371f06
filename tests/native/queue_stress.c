/* The queue between one engine thread and readers: places that are sought, paused, claimed, cut, watched, failed, while
 * slices are read whole, in halves, or one after the other. Usage: queue_stress SEED ROUNDS
 *
 * Invariant: a slice is read once, in the order of its place, or dropped; nothing of an older generation comes; a reader of one
 * place gets no other; a claimed place comes to its reader alone; at the end nothing is charged and no buffer is left. */
#include "check.h"

#include "kafwire/consumer/fetch/native/queue.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { PLACES = 12, OWN = 2, RING = 3, READERS = OWN + RING, PUSHES = 3000, GENERATIONS = PUSHES, MOST = 30, LEAST = 20 };

static kw_pool *pool;
static uint64_t counts[6];
enum { READ, DROPPED, JOINED, REPORTED, FAILURES, COMPACTED };

static void count(int what) { __atomic_fetch_add(&counts[what], 1, __ATOMIC_RELAXED); }

typedef struct shared {
    kw_queue *queue;
    kw_place *places[PLACES];
    /* The next offset of a place's reader; written by the thread that has its slice, so the lending is its lock. */
    struct {
        uint32_t generation;
        int64_t next;
    } at[PLACES];
    int readers[PLACES];                     /* how many have a slice of it now */
    int64_t sought[PLACES][GENERATIONS + 1]; /* by generation */
    uint32_t now[PLACES];                    /* the generation, when the engine has come back from setting it */
    uint8_t cut[PLACES][GENERATIONS + 1];
} shared;

typedef struct reader {
    shared *all;
    kw_place *only;
    dice d;
    pthread_t thread;
} reader;

/* A slice of n bytes has the offsets [start, start + n), each byte the low ones of its offset. */
static size_t look(reader *r, const kw_records *slice) {
    shared *all = r->all;
    int32_t number = kw_place_number(slice->place);
    CHECK(kw_place_owner(slice->place) == &all->sought[number]);
    if (slice->generation != all->at[number].generation) {
        CHECK(slice->generation > all->at[number].generation);
        all->at[number].generation = slice->generation;
        all->at[number].next = all->sought[number][slice->generation];
    }
    int cut = __atomic_load_n(&all->cut[number][slice->generation], __ATOMIC_RELAXED);
    /* A slice that was put back keeps its start, and the rest of it begins where its reader was. */
    if (!cut) CHECK(slice->data[0] == (uint8_t)all->at[number].next);
    size_t used = below(&r->d, 4) ? slice->size : (size_t)below(&r->d, slice->size + 1);
    for (size_t i = 0; i < slice->size; i++) CHECK(slice->data[i] == (uint8_t)(slice->data[0] + i));
    CHECK(!slice->aborted || *(int *)slice->aborted == number);
    all->at[number].next += (int64_t)used;
    count(READ);
    return used;
}

static void *run_reader(void *argument) {
    reader *r = argument;
    shared *all = r->all;
    kw_records slice;
    for (;;) {
        size_t size;
        if (below(&r->d, 8) == 0) kw_queue_settle(all->queue, r->only);
        if (below(&r->d, 8) == 0) kw_queue_ready(all->queue, r->only, &size);
        uint32_t now[PLACES];
        for (int i = 0; i < PLACES; i++) now[i] = __atomic_load_n(&all->now[i], __ATOMIC_ACQUIRE);
        int got = kw_queue_pop(all->queue, r->only, &slice, (int)below(&r->d, 3));
        if (got == KW_QUEUE_ENDED) return NULL;
        if (got == KW_QUEUE_PLACE_FAILED) {
            CHECK(slice.place && (!r->only || slice.place == r->only));
            count(FAILURES);
        }
        kw_queue_owed(all->queue);
        if (got != KW_QUEUE_RECORDS) continue;
        int32_t number = kw_place_number(slice.place);
        CHECK(r->only ? slice.place == r->only : number >= OWN);
        CHECK(slice.generation >= now[number]);
        CHECK(__atomic_fetch_add(&all->readers[number], 1, __ATOMIC_ACQ_REL) == 0);
        size_t used = look(r, &slice);
        while (used == slice.size) {
            int more = kw_queue_next(all->queue, &slice, all->at[number].next);
            if (!more) break;
            count(JOINED);
            used = look(r, &slice);
        }
        CHECK(__atomic_fetch_sub(&all->readers[number], 1, __ATOMIC_ACQ_REL) == 1);
        if (kw_queue_done(all->queue, &slice, used, all->at[number].next, 0) & KW_DONE_TELL) count(REPORTED);
    }
}

static void seek(shared *all, dice *d, int i, uint32_t *generation, int64_t *position) {
    all->sought[i][*generation + 1] = *position = (int64_t)below(d, 1 << 20);
    CHECK(kw_place_reset(all->queue, all->places[i], *position) == *generation + 1);
    __atomic_store_n(&all->now[i], ++*generation, __ATOMIC_RELEASE);
}

static void push(shared *all, dice *d, int i, uint32_t generation, int64_t *position, kw_buf *frame, size_t at) {
    size_t size = 1 + (size_t)below(d, 50);
    kw_records slice = {.frame = frame,
                        .data = frame->data + at,
                        .size = size,
                        .place = all->places[i],
                        .generation = generation - (generation && below(d, 20) == 0),
                        .start = *position,
                        .end = INT64_MAX};
    for (size_t b = 0; b < size; b++) frame->data[at + b] = (uint8_t)(*position + (int64_t)b);
    if (below(d, 5) == 0) {
        slice.aborted = malloc(sizeof(int));
        CHECK(slice.aborted);
        *(int *)slice.aborted = i;
        slice.aborted_count = 1;
    }
    if (slice.generation == generation) *position += (int64_t)size;
    else count(DROPPED);
    kw_buf_ref(frame);
    CHECK(!kw_queue_push(all->queue, &slice));
}

static void one_round(dice *d) {
    static shared all;
    reader readers[READERS];
    uint32_t generation[PLACES] = {0};
    int64_t position[PLACES] = {0};
    int failed[PLACES] = {0};
    memset(&all, 0, sizeof all);
    CHECK((all.queue = kw_queue_new()));
    for (int i = 0; i < PLACES; i++) {
        CHECK((all.places[i] = kw_queue_add(all.queue, &all.sought[i])));
        CHECK(kw_queue_place(all.queue, i) == all.places[i]);
        CHECK(kw_place_position(all.queue, all.places[i]) == -1);
        generation[i] = kw_place_reset(all.queue, all.places[i], 0);
        __atomic_store_n(&all.now[i], generation[i], __ATOMIC_RELEASE);
        if (i < OWN) kw_place_claim(all.queue, all.places[i], 1);
    }
    CHECK(!kw_queue_place(all.queue, PLACES) && !kw_queue_place(all.queue, -1));
    for (int i = 0; i < READERS; i++) {
        readers[i] = (reader){.all = &all, .only = i < OWN ? all.places[i] : NULL, .d = roll(d)};
        CHECK(!pthread_create(&readers[i].thread, NULL, run_reader, &readers[i]));
    }
    for (int n = 0; n < PUSHES; n++) {
        kw_buf *frame = kw_buf_new(pool, 500);
        CHECK(frame);
        frame->size = 500;
        int slices = 0;
        for (uint64_t left = below(d, 8); left; left--) {
            int i = (int)below(d, PLACES);
            size_t bytes;
            if (failed[i] && below(d, 20) == 0) {
                seek(&all, d, i, &generation[i], &position[i]);
                failed[i] = 0;
            }
            if (!failed[i] && kw_place_queued(all.queue, all.places[i], &bytes, below(d, 4) == 0) < MOST)
                push(&all, d, i, generation[i], &position[i], frame, 50 * (size_t)slices++);
            kw_queue_owe(all.queue, all.places[i]);
        }
        kw_queue_seal(all.queue);
        kw_buf_unref(frame);
        int i = (int)below(d, PLACES);
        switch (below(d, 80)) {
        case 0: seek(&all, d, i, &generation[i], &position[i]); break;
        case 1:
        case 2: kw_place_pause(all.queue, all.places[i], (int)below(d, 2)); break;
        case 3: kw_queue_compact(all.queue); count(COMPACTED); break;
        case 4: kw_queue_bytes(all.queue, 1); break;
        case 5: while (kw_queue_noticed(all.queue)) continue; break;
        case 6: /* of an older generation it is no news */
            kw_place_fail(all.queue, all.places[i], generation[i] - 1);
            kw_place_fail(all.queue, all.places[i], generation[i]);
            failed[i] = 1;
            break;
        case 7: kw_place_process(all.queue, all.places[i], kw_place_position(all.queue, all.places[i]), -1); break;
        case 8: { /* from then on only the order within slices is known */
            __atomic_store_n(&all.cut[i][generation[i]], 1, __ATOMIC_RELAXED);
            int64_t to = kw_place_position(all.queue, all.places[i]) + (int64_t)below(d, 60);
            kw_place_cut(all.queue, all.places[i], to);
            seek(&all, d, i, &generation[i], &position[i]);
            break;
        }
        default: break;
        }
    }
    for (int i = 0; i < PLACES; i++) {
        if (failed[i]) seek(&all, d, i, &generation[i], &position[i]);
        kw_place_pause(all.queue, all.places[i], 0);
    }
    int abrupt = below(d, 3) == 0;
    if (abrupt)
        kw_queue_close(all.queue);
    else
        kw_queue_end(all.queue);
    for (int i = 0; i < READERS; i++) pthread_join(readers[i].thread, NULL);
    for (int i = 0; i < PLACES && !abrupt; i++) {
        size_t bytes;
        CHECK(kw_place_queued(all.queue, all.places[i], &bytes, 0) == 0 && bytes == 0);
        CHECK(kw_place_position(all.queue, all.places[i]) == position[i]);
    }
    CHECK(kw_queue_bytes(all.queue, 0) == 0);
    kw_queue_free(all.queue);
    CHECK(kw_pool_live_bytes(pool) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    dice d = strtoull(argv[1], NULL, 10);
    alarm(300); /* a hang is a failure with a core, not a wait */
    pool = kw_pool_new(64 << 20);
    CHECK(pool);
    long rounds = strtol(argv[2], NULL, 10);
    for (long i = 0; goes_on(i, rounds, counts, sizeof counts / sizeof *counts, LEAST); i++) one_round(&d);
    kw_pool_trim(pool, 0);
    printf("ok: %llu read, %llu dropped, %llu joined, %llu notified, %llu failures, %llu compacted\n",
           (unsigned long long)counts[READ], (unsigned long long)counts[DROPPED], (unsigned long long)counts[JOINED],
           (unsigned long long)counts[REPORTED], (unsigned long long)counts[FAILURES], (unsigned long long)counts[COMPACTED]);
    return 0;
}
