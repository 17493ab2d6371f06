/* decoder: its lines are counted by scripts/coverage.py */
#include "kafwire/runtime/native/frame.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kafwire/memory/native/bytes.h"

/* The stash takes whatever a receive returns: many small responses cost one system call. The first bytes of a frame
 * larger than THROUGH_STASH move to a buffer of its own; everything after them is received in place. */
enum { STASH = 64 << 10, THROUGH_STASH = 16 << 10, PREFIX = 4, CORRELATION = 4 };

/* The protection against hostile prefixes. A frame's buffer is allocated when its first 8 bytes (size and an expected
 * correlation id) are here, at full size up to this many bytes; that is address space, and the kernel backs a page only
 * when received bytes are written to it, so memory in use is justified by bytes received. Above it, the buffer grows by
 * doubling as bytes arrive: neither the address space of a frame nor its charge to the pool exceeds the larger of 32
 * MiB and four times the bytes received. The price is one copy per doubling, and honest fetches of 8 or 16 MiB (plus
 * the broker's one oversize batch) never pay it. */
static const size_t WHOLE = (size_t)32 << 20;

void kw_list_append(kw_list *list, kw_completion *completion) {
    completion->next = NULL;
    if (list->last)
        list->last->next = completion;
    else
        list->first = completion;
    list->last = completion;
}

/* Requests are linked by the same `next` as completions: a request is on one list at a time. */
static kw_request *next_request(const kw_request *request) { return (kw_request *)request->done.next; }

kw_request *kw_request_new(uint64_t token, int32_t correlation_id, kw_buf *const *segments, int count, int flags,
                           int *error) {
    *error = -EINVAL;
    if (count < 1 || count > KW_MAX_SLICES) return NULL;
    uint64_t size = 0;
    for (int i = 0; i < count; i++) {
        if (segments[i]->size > INT32_MAX) return NULL;
        size += segments[i]->size;
    }
    if (size < 1 || size > INT32_MAX) return NULL;
    kw_request *request = calloc(1, sizeof *request + (size_t)count * sizeof request->slices[0]);
    *error = request ? 0 : -ENOMEM;
    if (!request) return NULL;
    request->done.token = token;
    request->expect_response = (flags & KW_EXPECT_RESPONSE) != 0;
    request->past_hold = (flags & KW_PAST_HOLD) != 0;
    request->done.kind = request->expect_response ? KW_RESPONSE : KW_SENT;
    request->correlation_id = correlation_id;
    request->size = (uint32_t)size;
    for (int i = 0; i < PREFIX; i++) request->prefix[i] = (uint8_t)(size >> (24 - 8 * i));
    request->count = count;
    request->current = -1;
    for (int i = 0; i < count; i++) {
        kw_buf_ref(segments[i]);
        request->slices[i] = (kw_slice){segments[i], segments[i]->data, segments[i]->size};
    }
    return request;
}

static void release_slices(kw_request *request) {
    for (int i = 0; i < request->count; i++) kw_buf_unref(request->slices[i].buf);
    request->count = 0;
}

void kw_request_free(kw_request *request) {
    if (!request) return;
    release_slices(request);
    kw_buf_unref(request->done.frame);
    free(request);
}

void kw_frames_init(kw_frames *frames, kw_pool *pool, uint32_t max_frame) {
    memset(frames, 0, sizeof *frames);
    frames->pool = pool;
    frames->max_frame = max_frame;
}

static void free_requests(kw_request *request) {
    while (request) {
        kw_request *next = next_request(request);
        kw_request_free(request);
        request = next;
    }
}

void kw_frames_clear(kw_frames *frames) {
    free_requests(frames->oldest);
    free_requests((kw_request *)frames->done.first);
    free_requests((kw_request *)frames->held.first);
    kw_buf_unref(frames->stash);
    kw_buf_unref(frames->frame);
    frames->oldest = frames->last_owed = frames->sending = frames->newest = NULL;
    frames->done = frames->held = (kw_list){NULL, NULL};
    frames->stash = frames->frame = NULL;
    frames->stash_start = frames->stash_end = frames->pending_bytes = 0;
}

