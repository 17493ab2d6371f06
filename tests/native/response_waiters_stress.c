/* Responses on the shortest way (response_waiters.c): threads that wait, leave and are called off, an I/O thread that
 * shows frames right and wrong, an engine that finds each response later. Usage: response_waiters_stress SEED ROUNDS
 *
 * Invariant: a frame is taken only if it differs from the plain response in the correlation id and the three numbers
 * alone, has a base offset, and is waited for; its numbers are those of its token; `wake` is called once for each wait
 * that got a response or was called off, and for no other. */
#include "check.h"

#include "kafwire/producer/buffer/native/response_waiters.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WAITERS = 6, REQUESTS = 500, STEPS = 3000, CORRELATION_ID = 4, NUMBERS = 24, LEAST = 100 };

/* For the last line: a stress that does nothing shows. */
static uint64_t responded, called_off, left_early, completed, refused;

static void count(uint64_t *counter) { __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED); }
static uint64_t load(uint64_t *value) { return __atomic_load_n(value, __ATOMIC_ACQUIRE); }
static void store(uint64_t *value, uint64_t to) { __atomic_store_n(value, to, __ATOMIC_RELEASE); }

/* ---- frames ---- */

static void put_i64(uint8_t *p, int64_t value) {
    put_u32(p, (uint32_t)((uint64_t)value >> 32));
    put_u32(p + 4, (uint32_t)value);
}

/* The numbers in the response with this token: a log's first offset, every so often. */
static int64_t base_of(uint64_t token) { return token % 4 ? (int64_t)(roll(&token) >> 1) : 0; }
static int64_t time_of(uint64_t token) { return (int64_t)roll(&(uint64_t){~token}); }

/* The memory is as large as the frame, for a sanitizer to see what reads more. */
static kw_buf new_frame(size_t size) {
    kw_buf frame = {.size = size, .capacity = size, .data = malloc(size)};
    CHECK(frame.data);
    return frame;
}

static kw_buf right_frame(dice *d, const kw_awaited_response *awaited, uint64_t token) {
    kw_buf frame = new_frame(awaited->size);
    memcpy(frame.data, awaited->plain, awaited->size);
    put_u32(frame.data, (uint32_t)roll(d));
    put_i64(frame.data + awaited->numbers_at, base_of(token));
    put_i64(frame.data + awaited->numbers_at + 8, time_of(token));
    put_i64(frame.data + awaited->numbers_at + 16, (int64_t)roll(d));
    return frame;
}

static void resize(kw_buf *frame, size_t size) {
    kw_buf other = new_frame(size);
    memset(other.data, 0, size);
    memcpy(other.data, frame->data, size < frame->size ? size : frame->size);
    free(frame->data);
    *frame = other;
}

/* As many bytes as may not differ. */
static size_t fixed_bytes(const kw_awaited_response *awaited) { return awaited->size - CORRELATION_ID - NUMBERS; }

static void flip(dice *d, const kw_awaited_response *awaited, kw_buf *frame, size_t index) {
    size_t at = CORRELATION_ID + index;
    if (at >= awaited->numbers_at) at += NUMBERS;
    frame->data[at] ^= (uint8_t)(1u << below(d, 8));
}

/* A frame that is not the plain one of `awaited`, though only just. */
static kw_buf wrong_frame(dice *d, const kw_awaited_response *awaited, uint64_t token) {
    kw_buf frame = right_frame(d, awaited, token);
    uint64_t kind = below(d, 4);
    if (kind == 0) resize(&frame, below(d, frame.size));
    else if (kind == 1) resize(&frame, frame.size + 1 + below(d, 9));
    else if (kind == 2 || !fixed_bytes(awaited)) frame.data[awaited->numbers_at] |= 0x80; /* a negative offset */
    else flip(d, awaited, &frame, below(d, fixed_bytes(awaited)));
    return frame;
}

/* ---- the waiting threads ---- */

typedef struct shared {
    kw_waiters *table;
    struct waiter *waiters;
    uint64_t waiting; /* threads */
    dice d;           /* the I/O thread's */
} shared;

