/* A queue of record slices between the engine, which fetches, and a reader's thread, which decodes. No GIL.
 *
 * A slice holds a reference to the frame it lies in. The reader gives bytes back as it finishes slices; the engine, when
 * its budget is used up, asks to be told of the next that it gives back. */
#ifndef KAFWIRE_QUEUE_H
#define KAFWIRE_QUEUE_H

#include <stdint.h>

#include "buf.h"

typedef struct kw_records {
    kw_buf *frame; /* one reference, the slice's own */
    const uint8_t *data;
    size_t size;
    int32_t cursor;
    int64_t start, end; /* offsets wanted: start <= offset < end */
    void *aborted;      /* malloc'ed, the slice's own; what it is, the reader knows */
    int32_t aborted_count;
    struct kw_records *next;
} kw_records;

typedef struct kw_queue kw_queue;

enum { KW_QUEUE_FAILED = -1, KW_QUEUE_ENDED = 0, KW_QUEUE_RECORDS = 1, KW_QUEUE_IDLE = 2 };

kw_queue *kw_queue_new(void);
void kw_queue_free(kw_queue *queue);
/* Append a copy of `slice`, taking over what it owns. 0, or -1: no memory (nothing taken over). */
int kw_queue_push(kw_queue *queue, const kw_records *slice);
/* The next slice, now the caller's. Waits at most wait_ms (KW_QUEUE_IDLE then). A failure comes after what was queued. */
int kw_queue_pop(kw_queue *queue, kw_records *out, int wait_ms);
/* A popped slice is done with: `size` bytes are free again. 1: the engine asked to hear of it, once. */
int kw_queue_credit(kw_queue *queue, size_t size);
/* Bytes pushed and not given back; with `starved`, the next credit answers 1. */
size_t kw_queue_bytes(kw_queue *queue, int starved);
void kw_queue_end(kw_queue *queue);
void kw_queue_fail(kw_queue *queue);
/* Drop all slices, and all that come later; a waiting reader sees the end. */
void kw_queue_close(kw_queue *queue);
void kw_records_clear(kw_records *slice);

#endif
