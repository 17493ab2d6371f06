#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "kafwire/runtime/native/loop.h"

#include "kafwire/memory/native/thread.h"
#include "kafwire/runtime/native/plain.h"
#include "kafwire/runtime/native/poller.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(EAGAIN == EWOULDBLOCK, "one name will do for a socket that is empty or full");

/* Locks. Each connection has one, for its frames and its state. The loop has two: `lock` for the table and the list of
 * connections that want attention, and `out_lock` for completions. A thread that holds a connection's lock may take one
 * of these two, never the other way round, and never both. No lock is held while bytes move: submitters may hold the
 * GIL.
 *
 * The I/O thread alone opens, uses and closes sockets, so no other thread can use a descriptor that was closed and
 * reused. Submitters could send small requests themselves and save a wake-up; measured, that gained nothing in latency,
 * and lost the batching of several requests into one call. */

/* One call moves at most STEP bytes; after TURN bytes of one connection (at most a STEP more) the others get their
 * turn. Tests make both small. */
#ifndef KW_STEP
#define KW_STEP (1 << 20)
#define KW_TURN (4 << 20)
#endif

enum {
    BUCKETS = 256,
    SLICES = 64,
    STEP = KW_STEP,
    TURN = KW_TURN,
    BURST = 256 << 10,
    KEEPALIVE_IDLE_S = 60,
    KEEPALIVE_INTERVAL_S = 10,
    KEEPALIVE_PROBES = 6,
};
enum { NEW, CONNECTING, HANDSHAKING, OPEN, DEAD };

typedef struct connection {
    kw_completion connected;  /* these two hold a reference while they are in `out` */
    kw_closing closing;
    uint32_t refs; /* atomic */
    uint32_t id;
    struct connection *chain;  /* loop->lock: next in its bucket */
    struct connection *next_busy;  /* loop->lock: next in the list for attention, which holds a reference */
    int busy;
    pthread_mutex_t lock;
    int state;
    kw_watched socket;  /* used by the I/O thread only, as are the next three */
    kw_stream *stream;  /* moves the bytes; `plain`, unless the caller gave one */
    kw_stream plain;
    int receive_again;  /* receive without waiting for the socket to be readable */
    int low_water;  /* SO_RCVLOWAT; 0: not set, so 1 */
    int close_wanted;
    kw_frames frames;
    kw_response_filter filter;
    void *filter_context;
    int send_buffer, receive_buffer;
    socklen_t address_size;
    struct sockaddr_storage address;
} connection;

typedef struct posted {
    kw_completion done;
    struct posted *chain;
} posted;

struct kw_loop {
    kw_pool *pool;
    pid_t pid;
    pthread_t thread;
    kw_poller poller;
    int wake_read, wake_write, notify_read, notify_write;

    pthread_mutex_t lock;
    connection *table[BUCKETS];
    connection *busy_first, *busy_last;
    uint32_t last_id;
    int stopping;

    pthread_mutex_t out_lock;
    kw_list out;
    posted *posts[BUCKETS];  /* those in `out`, by cookie */
    int notified, stopped;
    int filtering;  /* atomic: a response filter sees responses that are not in `out` yet */
    int tell_called;  /* kw_loop_tell was called meanwhile */

    pthread_mutex_t stop_lock;
    int joined;

    kw_loop_statistics statistics; /* atomic, relaxed */
};

static void count(uint64_t *counter, uint64_t n) { __atomic_fetch_add(counter, n, __ATOMIC_RELAXED); }

static int forked(const kw_loop *loop) { return getpid() != loop->pid; }

/* ---- completions ---- */

static connection *connection_ref(connection *c) {
    __atomic_fetch_add(&c->refs, 1, __ATOMIC_RELAXED);
    return c;
}