/* ---- sending ---- */

void kw_frames_queue(kw_frames *frames, kw_request *request) {
    if (frames->holding && !request->past_hold) {
        kw_list_append(&frames->held, &request->done);
        return;
    }
    request->done.next = NULL;
    if (frames->newest)
        frames->newest->done.next = &request->done;
    else
        frames->oldest = request;
    frames->newest = request;
    if (!frames->sending) frames->sending = request;
    frames->pending_bytes += PREFIX + (size_t)request->size;
}

void kw_frames_hold(kw_frames *frames, int holding) {
    frames->holding = holding;
    if (holding) return;
    kw_request *request = (kw_request *)frames->held.first;
    frames->held = (kw_list){NULL, NULL};
    while (request) {
        kw_request *next = next_request(request);
        kw_frames_queue(frames, request);
        request = next;
    }
}

int kw_frames_to_send(const kw_frames *frames, struct iovec *slices, int limit) {
    int filled = 0;
    if (frames->poison) return 0;
    for (const kw_request *request = frames->sending; request && filled < limit; request = next_request(request)) {
        size_t offset = request->offset;
        for (int i = request->current; i < request->count && filled < limit; i++, offset = 0) {
            const uint8_t *data = i < 0 ? request->prefix : request->slices[i].data;
            size_t size = i < 0 ? PREFIX : request->slices[i].size;
            if (size > offset) slices[filled++] = (struct iovec){(void *)(data + offset), size - offset};
        }
    }
    return filled;
}

void kw_frames_sent(kw_frames *frames, size_t size) {
    frames->pending_bytes -= size;
    while (frames->sending) {
        kw_request *request = frames->sending;
        while (request->current < request->count) {
            size_t slice = request->current < 0 ? PREFIX : request->slices[request->current].size;
            size_t taken = slice - request->offset < size ? slice - request->offset : size;
            request->offset += taken;
            size -= taken;
            if (request->offset < slice) return;
            request->offset = 0;
            request->current++;
        }
        kw_request *next = next_request(request);
        frames->frames_out++;
        release_slices(request);
        frames->sending = next;
        if (request->expect_response) {
            frames->last_owed = request;
            continue;
        }
        if (frames->last_owed)
            frames->last_owed->done.next = (kw_completion *)next;
        else
            frames->oldest = next;
        if (!next) frames->newest = frames->last_owed;
        kw_list_append(&frames->done, &request->done);
    }
}

/* ---- receiving ---- */

static int poison(kw_frames *frames, int why, int64_t found, int64_t wanted) {
    frames->poison = why;
    frames->poison_found = found;
    frames->poison_wanted = wanted;
    return -1;
}

int kw_frames_receive_space(kw_frames *frames, uint8_t **data, size_t *size) {
    if (frames->poison) return -1;
    if (frames->frame) {
        kw_buf *frame = frames->frame;
        if (frame->size == frame->capacity) {
            if (kw_buf_reserve(&frames->frame, frame->size + 1))
                return poison(frames, KW_POISON_MEMORY, (int64_t)frames->frame_size, 0);
            frame = frames->frame;
        }
        size_t end = frames->frame_size < frame->capacity ? frames->frame_size : frame->capacity;
        *data = frame->data + frame->size;
        *size = end - frame->size;
        return 0;
    }
    if (!frames->stash && !(frames->stash = kw_buf_new(frames->pool, STASH)))
        return poison(frames, KW_POISON_MEMORY, STASH, 0);
    /* The rest in the stash is less than one small frame, so this moves little and always makes room. */
    if (frames->stash_start) {
        memmove(frames->stash->data, frames->stash->data + frames->stash_start,
                frames->stash_end - frames->stash_start);
        frames->stash_end -= frames->stash_start;
        frames->stash_start = 0;
    }
    *data = frames->stash->data + frames->stash_end;
    *size = STASH - frames->stash_end;
    return 0;
}

