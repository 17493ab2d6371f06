/* What carries the bytes of one connection over its socket: the socket alone, or TLS (kafwire/security/native/tls.h).
 *
 * The I/O thread alone calls these, one call at a time, without the connection's lock. Sizes are of what is carried, not
 * of what is on the wire. None of them blocks. */
#ifndef KAFWIRE_STREAM_H
#define KAFWIRE_STREAM_H

#include <sys/types.h>
#include <sys/uio.h>

enum { KW_REASON_SIZE = 1024 };

/* Beside errno's numbers, as the error of a connection: one side did not accept who the other is, or how it speaks. The
 * same attempt would fail again. */
enum { KW_NOT_AUTHENTICATED = 0x10000 };

typedef struct kw_stream kw_stream;

typedef struct kw_stream_operations {
    /* Before anything is carried. 0: done. -EAGAIN: call again when the socket is ready as `wants_write` says. Another
     * negative number is the error, and `reason` says what went wrong. */
    int (*handshake)(kw_stream *stream, int fd);
    /* How many bytes of the slices are out, fewer than all only if the socket takes no more; or a negative number as
     * above. -EAGAIN: call again with the same bytes first, when the socket can be written. */
    ssize_t (*send)(kw_stream *stream, int fd, struct iovec *slices, int count);
    /* How many bytes have come, fewer than `size` only if no more are here; 0: the peer closed, and `reason` may say more
     * of that. Or a negative number as above. */
    ssize_t (*receive)(kw_stream *stream, int fd, void *data, size_t size);
    /* Whether `receive` has something to tell that the socket does not show by being readable. */
    int (*has_more)(const kw_stream *stream);
    /* Tell the peer that this side ends the stream, if the socket takes it. */
    void (*end)(kw_stream *stream, int fd);
    void (*free)(kw_stream *stream);
} kw_stream_operations;

struct kw_stream {
    const kw_stream_operations *do_;
    int wants_write; /* `handshake` or `receive`, which answered -EAGAIN, waits for the socket to take bytes */
    char reason[KW_REASON_SIZE]; /* of an error; empty: errno says it all */
};

#endif