typedef struct waiter {
    kw_awaited_response awaited;
    shared *all;
    uint8_t *plain;
    sem_t woken;
    uint64_t wakes;
    uint64_t responded, called_off; /* waits that ended so */
    uint64_t taken;                /* responses that the I/O thread was rid of */
    pthread_mutex_t gil;           /* what the GIL is in life: a request is concluded once */
    int done;                      /* the request; under `gil` */
    uint64_t asked, published;     /* tokens of the request in flight, and of the response for the engine */
    dice d;
    pthread_t thread;
} waiter;

static void wake(void *argument) {
    waiter *w = argument;
    __atomic_fetch_add(&w->wakes, 1, __ATOMIC_ACQ_REL);
    CHECK(!sem_post(&w->woken));
}

static void set_up(waiter *w, shared *all, dice *d, size_t before, size_t behind) {
    *w = (waiter){.all = all, .plain = malloc(CORRELATION_ID + before + NUMBERS + behind), .d = roll(d)};
    CHECK(w->plain && !sem_init(&w->woken, 0, 0) && !pthread_mutex_init(&w->gil, NULL));
    w->awaited = (kw_awaited_response){.plain = w->plain,
                            .size = CORRELATION_ID + before + NUMBERS + behind,
                            .numbers_at = CORRELATION_ID + before,
                            .wake = wake,
                            .waiter = w};
    for (size_t i = 0; i < w->awaited.size; i++) w->plain[i] = (uint8_t)roll(d);
}

/* Each wait that is over had its wake, if it was to have one. */
static int is_even(waiter *w) { return load(&w->wakes) == w->responded + w->called_off; }

static void tear_down(waiter *w) {
    CHECK(is_even(w) && w->taken == w->responded && sem_trywait(&w->woken) && errno == EAGAIN);
    sem_destroy(&w->woken);
    pthread_mutex_destroy(&w->gil);
    free(w->plain);
}

static int show(shared *all, uint64_t token, kw_buf frame) {
    int taken = kw_waiters_take(all->table, token, &frame);
    free(frame.data);
    return taken;
}

static int has_numbers_of(const kw_awaited_response *awaited, uint64_t token) {
    return awaited->base_offset == base_of(token) && awaited->log_append_ms == time_of(token);
}

/* ---- one thread: every byte, and every order, with the outcome known ---- */

static void refuse(waiter *w, uint64_t token, kw_buf frame) {
    int64_t base_offset = w->awaited.base_offset, log_append_ms = w->awaited.log_append_ms;
    CHECK(!kw_waiters_take(w->all->table, token, &frame));
    CHECK(token != w->awaited.token || !kw_waiters_read(&w->awaited, &frame));
    CHECK(w->awaited.state == KW_AWAITED && is_even(w));
    CHECK(w->awaited.base_offset == base_offset && w->awaited.log_append_ms == log_append_ms);
    free(frame.data);
    count(&refused);
}

static void every_byte(dice *d, size_t before, size_t behind) {
    shared all = {.table = kw_waiters_new()};
    waiter w;
    CHECK(all.table);
    set_up(&w, &all, d, before, behind);
    uint64_t token = w.awaited.token = roll(d);
    kw_waiters_await(all.table, &w.awaited);
    for (size_t i = 0; i < before + behind; i++) {
        kw_buf frame = right_frame(d, &w.awaited, token);
        flip(d, &w.awaited, &frame, i);
        refuse(&w, token, frame);
    }
    for (size_t size = 0; size < w.awaited.size + 9; size++) {
        kw_buf frame = right_frame(d, &w.awaited, token);
        if (size == frame.size) frame.data[w.awaited.numbers_at] |= 0x80;
        else resize(&frame, size);
        refuse(&w, token, frame);
    }
    for (int bit = 0; bit < 64; bit++) refuse(&w, token ^ (uint64_t)1 << bit, right_frame(d, &w.awaited, token));
    CHECK(!kw_waiters_take(all.table, token, NULL));
    CHECK(show(&all, token, right_frame(d, &w.awaited, token)));
    w.taken++;
    w.responded++;
    CHECK(w.awaited.state == KW_RECEIVED && has_numbers_of(&w.awaited, token) && !sem_trywait(&w.woken));
    CHECK(!show(&all, token, right_frame(d, &w.awaited, token)));
    tear_down(&w);
    kw_waiters_free(all.table);
}

