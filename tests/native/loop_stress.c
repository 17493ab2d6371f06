/* The native I/O thread under everything at once: threads that submit, post and close, a thread that drains, and peers
 * over loopback that respond promptly, in pieces, in heaps, slowly, wrongly, partly or never. Usage: loop_stress SEED
 * ROUNDS
 *
 * Invariant: responses reach their requests in order and intact; every request accepted gets a response, or is sent, or
 * covered by its connection's one CLOSED, which comes last; the descriptor is readable exactly while something waits;
 * after stopping no buffer and no descriptor is left. */
#include "check.h"

#include "kafwire/runtime/native/loop.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CONNECTIONS = 8,
    SUBMITTERS = 3,
    OPERATIONS = 150,
    MAX_REQUESTS = SUBMITTERS * OPERATIONS,
    MAX_FRAME = 4 << 20,
    /* Small enough for partial sends; much smaller, and the kernel's own defence against silly windows moves one
     * segment per 200 ms. */
    PEER_BUFFER = 16 << 10,
};
/* A request: correlation id, 1 when a response is expected, the response's size, its own size, then its pattern. */
enum { REQUEST_HEAD = 16, LEAST = 100 };

static kw_pool *pool;
static uint64_t totals[KW_POSTED + 1]; /* completions by kind, for the last line: a stress that does nothing shows */

/* ---- the peers ---- */

enum { PROMPT, PIECES, HEAPS, SLOW, CUT_RESPONSE, CUT_REQUEST, RESET, WRONG_ID, TOO_LARGE, NEGATIVE, SILENT, KINDS };

typedef struct peer {
    int fd, kind;
    dice d;
    pthread_t thread;
} peer;

static int read_all(peer *p, uint8_t *to, size_t size) {
    while (size) {
        size_t step = p->kind == SLOW && size > 200 ? 200 : size;
        ssize_t n = recv(p->fd, to, step, 0);
        if (n <= 0) return -1;
        to += n;
        size -= (size_t)n;
    }
    return 0;
}

static int write_all(peer *p, const uint8_t *from, size_t size) {
    while (size) {
        size_t step = size;
        if (p->kind == PIECES && size < 2000) step = 1 + (size_t)below(&p->d, size < 9 ? size : 9);
        ssize_t n = send(p->fd, from, step, MSG_NOSIGNAL);
        if (n <= 0) return -1;
        from += n;
        size -= (size_t)n;
    }
    return 0;
}

static void serve(peer *p) {
    uint64_t trouble_at = below(&p->d, 40);
    uint8_t *heap = malloc(8 << 20), *body = malloc(1 << 20);
    size_t heaped = 0;
    CHECK(heap && body);
    for (uint64_t i = 0;; i++) {
        uint8_t head[4 + REQUEST_HEAD];
        struct pollfd waiting = {.fd = p->fd, .events = POLLIN};
        if (heaped && (heaped > (2 << 20) || poll(&waiting, 1, 0) == 0)) {
            if (write_all(p, heap, heaped)) break;
            heaped = 0;
        }
        if (p->kind == CUT_REQUEST && i == trouble_at && read_all(p, head, below(&p->d, 20))) break;
        if (p->kind == CUT_REQUEST && i == trouble_at) break;
        if (read_all(p, head, sizeof head)) break;
        uint32_t size = get_u32(head), id = get_u32(head + 4), response = get_u32(head + 12);
        CHECK(size >= REQUEST_HEAD && size <= (1 << 20) && get_u32(head + 16) == size);
        if (read_all(p, body, size - REQUEST_HEAD)) break;
        CHECK(is_pattern(body, id, 0, size - REQUEST_HEAD));
        if (!get_u32(head + 8)) continue;
        if (p->kind == SILENT) continue;
        int trouble = i >= trouble_at;
        if (trouble && p->kind == RESET) {
            struct linger now = {1, 0};
            setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
            break;
        }
        uint8_t *out = heap + heaped;
        put_u32(out, trouble && p->kind == TOO_LARGE ? MAX_FRAME + 1 : trouble && p->kind == NEGATIVE ? -5u : response);
        put_u32(out + 4, trouble && p->kind == WRONG_ID ? id + 1 : id);
        fill_pattern(out + 8, id ^ 0xABCD, 4, response - 4);
        size_t whole = 4 + (size_t)response;
        if (p->kind == HEAPS) {
            heaped += whole;
            continue;
        }
        if (trouble && p->kind == CUT_RESPONSE) whole = below(&p->d, whole);
        if (write_all(p, out, whole)) break;
        if (trouble && p->kind == CUT_RESPONSE) break;
    }
    free(heap);
    free(body);
    close(p->fd);
}

