/* The queue of fetched slices between the engine, which fetches, and the readers' threads, which decode. No GIL.
 *
 * Each partition has its own place, so that it can be paused, claimed by one reader, or dropped, without effect on the
 * others. Unclaimed places with records form a ring (a round-robin list): a place that was read goes to its end.
 *
 * Slices lie in frames. The queue charges a frame's whole capacity until the last slice of the frame is read. An engine
 * with an exhausted budget asks for a notification when the next slice is read. */
#ifndef KAFWIRE_QUEUE_H
#define KAFWIRE_QUEUE_H

#include <stdint.h>

#include "kafwire/memory/native/buf.h"

typedef struct kw_place kw_place;   /* a partition's place; lives as long as the queue */
typedef struct kw_charge kw_charge; /* a frame, and the count of slices that keep it */

typedef struct kw_records {
    kw_buf *frame; /* the slice owns one reference */
    const uint8_t *data;
    size_t size;
    kw_place *place;
    uint32_t generation; /* the place's generation when the records were requested */
    int64_t start, end;  /* offsets wanted: start <= offset < end */
    void *aborted;       /* malloc'ed, owned by the slice: the aborted transactions, in the reader's format */
    int32_t aborted_count;
    kw_charge *charge;
    struct kw_records *next;
} kw_records;

typedef struct kw_queue kw_queue;

enum {
    KW_QUEUE_FAILED = -1,
    KW_QUEUE_ENDED = 0,
    KW_QUEUE_RECORDS = 1,
    KW_QUEUE_IDLE = 2,
    KW_QUEUE_PLACE_FAILED = 3
};

kw_queue *kw_queue_new(void);
void kw_queue_free(kw_queue *queue);

/* A new place, numbered from 0 on; kw_place_owner returns `owner`. NULL: no memory. */
kw_place *kw_queue_add(kw_queue *queue, void *owner);
kw_place *kw_queue_place(kw_queue *queue, int32_t number);
void *kw_place_owner(const kw_place *place);
int32_t kw_place_number(const kw_place *place);

/* Append a copy of `slice`, which then owns its memory; a slice of an older generation is dropped. 0, or -1: no memory
 * (the caller still owns everything). Push the slices of one frame one after the other, then call kw_queue_seal: the
 * queue charges the frame once for each such run. */
int kw_queue_push(kw_queue *queue, const kw_records *slice);
void kw_queue_seal(kw_queue *queue);

/* Pop the next slice, of `place` or (NULL) of the ring's first place; the place is then lent until kw_queue_done. The
 * call waits at most wait_ms, then returns KW_QUEUE_IDLE. A failure comes behind the queued slices. The failure of a
 * place is returned by each call, with the place in out->place. */
int kw_queue_pop(kw_queue *queue, kw_place *place, kw_records *out, int wait_ms);
/* Replace `slice`, of a lent place, by the slice behind it if that is queued and begins at `offset`. 0: it is not;
 * 1: replaced; 2: replaced, and the caller must notify the engine. */
int kw_queue_next(kw_queue *queue, kw_records *slice, int64_t offset);
/* The two look functions copy a slice that stays in the queue. The caller owns a reference to its frame. 0: no slice.
 * kw_place_look: a place's slice that begins at `offset`, unless other places wait for their turn. */
int kw_place_look(kw_queue *queue, kw_place *place, uint32_t generation, int64_t offset, kw_records *out);
/* kw_queue_look: the first slice of the place that follows those in `seen` in the ring. */
int kw_queue_look(kw_queue *queue, kw_place *const *seen, int count, kw_records *out);
/* Pop the next slice without waiting if it is still `same`, a slice that was looked at before; 0: it is another. */
int kw_queue_pop_same(kw_queue *queue, kw_place *place, const kw_records *same, kw_records *out);
/* Return a popped slice: the reader has read its first `used` bytes, up to offset `position`; the rest is queued again
 * in front. KW_DONE_TELL: the caller must notify the engine, which asked for it once, or which found the queue empty in
 * kw_queue_ready. With `again`, the place comes first in the ring. KW_DONE_STALE: a revocation or a seek reset the
 * place since the pop, so the caller must not deliver the records; the position is unchanged. */
