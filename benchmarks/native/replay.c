/* A broker that has nothing to do: it responds from batches that are ready in memory, so that only the client is
 * measured.
 *
 *   replay topic= payload= value_bytes= records= batch_bytes= codec= [partitions=] [key_bytes=] [certificate= key=]
 *
 * prints "<plain port> <TLS port>" (0 without a certificate) and ends when its standard input ends. The topic has what
 * `floor fill` writes, shared out evenly. A thread serves a connection, the records of responses are sent from where
 * they lie, and encrypting is all that TLS adds. Produce gets a response, and its records are dropped.
 *
 * Each API has one version, the highest that it offers; none is flexible, and floor.c speaks the same. No groups, no
 * fetch sessions, no errors: a request that is not understood ends the process, which says why. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "batch.h"
#include "bench.h"
#include "bytes.h"
#include "tls.h"

#define HOST "127.0.0.1"
#define MAX_REQUEST (128 << 20)
#define MOST_WAIT_MS 100 /* of a fetch that finds nothing */
#define UNSUPPORTED_VERSION 35

enum {
    PRODUCE = 0,
    FETCH = 1,
    LIST_OFFSETS = 2,
    METADATA = 3,
    FIND_COORDINATOR = 10,
    API_VERSIONS = 18,
    INIT_PRODUCER_ID = 22,
    OFFSET_FOR_LEADER_EPOCH = 23,
};

/* The range offered starts at 0, for clients that look for old versions; only the highest version is served. */
static const struct {
    int16_t key, version;
} offered[] = {
    {PRODUCE, 7},          {FETCH, 11},       {LIST_OFFSETS, 5},     {METADATA, 7},
    {FIND_COORDINATOR, 2}, {API_VERSIONS, 2}, {INIT_PRODUCER_ID, 1}, {OFFSET_FOR_LEADER_EPOCH, 3},
};
#define OFFERED (sizeof offered / sizeof *offered)

typedef struct {
    int64_t first; /* offset */
    size_t at;     /* in the log */
} batch_place;

typedef struct {
    uint8_t *data;
    size_t size, capacity;
    batch_place *batches;
    int64_t count, room, end; /* `end`: the next offset */
    int64_t produced;         /* what was taken and forgotten */
} partition_log;

static const char *topic;
static size_t topic_size;
static partition_log *logs;
static int partitions, port_plain, port_tls;
static tls_context *context;

typedef struct {
    int fd, secure;
    tls *tls;
    uint8_t *request, *response;
    size_t request_capacity, response_size, response_capacity;
    size_t at, size; /* in the request */
    struct {
        size_t before; /* bytes of the response that go before these */
        const uint8_t *data;
        size_t size;
    } *slices;
    int slice_count, slice_room;
} connection;

static void *grown(void *data, size_t size) {
    data = realloc(data, size);
    if (!data) bench_fail("no memory");
    return data;
}

/* -- the log */

static void append(partition_log *log, const made_batch *batch) {
    if (log->count == log->room) log->batches = grown(log->batches, (size_t)(log->room = log->room * 2 + 64) * sizeof *log->batches);
    if (log->size + batch->size > log->capacity)
        log->data = grown(log->data, log->capacity = (log->size + batch->size) * 5 / 4);
    memcpy(log->data + log->size, batch->data, batch->size);
    put_i64(log->data + log->size, log->end); /* the checksum does not cover it */
    log->batches[log->count++] = (batch_place){log->end, log->size};
    log->size += batch->size;
    log->end += batch->records;
}

static void make_logs(int argc, char **argv) {
    int64_t records = bench_number(argc, argv, "records", 0);
    size_t limit = (size_t)bench_number(argc, argv, "batch_bytes", 1000000);
    const lz4f_api *lz4 = strcmp(bench_need(argc, argv, "codec"), "lz4") ? NULL : lz4f_open("");
    bench_payload payload;
    bench_load(&payload, bench_need(argc, argv, "payload"), (size_t)bench_number(argc, argv, "value_bytes", 100));
    payload.key_bytes = (size_t)bench_number(argc, argv, "key_bytes", 0);
    logs = bench_alloc((size_t)partitions * sizeof *logs);
    for (int i = 0; i < partitions; i++) {
        int64_t at = bench_share(records, i, partitions), end = bench_share(records, i + 1, partitions);
        while (at < end) {
            made_batch batch = batch_make(&payload, at, end - at, limit, lz4, 1700000000000);
            append(&logs[i], &batch);
            at += batch.records;
            free(batch.data);
        }
    }
}

