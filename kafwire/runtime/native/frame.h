/* Frames and correlation: the one core of the native thread, the TLS path, the simulator and the tests.
 *
 * Pure: bytes in, completions out. No sockets, no clock, no threads, no locks: the caller serialises the calls of one
 * connection. It may allocate: one block per request when the request is made, and one pooled buffer per response; a
 * completion itself never allocates, so every request can always be completed or failed.
 *
 * Kafka's framing: a 4-byte big-endian size, then that many bytes, of which the first four are the correlation id (in a
 * response). A broker sends the responses of one connection in the order of the requests, so pending requests are a
 * queue, and the only valid next correlation id is the oldest one's. */
#ifndef KAFWIRE_FRAME_H
#define KAFWIRE_FRAME_H

#include "kafwire/memory/native/buf.h"

#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { KW_CONNECTED = 1, KW_RESPONSE = 2, KW_SENT = 3, KW_CLOSED = 4, KW_POSTED = 5 };

/* An event. The first member of every object that can complete, so that lists of them need no allocation. */
typedef struct kw_completion {
    struct kw_completion *next;
    uint64_t token;
    kw_buf *frame;       /* RESPONSE: the frame after its size prefix, so from the correlation id on */
    uint32_t connection;  /* for the caller's use; the core does not read it */
    int kind;
} kw_completion;

typedef struct kw_list {
    kw_completion *first, *last;
} kw_list;

typedef struct kw_slice {
    kw_buf *buf; /* the reference that keeps `data` alive */
    const uint8_t *data;
    size_t size;
} kw_slice;

/* A request: its size prefix, and slices that are never copied. It holds one reference per slice until the socket has
 * taken its last byte (or it is freed): a buffer that is still being sent cannot be reused. */
typedef struct kw_request {
    kw_completion done;
    int32_t correlation_id;
    uint8_t expect_response, past_hold;
    uint8_t prefix[4];
    uint32_t size; /* bytes after the prefix */
    int count, current; /* slices; the slice being sent, -1 while it is the prefix */
    size_t offset;      /* bytes of `current` that are out */
    kw_slice slices[];
} kw_request;

enum { KW_MAX_SLICES = 1 << 20 };
/* Flags of a request: a response is expected; it is sent even during a hold. */
enum { KW_EXPECT_RESPONSE = 1, KW_PAST_HOLD = 2 };

/* A request of `count` slices, each a whole buffer, with one new reference on each.
 * NULL and *error: -ENOMEM, or -EINVAL for no bytes at all, more than 2^31 - 1, or a bad count. */
kw_request *kw_request_new(uint64_t token, int32_t correlation_id, kw_buf *const *segments, int count, int flags,
                           int *error);
void kw_request_free(kw_request *request); /* with its frame and slices; NULL is allowed */

enum {
    KW_POISON_NONE = 0,
    KW_POISON_SIZE,        /* a size prefix below 4, negative ones included */
    KW_POISON_OVERSIZE,  /* a size prefix above max_frame */
    KW_POISON_CORRELATION,  /* not the correlation id of the oldest pending request */
    KW_POISON_UNSOLICITED,  /* a response while no request is pending */
    KW_POISON_UNSENT,  /* the response to a request not fully sent */
    KW_POISON_MEMORY,      /* no memory for the frame */
};

typedef struct kw_frames {
    kw_pool *pool;
    /* Requests in the order of submission: from `oldest` to `last_owed` those fully sent that wait for a response, from
     * `sending` to `newest` those with bytes still to send. A request without a response leaves the list with its last
     * byte, so it never has a place among the waiting ones. */
    kw_request *oldest, *last_owed, *sending, *newest;
    size_t pending_bytes;  /* still to be sent, without held requests */
    kw_list held;         /* requests that wait for the end of the hold, oldest first */
    int holding;
    kw_list done;         /* RESPONSE and SENT, oldest first; the caller takes them */
    /* Receiving: small frames and the start of large ones pass through the stash, the rest of a large frame is received
     * directly into its own buffer. */
    kw_buf *stash;
    size_t stash_start, stash_end;
    kw_buf *frame;  /* the large frame being received; frame->size bytes of it are here */
    size_t frame_size;  /* its full size */
    uint32_t max_frame;
    int poison;
    int64_t poison_found, poison_wanted; /* the numbers for the message */
    uint64_t frames_in, frames_out;
} kw_frames;

/* Allocates nothing. `pool` must outlive the frames. */
void kw_frames_init(kw_frames *frames, kw_pool *pool, uint32_t max_frame);
/* Frees every request (sent or not), unread completions, and received bytes. Only init makes it usable again. */
void kw_frames_clear(kw_frames *frames);

/* Takes ownership of the request. During a hold the request waits for its end, unless it has KW_PAST_HOLD. */
void kw_frames_queue(kw_frames *frames, kw_request *request);
/* Begins or ends a hold; at the end, held requests are queued. Calling it twice is allowed. */
void kw_frames_hold(kw_frames *frames, int holding);
/* Up to `limit` slices to send next, and their number. 0: nothing to send. */
int kw_frames_to_send(const kw_frames *frames, struct iovec *slices, int limit);
/* Notes `size` sent bytes: releases finished slices, completes requests that expect no response. */
void kw_frames_sent(kw_frames *frames, size_t size);

/* Where to receive next: *size >= 1 bytes at *data, valid until the next call of receive_space, received or clear. 0,
 * or -1: poisoned (perhaps by this call: no memory). Never asks beyond the current frame once that is large. */
int kw_frames_receive_space(kw_frames *frames, uint8_t **data, size_t *size);
/* Notes `size` received bytes. 0, or -1 if they poisoned the connection; earlier frames are in `done`. */
int kw_frames_received(kw_frames *frames, size_t size);
/* 1 if the bytes so far end inside a frame. */
int kw_frames_inside_frame(const kw_frames *frames);
/* One line about the poisoning bytes, with their numbers. */
void kw_frames_reason(const kw_frames *frames, char *text, size_t size);

void kw_list_append(kw_list *list, kw_completion *completion);

#endif
