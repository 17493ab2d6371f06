/* The queue's rules one by one, each where queue.h states it; queue_stress has them all at once. Usage: queue_test SEED ROUNDS */
#include "check.h"

#include "kafwire/consumer/fetch/native/queue.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static kw_pool *pool;

static kw_queue *queue_with(kw_place **places, int count) {
    kw_queue *queue = kw_queue_new();
    CHECK(queue);
    for (int i = 0; i < count; i++) {
        CHECK((places[i] = kw_queue_add(queue, NULL)));
        CHECK(kw_place_reset(queue, places[i], 0) == 1);
    }
    return queue;
}

/* A slice of one byte for each of its offsets, alone in its frame. */
static void push(kw_queue *queue, kw_place *place, uint32_t generation, int64_t start, int64_t end) {
    size_t size = (size_t)(end - start);
    kw_buf *frame = kw_buf_new(pool, size);
    CHECK(frame);
    frame->size = size;
    kw_records slice = {.frame = frame, .data = frame->data, .size = size, .place = place, .generation = generation,
                        .start = start, .end = end};
    CHECK(!kw_queue_push(queue, &slice));
    kw_queue_seal(queue);
}

static kw_records popped(kw_queue *queue, kw_place *only, int64_t start) {
    kw_records slice;
    CHECK(kw_queue_pop(queue, only, &slice, 0) == KW_QUEUE_RECORDS);
    CHECK(slice.start == start);
    return slice;
}

static int pops(kw_queue *queue, kw_place *only) {
    kw_records slice;
    int got = kw_queue_pop(queue, only, &slice, 0);
    CHECK(got != KW_QUEUE_RECORDS);
    return got;
}

static size_t bytes_of(kw_queue *queue, kw_place *place) {
    size_t bytes;
    kw_place_queued(queue, place, &bytes, 0);
    return bytes;
}

static void finish(kw_queue *queue) {
    kw_queue_free(queue);
    CHECK(kw_pool_live_bytes(pool) == 0);
}

/* --- a reader that waits ---------------------------------------------------------------------------------------- */

typedef struct waiter {
    kw_queue *queue;
    kw_place *only;
    kw_records slice;
    int got;
    pid_t id;
    pthread_t thread;
} waiter;