/* The batches from the one with this offset on, at most `most` bytes but one batch at least. */
static size_t slice(const partition_log *log, int64_t offset, size_t most, const uint8_t **data) {
    int64_t low = 0, high = log->count;
    if (offset >= log->end) return 0;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (log->batches[middle].first <= offset) low = middle;
        else high = middle;
    }
    size_t start = log->batches[low].at, end = log->size;
    if (end - start > most) {
        int64_t last = low + 1;
        while (last < log->count && log->batches[last].at - start <= most) last++;
        if (last - 1 > low) last--;
        end = last < log->count ? log->batches[last].at : log->size;
    }
    *data = log->data + start;
    return end - start;
}

/* -- a request's bytes */

static const uint8_t *take(connection *self, int64_t size) {
    if (size < 0 || (size_t)size > self->size - self->at) bench_fail("a request is too short");
    const uint8_t *here = self->request + self->at;
    self->at += (size_t)size;
    return here;
}
static int16_t take_i16(connection *self) { return get_i16(take(self, 2)); }
static int32_t take_i32(connection *self) { return get_i32(take(self, 4)); }
static int64_t take_i64(connection *self) { return get_i64(take(self, 8)); }
static void skip_text(connection *self) {
    int16_t size = take_i16(self);
    if (size > 0) take(self, size);
}
static int take_topic(connection *self) {
    int16_t size = take_i16(self);
    const uint8_t *name = take(self, size);
    return (size_t)size == topic_size && !memcmp(name, topic, topic_size);
}
static int take_partition(connection *self) {
    int32_t number = take_i32(self);
    if (number < 0 || number >= partitions) bench_fail("there is no partition %d", (int)number);
    return number;
}

/* -- a response's bytes */

static uint8_t *put(connection *self, size_t size) {
    if (self->response_size + size > self->response_capacity)
        self->response = grown(self->response, self->response_capacity = (self->response_size + size) * 2);
    uint8_t *here = self->response + self->response_size;
    self->response_size += size;
    return here;
}
static void put16(connection *self, int16_t value) { put_i16(put(self, 2), value); }
static void put32(connection *self, int32_t value) { put_i32(put(self, 4), value); }
static void put64(connection *self, int64_t value) { put_i64(put(self, 8), value); }
static void put_text(connection *self, const char *text, size_t size) {
    put16(self, (int16_t)size);
    memcpy(put(self, size), text, size);
}

static void respond_versions(connection *self, int16_t version) {
    put16(self, version > 2 ? UNSUPPORTED_VERSION : 0);
    put32(self, (int32_t)OFFERED);
    for (size_t i = 0; i < OFFERED; i++) {
        put16(self, offered[i].key);
        put16(self, 0);
        put16(self, offered[i].version);
    }
    if (version == 1 || version == 2) put32(self, 0); /* throttle time; a refusal is in version 0 */
}

static void put_broker(connection *self) {
    put32(self, 1); /* its id */
    put_text(self, HOST, strlen(HOST));
    put32(self, self->secure ? port_tls : port_plain);
}

static void respond_metadata(connection *self) {
    put32(self, 0);
    put32(self, 1); /* brokers */
    put_broker(self);
    put16(self, -1); /* no rack */
    put_text(self, "replay", 6);
    put32(self, 1); /* controller */
    put32(self, 1); /* topics */
    put16(self, 0);
    put_text(self, topic, topic_size);
    *put(self, 1) = 0;
    put32(self, partitions);
    for (int i = 0; i < partitions; i++) {
        put16(self, 0);
        put32(self, i);
        put32(self, 1); /* leader, epoch */
        put32(self, 0);
        for (int replicas = 0; replicas < 2; replicas++) {
            put32(self, 1);
            put32(self, 1);
        }
        put32(self, 0); /* none offline */
    }
}

static void respond_list_offsets(connection *self) {
    take(self, 5); /* replica, isolation level */
    int32_t count = take_i32(self);
    put32(self, 0);
    put32(self, count);
    for (; count > 0; count--) {
        if (!take_topic(self)) bench_fail("ListOffsets: another topic");
        put_text(self, topic, topic_size);
        int32_t asked = take_i32(self);
        put32(self, asked);
        for (; asked > 0; asked--) {
            int number = take_partition(self);
            take(self, 4);
            int64_t timestamp = take_i64(self);
            put32(self, number);
            put16(self, 0);
            put64(self, -1);
            put64(self, timestamp == -1 ? logs[number].end : 0);
            put32(self, 0);
        }
    }
}