static void *run_peer(void *argument) {
    serve(argument);
    return NULL;
}

typedef struct listener {
    int fd, expected, accepted;
    dice d;
    peer peers[CONNECTIONS];
} listener;

static void *run_listener(void *argument) {
    listener *l = argument;
    for (; l->accepted < l->expected; l->accepted++) {
        peer *p = &l->peers[l->accepted];
        p->fd = accept(l->fd, NULL, NULL);
        if (p->fd < 0) break; /* the round is over: shut down */
        p->kind = (int)below(&l->d, KINDS);
        p->d = roll(&l->d);
        CHECK(!pthread_create(&p->thread, NULL, run_peer, p));
    }
    return NULL;
}

/* ---- the client ---- */

typedef struct request {
    uint32_t response; /* size; 0: none expected */
} request;

typedef struct link {
    pthread_mutex_t lock; /* keeps the order of submission and of `requests` the same */
    uint32_t id;
    request requests[MAX_REQUESTS];
    uint32_t submitted, next_response, next_sent;
    int connected, closed;
} link_state;

typedef struct round_state {
    kw_loop *loop;
    link_state links[CONNECTIONS];
    dice d;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int closed, stop_draining;
    uint64_t posts, posted;
} round_state;

typedef struct submitter {
    round_state *round;
    dice d;
    pthread_t thread;
} submitter;

static void submit_one(round_state *r, dice *d) {
    link_state *link = &r->links[below(d, CONNECTIONS)];
    uint32_t size, response, body, first;
    kw_buf *segments[3];
    size = REQUEST_HEAD + (uint32_t)(below(d, 10) ? below(d, 500) : below(d, 300000));
    response = 4 + (uint32_t)(below(d, 10) ? below(d, 500) : below(d, 600000));
    if (below(d, 6) == 0) response = 0;
    pthread_mutex_lock(&link->lock);
    uint32_t id = link->submitted;
    uint8_t head[REQUEST_HEAD];
    put_u32(head, id);
    put_u32(head + 4, response != 0);
    put_u32(head + 8, response);
    put_u32(head + 12, size);
    segments[0] = kw_buf_new(pool, REQUEST_HEAD);
    CHECK(segments[0]);
    memcpy(segments[0]->data, head, REQUEST_HEAD);
    segments[0]->size = REQUEST_HEAD;
    body = size - REQUEST_HEAD;
    first = (uint32_t)below(d, body + 1);
    segments[1] = kw_buf_new(pool, first);
    segments[2] = kw_buf_new(pool, body - first);
    CHECK(segments[1] && segments[2]);
    fill_pattern(segments[1]->data, id, 0, first);
    fill_pattern(segments[2]->data, id, first, body - first);
    segments[1]->size = first;
    segments[2]->size = body - first;
    link->requests[id].response = response;
    link->submitted++; /* before submitting: the response may be drained before the call returns */
    uint64_t token = ((uint64_t)link->id << 32) | id;
    int error = kw_loop_submit(r->loop, link->id, token, (int32_t)id, segments, 3, response != 0);
    CHECK(error == 0 || error == -EPIPE || error == -ESHUTDOWN);
    if (error) link->submitted--;
    pthread_mutex_unlock(&link->lock);
    for (int i = 0; i < 3; i++) kw_buf_unref(segments[i]);
}