enum { KW_DONE_TELL = 1, KW_DONE_STALE = 2 };
int kw_queue_done(kw_queue *queue, kw_records *slice, size_t used, int64_t position, int again);
/* Return a popped slice whose records could not be delivered (nor those of the slices before it, see kw_queue_next).
 * The queue drops the slices behind it, and the position becomes `position`, the first of these records, which the
 * engine fetches again. Returns the place's new generation, or 0 if the place was reset meanwhile. The caller must
 * notify the engine. */
uint32_t kw_queue_refuse(kw_queue *queue, kw_records *slice, int64_t position);

/* True if a reader waits for the records just pushed to `place`. That reader must then notify the engine: after its
 * wait, kw_queue_owed returns 1 once. */
int kw_queue_owe(kw_queue *queue, kw_place *place);
int kw_queue_owed(kw_queue *queue);

/* The charged bytes. With `starved`, the reader of the next slice must notify the engine. */
size_t kw_queue_bytes(kw_queue *queue, int starved);
/* Copy slices out of frames that are mostly read, so that these frames can be freed. */
void kw_queue_compact(kw_queue *queue);

/* Drop a place's queued slices and those of requests in flight, and set its position. Returns the new generation. */
uint32_t kw_place_reset(kw_queue *queue, kw_place *place, int64_t position);
/* Drop a place's queued records from `offset` on; once the rest is read, the position is `offset`. Records of requests
 * in flight are not dropped. */
void kw_place_cut(kw_queue *queue, kw_place *place, int64_t offset);
/* The offset of the next record that the reader delivers. */
int64_t kw_place_position(kw_queue *queue, kw_place *place);
/* Set and return the end of the log, from a response that the I/O thread queued: a reader may read its records before
 * the engine reads the response. -1: no such response came. */
void kw_place_fed(kw_queue *queue, kw_place *place, int64_t high_watermark, int64_t last_stable);
int64_t kw_place_end(kw_queue *queue, kw_place *place, int committed_only);
/* Count delivered records as processed: of one place, or (NULL) of all unclaimed places. A reader calls this when it
 * reads on. */
void kw_queue_settle(kw_queue *queue, kw_place *only);
/* The offset after the last record that counts as processed. kw_place_process sets it, unless the place was reset since
 * it had that generation (-1: always). */
int64_t kw_place_processed(kw_queue *queue, kw_place *place);
void kw_place_process(kw_queue *queue, kw_place *place, int64_t offset, int64_t generation);
/* True if a user may have records of a place that do not count as processed yet. Records that a waiting reader skipped
 * are no such records: they were not delivered. */
int kw_place_in_hand(kw_queue *queue, kw_place *place);
/* Wake the ring's reader from its wait, so that it runs its callback. kw_queue_woken returns 1 once after each wake. */
void kw_queue_wake(kw_queue *queue);
int kw_queue_woken(kw_queue *queue);
/* The count of a place's slices that are queued or being read, and the queued bytes. With `watch`, the reader of the
 * next slice must notify the engine, and kw_queue_noticed returns the place once. */
int32_t kw_place_queued(kw_queue *queue, kw_place *place, size_t *bytes, int watch);
kw_place *kw_queue_noticed(kw_queue *queue);
void kw_place_pause(kw_queue *queue, kw_place *place, int paused);
/* Give a place to a reader of its own (1), or back to the ring's reader (0). */
void kw_place_claim(kw_queue *queue, kw_place *place, int claimed);
/* Make readers fail behind the place's queued slices, until the place is reset. */
void kw_place_fail(kw_queue *queue, kw_place *place, uint32_t generation);
/* True if a pop would not wait. *size: the bytes of the slice that it would return. */
int kw_queue_ready(kw_queue *queue, kw_place *place, size_t *size);

void kw_queue_end(kw_queue *queue);
void kw_queue_fail(kw_queue *queue);
/* Drop all slices, and all that are pushed later; readers see the end. */
void kw_queue_close(kw_queue *queue);

#endif