static void every_order(dice *d) {
    shared all = {.table = kw_waiters_new()};
    waiter waiters[WAITERS];
    uint64_t last = 0;
    CHECK(all.table);
    for (int i = 0; i < WAITERS; i++) set_up(&waiters[i], &all, d, below(d, 60), 1 + below(d, 60));
    for (int n = 0; n < STEPS; n++) {
        waiter *w = &waiters[below(d, WAITERS)];
        kw_awaited_response *awaited = &w->awaited;
        int is_awaited = awaited->state == KW_AWAITED, state = awaited->state;
        switch (below(d, 6)) {
        case 0:
            if (!is_awaited) break;
            CHECK(!kw_waiters_leave(all.table, awaited));
            state = KW_IDLE;
            break;
        case 1:
            kw_waiters_call_off(all.table, awaited);
            if (!is_awaited) break;
            state = KW_CALLED_OFF;
            w->called_off++;
            break;
        case 2:
            CHECK(show(&all, awaited->token, right_frame(d, awaited, awaited->token)) == is_awaited);
            if (!is_awaited) break;
            CHECK(has_numbers_of(awaited, awaited->token));
            state = KW_RECEIVED;
            w->taken++;
            w->responded++;
            break;
        case 3: CHECK(!show(&all, awaited->token, wrong_frame(d, awaited, awaited->token))); break;
        default:
            if (is_awaited) break;
            awaited->token = ++last;
            kw_waiters_await(all.table, awaited);
            state = KW_AWAITED;
        }
        CHECK(awaited->state == state && is_even(w));
        if (is_awaited && (state == KW_RECEIVED || state == KW_CALLED_OFF))
            CHECK(!sem_trywait(&w->woken) && kw_waiters_leave(all.table, awaited) && awaited->state == state);
    }
    for (int i = 0; i < WAITERS; i++) {
        if (waiters[i].awaited.state == KW_AWAITED) CHECK(!kw_waiters_leave(all.table, &waiters[i].awaited));
        tear_down(&waiters[i]);
    }
    kw_waiters_free(all.table);
}

/* ---- threads ---- */

/* Waits for a word, for a moment, or not at all; whether the word came. */
static int doze(waiter *w) {
    struct timespec until;
    uint64_t patience = below(&w->d, 4);
    if (patience == 0) return 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)below(&w->d, 100000);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (patience == 1 ? sem_timedwait(&w->woken, &until) : sem_wait(&w->woken))
        if (errno != EINTR) return 0;
    return 1;
}

static void one_wait(waiter *w, uint64_t token) {
    CHECK(is_even(w));
    kw_waiters_await(w->all->table, &w->awaited);
    pthread_mutex_unlock(&w->gil);
    int woken = doze(w);
    if (!woken && (woken = kw_waiters_leave(w->all->table, &w->awaited))) CHECK(!sem_trywait(&w->woken));
    int state = w->awaited.state;
    if (state == KW_RECEIVED) w->responded++;
    if (state == KW_CALLED_OFF) w->called_off++;
    w->awaited.next = &w->awaited; /* no other thread looks at it any more */
    CHECK(woken ? state == KW_RECEIVED || state == KW_CALLED_OFF : state == KW_IDLE);
    CHECK(is_even(w));
    pthread_mutex_lock(&w->gil);
    if (!woken) count(&left_early);
    if (state == KW_CALLED_OFF) count(&called_off);
    if (state != KW_RECEIVED) return;
    CHECK(has_numbers_of(&w->awaited, token));
    count(&responded);
    w->done = 1; /* unless the engine was faster */
}

static void look_away(waiter *w) {
    pthread_mutex_unlock(&w->gil);
    sched_yield();
    pthread_mutex_lock(&w->gil);
}

static void *run_waiter(void *argument) {
    waiter *w = argument;
    pthread_mutex_lock(&w->gil);
    for (uint64_t request = 1; request <= REQUESTS; request++) {
        uint64_t token = w->awaited.token = request << 8 | (uint64_t)(w - w->all->waiters);
        w->done = 0;
        store(&w->asked, token);
        int waits = below(&w->d, 16) > 0;
        while (!w->done) {
            if (waits) one_wait(w, token);
            else look_away(w);
        }
    }
    pthread_mutex_unlock(&w->gil);
    __atomic_fetch_sub(&w->all->waiting, 1, __ATOMIC_ACQ_REL);
    return NULL;
}

/* The response to a request, after others that are not, or are not quite; the thread that has it by then
 * publishes it. */