static void respond_epochs(connection *self) {
    take(self, 4); /* replica */
    int32_t count = take_i32(self);
    put32(self, 0);
    put32(self, count);
    for (; count > 0; count--) {
        if (!take_topic(self)) bench_fail("OffsetForLeaderEpoch: another topic");
        put_text(self, topic, topic_size);
        int32_t asked = take_i32(self);
        put32(self, asked);
        for (; asked > 0; asked--) {
            int number = take_partition(self);
            take(self, 8);
            put16(self, 0);
            put32(self, number);
            put32(self, 0);
            put64(self, logs[number].end);
        }
    }
}

/* Nothing is asked of it: clients assign partitions. librdkafka stops now and then where there is none. */
static void respond_coordinator(connection *self) {
    put32(self, 0);
    put16(self, 0);
    put16(self, -1); /* no message */
    put_broker(self);
}

static void respond_fetch(connection *self) {
    take(self, 4); /* replica */
    int32_t wait_ms = take_i32(self);
    take(self, 4); /* least bytes */
    int64_t left = take_i32(self);
    take(self, 9); /* isolation level, session */
    int32_t count = take_i32(self);
    int found = 0;
    put32(self, 0);
    put16(self, 0);
    put32(self, 0); /* no session */
    put32(self, count);
    for (; count > 0; count--) {
        if (!take_topic(self)) bench_fail("Fetch: another topic");
        put_text(self, topic, topic_size);
        int32_t asked = take_i32(self);
        put32(self, asked);
        for (; asked > 0; asked--) {
            const uint8_t *data = NULL;
            int number = take_partition(self);
            take(self, 4); /* leader epoch */
            int64_t offset = take_i64(self);
            take(self, 8); /* log start */
            int64_t most = take_i32(self);
            partition_log *log = &logs[number];
            if (most > left) most = left;
            size_t size = left > 0 || !found ? slice(log, offset, most > 0 ? (size_t)most : 0, &data) : 0;
            left -= (int64_t)size;
            found |= size > 0;
            put32(self, number);
            put16(self, 0);
            put64(self, log->end);
            put64(self, log->end);
            put64(self, 0);
            put32(self, -1); /* no aborted transactions */
            put32(self, -1); /* no other replica */
            put32(self, (int32_t)size);
            if (!size) continue;
            if (self->slice_count == self->slice_room)
                self->slices = grown(self->slices, (size_t)(self->slice_room = self->slice_room * 2 + 16) * sizeof *self->slices);
            self->slices[self->slice_count].before = self->response_size;
            self->slices[self->slice_count].data = data;
            self->slices[self->slice_count++].size = size;
        }
    }
    if (!found && wait_ms > 0) poll(NULL, 0, wait_ms < MOST_WAIT_MS ? wait_ms : MOST_WAIT_MS);
}

/* Whether there is a response at all. */
static int respond_produce(connection *self) {
    skip_text(self); /* transaction */
    int16_t acks = take_i16(self);
    take(self, 4);
    int32_t count = take_i32(self);
    put32(self, count);
    for (; count > 0; count--) {
        if (!take_topic(self)) bench_fail("Produce: another topic");
        put_text(self, topic, topic_size);
        int32_t asked = take_i32(self);
        put32(self, asked);
        for (; asked > 0; asked--) {
            batch_info info = {0};
            int number = take_partition(self);
            int32_t size = take_i32(self);
            const uint8_t *data = take(self, size);
            if (!batch_peek(data, (size_t)size, &info)) bench_fail("Produce: half a batch");
            int64_t first = __atomic_fetch_add(&logs[number].produced, info.records, __ATOMIC_RELAXED);
            put32(self, number);
            put16(self, 0);
            put64(self, first);
            put64(self, -1);
            put64(self, 0);
        }
    }
    put32(self, 0);
    return acks != 0;
}

static void respond_producer_id(connection *self) {
    put32(self, 0);
    put16(self, 0);
    put64(self, 1);
    put16(self, 0);
}

/* -- connections */

static int receive(connection *self, uint8_t *into, size_t size) {
    while (size) {
        ssize_t got = self->tls ? tls_read(self->tls, into, size) : recv(self->fd, into, size, MSG_WAITALL);
        if (got < 0 && !self->tls && errno == EINTR) continue;
        if (got <= 0) return 0;
        into += got;
        size -= (size_t)got;
    }
    return 1;
}

