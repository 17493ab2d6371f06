/* Slices of fetched records between the engine, which fetches, and readers' threads, which decode. No GIL.
 *
 * Each partition has a place of its own, so that one may be paused, read by itself, or thrown away, without any other
 * noticing. Those with records stand in a ring: who was read goes to its end.
 *
 * What is charged is the frame that slices lie in, as long as any of them is there; a reader gives it back. The engine,
 * when its budget is used up, asks to be told of the next that comes back. */
#ifndef KAFWIRE_QUEUE_H
#define KAFWIRE_QUEUE_H

#include <stdint.h>

#include "kafwire/memory/native/buf.h"

typedef struct kw_place kw_place;   /* a partition's place; lives as long as the queue */
typedef struct kw_charge kw_charge; /* a frame, and how many slices keep it */

typedef struct kw_records {
    kw_buf *frame; /* one reference, the slice's own */
    const uint8_t *data;
    size_t size;
    kw_place *place;
    uint32_t generation; /* of the place, when the records were asked for */
    int64_t start, end;  /* offsets wanted: start <= offset < end */
    void *aborted;       /* malloc'ed, the slice's own; what it is, the reader knows */
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

/* A new place, numbered from 0 on; `owner` is what kw_place_owner answers. NULL: no memory. */
kw_place *kw_queue_add(kw_queue *queue, void *owner);
kw_place *kw_queue_place(kw_queue *queue, int32_t number);
void *kw_place_owner(const kw_place *place);
int32_t kw_place_number(const kw_place *place);

/* Append a copy of `slice`, taking over what it owns; one of an older generation is dropped. 0, or -1: no memory
 * (nothing taken over). Slices of one frame are to be pushed one after the other, then kw_queue_seal called: the frame
 * is charged once for each such run. */
int kw_queue_push(kw_queue *queue, const kw_records *slice);
void kw_queue_seal(kw_queue *queue);

/* The next slice, of `place` or (NULL) of the ring's first; the place is then lent until kw_queue_done. Waits at most
 * wait_ms (KW_QUEUE_IDLE then). A failure comes after what was queued; that of a place comes again and again, and names
 * it in out->place. */
int kw_queue_pop(kw_queue *queue, kw_place *place, kw_records *out, int wait_ms);
/* The slice after `slice`, of a place that is lent, if it is there and goes on at `offset`:
 * `slice` becomes it. 0: it is not; 1: it is; 2: and the engine asked to hear of what was read. */
int kw_queue_next(kw_queue *queue, kw_records *slice, int64_t offset);
/* Slices that stay in the queue, with a reference to their frames, which is the caller's. 0: there is none.
 * The one of a place that begins at `offset`, unless other places wait for their turn. */
int kw_place_look(kw_queue *queue, kw_place *place, uint32_t generation, int64_t offset, kw_records *out);
/* The first of the place that comes next in the ring behind those in `seen`. */
int kw_queue_look(kw_queue *queue, kw_place *const *seen, int count, kw_records *out);
/* What kw_queue_pop does, without waiting, if the next slice is this one, which was seen before; 0: it is not. */
int kw_queue_pop_same(kw_queue *queue, kw_place *place, const kw_records *same, kw_records *out);
/* The first `used` bytes of a popped slice are read, up to offset `position`; the rest, if any, is queued again, first.
 * KW_DONE_TELL: the engine asked to hear of it, once, or kw_queue_ready has reported nothing since. With `again` the place
 * comes before the others of the ring. KW_DONE_STALE: the place was reset since the slice was popped (its partition went,
 * or was sought in): the records must not be handed out, and the position stays where it is. */
enum { KW_DONE_TELL = 1, KW_DONE_STALE = 2 };
int kw_queue_done(kw_queue *queue, kw_records *slice, size_t used, int64_t position, int again);
/* Instead: nobody got the records of a popped slice, nor of those that it became by kw_queue_next. What is queued
 * behind them is dropped, and reading goes on at `position`, where they begin, once they have been fetched again. The
 * place's new generation, or 0: it was reset meanwhile. Whoever asked to hear of what was read is to be told. */
uint32_t kw_queue_refuse(kw_queue *queue, kw_records *slice, int64_t position);

/* Whether a reader waits for what was just pushed to `place`: then it owes word of it to the engine, and kw_queue_owed
 * tells it so, once, when it has come back from waiting. */
int kw_queue_owe(kw_queue *queue, kw_place *place);
int kw_queue_owed(kw_queue *queue);

/* Bytes charged; with `starved`, the next that come back are told. */
size_t kw_queue_bytes(kw_queue *queue, int starved);
/* Copy slices that keep a frame alive of which most is gone. */
void kw_queue_compact(kw_queue *queue);

/* Drop what is queued of a place and what is on its way to it: reading goes on at `position`. The new generation. */
uint32_t kw_place_reset(kw_queue *queue, kw_place *place, int64_t position);
/* Drop what is queued of a place from `offset` on, and go on there once what is left is read. Nothing is dropped of
 * what is on its way. */
void kw_place_cut(kw_queue *queue, kw_place *place, int64_t offset);
/* The offset that the reader comes to next. */
int64_t kw_place_position(kw_queue *queue, kw_place *place);
/* Where the log ends, from an answer that is queued before the engine has looked at it. Its records may be read before
 * the engine knows; -1: there was none. */
void kw_place_fed(kw_queue *queue, kw_place *place, int64_t high_watermark, int64_t last_stable);
int64_t kw_place_end(kw_queue *queue, kw_place *place, int committed_only);
/* What a reader has read counts as processed when it asks for more: of one place, or (NULL) of all that nobody claims.
 * */
void kw_queue_settle(kw_queue *queue, kw_place *only);
/* The offset after the last that counts as processed; and to set it by hand, unless the place was reset since it had
 * that generation (-1: in any case). */
int64_t kw_place_processed(kw_queue *queue, kw_place *place);
void kw_place_process(kw_queue *queue, kw_place *place, int64_t offset, int64_t generation);
/* Whether a user may have records of a place that do not count as processed yet. Those that a reader passed over while it
 * waited are nobody's. */
int kw_place_in_hand(kw_queue *queue, kw_place *place);
/* Whoever reads the ring is to look up from it, once; kw_queue_woken says so, and that he has. */
void kw_queue_wake(kw_queue *queue);
int kw_queue_woken(kw_queue *queue);
/* Slices queued, and their bytes. With `watch`, the next that is read of it is told, and kw_queue_noticed has it. */
int32_t kw_place_queued(kw_queue *queue, kw_place *place, size_t *bytes, int watch);
kw_place *kw_queue_noticed(kw_queue *queue);
void kw_place_pause(kw_queue *queue, kw_place *place, int paused);
/* A reader of this place alone reads it (1), or the ring's again (0). */
void kw_place_claim(kw_queue *queue, kw_place *place, int claimed);
/* Once what is queued is read, readers are told that this place failed, until it is reset. */
void kw_place_fail(kw_queue *queue, kw_place *place, uint32_t generation);
/* Whether a pop would not wait; *size: of the slice that it would give. */
int kw_queue_ready(kw_queue *queue, kw_place *place, size_t *size);

void kw_queue_end(kw_queue *queue);
void kw_queue_fail(kw_queue *queue);
/* Drop all slices, and all that come later; a waiting reader sees the end. */
void kw_queue_close(kw_queue *queue);

#endif