static void *run_submitter(void *argument) {
    submitter *s = argument;
    for (int i = 0; i < OPERATIONS; i++) {
        uint64_t what = below(&s->d, 100);
        if (what < 90) {
            submit_one(s->round, &s->d);
        } else if (what < 97) {
            int error = kw_loop_post(s->round->loop, below(&s->d, 5));
            CHECK(error == 0 || error == -ESHUTDOWN);
            if (!error) __atomic_fetch_add(&s->round->posts, 1, __ATOMIC_RELAXED);
        } else if (what < 99) {
            int error = kw_loop_set_max_frame(s->round->loop, s->round->links[below(&s->d, CONNECTIONS)].id, MAX_FRAME);
            CHECK(error == 0 || error == -EPIPE || error == -ESHUTDOWN);
        } else {
            int error = kw_loop_close_connection(s->round->loop, s->round->links[below(&s->d, CONNECTIONS)].id);
            CHECK(error == 0);
        }
        kw_loop_statistics statistics;
        CHECK(!kw_loop_get_statistics(s->round->loop, &statistics));
    }
    return NULL;
}

static link_state *link_of(round_state *r, uint32_t id) {
    for (int i = 0; i < CONNECTIONS; i++)
        if (r->links[i].id == id) return &r->links[i];
    CHECK(!"a completion of an unknown connection");
    return NULL;
}

static void on_completion(round_state *r, kw_completion *completion) {
    __atomic_fetch_add(&totals[completion->kind], 1, __ATOMIC_RELAXED);
    if (completion->kind == KW_POSTED) {
        CHECK(completion->token < 5);
        r->posted++;
        return;
    }
    link_state *link = link_of(r, completion->connection);
    pthread_mutex_lock(&link->lock);
    CHECK(!link->closed);
    if (completion->kind == KW_CONNECTED) {
        CHECK(!link->connected);
        link->connected = 1;
    } else if (completion->kind == KW_RESPONSE) {
        while (link->next_response < link->submitted && !link->requests[link->next_response].response) link->next_response++;
        uint32_t id = link->next_response++;
        CHECK(link->connected && id < link->submitted);
        CHECK(completion->token == (((uint64_t)link->id << 32) | id));
        kw_buf *frame = completion->frame;
        CHECK(frame->size == link->requests[id].response && get_u32(frame->data) == id);
        CHECK(is_pattern(frame->data + 4, id ^ 0xABCD, 4, (uint32_t)frame->size - 4));
    } else if (completion->kind == KW_SENT) {
        while (link->next_sent < link->submitted && link->requests[link->next_sent].response) link->next_sent++;
        uint32_t id = link->next_sent++;
        CHECK(link->connected && id < link->submitted);
        CHECK(completion->token == (((uint64_t)link->id << 32) | id) && !completion->frame);
    } else {
        CHECK(completion->kind == KW_CLOSED);
        CHECK(((kw_closing *)completion)->reason[0]);
        link->closed = 1;
    }
    int closed = link->closed;
    pthread_mutex_unlock(&link->lock);
    if (closed) {
        pthread_mutex_lock(&r->lock);
        r->closed++;
        pthread_cond_broadcast(&r->changed);
        pthread_mutex_unlock(&r->lock);
    }
}

static size_t drain(round_state *r) {
    int error;
    size_t n = 0;
    kw_completion *each = kw_loop_drain(r->loop, &error), *next;
    CHECK(!error);
    for (; each; each = next, n++) {
        next = each->next;
        on_completion(r, each);
        kw_completion_free(each);
    }
    return n;
}

static void *run_drainer(void *argument) {
    round_state *r = argument;
    int fd = kw_loop_fileno(r->loop);
    for (;;) {
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        int n = poll(&readable, 1, 50);
        if (__atomic_load_n(&r->stop_draining, __ATOMIC_ACQUIRE)) return NULL;
        if (n == 1) CHECK(drain(r) > 0);
    }
}

static int open_descriptors(void) {
    int n = 0;
    DIR *directory = opendir("/proc/self/fd");
    if (!directory) return 0;
    while (readdir(directory)) n++;
    closedir(directory);
    return n;
}