static int send_all(connection *self, const uint8_t *data, size_t size, int more) {
    if (self->tls) return tls_write(self->tls, data, size);
    while (size) {
        ssize_t sent = send(self->fd, data, size, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return 0;
        data += sent;
        size -= (size_t)sent;
    }
    return 1;
}

/* The length is of the response with its slices. */
static int send_response(connection *self) {
    size_t total = self->response_size - 4, at = 0;
    for (int i = 0; i < self->slice_count; i++) total += self->slices[i].size;
    put_i32(self->response, (int32_t)total);
    for (int i = 0; i < self->slice_count; i++) {
        size_t before = self->slices[i].before;
        if (!send_all(self, self->response + at, before - at, 1)) return 0;
        at = before;
        int last = i + 1 == self->slice_count && at == self->response_size;
        if (!send_all(self, self->slices[i].data, self->slices[i].size, !last)) return 0;
    }
    return at == self->response_size || send_all(self, self->response + at, self->response_size - at, 0);
}

static int serve_request(connection *self) {
    uint8_t prefix[4];
    if (!receive(self, prefix, 4)) return 0;
    int32_t size = get_i32(prefix);
    if (size < 10 || size > MAX_REQUEST) return 0; /* no Kafka, TLS at the plain port perhaps */
    if ((size_t)size > self->request_capacity) self->request = grown(self->request, self->request_capacity = (size_t)size);
    if (!receive(self, self->request, (size_t)size)) return 0;
    self->at = 0;
    self->size = (size_t)size;
    self->response_size = 0;
    self->slice_count = 0;
    int16_t key = take_i16(self), version = take_i16(self), served = -1;
    int32_t correlation = take_i32(self);
    skip_text(self); /* client id */
    for (size_t i = 0; i < OFFERED; i++)
        if (offered[i].key == key) served = offered[i].version;
    if (served < 0 || (version != served && key != API_VERSIONS)) bench_fail("asked for API %d in version %d", key, version);
    put32(self, 0);
    put32(self, correlation);
    switch (key) {
    case PRODUCE:
        if (!respond_produce(self)) return 1;
        break;
    case FETCH: respond_fetch(self); break;
    case LIST_OFFSETS: respond_list_offsets(self); break;
    case METADATA: respond_metadata(self); break;
    case FIND_COORDINATOR: respond_coordinator(self); break;
    case API_VERSIONS: respond_versions(self, version); break;
    case INIT_PRODUCER_ID: respond_producer_id(self); break;
    case OFFSET_FOR_LEADER_EPOCH: respond_epochs(self); break;
    }
    return send_response(self);
}

static void *serve(void *given) {
    connection *self = given;
    if (self->secure) self->tls = tls_open(context, self->fd, NULL);
    if (!self->secure || self->tls)
        while (serve_request(self)) {}
    if (self->tls) tls_close(self->tls);
    close(self->fd);
    free(self->request);
    free(self->response);
    free(self->slices);
    free(self);
    return NULL;
}

static int make_listener(int *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) || listen(fd, 1024) ||
        getsockname(fd, (struct sockaddr *)&address, &size))
        bench_fail("cannot listen: %s", strerror(errno));
    *port = ntohs(address.sin_port);
    return fd;
}

static void accept_client(int listener, int secure) {
    int fd = accept(listener, NULL, NULL), on = 1;
    pthread_t thread;
    if (fd < 0) return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connection *made = bench_alloc(sizeof *made);
    made->fd = fd;
    made->secure = secure;
    if (pthread_create(&thread, NULL, serve, made)) bench_fail("no thread");
    pthread_detach(thread);
}

int main(int argc, char **argv) {
    const char *certificate = bench_arg(argc, argv, "certificate", "");
    topic = bench_need(argc, argv, "topic");
    topic_size = strlen(topic);
    partitions = (int)bench_number(argc, argv, "partitions", 1);
    signal(SIGPIPE, SIG_IGN); /* libssl writes without MSG_NOSIGNAL */
    make_logs(argc, argv);
    struct pollfd waiting[3] = {{.fd = 0, .events = POLLIN}, {.events = POLLIN}, {.fd = -1, .events = POLLIN}};
    waiting[1].fd = make_listener(&port_plain);
    if (*certificate) {
        context = tls_server(certificate, bench_need(argc, argv, "key"));
        waiting[2].fd = make_listener(&port_tls);
    }
    printf("%d %d\n", port_plain, port_tls);
    fflush(stdout);
    for (;;) {
        if (poll(waiting, 3, -1) < 0) continue;
        if (waiting[0].revents) return 0; /* the parent is gone, or wants it to end */
        if (waiting[1].revents) accept_client(waiting[1].fd, 0);
        if (waiting[2].revents) accept_client(waiting[2].fd, 1);
    }
}
