/* Counts the bytes and requests that clients send to a broker, without being in the way.
 *
 *   proxy        prints "<port> <report port>", then reads the broker's host:port from standard input; ends with it
 *
 * A broker that advertises the first port is reached by every client through here. A connection to the second port gets
 * one line of JSON, by client id: connections made and connections open, requests, Fetch requests, and the bytes of
 * both directions, frame lengths included. What a connection carried before its first whole request header is counted
 * once that is known. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"
#include "bytes.h"

#define BUFFER (256 << 10)
#define MAX_CLIENTS 64
#define MAX_CONNECTIONS 4096
#define NAME 64
#define HEAD (4 + 2 + 2 + 4 + 2 + NAME) /* length, api, version, correlation id, client id */
#define API_FETCH 1

typedef struct {
    char name[NAME + 1];
    long long made, open, requests, fetches, sent, received;
} client;

typedef struct connection connection;

/* One end of a connection; `peer` is the other. What was read from the peer and not yet written here waits in `data`. */
typedef struct {
    int fd, is_broker, full, ended;
    connection *of;
    size_t from, to;
    uint8_t *data;
} end;

struct connection {
    end client, broker;
    client *who;
    long long sent, received; /* before the client id is known */
    uint8_t head[HEAD];
    size_t head_size;
    size_t frame_left; /* of the request that is passing by, when its head is complete */
    int counted;       /* that request */
};

static client clients[MAX_CLIENTS];
static int client_count, poll_fd;
static struct addrinfo *broker_address;
static connection *closed[MAX_CONNECTIONS];
static int closed_count;

static int make_listener(int *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) || listen(fd, 1024) ||
        getsockname(fd, (struct sockaddr *)&address, &size))
        bench_fail("cannot listen: %s", strerror(errno));
    *port = ntohs(address.sin_port);
    return fd;
}

static void watch(int fd, uint32_t events, void *what, int operation) {
    struct epoll_event event = {.events = events, .data.ptr = what};
    if (epoll_ctl(poll_fd, operation, fd, &event)) bench_fail("epoll: %s", strerror(errno));
}

static client *find_client(const uint8_t *name, size_t size) {
    char text[NAME + 1] = {0};
    for (size_t i = 0; i < size && i < NAME; i++)
        text[i] = name[i] < 33 || name[i] > 126 || name[i] == '"' || name[i] == '\\' ? '?' : (char)name[i];
    for (int i = 0; i < client_count; i++)
        if (!strcmp(clients[i].name, text)) return &clients[i];
    if (client_count == MAX_CLIENTS) bench_fail("more than %d clients", MAX_CLIENTS);
    memcpy(clients[client_count].name, text, sizeof text);
    return &clients[client_count++];
}

/* Whose request begins here. 0: more of it is needed. */
static int read_head(connection *self) {
    size_t size = self->head_size;
    if (size < 14) return 0;
    int32_t frame = get_i32(self->head);
    int16_t name = get_i16(self->head + 12);
    size_t name_size = name > 0 ? (size_t)name : 0, seen = name_size < NAME ? name_size : NAME;
    if (frame < 10) bench_fail("a request of %d bytes", (int)frame);
    if (size < 14 + seen && size < (size_t)frame + 4) return 0;
    if (!self->who) {
        self->who = find_client(self->head + 14, size - 14 < seen ? size - 14 : seen);
        self->who->made++;
        self->who->open++;
        self->who->sent += self->sent;
        self->who->received += self->received;
    }
    self->who->requests++;
    self->who->fetches += get_i16(self->head + 4) == API_FETCH;
    self->frame_left = (size_t)frame + 4 - size;
    return 1;
}

static void count_sent(connection *self, const uint8_t *data, size_t size) {
    *(self->who ? &self->who->sent : &self->sent) += (long long)size;
    while (size) {
        size_t step;
        if (self->counted) {
            step = size < self->frame_left ? size : self->frame_left;
            self->frame_left -= step;
        } else {
            /* Byte by byte would do; a head is short. */
            step = 1;
            self->head[self->head_size++] = *data;
            self->counted = read_head(self);
        }
        data += step;
        size -= step;
        if (self->counted && !self->frame_left) self->counted = 0, self->head_size = 0;
    }
}

static void drop(connection *self) {
    if (self->client.fd < 0) return;
    close(self->client.fd);
    close(self->broker.fd);
    self->client.fd = self->broker.fd = -1;
    if (self->who) self->who->open--;
    /* Events of this turn may still name it. */
    if (closed_count == MAX_CONNECTIONS) bench_fail("too many connections end at once");
    closed[closed_count++] = self;
}

static end *peer(end *self) { return self->is_broker ? &self->of->client : &self->of->broker; }

static void interest(end *self) {
    end *other = peer(self);
    uint32_t events = (self->ended || other->full ? 0 : EPOLLIN) | (self->from < self->to ? EPOLLOUT : 0);
    watch(self->fd, events, self, EPOLL_CTL_MOD);
}

