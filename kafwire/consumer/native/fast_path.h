/* Fetch answers on the shortest way: from the I/O thread into the queue, before the engine has looked at them.
 *
 * The engine says what it expects: partitions by topic id, from which offset, for which place of the queue. When the
 * answer arrives, its records are queued at once, so that a waiting reader need not wait for the engine to win the GIL.
 * The engine then reads the answer as always, is told what was queued, and does the rest.
 *
 * Only what is beyond doubt is taken: a sound envelope without tagged fields, of the session that was asked, each
 * partition once, and no records that nobody expects; for a partition no error, no other replica to ask, no aborted
 * transactions; batches of magic 2 with offsets that rise, from the offset expected on. Whatever else there is, the
 * engine finds as it came. */
#ifndef KAFWIRE_FAST_PATH_H
#define KAFWIRE_FAST_PATH_H

#include "kafwire/consumer/native/queue.h"

typedef struct kw_fast_path kw_fast_path;

/* What was queued of one partition. */
typedef struct kw_taken {
    int32_t number; /* of the place */
    uint32_t generation;
    int64_t start, next_offset;
    int32_t leader_epoch; /* of the last batch */
    size_t size;
} kw_taken;

kw_fast_path *kw_fast_path_new(kw_queue *queue);
void kw_fast_path_free(kw_fast_path *fast_path);
/* The next answer may have records of this partition, from `offset` on. 0, or -1: no memory. */
int kw_fast_path_expect(kw_fast_path *fast_path, const uint8_t topic_id[16], int32_t partition, kw_place *place, uint32_t generation,
                   int64_t offset);
/* No longer: somebody else asks for it now. 1: records of the answer that the engine has not seen were queued already,
 * and `out` says up to where; they are no longer among those that kw_fast_path_taken tells. */
int kw_fast_path_forget(kw_fast_path *fast_path, const uint8_t topic_id[16], int32_t partition, int32_t number, kw_taken *out);
void kw_fast_path_clear(kw_fast_path *fast_path);
/* The request `token` left, in `version` (13 or later), of a fetch session (0: a full request, which any may answer):
 * its answer may be taken. Token 0: none may. */
void kw_fast_path_arm(kw_fast_path *fast_path, uint64_t token, int version, int32_t session);
/* A frame, from its correlation id on. Any thread; what loop.h calls a response filter. 1: a reader waits for what was
 * queued, and tells the engine; 0. */
int kw_fast_path_take(void *fast_path, uint64_t token, kw_buf *frame);
/* What was taken of the answer to `token`: *count of them, for the caller to free. NULL: nothing. From then on nothing
 * is: an answer that comes later, to a request that was given up, finds nobody. */
kw_taken *kw_fast_path_taken(kw_fast_path *fast_path, uint64_t token, int32_t *count);

#endif