static void *run_waiter(void *argument) {
    waiter *w = argument;
    __atomic_store_n(&w->id, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    w->got = kw_queue_pop(w->queue, w->only, &w->slice, INT_MAX);
    return NULL;
}

/* Returns when the reader sleeps: it waits for nothing but the queue. */
static void wait_for_records(waiter *w) {
    w->id = 0;
    CHECK(!pthread_create(&w->thread, NULL, run_waiter, w));
    char name[64], state = 0;
    while (state != 'S') {
        pid_t id = __atomic_load_n(&w->id, __ATOMIC_ACQUIRE);
        sched_yield();
        if (!id) continue;
        snprintf(name, sizeof name, "/proc/self/task/%d/stat", (int)id);
        FILE *file = fopen(name, "r");
        CHECK(file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
        fclose(file);
    }
}

static void comes_with_records(waiter *w, int64_t start) {
    pthread_join(w->thread, NULL);
    CHECK(w->got == KW_QUEUE_RECORDS && w->slice.start == start);
    CHECK(kw_queue_done(w->queue, &w->slice, w->slice.size, w->slice.end, 0) == 0);
}

/* "That reader must then notify the engine: after its wait, kw_queue_owed returns 1 once." */
static void word_is_owed_once(void) {
    kw_place *places[2];
    kw_queue *queue = queue_with(places, 2);
    kw_place_claim(queue, places[1], 1);
    CHECK(!kw_queue_owed(queue));
    push(queue, places[0], 1, 0, 5);
    CHECK(!kw_queue_owe(queue, places[0]) && !kw_queue_owed(queue)); /* no thread waits */
    kw_records slice = popped(queue, NULL, 0);
    CHECK(kw_queue_done(queue, &slice, 5, 5, 0) == 0);
    for (int64_t at = 5, owed = 0; !owed; at++) { /* until the reader is slower than this thread */
        waiter w = {.queue = queue};
        wait_for_records(&w);
        CHECK(!kw_queue_owe(queue, places[0])); /* there is nothing */
        push(queue, places[1], 1, at, at + 1);
        CHECK(!kw_queue_owe(queue, places[1])); /* that is claimed, and its own reader does not wait */
        push(queue, places[0], 1, at, at + 1);
        owed = kw_queue_owe(queue, places[0]);
        comes_with_records(&w, at);
        CHECK(kw_queue_owed(queue) == owed);
        CHECK(!kw_queue_owed(queue));
    }
    kw_queue_close(queue);
    finish(queue);
}

/* --- rows that no reader got ------------------------------------------------------------------------------------ */

/* "The queue drops the slices behind it, and the position becomes `position`", which the engine fetches again. */
static void what_is_refused_comes_again(void) {
    kw_place *place;
    kw_queue *queue = queue_with(&place, 1);
    size_t size;
    push(queue, place, 1, 0, 5);
    push(queue, place, 1, 5, 9);
    push(queue, place, 1, 9, 12);
    kw_records slice = popped(queue, NULL, 0);
    CHECK(kw_queue_next(queue, &slice, 5) == 1);
    CHECK(kw_place_position(queue, place) == 5);
    CHECK(!kw_queue_ready(queue, NULL, &size)); /* the refusing thread wakes the waiting one, and not a second time */
    kw_place_fail(queue, place, 1);
    CHECK(kw_queue_refuse(queue, &slice, 0) == 2);
    CHECK(kw_place_position(queue, place) == 0);
    CHECK(bytes_of(queue, place) == 0 && kw_queue_bytes(queue, 0) == 0);
    CHECK(pops(queue, NULL) == KW_QUEUE_IDLE); /* nor does it fail */
    push(queue, place, 1, 12, 15);
    CHECK(pops(queue, NULL) == KW_QUEUE_IDLE);
    push(queue, place, 2, 0, 5);
    slice = popped(queue, NULL, 0);
    CHECK(kw_queue_done(queue, &slice, 2, 2, 0) == 0);
    slice = popped(queue, NULL, 2);
    CHECK(kw_queue_done(queue, &slice, 3, 5, 0) == 0);
    finish(queue);
}

static void a_jump_is_forgotten_with_what_is_refused(void) {
    kw_place *place;
    kw_queue *queue = queue_with(&place, 1);
    push(queue, place, 1, 0, 5);
    kw_records slice = popped(queue, NULL, 0);
    kw_place_cut(queue, place, 3); /* once the slice is read, on from 3 */
    CHECK(kw_queue_refuse(queue, &slice, 0) == 2);
    kw_place_pause(queue, place, 0);
    CHECK(kw_place_position(queue, place) == 0);
    push(queue, place, 2, 0, 3);
    slice = popped(queue, NULL, 0);
    CHECK(kw_queue_done(queue, &slice, 3, 3, 0) == 0);
    CHECK(kw_place_position(queue, place) == 3);
    finish(queue);
}

/* "or 0 if the place was reset meanwhile" */
static void what_was_sought_since_stays_where_it_is(void) {
    kw_place *place;
    kw_queue *queue = queue_with(&place, 1);
    push(queue, place, 1, 0, 5);
    kw_records slice = popped(queue, NULL, 0);
    CHECK(kw_place_reset(queue, place, 70) == 2);
    waiter w = {.queue = queue};
    push(queue, place, 2, 70, 75);
    wait_for_records(&w); /* the queued slice is lent */
    CHECK(kw_queue_refuse(queue, &slice, 0) == 0);
    comes_with_records(&w, 70);
    CHECK(kw_place_position(queue, place) == 75);
    finish(queue);
}

/* "the caller must not deliver the records; the position is unchanged" */
static void what_was_reset_while_it_was_lent_is_stale(void) {
    kw_place *place;
    kw_queue *queue = queue_with(&place, 1);
    push(queue, place, 1, 0, 5);
    kw_records slice = popped(queue, NULL, 0);
    CHECK(kw_place_reset(queue, place, -1) == 2); /* its partition went */
    CHECK(kw_queue_done(queue, &slice, 2, 2, 0) == KW_DONE_STALE);
    CHECK(kw_place_position(queue, place) == -1 && !kw_place_in_hand(queue, place));
    CHECK(pops(queue, NULL) == KW_QUEUE_IDLE);
    CHECK(kw_place_reset(queue, place, 0) == 3); /* it came back */
    push(queue, place, 3, 0, 5);
    slice = popped(queue, NULL, 0);
    kw_queue_bytes(queue, 1);
    CHECK(kw_place_reset(queue, place, 3) == 4);
    CHECK(kw_queue_done(queue, &slice, 5, 5, 0) == (KW_DONE_TELL | KW_DONE_STALE));
    CHECK(kw_queue_bytes(queue, 0) == 0);
    finish(queue);
}

static void a_closed_queue_asks_for_nothing_again(void) {
    kw_place *place;
    kw_queue *queue = queue_with(&place, 1);
    push(queue, place, 1, 7, 9);
    kw_records slice = popped(queue, NULL, 7);
    kw_queue_close(queue);
    CHECK(kw_queue_refuse(queue, &slice, 7) == 0);
    CHECK(kw_place_position(queue, place) == 0);
    CHECK(kw_queue_bytes(queue, 0) == 0);
    CHECK(kw_place_reset(queue, place, 0) == 2);
    finish(queue);
}

/* --- what a reader comes to, and what not ------------------------------------------------------------------------ */

static void nothing_more_comes_of_a_paused_place(void) {
    kw_place *place;
    kw_queue *queue = queue_with(&place, 1);
    push(queue, place, 1, 0, 5);
    push(queue, place, 1, 5, 9);
    kw_records slice = popped(queue, NULL, 0);
    CHECK(kw_queue_next(queue, &slice, 4) == 0); /* it would not go on there */
    kw_place_pause(queue, place, 1);
    CHECK(kw_queue_next(queue, &slice, 5) == 0);
    CHECK(kw_queue_done(queue, &slice, 5, 5, 0) == 0);
    CHECK(pops(queue, NULL) == KW_QUEUE_IDLE);
    kw_place_pause(queue, place, 0);
    slice = popped(queue, NULL, 5);
    CHECK(kw_queue_done(queue, &slice, 4, 9, 0) == 0);
    finish(queue);
}

/* "A failure comes behind the queued slices"; a closed queue ends for a waiting reader, whatever it was before. */
static void a_failure_is_over_when_the_queue_is_closed(void) {
    kw_place *place;
    kw_queue *queue = queue_with(&place, 1);
    push(queue, place, 1, 0, 5);
    kw_queue_fail(queue);
    kw_queue_end(queue);
    kw_records slice = popped(queue, NULL, 0);
    CHECK(kw_queue_done(queue, &slice, 5, 5, 0) == 0);
    CHECK(pops(queue, NULL) == KW_QUEUE_FAILED && pops(queue, place) == KW_QUEUE_FAILED);
    kw_queue_close(queue);
    CHECK(pops(queue, NULL) == KW_QUEUE_ENDED && pops(queue, place) == KW_QUEUE_ENDED);
    finish(queue);
}

/* Records that one reader has in hand do not count as processed because another reader goes on. */
static void a_claim_leaves_what_was_read_unprocessed(void) {
    kw_place *places[3];
    kw_queue *queue = queue_with(places, 3);
    for (int i = 0; i < 3; i++) {
        push(queue, places[i], 1, 0, 5);
        kw_records slice = popped(queue, NULL, 0);
        CHECK(slice.place == places[i] && kw_queue_done(queue, &slice, 5, 5, 0) == 0);
    }
    kw_place_claim(queue, places[1], 1);
    kw_place_claim(queue, places[1], 0);
    kw_queue_settle(queue, NULL);
    CHECK(kw_place_processed(queue, places[0]) == 5 && kw_place_processed(queue, places[2]) == 5);
    CHECK(kw_place_processed(queue, places[1]) == 0);
    push(queue, places[1], 1, 5, 7);
    kw_records slice = popped(queue, NULL, 5);
    CHECK(kw_queue_done(queue, &slice, 2, 7, 0) == 0);
    kw_queue_settle(queue, places[1]);
    CHECK(kw_place_processed(queue, places[1]) == 7);
    finish(queue);
}

/* "a place that was read goes to its end", and a reader of one place alone takes no other place's turn. */
static void places_take_turns(void) {
    kw_place *places[3];
    kw_queue *queue = queue_with(places, 3);
    kw_place_claim(queue, places[2], 1);
    for (int i = 0; i < 3; i++)
        for (int64_t at = 0; at < 2; at++) push(queue, places[i], 1, at, at + 1);
    static const int turns[] = {0, 2, 1, 0, 2, 1};
    for (int i = 0; i < 6; i++) {
        kw_records slice = popped(queue, turns[i] == 2 ? places[2] : NULL, i / 3);
        CHECK(slice.place == places[turns[i]]);
        CHECK(kw_queue_done(queue, &slice, 1, i / 3 + 1, 0) == 0);
    }
    finish(queue);
}

/* "A place's slice that begins at `offset`, unless other places wait for their turn"; "the first slice of the place
 * that follows those in `seen` in the ring". A peeked slice stays, and is popped only as it was seen. */
static void what_comes_next_is_seen_before_its_turn(void) {
    kw_place *places[3];
    kw_queue *queue = queue_with(places, 3);
    kw_records seen, popped_slice;
    for (int64_t at = 0; at < 3; at++) push(queue, places[0], 1, at, at + 1);
    kw_records slice = popped(queue, NULL, 0);
    CHECK(kw_place_look(queue, places[0], 1, 2, &seen) == 1 && seen.start == 2);
    CHECK(kw_queue_pop_same(queue, NULL, &seen, &popped_slice) == 0); /* the place is lent, and it is not the first */
    kw_buf_unref(seen.frame);
    CHECK(kw_place_look(queue, places[0], 1, 7, &seen) == 0 && kw_place_look(queue, places[0], 2, 1, &seen) == 0);
    push(queue, places[1], 1, 0, 1);
    push(queue, places[2], 1, 0, 1);
    CHECK(kw_place_look(queue, places[0], 1, 1, &seen) == 0); /* others wait */
    CHECK(kw_queue_look(queue, places, 1, &seen) == 1 && seen.place == places[1]);
    kw_buf_unref(seen.frame);
    CHECK(kw_queue_look(queue, places, 2, &seen) == 1 && seen.place == places[2]);
    kw_buf_unref(seen.frame);
    CHECK(kw_queue_look(queue, places, 3, &seen) == 0);
    CHECK(kw_queue_done(queue, &slice, 1, 1, 1) == 0); /* it comes before the others */
    CHECK(kw_queue_look(queue, places, 0, &seen) == 1 && seen.place == places[0] && seen.start == 1);
    kw_place_cut(queue, places[0], 1);
    CHECK(kw_queue_pop_same(queue, NULL, &seen, &popped_slice) == 0);
    kw_buf_unref(seen.frame);
    CHECK(kw_queue_look(queue, places, 0, &seen) == 1 && seen.place == places[1]);
    CHECK(kw_queue_pop_same(queue, NULL, &seen, &popped_slice) == 1 && popped_slice.place == places[1]);
    kw_buf_unref(seen.frame);
    CHECK(kw_queue_done(queue, &popped_slice, 1, 1, 0) == 0);
    slice = popped(queue, NULL, 0);
    CHECK(slice.place == places[2] && kw_queue_done(queue, &slice, 1, 1, 0) == 0);
    finish(queue);
}

/* "The failure of a place is returned by each call, with the place in out->place." */
static void a_place_fails_again_and_again(void) {
    kw_place *place;
    kw_queue *queue = queue_with(&place, 1);
    kw_records slice;
    kw_place_fail(queue, place, 0); /* that was another generation's */
    CHECK(pops(queue, NULL) == KW_QUEUE_IDLE);
    kw_place_fail(queue, place, 1);
    for (int i = 0; i < 3; i++) {
        memset(&slice, 0xff, sizeof slice);
        CHECK(kw_queue_pop(queue, NULL, &slice, 0) == KW_QUEUE_PLACE_FAILED);
        CHECK(slice.place == place && !slice.frame && !slice.aborted);
    }
    finish(queue);
}

int main(int argc, char **argv) {
    (void)argv;
    CHECK(argc == 3);
    alarm(100); /* a hang is a failure with a core, not a wait */
    CHECK((pool = kw_pool_new(0)));
    word_is_owed_once();
    what_is_refused_comes_again();
    a_jump_is_forgotten_with_what_is_refused();
    what_was_sought_since_stays_where_it_is();
    what_was_reset_while_it_was_lent_is_stale();
    a_closed_queue_asks_for_nothing_again();
    nothing_more_comes_of_a_paused_place();
    a_failure_is_over_when_the_queue_is_closed();
    a_claim_leaves_what_was_read_unprocessed();
    places_take_turns();
    what_comes_next_is_seen_before_its_turn();
    a_place_fails_again_and_again();
    puts("ok");
    return 0;
}