/* Writes what waits for this end. 0: the connection is gone. */
static int flush(end *self) {
    while (self->from < self->to) {
        ssize_t sent = send(self->fd, self->data + self->from, self->to - self->from, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 1;
        if (sent < 0) return drop(self->of), 0;
        self->from += (size_t)sent;
    }
    self->from = self->to = 0;
    self->full = 0;
    if (peer(self)->ended) return drop(self->of), 0;
    return 1;
}

static void on_readable(end *self) {
    end *other = peer(self);
    ssize_t got = recv(self->fd, other->data + other->to, BUFFER - other->to, 0);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
    if (got < 0) {
        drop(self->of);
        return;
    }
    if (!got) self->ended = 1;
    else if (self->is_broker) *(self->of->who ? &self->of->who->received : &self->of->received) += got;
    else count_sent(self->of, other->data + other->to, (size_t)got);
    other->to += (size_t)got;
    other->full = other->to == BUFFER;
    if (flush(other)) {
        interest(self);
        interest(other);
    }
}

static void on_writable(end *self) {
    if (flush(self)) {
        interest(self);
        interest(peer(self));
    }
}

static void accept_client(int listener) {
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK), on = 1;
    if (fd < 0) return;
    int broker = socket(broker_address->ai_family, SOCK_STREAM, 0);
    if (broker < 0 || connect(broker, broker_address->ai_addr, broker_address->ai_addrlen)) {
        close(fd);
        if (broker >= 0) close(broker);
        return;
    }
    fcntl(broker, F_SETFL, O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(broker, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connection *made = bench_alloc(sizeof *made);
    made->client = (end){.fd = fd, .of = made, .data = bench_alloc(BUFFER)};
    made->broker = (end){.fd = broker, .is_broker = 1, .of = made, .data = bench_alloc(BUFFER)};
    watch(fd, EPOLLIN, &made->client, EPOLL_CTL_ADD);
    watch(broker, EPOLLIN, &made->broker, EPOLL_CTL_ADD);
}

static void report(int listener) {
    static char text[MAX_CLIENTS * 320 + 64];
    int fd = accept(listener, NULL, NULL), at = 0;
    if (fd < 0) return;
    at += snprintf(text, sizeof text, "{");
    for (int i = 0; i < client_count; i++) {
        const client *one = &clients[i];
        at += snprintf(text + at, sizeof text - (size_t)at,
                       "%s\"%s\": {\"made\": %lld, \"open\": %lld, \"requests\": %lld, \"fetches\": %lld, "
                       "\"request_bytes\": %lld, \"response_bytes\": %lld}",
                       i ? ", " : "", one->name, one->made, one->open, one->requests, one->fetches, one->sent,
                       one->received);
    }
    at += snprintf(text + at, sizeof text - (size_t)at, "}\n");
    for (ssize_t done = 0, sent; done < at; done += sent)
        if ((sent = send(fd, text + done, (size_t)(at - done), MSG_NOSIGNAL)) < 0) break;
    close(fd);
}

static void learn_broker(void) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    char line[512], *colon;
    if (!fgets(line, sizeof line, stdin)) exit(0);
    line[strcspn(line, "\n")] = 0;
    colon = strrchr(line, ':');
    if (!colon) bench_fail("not host:port: %s", line);
    *colon = 0;
    if (getaddrinfo(line, colon + 1, &hints, &broker_address)) bench_fail("cannot resolve %s", line);
}

int main(void) {
    int port, report_port, listener = make_listener(&port), reports = make_listener(&report_port);
    int standard_input = 0;
    struct epoll_event events[64];
    printf("%d %d\n", port, report_port);
    fflush(stdout);
    learn_broker();
    poll_fd = epoll_create1(0);
    watch(listener, EPOLLIN, &listener, EPOLL_CTL_ADD);
    watch(reports, EPOLLIN, &reports, EPOLL_CTL_ADD);
    watch(0, EPOLLIN, &standard_input, EPOLL_CTL_ADD);
    for (;;) {
        int count = epoll_wait(poll_fd, events, 64, -1);
        for (int i = 0; i < count; i++) {
            void *what = events[i].data.ptr;
            end *self = what;
            if (what == &standard_input) return 0; /* the parent is gone, or wants it to end */
            if (what == &listener) accept_client(listener);
            else if (what == &reports) report(reports);
            else if (self->fd >= 0 && events[i].events & (EPOLLERR | EPOLLHUP) && !(events[i].events & EPOLLIN)) drop(self->of);
            else {
                if (self->fd >= 0 && events[i].events & EPOLLOUT) on_writable(self);
                if (self->fd >= 0 && events[i].events & EPOLLIN) on_readable(self);
            }
        }
        while (closed_count) {
            connection *gone = closed[--closed_count];
            free(gone->client.data);
            free(gone->broker.data);
            free(gone);
        }
    }
}
