/* The stream of one connection over its socket: the plain socket, or TLS (kafwire/security/native/tls.h).
 *
 * Only the I/O thread calls these, one call at a time, without the connection's lock. Sizes are those of the payload,
 * not of the bytes on the wire. None of them blocks. */
#ifndef KAFWIRE_STREAM_H
#define KAFWIRE_STREAM_H

#include <sys/types.h>
#include <sys/uio.h>

enum { KW_REASON_SIZE = 1024 };

/* A connection's error besides errno's: one side rejected the other's identity or protocol. A retry would fail too. */
enum { KW_NOT_AUTHENTICATED = 0x10000 };

typedef struct kw_stream kw_stream;

typedef struct kw_stream_operations {
    /* Before any payload. 0: done. -EAGAIN: call again when the socket is ready as `wants_write` says. Another negative
     * number is the error, and `reason` has its text. */
    int (*handshake)(kw_stream *stream, int fd);
    /* Returns how many bytes of the slices were sent, fewer than all only if the socket is full; or a negative number
     * as above. -EAGAIN: call again with the same bytes first, when the socket is writable. */
    ssize_t (*send)(kw_stream *stream, int fd, struct iovec *slices, int count);
    /* Returns how many bytes were received, fewer than `size` only if no more are available; 0: the peer closed, and
     * `reason` may have more about it. Or a negative number as above. */
    ssize_t (*receive)(kw_stream *stream, int fd, void *data, size_t size);
    /* 1 if `receive` would return something although the socket is not readable. */
    int (*has_more)(const kw_stream *stream);
    /* Sends the end of the stream to the peer, if the socket takes it. */
    void (*end)(kw_stream *stream, int fd);
    void (*free)(kw_stream *stream);
} kw_stream_operations;

struct kw_stream {
    const kw_stream_operations *do_;
    int wants_write;  /* `handshake` or `receive` returned -EAGAIN, and waits for the socket to be writable */
    char reason[KW_REASON_SIZE];  /* text of an error; empty: errno is enough */
};

#endif
