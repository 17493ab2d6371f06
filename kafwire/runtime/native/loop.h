/* The native I/O thread: owns the TCP sockets of one engine, knows nothing of Python and never takes the GIL.
 *
 * Every function may be called from any thread. Requests enter by kw_loop_submit, events leave by kw_loop_drain, and
 * kw_loop_fileno is readable exactly while an event waits there (but see kw_loop_set_response_filter). Errors are
 * negative errno: -ESHUTDOWN after kw_loop_stop, -ECHILD in a process that was forked from the loop's own. */
#ifndef KAFWIRE_LOOP_H
#define KAFWIRE_LOOP_H

#include "kafwire/runtime/native/frame.h"
#include "kafwire/runtime/native/stream.h"

#include <sys/socket.h>

typedef struct kw_loop kw_loop;

typedef struct kw_loop_statistics {
    uint64_t bytes_in, bytes_out, frames_in, frames_out;
    uint64_t receive_calls, send_calls, polls, notifications, connections_opened, connections_open;
} kw_loop_statistics;

/* Why a connection closed. `error` is the errno of the failed call, or 0 for closed by this side (close_connection,
 * stop), EPIPE for closed by the peer without an error, EPROTO for malformed bytes (the connection is poisoned),
 * EPROTONOSUPPORT for a peer that speaks no TLS, KW_NOT_AUTHENTICATED. */
typedef struct kw_closing {
    kw_completion done;
    int error;
    char reason[KW_REASON_SIZE];
} kw_closing;

/* Makes the descriptors and starts the thread. Returns NULL and sets *error on failure. */
kw_loop *kw_loop_new(kw_pool *pool, int *error);
/* Closes every connection (CLOSED completions follow), ends the thread and waits for it. Draining and its descriptor
 * still work: a thread may be waiting for it. Idempotent. Does nothing in a forked child. */
void kw_loop_stop(kw_loop *loop);
/* Stops, then frees the loop and all undrained completions. In a forked child it changes nothing. */
void kw_loop_free(kw_loop *loop);

int kw_loop_fileno(kw_loop *loop); /* open until the loop is freed; -ECHILD in a forked child */

/* Returns at once with a connection's number (> 0; never reused); CONNECTED or CLOSED follows. `stream` carries its
 * bytes, NULL: the plain socket; its ownership passes even if the call fails. A buffer size of 0 keeps the system's. */
int64_t kw_loop_connect(kw_loop *loop, const struct sockaddr *address, socklen_t address_size, kw_stream *stream,
                        uint32_t max_frame, int send_buffer, int receive_buffer);
/* Takes one reference on each segment, and releases it when the socket has taken the request's last byte. `flags` are
 * KW_EXPECT_RESPONSE and KW_PAST_HOLD. Requests may be queued before CONNECTED. -EPIPE: the connection is closed or
 * does not exist. */
int kw_loop_submit(kw_loop *loop, uint32_t connection, uint64_t token, int32_t correlation_id, kw_buf **segments,
                   int count, int flags);
/* Requests submitted from now on wait until `holding` is 0 again, except those with KW_PAST_HOLD; earlier ones are
 * sent. -EPIPE as above. */
int kw_loop_hold(kw_loop *loop, uint32_t connection, int holding);
int kw_loop_set_max_frame(kw_loop *loop, uint32_t connection, uint32_t max_frame);
/* Shows each response of this connection to `filter` before it is published, in the I/O thread, which may hold the
 * connection's lock then: a filter must be short, and call only kw_loop_tell here. If it returns 1, the descriptor does
 * not become readable for this response until a thread calls kw_loop_tell, or another completion comes. NULL: no more;
 * after this has returned, no filter is running. -EPIPE as above. */
typedef int (*kw_response_filter)(void *context, uint64_t token, kw_buf *frame);
int kw_loop_set_response_filter(kw_loop *loop, uint32_t connection, kw_response_filter filter, void *context);
/* Makes the descriptor readable if there is anything to drain, or will be once a running filter returns. */
int kw_loop_tell(kw_loop *loop);
/* Idempotent: a closed or unknown connection is no error. Drops queued and pending requests. */
int kw_loop_close_connection(kw_loop *loop, uint32_t connection);
/* Adds a POSTED completion with this token, unless one is pending. */
int kw_loop_post(kw_loop *loop, uint64_t cookie);

/* Returns all completions in the order of events; the caller owns them and passes each one to kw_completion_free. The
 * last one of a connection is its CLOSED. `*error` gets 0 or -ECHILD. */
kw_completion *kw_loop_drain(kw_loop *loop, int *error);
void kw_completion_free(kw_completion *completion);

int kw_loop_get_statistics(kw_loop *loop, kw_loop_statistics *statistics);

#endif