static void connection_unref(connection *c) {
    if (__atomic_fetch_sub(&c->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
    kw_frames_clear(&c->frames);
    if (c->stream) c->stream->do_->free(c->stream);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

void kw_completion_free(kw_completion *completion) {
    if (!completion) return;
    switch (completion->kind) {
    case KW_CONNECTED:
        connection_unref((connection *)completion);
        break;
    case KW_CLOSED:
        connection_unref((connection *)((char *)completion - offsetof(connection, closing)));
        break;
    case KW_POSTED:
        free(completion);
        break;
    default:
        kw_request_free((kw_request *)completion);
    }
}

/* out_lock is held. The descriptor is readable while `out` is not empty, since both change under the lock; except for
 * responses that a response filter takes. */
static void notify(kw_loop *loop) {
    if (loop->notified) return;
    loop->notified = 1;
    count(&loop->statistics.notifications, 1);
    kw_wake_set(loop->notify_write);
}

static void publish(kw_loop *loop, kw_completion *completion) {
    pthread_mutex_lock(&loop->out_lock);
    kw_list_append(&loop->out, completion);
    notify(loop);
    pthread_mutex_unlock(&loop->out_lock);
}

/* The connection's lock is held, so its completions are published in order, and none after CLOSED. */
static void publish_frames(kw_loop *loop, connection *c) {
    kw_list *done = &c->frames.done;
    if (!done->first) return;
    int later = c->filter != NULL;  /* the thread that takes a response from the filter calls kw_loop_tell */
    /* It may call before the response is in `out`. It got the response under a lock of the filter, and so sees this
     * store. */
    if (later) __atomic_store_n(&loop->filtering, 1, __ATOMIC_RELAXED);
    for (kw_completion *each = done->first; each; each = each->next) {
        each->connection = c->id;
        int quiet = c->filter && each->kind == KW_RESPONSE && c->filter(c->filter_context, each->token, each->frame);
        later = later && quiet;
    }
    pthread_mutex_lock(&loop->out_lock);
    if (loop->out.last)
        loop->out.last->next = done->first;
    else
        loop->out.first = done->first;
    loop->out.last = done->last;
    if (!later || loop->tell_called) notify(loop);
    loop->tell_called = 0;
    __atomic_store_n(&loop->filtering, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&loop->out_lock);
    done->first = done->last = NULL;
}

static unsigned bucket_of(uint64_t cookie) { return (unsigned)((cookie * 0x9E3779B97F4A7C15u) >> 56); }

int kw_loop_post(kw_loop *loop, uint64_t cookie) {
    if (forked(loop)) return -ECHILD;
    unsigned bucket = bucket_of(cookie);
    int result = 0;
    pthread_mutex_lock(&loop->out_lock);
    posted *found = loop->posts[bucket];
    while (found && found->done.token != cookie) found = found->chain;
    if (loop->stopped)
        result = -ESHUTDOWN;
    else if (!found) {
        posted *fresh = calloc(1, sizeof *fresh);
        if (fresh) {
            fresh->done.kind = KW_POSTED;
            fresh->done.token = cookie;
            fresh->chain = loop->posts[bucket];
            loop->posts[bucket] = fresh;
            kw_list_append(&loop->out, &fresh->done);
            notify(loop);
        } else
            result = -ENOMEM;
    }
    pthread_mutex_unlock(&loop->out_lock);
    return result;
}

kw_completion *kw_loop_drain(kw_loop *loop, int *error) {
    *error = forked(loop) ? -ECHILD : 0;
    if (*error) return NULL;
    pthread_mutex_lock(&loop->out_lock);
    kw_completion *first = loop->out.first;
    loop->out.first = loop->out.last = NULL;
    if (loop->notified) {
        memset(loop->posts, 0, sizeof loop->posts);
        kw_wake_clear(loop->notify_read);
        loop->notified = 0;
    }
    pthread_mutex_unlock(&loop->out_lock);
    return first;
}

/* ---- the I/O thread's work on one connection ---- */

static void close_now(kw_loop *loop, connection *c, int error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The I/O thread only, without the connection's lock; the caller holds a reference if it uses the connection
 * afterwards. All queued and pending requests are dropped: CLOSED stands for them. shutdown() first: a process forked
 * meanwhile holds copies of the descriptor, and without shutdown the peer would see no end of the connection before
 * that process exits. */
static void close_now(kw_loop *loop, connection *c, int error, const char *format, ...) {
    va_list arguments;
    pthread_mutex_lock(&c->lock);
    if (c->state == DEAD) {
        pthread_mutex_unlock(&c->lock);
        return;
    }
    va_start(arguments, format);
    vsnprintf(c->closing.reason, sizeof c->closing.reason, format, arguments);
    va_end(arguments);
    if (c->state == OPEN) c->stream->do_->end(c->stream, c->socket.fd);
    c->state = DEAD;
    if (c->socket.fd >= 0) {
        kw_poller_watch(&loop->poller, &c->socket, 0);
        shutdown(c->socket.fd, SHUT_RDWR);
        close(c->socket.fd);
        c->socket.fd = -1;
    }
    publish_frames(loop, c);
    kw_frames_clear(&c->frames);
    c->closing.error = error;
    __atomic_fetch_sub(&loop->statistics.connections_open, 1, __ATOMIC_RELAXED);
    connection_ref(c);
    publish(loop, &c->closing.done);
    pthread_mutex_unlock(&c->lock);

    pthread_mutex_lock(&loop->lock);
    connection **link = &loop->table[c->id % BUCKETS];
    while (*link && *link != c) link = &(*link)->chain;
    if (*link) *link = c->chain;
    pthread_mutex_unlock(&loop->lock);
    connection_unref(c);
}

static void close_by_errno(kw_loop *loop, connection *c, int error, const char *what) {
    char text[96] = "";
#if defined(__GLIBC__)
    const char *meaning = strerror_r(error, text, sizeof text);
#else
    const char *meaning = strerror_r(error, text, sizeof text) ? "unknown error" : text;
#endif
    close_now(loop, c, error, "%s failed: %s", what, meaning);
}

/* The reason is the stream's text, or else the errno's. */
static void close_by_stream(kw_loop *loop, connection *c, int error, const char *what) {
    if (c->stream->reason[0])
        close_now(loop, c, error, "%s", c->stream->reason);
    else
        close_by_errno(loop, c, error, what);
}

/* One send call, of the bytes pending when it began. Returns bytes sent, 0 for nothing to send, or a negative errno,
 * -EAGAIN as soon as the socket is full. The lock is not held during the call: only this thread takes requests from the
 * queue, so the slices being sent stay in place. */
static ssize_t send_step(kw_loop *loop, connection *c) {
    struct iovec slices[SLICES];
    size_t room = STEP;
    int offered = 0;
    pthread_mutex_lock(&c->lock);
    int filled = kw_frames_to_send(&c->frames, slices, SLICES);
    pthread_mutex_unlock(&c->lock);
    for (; offered < filled && room; offered++) {
        if (slices[offered].iov_len > room) slices[offered].iov_len = room;
        room -= slices[offered].iov_len;
    }
    if (!filled) return 0;
    ssize_t sent = c->stream->do_->send(c->stream, c->socket.fd, slices, offered);
    count(&loop->statistics.send_calls, 1);
    if (sent < 0) return sent;
    pthread_mutex_lock(&c->lock);
    uint64_t frames = c->frames.frames_out;
    kw_frames_sent(&c->frames, (size_t)sent);
    count(&loop->statistics.bytes_out, (uint64_t)sent);
    count(&loop->statistics.frames_out, c->frames.frames_out - frames);
    publish_frames(loop, c);
    pthread_mutex_unlock(&c->lock);
    /* A short send: the socket is full, and another call would only report that. */
    return room + (size_t)sent < STEP ? -EAGAIN : sent;
}

static void set_option(int fd, int level, int name, int value);
static void receive(kw_loop *loop, connection *c, size_t turn);
static void want_attention(kw_loop *loop, connection *c);

/* Sends until the socket is full or the turn is over, then watches the socket as needed. */
static void flush(kw_loop *loop, connection *c) {
    ssize_t sent = 0;
    for (size_t turn = TURN; turn; turn -= (size_t)sent < turn ? (size_t)sent : turn) {
        sent = send_step(loop, c);
        if (sent <= 0) break;
    }
    int error = sent < 0 && sent != -EAGAIN ? (int)-sent : 0;
    const char *what = "send";
    if (!error) {
        /* Under the lock: a submitter that finds bytes pending before its own relies on this watch. */
        pthread_mutex_lock(&c->lock);
        int writes = c->frames.pending_bytes || c->stream->wants_write;
        if (kw_poller_watch(&loop->poller, &c->socket, KW_READABLE | (writes ? KW_WRITABLE : 0))) {
            error = errno;
            what = "poll";
        }
        pthread_mutex_unlock(&c->lock);
    }
    if (error) {
        /* Responses that came before the failure may still be in the socket; each one read decides the fate of a
         * request. */
        receive(loop, c, SIZE_MAX);
        close_by_stream(loop, c, error, what);
    }
}

static void close_poisoned(kw_loop *loop, connection *c) {
    char reason[KW_REASON_SIZE];
    pthread_mutex_lock(&c->lock);
    kw_frames_reason(&c->frames, reason, sizeof reason);
    int error = EPROTO;
    if (c->frames.poison == KW_POISON_MEMORY) error = ENOMEM;
    if (c->frames.poison == KW_POISON_OVERSIZE) error = EMSGSIZE;
    pthread_mutex_unlock(&c->lock);
    close_now(loop, c, error, "%s", reason);
}

/* In the middle of a large frame the thread is woken for a burst of bytes, not for each packet or TLS record. The rest
 * of the frame comes in any case, or the connection's end, which wakes too; TLS holds less than a record of it already.
   */
static void choose_low_water(connection *c, size_t missing) {
#if KW_EPOLL
    int wanted = missing >= 2 * (size_t)BURST ? BURST : 0;
    if (wanted == c->low_water) return;
    c->low_water = wanted;
    set_option(c->socket.fd, SOL_SOCKET, SO_RCVLOWAT, wanted ? wanted : 1);
#else
    (void)c, (void)missing;
#endif
}

/* Receives until the socket is empty or `turn` bytes have come. The lock is not held during recv(): the space belongs
 * to the receiving side of the frames, which only this thread uses. */
static void receive(kw_loop *loop, connection *c, size_t turn) {
    uint8_t *data = NULL;
    size_t room = 0;
    pthread_mutex_lock(&c->lock);
    int bad = kw_frames_receive_space(&c->frames, &data, &room);
    pthread_mutex_unlock(&c->lock);
    while (!bad) {
        if (room > STEP) room = STEP;
        ssize_t received = c->stream->do_->receive(c->stream, c->socket.fd, data, room);
        count(&loop->statistics.receive_calls, 1);
        if (received < 0) {
            if (received == -EAGAIN)
                choose_low_water(c, room);
            else
                close_by_stream(loop, c, (int)-received, "receive");
            return;
        }
        if (received == 0) {
            pthread_mutex_lock(&c->lock);
            int inside = kw_frames_inside_frame(&c->frames);
            pthread_mutex_unlock(&c->lock);
            close_now(loop, c, EPIPE, "the peer closed the connection%s%s", inside ? " in the middle of a frame" : "",
                      c->stream->reason);
            return;
        }
        size_t asked = room;
        pthread_mutex_lock(&c->lock);
        uint64_t frames = c->frames.frames_in;
        bad = kw_frames_received(&c->frames, (size_t)received);
        count(&loop->statistics.bytes_in, (uint64_t)received);
        count(&loop->statistics.frames_in, c->frames.frames_in - frames);
        publish_frames(loop, c);
        if (!bad) bad = kw_frames_receive_space(&c->frames, &data, &room);
        pthread_mutex_unlock(&c->lock);
        turn -= (size_t)received < turn ? (size_t)received : turn;
        if (!bad && ((size_t)received < asked || !turn)) {
            choose_low_water(c, room);
            c->receive_again = c->stream->do_->has_more(c->stream);
            if (c->receive_again) want_attention(loop, c);
            return;
        }
    }
    close_poisoned(loop, c);
}

static void on_open(kw_loop *loop, connection *c) {
    pthread_mutex_lock(&c->lock);
    c->state = OPEN;
    connection_ref(c);
    publish(loop, &c->connected);
    pthread_mutex_unlock(&c->lock);
    flush(loop, c);
    /* The peer may have sent more with the end of its handshake; the socket does not show that. */
    if (c->state == OPEN && c->stream->do_->has_more(c->stream)) receive(loop, c, TURN);
}

static void go_on_with_handshake(kw_loop *loop, connection *c) {
    int result = c->stream->do_->handshake(c->stream, c->socket.fd);
    if (!result)
        on_open(loop, c);
    else if (result != -EAGAIN)
        close_by_stream(loop, c, -result, "handshake");
    else if (kw_poller_watch(&loop->poller, &c->socket, c->stream->wants_write ? KW_WRITABLE : KW_READABLE))
        close_by_errno(loop, c, errno, "poll");
}

static void on_connected(kw_loop *loop, connection *c) {
    /* A connect() to a free port of this host may choose that port for its own end, and so reach itself. */
    struct sockaddr_storage mine, theirs;
    socklen_t mine_size = sizeof mine, theirs_size = sizeof theirs;
    memset(&mine, 0, sizeof mine);
    memset(&theirs, 0, sizeof theirs);
    if (!getsockname(c->socket.fd, (struct sockaddr *)&mine, &mine_size) &&
        !getpeername(c->socket.fd, (struct sockaddr *)&theirs, &theirs_size) && mine_size == theirs_size &&
        !memcmp(&mine, &theirs, mine_size)) {
        close_by_errno(loop, c, ECONNREFUSED, "connect");
        return;
    }
    pthread_mutex_lock(&c->lock);
    c->state = HANDSHAKING;
    pthread_mutex_unlock(&c->lock);
    go_on_with_handshake(loop, c);
}

static void on_connect_ready(kw_loop *loop, connection *c) {
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(c->socket.fd, SOL_SOCKET, SO_ERROR, &error, &size)) error = errno;
    if (error)
        close_by_errno(loop, c, error, "connect");
    else
        on_connected(loop, c);
}

static void set_option(int fd, int level, int name, int value) {
    (void)setsockopt(fd, level, name, &value, sizeof value);
}

static void start_connecting(kw_loop *loop, connection *c) {
    /* Close-on-exec from the start: another thread may be starting a program. */
#ifdef SOCK_CLOEXEC
    int fd = socket(c->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
#else
    int fd = socket(c->address.ss_family, SOCK_STREAM, 0);
#endif
    if (fd < 0 || kw_set_nonblocking(fd)) {
        int error = errno;
        if (fd >= 0) close(fd);
        close_by_errno(loop, c, error, "socket");
        return;
    }
    /* Options are optional: if the system refuses one, the connection still works. */
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
#ifdef TCP_KEEPIDLE
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
#elif defined(TCP_KEEPALIVE)
    set_option(fd, IPPROTO_TCP, TCP_KEEPALIVE, KEEPALIVE_IDLE_S);
#endif
#ifdef TCP_KEEPINTVL
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
#endif
#ifdef SO_NOSIGPIPE
    set_option(fd, SOL_SOCKET, SO_NOSIGPIPE, 1);
#endif
    if (c->send_buffer > 0) set_option(fd, SOL_SOCKET, SO_SNDBUF, c->send_buffer);
    if (c->receive_buffer > 0) set_option(fd, SOL_SOCKET, SO_RCVBUF, c->receive_buffer);
    pthread_mutex_lock(&c->lock);
    c->socket.fd = fd;
    c->state = CONNECTING;
    pthread_mutex_unlock(&c->lock);
    if (!connect(fd, (struct sockaddr *)&c->address, c->address_size)) {
        on_connected(loop, c);
    } else if (errno != EINPROGRESS && errno != EINTR) {  /* interrupted: the connect continues in the background */
        close_by_errno(loop, c, errno, "connect");
    } else if (kw_poller_watch(&loop->poller, &c->socket, KW_WRITABLE)) {
        close_by_errno(loop, c, errno, "poll");
    }
}

static void on_ready(kw_loop *loop, connection *c, int ready) {
    connection_ref(c);  /* closing drops the table's reference, which may be the last */
    /* Only this thread changes `state`, so it may read it without the lock. */
    if (c->state == CONNECTING) {
        on_connect_ready(loop, c);
    } else if (c->state == HANDSHAKING) {
        go_on_with_handshake(loop, c);
    } else {
        /* Either direction may have waited for the socket to be ready for the other. */
        int crossed = c->stream->wants_write;
        if (c->state == OPEN && (ready & KW_READABLE || crossed)) receive(loop, c, TURN);
        if (c->state == OPEN && (ready & KW_WRITABLE || crossed != c->stream->wants_write)) flush(loop, c);
    }
    connection_unref(c);
}

static void attend(kw_loop *loop, connection *c) {
    pthread_mutex_lock(&c->lock);
    int close_wanted = c->close_wanted;
    pthread_mutex_unlock(&c->lock);
    if (close_wanted)
        close_now(loop, c, 0, "closed by this side");
    else if (c->state == NEW)
        start_connecting(loop, c);
    else if (c->state == OPEN) {
        if (c->receive_again) receive(loop, c, TURN);
        if (c->state == OPEN) flush(loop, c);
    }
}

static connection *take_busy(kw_loop *loop, int *stopping) {
    pthread_mutex_lock(&loop->lock);
    connection *first = loop->busy_first;
    loop->busy_first = loop->busy_last = NULL;
    *stopping = loop->stopping;
    pthread_mutex_unlock(&loop->lock);
    return first;
}

/* The connections of a taken list stay `busy` until their turn: while one is busy, no other thread links it anywhere,
 * so the taken list stays intact. A request for attention before this call is served by the attention after it. */
static connection *next_busy(kw_loop *loop, connection *c) {
    pthread_mutex_lock(&loop->lock);
    connection *next = c->next_busy;
    c->busy = 0;
    pthread_mutex_unlock(&loop->lock);
    return next;
}

static connection *owner_of(kw_watched *socket) {
    return (connection *)((char *)socket - offsetof(connection, socket));
}

static void *run(void *argument) {
    kw_loop *loop = argument;
    kw_event events[KW_POLLER_EVENTS];
    int stopping = 0;
    const char *reason = "the I/O thread was stopped";
    while (!stopping) {
        int n = kw_poller_wait(&loop->poller, events);
        count(&loop->statistics.polls, 1);
        if (n < 0 && errno != EINTR) {
            /* Other code closed these descriptors. Waiting is impossible, and retrying would spin. */
            reason = "the I/O thread lost its descriptors: something in this process closed them";
            pthread_mutex_lock(&loop->lock);
            loop->stopping = 1;
            pthread_mutex_unlock(&loop->lock);
        }
        /* A connection is at most once among the events and can only be closed by its own event, so none of them is
         * stale. All other closing comes afterwards. */
        for (int i = 0; i < n; i++) {
            if (events[i].watched)
                on_ready(loop, owner_of(events[i].watched), events[i].ready);
            else
                kw_wake_clear(loop->wake_read);
        }
        connection *c = take_busy(loop, &stopping), *next;
        for (; c; c = next) {
            next = next_busy(loop, c);
            if (!stopping) attend(loop, c);
            connection_unref(c);
        }
    }
    /* No new connection enters the table, and only this thread removes them. */
    for (int i = 0; i < BUCKETS; i++) {
        for (;;) {
            pthread_mutex_lock(&loop->lock);
            connection *c = loop->table[i];
            pthread_mutex_unlock(&loop->lock);
            if (!c) break;
            /* close_now unlinks it, so this ends. */
            close_now(loop, c, 0, "%s", reason);
        }
    }
    return NULL;
}

/* ---- called by other threads ---- */

/* Only the first of the list needs a wake: until the I/O thread takes the list, a wake is pending. */
static void want_attention(kw_loop *loop, connection *c) {
    pthread_mutex_lock(&loop->lock);
    if (!c->busy && !loop->stopping) {
        int first = !loop->busy_first;
        c->busy = 1;
        c->next_busy = NULL;
        connection_ref(c);
        if (first)
            loop->busy_first = c;
        else
            loop->busy_last->next_busy = c;
        loop->busy_last = c;
        if (first) kw_wake_set(loop->wake_write);
    }
    pthread_mutex_unlock(&loop->lock);
}

/* Returns a reference for the caller, or NULL and *error. */
static connection *find(kw_loop *loop, uint32_t id, int *error) {
    pthread_mutex_lock(&loop->lock);
    connection *c = loop->table[id % BUCKETS];
    while (c && c->id != id) c = c->chain;
    if (c) connection_ref(c);
    *error = loop->stopping ? -ESHUTDOWN : c ? 0 : -EPIPE;
    pthread_mutex_unlock(&loop->lock);
    if (*error && c) connection_unref(c);
    return *error ? NULL : c;
}

int64_t kw_loop_connect(kw_loop *loop, const struct sockaddr *address, socklen_t address_size, kw_stream *stream,
                        uint32_t max_frame, int send_buffer, int receive_buffer) {
    int error = forked(loop) ? -ECHILD : address_size > sizeof(struct sockaddr_storage) ? -EINVAL : 0;
    connection *c = error ? NULL : calloc(1, sizeof *c);
    if (!c) {
        if (stream) stream->do_->free(stream);
        return error ? error : -ENOMEM;
    }
    c->plain.do_ = &KW_PLAIN;
    c->stream = stream ? stream : &c->plain;
    c->connected.kind = KW_CONNECTED;
    c->closing.done.kind = KW_CLOSED;
    c->refs = 2; /* the table's and the caller's */
    c->socket.fd = -1;
    c->send_buffer = send_buffer;
    c->receive_buffer = receive_buffer;
    c->address_size = address_size;
    memcpy(&c->address, address, address_size);
    pthread_mutex_init(&c->lock, NULL);
    kw_frames_init(&c->frames, loop->pool, max_frame);

    pthread_mutex_lock(&loop->lock);
    int64_t id = loop->stopping ? -ESHUTDOWN : loop->last_id == UINT32_MAX ? -EMFILE : (int64_t)loop->last_id + 1;
    if (id > 0) {
        c->id = c->connected.connection = c->closing.done.connection = loop->last_id = (uint32_t)id;
        c->chain = loop->table[c->id % BUCKETS];
        loop->table[c->id % BUCKETS] = c;
        count(&loop->statistics.connections_opened, 1);
        count(&loop->statistics.connections_open, 1);
    }
    pthread_mutex_unlock(&loop->lock);
    if (id > 0)
        want_attention(loop, c);
    else
        connection_unref(c);
    connection_unref(c);
    return id;
}

int kw_loop_submit(kw_loop *loop, uint32_t id, uint64_t token, int32_t correlation_id, kw_buf **segments,
                   int segment_count, int flags) {
    int error;
    if (forked(loop)) return -ECHILD;
    connection *c = find(loop, id, &error);
    if (!c) return error;
    kw_request *request = kw_request_new(token, correlation_id, segments, segment_count, flags, &error);
    if (!request) {
        connection_unref(c);
        return error;
    }
    pthread_mutex_lock(&c->lock);
    if (c->state == DEAD) {
        pthread_mutex_unlock(&c->lock);
        kw_request_free(request);
        connection_unref(c);
        return -EPIPE;
    }
    /* Bytes already pending have a sender: the thread that queued the first of them asked for attention, and the I/O
     * thread keeps watching for the rest (before the connection is open, opening it sends them). */
    int wanted = c->state == OPEN && !c->frames.pending_bytes;
    kw_frames_queue(&c->frames, request);
    wanted = wanted && c->frames.pending_bytes;  /* not held */
    pthread_mutex_unlock(&c->lock);
    if (wanted) want_attention(loop, c);
    connection_unref(c);
    return 0;
}

int kw_loop_hold(kw_loop *loop, uint32_t id, int holding) {
    int error;
    if (forked(loop)) return -ECHILD;
    connection *c = find(loop, id, &error);
    if (!c) return error;
    pthread_mutex_lock(&c->lock);
    kw_frames_hold(&c->frames, holding);
    pthread_mutex_unlock(&c->lock);
    if (!holding) want_attention(loop, c);
    connection_unref(c);
    return 0;
}

int kw_loop_set_max_frame(kw_loop *loop, uint32_t id, uint32_t max_frame) {
    int error;
    if (forked(loop)) return -ECHILD;
    connection *c = find(loop, id, &error);
    if (!c) return error;
    pthread_mutex_lock(&c->lock);
    c->frames.max_frame = max_frame;
    pthread_mutex_unlock(&c->lock);
    connection_unref(c);
    return 0;
}

int kw_loop_set_response_filter(kw_loop *loop, uint32_t id, kw_response_filter filter, void *context) {
    if (forked(loop)) return -ECHILD;
    pthread_mutex_lock(&loop->lock);
    /* even while stopping: the loop's thread may be about to call the filter */
    connection *c = loop->table[id % BUCKETS];
    while (c && c->id != id) c = c->chain;
    if (c) connection_ref(c);
    pthread_mutex_unlock(&loop->lock);
    if (!c) return -EPIPE;
    pthread_mutex_lock(&c->lock);
    c->filter = filter;
    c->filter_context = context;
    pthread_mutex_unlock(&c->lock);
    connection_unref(c);
    return 0;
}

int kw_loop_tell(kw_loop *loop) {
    if (forked(loop)) return -ECHILD;
    pthread_mutex_lock(&loop->out_lock);
    if (loop->out.first) notify(loop);
    if (__atomic_load_n(&loop->filtering, __ATOMIC_RELAXED)) loop->tell_called = 1;
    pthread_mutex_unlock(&loop->out_lock);
    return 0;
}

int kw_loop_close_connection(kw_loop *loop, uint32_t id) {
    int error;
    if (forked(loop)) return -ECHILD;
    connection *c = find(loop, id, &error);
    if (!c) return 0;  /* stopping closes all connections */
    pthread_mutex_lock(&c->lock);
    c->close_wanted = 1;
    pthread_mutex_unlock(&c->lock);
    want_attention(loop, c);
    connection_unref(c);
    return 0;
}

int kw_loop_fileno(kw_loop *loop) {
    return forked(loop) ? -ECHILD : loop->notify_read;
}

int kw_loop_get_statistics(kw_loop *loop, kw_loop_statistics *statistics) {
    if (forked(loop)) return -ECHILD;
    uint64_t *to = (uint64_t *)statistics, *from = (uint64_t *)&loop->statistics;
    for (size_t i = 0; i < sizeof *statistics / sizeof *to; i++) to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    return 0;
}

/* ---- creation and end ---- */

static void close_thread_descriptors(kw_loop *loop) {
    kw_poller_close(&loop->poller);
    kw_wake_close(&loop->wake_read, &loop->wake_write);
}

kw_loop *kw_loop_new(kw_pool *pool, int *error) {
    kw_loop *loop = calloc(1, sizeof *loop);
    *error = -ENOMEM;
    if (!loop) return NULL;
    loop->pool = pool;
    loop->pid = getpid();
    loop->poller = KW_POLLER_CLOSED;
    loop->wake_read = loop->wake_write = loop->notify_read = loop->notify_write = -1;
    pthread_mutex_init(&loop->lock, NULL);
    pthread_mutex_init(&loop->out_lock, NULL);
    pthread_mutex_init(&loop->stop_lock, NULL);
    int failed = kw_wake_open(&loop->wake_read, &loop->wake_write) ||
                 kw_wake_open(&loop->notify_read, &loop->notify_write) || kw_poller_open(&loop->poller, loop->wake_read);
    *error = failed ? -errno : 0;
    if (!failed) *error = -kw_thread_start(&loop->thread, run, loop, "kafwire-io");
    if (!*error) return loop;
    close_thread_descriptors(loop);
    kw_wake_close(&loop->notify_read, &loop->notify_write);
    free(loop);
    return NULL;
}

void kw_loop_stop(kw_loop *loop) {
    if (forked(loop)) return;
    pthread_mutex_lock(&loop->lock);
    if (!loop->stopping) kw_wake_set(loop->wake_write);
    loop->stopping = 1;
    pthread_mutex_unlock(&loop->lock);
    pthread_mutex_lock(&loop->stop_lock);  /* a second caller returns when the first one is done */
    if (!loop->joined) {
        pthread_join(loop->thread, NULL);
        loop->joined = 1;
        close_thread_descriptors(loop);
        pthread_mutex_lock(&loop->out_lock);
        loop->stopped = 1;
        pthread_mutex_unlock(&loop->out_lock);
    }
    pthread_mutex_unlock(&loop->stop_lock);
}

void kw_loop_free(kw_loop *loop) {
    int error;
    if (!loop || forked(loop)) return;
    kw_loop_stop(loop);
    kw_completion *completion = kw_loop_drain(loop, &error), *next;
    for (; completion; completion = next) {
        next = completion->next;
        kw_completion_free(completion);
    }
    kw_wake_close(&loop->notify_read, &loop->notify_write);
    pthread_mutex_destroy(&loop->lock);
    pthread_mutex_destroy(&loop->out_lock);
    pthread_mutex_destroy(&loop->stop_lock);
    free(loop);
}
