#include "wire.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bench.h"
#include "bytes.h"

void wire_open(wire *self, const char *bootstrap) {
    char host[256];
    const char *colon = strrchr(bootstrap, ':');
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    int on = 1;
    if (!colon || colon - bootstrap >= (long)sizeof host) bench_fail("bootstrap=%s is not host:port", bootstrap);
    snprintf(host, sizeof host, "%.*s", (int)(colon - bootstrap), bootstrap);
    if (getaddrinfo(host, colon + 1, &hints, &found)) bench_fail("cannot resolve %s", bootstrap);
    self->fd = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
    if (self->fd < 0 || connect(self->fd, found->ai_addr, found->ai_addrlen))
        bench_fail("cannot connect to %s: %s", bootstrap, strerror(errno));
    freeaddrinfo(found);
    setsockopt(self->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    self->tls = self->secure ? tls_open(self->secure, self->fd, host) : NULL;
    self->next_correlation = self->due_correlation = 1;
}

void wire_close(wire *self) {
    if (self->tls) tls_close(self->tls);
    close(self->fd);
}

static void send_all(wire *self, const uint8_t *head, size_t head_size, const uint8_t *body, size_t body_size) {
    struct iovec parts[2] = {{(void *)head, head_size}, {(void *)body, body_size}};
    int first = 0;
    if (self->tls) {
        if (!tls_write(self->tls, head, head_size) || !tls_write(self->tls, body, body_size))
            bench_fail("send: the connection is gone");
        return;
    }
    while (first < 2) {
        if (!parts[first].iov_len) {
            first++;
            continue;
        }
        struct msghdr message = {.msg_iov = parts + first, .msg_iovlen = (size_t)(2 - first)};
        ssize_t sent = sendmsg(self->fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) bench_fail("send: %s", strerror(errno));
        for (; first < 2 && (size_t)sent >= parts[first].iov_len; first++) sent -= (ssize_t)parts[first].iov_len;
        if (first < 2) {
            parts[first].iov_base = (uint8_t *)parts[first].iov_base + sent;
            parts[first].iov_len -= (size_t)sent;
        }
    }
}

static void receive(wire *self, uint8_t *into, size_t size) {
    while (size) {
        ssize_t got = self->tls ? tls_read(self->tls, into, size) : recv(self->fd, into, size, MSG_WAITALL);
        if (got < 0 && !self->tls && errno == EINTR) continue;
        if (got <= 0) bench_fail("receive: %s", got ? strerror(errno) : "the broker closed the connection");
        into += got;
        size -= (size_t)got;
    }
}

static void take_frame(wire *self) {
    uint8_t prefix[8];
    receive(self, prefix, 8);
    int32_t size = get_i32(prefix);
    if (size < 4 || size > 256 << 20) bench_fail("a response of %d bytes", (int)size);
    if (get_i32(prefix + 4) != self->due_correlation++) bench_fail("a response out of order");
    self->frame_size = (size_t)size - 4;
    if (self->frame_size > self->frame_capacity) {
        free(self->frame);
        self->frame_capacity = self->frame_size + self->frame_size / 4;
        self->frame = bench_alloc(self->frame_capacity);
    }
    receive(self, self->frame, self->frame_size);
}

static uint8_t *put_text(uint8_t *at, const char *text) {
    size_t size = strlen(text);
    put_i16(at, (int16_t)size);
    memcpy(at + 2, text, size);
    return at + 2 + size;
}

static uint8_t *put_header(wire *self, uint8_t *at, int16_t api, int16_t version) {
    put_i16(at + 4, api);
    put_i16(at + 6, version);
    put_i32(at + 8, self->next_correlation++);
    return put_text(at + 12, "floor");
}

static uint8_t *put_number(uint8_t *at, int32_t value) {
    put_i32(at, value);
    return at + 4;
}

static uint8_t *put_long(uint8_t *at, int64_t value) {
    put_i64(at, value);
    return at + 8;
}

void wire_send_fetch(wire *self, const char *topic, const wire_part *parts, int count, int32_t min_bytes,
                     int32_t max_bytes) {
    size_t room = 512 + (size_t)count * 28;
    if (strlen(topic) > 249) bench_fail("the topic's name is too long");
    if (room > self->request_capacity) {
        free(self->request);
        self->request = bench_alloc(room);
        self->request_capacity = room;
    }
    uint8_t *head = self->request, *at = put_header(self, head, 1, 11);
    at = put_number(at, -1);        /* replica */
    at = put_number(at, 500);       /* max wait */
    at = put_number(at, min_bytes);
    at = put_number(at, max_bytes);
    *at++ = 0;                      /* read uncommitted */
    at = put_number(at, 0);         /* no session */
    at = put_number(at, -1);
    at = put_number(at, 1);
    at = put_text(at, topic);
    at = put_number(at, count);
    for (int i = 0; i < count; i++) {
        at = put_number(at, parts[i].partition);
        at = put_number(at, -1);    /* leader epoch */
        at = put_long(at, parts[i].offset);
        at = put_long(at, -1);      /* log start */
        at = put_number(at, max_bytes);
    }
    at = put_number(at, 0);         /* forgotten topics */
    at = put_text(at, "");          /* rack */
    put_i32(head, (int32_t)(at - head - 4));
    send_all(self, head, (size_t)(at - head), NULL, 0);
}

/* Bytes of the last frame at a cursor that cannot leave it. */
static const uint8_t *take(wire *self, size_t *at, int64_t size) {
    if (size < 0 || (size_t)size > self->frame_size - *at) bench_fail("a response is too short");
    const uint8_t *here = self->frame + *at;
    *at += (size_t)size;
    return here;
}

static void check_error(const uint8_t *code) {
    if (get_i16(code)) bench_fail("the broker responds with error %d", get_i16(code));
}

void wire_take_fetch(wire *self, wire_part *parts, int count) {
    size_t at = 0;
    take_frame(self);
    take(self, &at, 4); /* throttle time */
    check_error(take(self, &at, 2));
    take(self, &at, 4); /* session */
    if (get_i32(take(self, &at, 4)) != 1) bench_fail("Fetch: not one topic");
    take(self, &at, get_i16(take(self, &at, 2)));
    if (get_i32(take(self, &at, 4)) != count) bench_fail("Fetch: not %d partitions", count);
    for (int i = 0; i < count; i++) {
        if (get_i32(take(self, &at, 4)) != parts[i].partition) bench_fail("Fetch: partitions in another order");
        check_error(take(self, &at, 2));
        take(self, &at, 24); /* high watermark, last stable offset, log start */
        int32_t aborted = get_i32(take(self, &at, 4));
        if (aborted > 0) take(self, &at, (int64_t)aborted * 16);
        take(self, &at, 4); /* preferred replica */
        int32_t records = get_i32(take(self, &at, 4));
        parts[i].size = records > 0 ? (size_t)records : 0;
        parts[i].data = take(self, &at, (int64_t)parts[i].size);
    }
}

void wire_send_produce(wire *self, const char *topic, int32_t partition, const uint8_t *batch, size_t size) {
    uint8_t head[512], *at = put_header(self, head, 0, 7);
    if (strlen(topic) > 249) bench_fail("the topic's name is too long");
    put_i16(at, -1);     /* no transaction */
    put_i16(at + 2, -1); /* acks=all */
    at = put_number(at + 4, 30000);
    at = put_number(at, 1);
    at = put_text(at, topic);
    at = put_number(at, 1);
    at = put_number(at, partition);
    at = put_number(at, (int32_t)size);
    put_i32(head, (int32_t)((size_t)(at - head) - 4 + size));
    send_all(self, head, (size_t)(at - head), batch, size);
}

int64_t wire_take_produce(wire *self) {
    size_t at = 0;
    take_frame(self);
    if (get_i32(take(self, &at, 4)) != 1) bench_fail("Produce: not one topic");
    take(self, &at, get_i16(take(self, &at, 2)));
    if (get_i32(take(self, &at, 4)) != 1) bench_fail("Produce: not one partition");
    take(self, &at, 4);
    check_error(take(self, &at, 2));
    return get_i64(take(self, &at, 8));
}