static void *run_io(void *argument) {
    shared *all = argument;
    dice *d = &all->d;
    uint64_t seen[WAITERS] = {0};
    while (load(&all->waiting)) {
        sched_yield();
        waiter *w = &all->waiters[below(d, WAITERS)], *other = &all->waiters[below(d, WAITERS)];
        uint64_t token = load(&w->asked), *last = &seen[w - all->waiters];
        if (token == *last) continue;
        for (uint64_t n = below(d, 8); n; n--, count(&refused)) {
            switch (below(d, 4)) {
            case 0: CHECK(!show(all, *last, right_frame(d, &w->awaited, *last))); break;
            case 1: CHECK(!show(all, token | 1 << 7, right_frame(d, &w->awaited, token))); break;
            case 2: CHECK(other == w || !show(all, token, right_frame(d, &other->awaited, token))); break;
            default: CHECK(!show(all, token, wrong_frame(d, &w->awaited, token)));
            }
        }
        *last = token;
        w->taken += (uint64_t)show(all, token, right_frame(d, &w->awaited, token));
        store(&w->published, token);
    }
    return NULL;
}

static void run_engine(shared *all, dice *d) {
    uint64_t seen[WAITERS] = {0};
    while (load(&all->waiting)) {
        sched_yield();
        waiter *w = &all->waiters[below(d, WAITERS)];
        uint64_t token = load(&w->published), *last = &seen[w - all->waiters];
        if (below(d, 8) == 0) kw_waiters_call_off(all->table, &w->awaited); /* as for another waiting thread */
        if (token == *last) continue;
        *last = token;
        pthread_mutex_lock(&w->gil);
        if (w->awaited.token == token && !w->done) {
            kw_buf frame = right_frame(d, &w->awaited, token);
            CHECK(kw_waiters_read(&w->awaited, &frame) && has_numbers_of(&w->awaited, token));
            free(frame.data);
            kw_waiters_call_off(all->table, &w->awaited);
            count(&completed);
            w->done = 1;
        }
        pthread_mutex_unlock(&w->gil);
    }
}

static void one_round(dice *d) {
    static waiter waiters[WAITERS];
    shared all = {.table = kw_waiters_new(), .waiters = waiters, .waiting = WAITERS, .d = roll(d)};
    pthread_t io;
    CHECK(all.table);
    for (int i = 0; i < WAITERS; i += 2) { /* two partitions of a topic: their responses differ in a byte */
        size_t before = 8 + below(d, 60), behind = below(d, 60);
        uint64_t twins = roll(d);
        set_up(&waiters[i], &all, &(dice){twins}, before, behind);
        set_up(&waiters[i + 1], &all, &(dice){twins}, before, behind);
        waiters[i + 1].d = roll(d);
        flip(d, &waiters[i].awaited, &(kw_buf){.data = waiters[i].plain}, below(d, before + behind));
    }
    for (int i = 0; i < WAITERS; i++) CHECK(!pthread_create(&waiters[i].thread, NULL, run_waiter, &waiters[i]));
    CHECK(!pthread_create(&io, NULL, run_io, &all));
    run_engine(&all, d);
    pthread_join(io, NULL);
    for (int i = 0; i < WAITERS; i++) {
        pthread_join(waiters[i].thread, NULL);
        tear_down(&waiters[i]);
    }
    kw_waiters_free(all.table);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    dice d = strtoull(argv[1], NULL, 10);
    alarm(300); /* a hang is a failure with a core, not a wait */
    long rounds = strtol(argv[2], NULL, 10);
    for (long i = 0;; i++) {
        uint64_t counts[] = {responded, called_off, left_early, completed, refused};
        if (!goes_on(i, rounds, counts, 5, LEAST)) break;
        every_byte(&d, 0, 0);
        every_byte(&d, below(&d, 60), 0);
        every_byte(&d, 0, below(&d, 60));
        every_byte(&d, below(&d, 60), below(&d, 60));
        every_order(&d);
        one_round(&d);
    }
    printf("ok: %llu responses, %llu called off, %llu left, %llu completed, %llu refused\n",
           (unsigned long long)responded, (unsigned long long)called_off, (unsigned long long)left_early,
           (unsigned long long)completed, (unsigned long long)refused);
    return 0;
}