static void one_round(dice *d) {
    static round_state r; /* large */
    static listener l;
    submitter submitters[SUBMITTERS];
    pthread_t drainer, listening;
    int error, abrupt = below(d, 3) == 0, descriptors = open_descriptors();
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t address_size = sizeof address;

    memset(&r, 0, sizeof r);
    memset(&l, 0, sizeof l);
    l.fd = socket(AF_INET, SOCK_STREAM, 0);
    l.expected = CONNECTIONS;
    l.d = roll(d);
    if (below(d, 2)) setsockopt(l.fd, SOL_SOCKET, SO_RCVBUF, &(int){PEER_BUFFER}, sizeof(int));
    CHECK(!bind(l.fd, (struct sockaddr *)&address, sizeof address) && !listen(l.fd, CONNECTIONS));
    CHECK(!getsockname(l.fd, (struct sockaddr *)&address, &address_size));
    CHECK(!pthread_create(&listening, NULL, run_listener, &l));

    r.loop = kw_loop_new(pool, &error);
    CHECK(r.loop && !error);
    pthread_mutex_init(&r.lock, NULL);
    pthread_cond_init(&r.changed, NULL);
    int refused = below(d, 4) == 0 ? (int)below(d, CONNECTIONS) : -1;
    for (int i = 0; i < CONNECTIONS; i++) {
        struct sockaddr_in to = address;
        if (i == refused) {
            to.sin_port = htons(1);
            shutdown(l.fd, SHUT_RD); /* one fewer will come */
        }
        int64_t id = kw_loop_connect(r.loop, (struct sockaddr *)&to, sizeof to, NULL, MAX_FRAME,
                                     below(d, 2) ? 4096 : 0, below(d, 2) ? 4096 : 0);
        CHECK(id > 0);
        r.links[i].id = (uint32_t)id;
        pthread_mutex_init(&r.links[i].lock, NULL);
    }
    CHECK(!pthread_create(&drainer, NULL, run_drainer, &r));
    for (int i = 0; i < SUBMITTERS; i++) {
        submitters[i] = (submitter){.round = &r, .d = roll(d)};
        CHECK(!pthread_create(&submitters[i].thread, NULL, run_submitter, &submitters[i]));
    }
    if (abrupt) { /* stop while they submit: wait for some of the work to be done, then end it */
        kw_loop_statistics statistics;
        uint64_t enough = below(d, 200);
        for (int i = 0; i < 100000; i++) {
            CHECK(!kw_loop_get_statistics(r.loop, &statistics));
            if (statistics.frames_out >= enough) break;
        }
        kw_loop_stop(r.loop);
        CHECK(kw_loop_fileno(r.loop) >= 0);
        CHECK(kw_loop_post(r.loop, 1) == -ESHUTDOWN);
    }
    for (int i = 0; i < SUBMITTERS; i++) pthread_join(submitters[i].thread, NULL);
    if (!abrupt) {
        for (int i = 0; i < CONNECTIONS; i++) CHECK(!kw_loop_close_connection(r.loop, r.links[i].id));
        pthread_mutex_lock(&r.lock);
        while (r.closed < CONNECTIONS) pthread_cond_wait(&r.changed, &r.lock);
        pthread_mutex_unlock(&r.lock);
        CHECK(!kw_loop_close_connection(r.loop, r.links[0].id));
    }
    __atomic_store_n(&r.stop_draining, 1, __ATOMIC_RELEASE);
    pthread_join(drainer, NULL);
    kw_loop_stop(r.loop);
    drain(&r);
    CHECK(r.closed == CONNECTIONS);
    CHECK(r.posted <= r.posts && (r.posted > 0) == (r.posts > 0));
    kw_loop_statistics statistics;
    CHECK(!kw_loop_get_statistics(r.loop, &statistics));
    CHECK(statistics.connections_open == 0 && statistics.connections_opened == CONNECTIONS);
    kw_loop_free(r.loop);
    CHECK(kw_pool_live_bytes(pool) == 0);

    shutdown(l.fd, SHUT_RDWR);
    pthread_join(listening, NULL);
    for (int i = 0; i < l.accepted; i++) pthread_join(l.peers[i].thread, NULL);
    close(l.fd);
    CHECK(open_descriptors() == descriptors);
    for (int i = 0; i < CONNECTIONS; i++) pthread_mutex_destroy(&r.links[i].lock);
    pthread_mutex_destroy(&r.lock);
    pthread_cond_destroy(&r.changed);
}

