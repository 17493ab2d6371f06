/* The stream that is the plain socket. Only the loop includes this. */
#ifndef KAFWIRE_PLAIN_H
#define KAFWIRE_PLAIN_H

#include "kafwire/runtime/native/stream.h"

#include <errno.h>
#include <sys/socket.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0  /* then SO_NOSIGPIPE exists */
#endif

static int plain_handshake(kw_stream *stream, int fd) {
    (void)stream, (void)fd;
    return 0;
}

static ssize_t plain_send(kw_stream *stream, int fd, struct iovec *slices, int count) {
    struct msghdr message = {.msg_iov = slices, .msg_iovlen = count};
    ssize_t sent;
    (void)stream;
    do sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : sent;
}

static ssize_t plain_receive(kw_stream *stream, int fd, void *data, size_t size) {
    ssize_t received;
    (void)stream;
    do received = recv(fd, data, size, MSG_DONTWAIT);
    while (received < 0 && errno == EINTR);
    return received < 0 ? -errno : received;
}

static int plain_has_more(const kw_stream *stream) {
    (void)stream;
    return 0;
}

static void plain_end(kw_stream *stream, int fd) { (void)stream, (void)fd; }

static void plain_free(kw_stream *stream) { (void)stream; }

static const kw_stream_operations KW_PLAIN = {
    plain_handshake, plain_send, plain_receive, plain_has_more, plain_end, plain_free,
};

#endif
