/* Frames and correlation: the one core under the native thread, the TLS path, the simulator and the tests.
 *
 * Pure: bytes in, completions out. No sockets, no clock, no threads, no locks: the caller serialises the calls of one
 * connection. What it may do is allocate: one block per request when the request is made, and one pooled buffer per
 * response; a completion itself never allocates, so what has been asked for can always be answered or failed.
 *
 * Kafka's framing: a 4-byte big-endian size, then that many bytes, of which the first four are the correlation id
 * (in a response). A broker answers the requests of one connection in the order it got them, so the answers owed are a
 * queue, and the only correlation id that may come next is the oldest one's. */
#ifndef KAFWIRE_FRAME_H
#define KAFWIRE_FRAME_H

#include "kafwire/memory/native/buf.h"

#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { KW_CONNECTED = 1, KW_RESPONSE = 2, KW_SENT = 3, KW_CLOSED = 4, KW_POSTED = 5 };

/* What has happened. The first member of every object that can complete, so that lists of them need no allocation. */
typedef struct kw_completion {
    struct kw_completion *next;
    uint64_t token;
    kw_buf *frame;       /* RESPONSE: the frame after its size prefix, so from the correlation id on */
    uint32_t connection; /* for the caller's use; the core does not look at it */
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

/* A request: its size prefix, and slices that are never copied. It holds one reference per slice until its last byte
 * has been taken by the socket (or it is freed): nobody can reuse a buffer that is still being sent. */
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
/* Of a request: an answer is owed for it; it goes out while others are held. */
enum { KW_EXPECT_RESPONSE = 1, KW_PAST_HOLD = 2 };

/* A request of `count` slices, each a whole buffer, with one new reference on each.
 * NULL and *error: -ENOMEM, or -EINVAL for no bytes at all, more than 2^31 - 1, or a bad count. */
kw_request *kw_request_new(uint64_t token, int32_t correlation_id, kw_buf *const *segments, int count, int flags,
                           int *error);
void kw_request_free(kw_request *request); /* with its frame and slices; NULL is allowed */

enum {
    KW_POISON_NONE = 0,
    KW_POISON_SIZE,        /* a size prefix below 4, negative ones included */
    KW_POISON_OVERSIZE,    /* a size prefix above max_frame */
    KW_POISON_CORRELATION, /* not the correlation id of the oldest request that is owed an answer */
    KW_POISON_UNSOLICITED, /* a response while none is owed */
    KW_POISON_UNSENT,      /* the answer to a request that has not left in full */
    KW_POISON_MEMORY,      /* no memory for the frame */
};

typedef struct kw_frames {
    kw_pool *pool;
    /* Requests in the order of submission: from `oldest` to `last_owed` those that are out in full and owed an answer,
     * from `sending` to `newest` those with bytes still to go. One without an answer leaves the list with its last
     * byte, so it never has a slot among those owed. */
    kw_request *oldest, *last_owed, *sending, *newest;
    size_t pending_bytes; /* still to be sent, those of held requests not counted */
    kw_list held;         /* requests that wait for the end of the hold, oldest first */
    int holding;
    kw_list done;         /* RESPONSE and SENT, oldest first; the caller takes them */
    /* Receiving: small frames and the start of large ones pass through the stash, the rest of a large frame goes
     * straight into its own buffer. */
    kw_buf *stash;
    size_t stash_start, stash_end;
    kw_buf *frame;     /* the large frame being received, frame->size bytes of it are here */
    size_t frame_size; /* how large it will be */
    uint32_t max_frame;
    int poison;
    int64_t poison_found, poison_wanted; /* the numbers for the message */
    uint64_t frames_in, frames_out;
} kw_frames;

/* Nothing is allocated yet. `pool` outlives the frames. */
void kw_frames_init(kw_frames *frames, kw_pool *pool, uint32_t max_frame);
/* Frees every request (sent or not), unread completions, and received bytes. It can be used again after init only. */
void kw_frames_clear(kw_frames *frames);

/* Takes the request over. While a hold lasts it waits for the end of that, unless it goes past holds. */
void kw_frames_queue(kw_frames *frames, kw_request *request);
/* Begin or end a hold; at the end, what was held is queued. Twice is allowed. */
void kw_frames_hold(kw_frames *frames, int holding);
/* Up to `limit` slices of what goes out next, and how many. 0: nothing to send. */
int kw_frames_to_send(const kw_frames *frames, struct iovec *slices, int limit);
/* `size` bytes of them are out: releases what is no longer needed, completes requests that expect no answer. */
void kw_frames_sent(kw_frames *frames, size_t size);

/* Where to receive next: *size >= 1 bytes at *data, valid until the next call of receive_space, received or clear.
 * 0, or -1: poisoned (maybe by this call: no memory). Never asks beyond the current frame once that is large. */
int kw_frames_receive_space(kw_frames *frames, uint8_t **data, size_t *size);
/* `size` bytes have come there. 0, or -1 when they poisoned the connection; frames before the bad one are in `done`. */
int kw_frames_received(kw_frames *frames, size_t size);
/* Whether the bytes so far end inside a frame. */
int kw_frames_inside_frame(const kw_frames *frames);
/* One line that says what was wrong, with its numbers. */
void kw_frames_reason(const kw_frames *frames, char *text, size_t size);

void kw_list_append(kw_list *list, kw_completion *completion);

#endif