/* Every request gets a response: one connection, every size, prompt peers of each honest kind. */
static void complete_round(dice *d, int kind) {
    static round_state r;
    peer p = {.kind = kind, .d = roll(d)};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t address_size = sizeof address;
    int error, listening = socket(AF_INET, SOCK_STREAM, 0);
    memset(&r, 0, sizeof r);
    setsockopt(listening, SOL_SOCKET, SO_RCVBUF, &(int){PEER_BUFFER}, sizeof(int));
    CHECK(!bind(listening, (struct sockaddr *)&address, sizeof address) && !listen(listening, 1));
    CHECK(!getsockname(listening, (struct sockaddr *)&address, &address_size));
    r.loop = kw_loop_new(pool, &error);
    CHECK(r.loop);
    int64_t id = kw_loop_connect(r.loop, (struct sockaddr *)&address, sizeof address, NULL, MAX_FRAME, 4096, 4096);
    for (int i = 0; i < CONNECTIONS; i++) {
        r.links[i].id = i ? UINT32_MAX : (uint32_t)id;
        pthread_mutex_init(&r.links[i].lock, NULL);
    }
    p.fd = accept(listening, NULL, NULL);
    CHECK(p.fd >= 0 && !pthread_create(&p.thread, NULL, run_peer, &p));
    for (int i = 0; i < 800; i++) submit_one(&r, d);
    link_state *link = &r.links[0];
    uint32_t responses = 0, sent = 0, got = 0, went = 0;
    for (uint32_t i = 0; i < link->submitted; i++) link->requests[i].response ? responses++ : sent++;
    while (got < responses || went < sent) {
        struct pollfd readable = {.fd = kw_loop_fileno(r.loop), .events = POLLIN};
        CHECK(poll(&readable, 1, 60000) == 1);
        CHECK(drain(&r) > 0 && !link->closed);
        got = went = 0;
        for (uint32_t i = 0; i < link->next_response; i++) got += link->requests[i].response != 0;
        for (uint32_t i = 0; i < link->next_sent; i++) went += link->requests[i].response == 0;
    }
#ifdef KW_TURN
    /* No turn was longer than it may be: one of receiving, two of sending for each time the thread looked round. */
    kw_loop_statistics statistics;
    CHECK(!kw_loop_get_statistics(r.loop, &statistics));
    CHECK(statistics.bytes_in <= statistics.polls * (KW_TURN + KW_STEP));
    CHECK(statistics.bytes_out <= statistics.polls * (KW_TURN + KW_STEP) * 2);
#endif
    kw_loop_free(r.loop);
    pthread_join(p.thread, NULL);
    close(listening);
    CHECK(kw_pool_live_bytes(pool) == 0);
    for (int i = 0; i < CONNECTIONS; i++) pthread_mutex_destroy(&r.links[i].lock);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    dice d = strtoull(argv[1], NULL, 10);
    alarm(300); /* a hang is a failure with a core, not a wait */
    pool = kw_pool_new(64 << 20);
    CHECK(pool);
    for (int kind = PROMPT; kind <= SLOW; kind++) complete_round(&d, kind);
    long rounds = strtol(argv[2], NULL, 10);
    for (long i = 0; goes_on(i, rounds, &totals[KW_RESPONSE], 1, LEAST); i++) one_round(&d);
    kw_pool_trim(pool, 0);
    printf("ok: %llu connected, %llu responses, %llu sent, %llu closed, %llu posted\n",
           (unsigned long long)totals[KW_CONNECTED], (unsigned long long)totals[KW_RESPONSE],
           (unsigned long long)totals[KW_SENT], (unsigned long long)totals[KW_CLOSED],
           (unsigned long long)totals[KW_POSTED]);
    return 0;
}
