/* The fast path of Fetch responses: the I/O thread queues records before the engine reads the response.
 *
 * The engine registers the expected partitions: topic id, partition, offset, and place of the queue. When the response
 * arrives, the I/O thread queues its records at once, so that a waiting reader need not wait for the engine to get the
 * GIL. The engine then reads the response as always, asks which records were queued, and does the rest.
 *
 * The fast path takes records only if all of this holds. The response: a sound envelope without tagged fields, of the
 * request's session, each partition once, no records of a partition that is not expected. The partition: no error, no
 * preferred read replica, no aborted transactions; batches of magic 2 with rising offsets, from the expected offset on.
 * Everything else is left to the engine, unchanged. */
#ifndef KAFWIRE_FAST_PATH_H
#define KAFWIRE_FAST_PATH_H

#include "kafwire/consumer/fetch/native/partition_layout.h"
#include "kafwire/consumer/fetch/native/queue.h"

typedef struct kw_fast_path kw_fast_path;

/* The records of one partition that the fast path queued. */
typedef struct kw_taken {
    int32_t number; /* of the place */
    uint32_t generation;
    int64_t start, next_offset;
    int32_t leader_epoch; /* of the last batch */
    size_t size;
} kw_taken;

kw_fast_path *kw_fast_path_new(kw_queue *queue);
void kw_fast_path_free(kw_fast_path *fast_path);
/* Expect records of this partition, from `offset` on, in the next response. 0, or -1: no memory. */
int kw_fast_path_expect(kw_fast_path *fast_path, const uint8_t topic_id[16], int32_t partition, kw_place *place, uint32_t generation,
                   int64_t offset);
/* Stop expecting a partition: another broker's request has it. 1: its records were queued already, from a response that
 * the engine has not seen; `out` describes them, and kw_fast_path_taken no longer returns them. */
int kw_fast_path_forget(kw_fast_path *fast_path, const uint8_t topic_id[16], int32_t partition, int32_t number, kw_taken *out);
void kw_fast_path_clear(kw_fast_path *fast_path);
/* Allow the fast path for the response to the request `token`, sent within a fetch session (0: a full request, whose
 * response may name any session) in a version that names topics by id. `layout` is that version's, and outlives the
 * fast path. Token 0: allow none. */
void kw_fast_path_arm(kw_fast_path *fast_path, uint64_t token, int32_t session, const kw_partition_layout *layout);
/* Queue the records of a frame (from its correlation id on). Called in any thread, as a response filter of loop.h.
 * 1: a waiting reader gets the records and notifies the engine; 0: the caller notifies it. */
int kw_fast_path_take(void *fast_path, uint64_t token, kw_buf *frame);
/* The records queued from the response to `token`: *count entries, which the caller frees; NULL: none. The call disarms
 * the fast path for that token: a late response to a request that was given up is not taken. */
kw_taken *kw_fast_path_taken(kw_fast_path *fast_path, uint64_t token, int32_t *count);

#endif