/* The frame must belong to the oldest request. Checked before memory is allocated for it. */
static int check_correlation(kw_frames *frames, int32_t correlation_id) {
    kw_request *oldest = frames->oldest;
    int sending = oldest && oldest == frames->sending;  /* then no earlier request waits for a response */
    if (!oldest || (sending && (oldest->correlation_id != correlation_id || !oldest->expect_response)))
        return poison(frames, KW_POISON_UNSOLICITED, correlation_id, 0);
    if (sending) return poison(frames, KW_POISON_UNSENT, correlation_id, 0);
    if (oldest->correlation_id != correlation_id)
        return poison(frames, KW_POISON_CORRELATION, correlation_id, oldest->correlation_id);
    return 0;
}

static void complete_oldest(kw_frames *frames, kw_buf *frame) {
    kw_request *request = frames->oldest;
    frames->oldest = next_request(request);
    if (!frames->oldest) frames->newest = NULL;
    if (frames->last_owed == request) frames->last_owed = NULL;
    request->done.frame = frame;
    frames->frames_in++;
    kw_list_append(&frames->done, &request->done);
}

int kw_frames_received(kw_frames *frames, size_t size) {
    if (frames->poison) return -1;
    if (frames->frame) {
        frames->frame->size += size;
        if (frames->frame->size == frames->frame_size) {
            complete_oldest(frames, frames->frame);
            frames->frame = NULL;
        }
        return 0;
    }
    frames->stash_end += size;
    for (;;) {
        const uint8_t *start = frames->stash->data + frames->stash_start;
        size_t available = frames->stash_end - frames->stash_start;
        if (available < PREFIX) break;
        uint32_t frame_size = (uint32_t)kw_be32(start);
        if ((int32_t)frame_size < CORRELATION) return poison(frames, KW_POISON_SIZE, (int32_t)frame_size, CORRELATION);
        if (frame_size > frames->max_frame)
            return poison(frames, KW_POISON_OVERSIZE, frame_size, frames->max_frame);
        if (available < PREFIX + CORRELATION) break;
        if (check_correlation(frames, kw_be32(start + PREFIX))) return -1;
        int whole = available - PREFIX >= frame_size;
        if (!whole && frame_size <= THROUGH_STASH) break;
        kw_buf *frame = kw_buf_new(frames->pool, frame_size < WHOLE ? frame_size : WHOLE);
        if (!frame) return poison(frames, KW_POISON_MEMORY, frame_size, 0);
        frame->size = whole ? frame_size : available - PREFIX;
        memcpy(frame->data, start + PREFIX, frame->size);
        frames->stash_start += PREFIX + frame->size;
        if (!whole) {
            frames->frame = frame;
            frames->frame_size = frame_size;
            break;
        }
        complete_oldest(frames, frame);
    }
    if (frames->stash_start == frames->stash_end) frames->stash_start = frames->stash_end = 0;
    return 0;
}

int kw_frames_inside_frame(const kw_frames *frames) {
    return frames->frame || frames->stash_end > frames->stash_start;
}

void kw_frames_reason(const kw_frames *frames, char *text, size_t size) {
    long long found = frames->poison_found, wanted = frames->poison_wanted;
    switch (frames->poison) {
    case KW_POISON_SIZE:
        snprintf(text, size, "bad frame: size prefix %lld, but a response has at least %lld bytes", found, wanted);
        break;
    case KW_POISON_OVERSIZE:
        snprintf(text, size, "bad frame: size prefix %lld exceeds the limit of %lld bytes", found, wanted);
        break;
    case KW_POISON_CORRELATION:
        snprintf(text, size, "bad response: correlation id %lld, but the oldest pending request has %lld", found,
                 wanted);
        break;
    case KW_POISON_UNSOLICITED:
        snprintf(text, size, "bad response: correlation id %lld, but no request is pending", found);
        break;
    case KW_POISON_UNSENT:
        snprintf(text, size, "bad response: correlation id %lld is that of a request not fully sent", found);
        break;
    case KW_POISON_MEMORY:
        snprintf(text, size, "no memory for a frame of %lld bytes", found);
        break;
    default:
        snprintf(text, size, "no error");
    }
}
